"""Which requests are model calls, and of which protocol."""

from __future__ import annotations

import pytest

from simkit.providers.http import HttpRequest
from simkit.providers.protocols import PROTOCOLS, protocol_of


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.openai.com/v1/chat/completions", "openai-chat"),
        ("http://127.0.0.1:11434/v1/chat/completions/", "openai-chat"),
        ("https://openrouter.ai/api/v1/chat/completions?trace=1", "openai-chat"),
        (
            "https://x.openai.azure.com/openai/deployments/small/chat/completions?api-version=1",
            "openai-chat",
        ),
        ("https://api.openai.com/v1/responses", "openai-responses"),
        ("https://x.openai.azure.com/openai/v1/responses/", "openai-responses"),
        ("https://api.anthropic.com/v1/messages", "anthropic"),
        (
            "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent",
            "gemini",
        ),
    ],
)
def test_a_model_call_is_known_by_its_path(url: str, name: str) -> None:
    protocol = protocol_of(HttpRequest("POST", url))

    assert protocol is PROTOCOLS[name]


@pytest.mark.parametrize(
    ("method", "url"),
    [
        ("GET", "https://api.openai.com/v1/chat/completions"),
        ("GET", "https://api.openai.com/v1/responses/resp_1"),
        ("POST", "https://api.openai.com/v1/responses/compact"),
        ("POST", "https://api.openai.com/v1/embeddings"),
        ("POST", "https://example.test/?next=/v1/chat/completions"),
    ],
)
def test_any_other_request_is_none(method: str, url: str) -> None:
    assert protocol_of(HttpRequest(method, url)) is None
