"""Which requests are model calls, and of which protocol."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.providers.body_reader import json_bytes, record_of
from simkit.providers.http import HttpRequest, path_of
from simkit.providers.protocols import (
    PROTOCOLS,
    answer_token_count,
    protocol_of,
    unsupported_interface,
)

BEDROCK = "https://bedrock-runtime.eu-west-1.amazonaws.com/model"
KEYS = b'{"model": "m", "messages": [], "prompt": ""}'
GOOGLE = "https://europe-west1-aiplatform.googleapis.com/v1beta1/projects/p/locations/l"


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
        ("http://127.0.0.1:8080/agent/v1/messages", "anthropic"),
        ("https://generativelanguage.googleapis.com/v1beta/models/m:generateContent", "gemini"),
        (f"{GOOGLE}/publishers/google/models/m:streamGenerateContent", "gemini"),
        (f"{GOOGLE}/tunedModels/mine:generateContent?key=1", "gemini"),
        (f"{BEDROCK}/amazon.nova-pro-v1%3A0/converse", "bedrock"),
        (
            f"{BEDROCK}/arn%3Aaws%3Abedrock%3Aeu%3A1%3Ainference-profile%2Fx/converse-stream",
            "bedrock",
        ),
        (f"{BEDROCK}/us.anthropic.claude-x/invoke", "anthropic-bedrock"),
        (f"{BEDROCK}/anthropic.claude-x/invoke-with-response-stream", "anthropic-bedrock"),
        ("https://api.cohere.com/v2/chat", "cohere"),
        ("http://localhost:11434/api/chat", "ollama"),
        ("http://box/api/generate", "ollama"),
    ],
)
def test_a_model_call_is_known_by_its_path(url: str, name: str) -> None:
    protocol = protocol_of(HttpRequest("POST", url, (), KEYS))

    assert protocol is PROTOCOLS[name]


@pytest.mark.parametrize(
    ("method", "url"),
    [
        ("GET", "https://api.openai.com/v1/chat/completions"),
        ("GET", "https://api.openai.com/v1/responses/resp_1"),
        ("POST", "https://api.openai.com/v1/responses/compact"),
        ("POST", "https://api.anthropic.com/v1/messages/batches"),
        ("POST", f"{GOOGLE}/models/m:batchGenerateContent"),
        ("GET", f"{GOOGLE}/models/m"),
        ("POST", "https://api.openai.com/v1/embeddings"),
        ("POST", "https://example.test/?next=/v1/chat/completions"),
    ],
)
def test_any_other_request_is_none(method: str, url: str) -> None:
    assert protocol_of(HttpRequest(method, url)) is None


PATHS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/gemini-2.5:generateContent",
    "bedrock": "/model/nova-2/converse",
    "cohere": "/v2/chat",
    "ollama": "/api/chat",
}


def encoded(text: str) -> str:
    return "".join(f"%{ord(sign):02X}" if sign in ":-/" else sign for sign in text)


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("end", ["", "/", "?beta=true", "#stream", "/?a=b#c?d", "#a?b"])
@pytest.mark.parametrize("text", [str, encoded, lambda path: path.replace("/", "//")])
def test_a_model_call_is_seen_however_its_address_is_written(
    name: str, end: str, text: object
) -> None:
    assert callable(text)
    path = PATHS[name]
    url = f"https://proxy.example/base/{text(path[1:])}{end}"

    protocol = protocol_of(HttpRequest("POST", url, (), KEYS))

    assert protocol is PROTOCOLS[name]
    assert protocol_of(HttpRequest("GET", url, (), KEYS)) is None


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate", "/v2/chat"])
def test_a_chat_of_the_applications_own_is_no_model_call(path: str) -> None:
    request = HttpRequest("POST", f"http://localhost:8000{path}", (), b'{"messages": []}')

    assert protocol_of(request) is None
    assert unsupported_interface(request) == ""


def test_a_model_that_an_address_names_is_read_decoded() -> None:
    body = json_bytes({"contents": []})
    request = HttpRequest(
        "POST", "https://g//v1beta/models%2Fgemini%2D2%3AgenerateContent#x", (), body
    )

    assert PROTOCOLS["gemini"].parse_request(request).model == "gemini-2"


@given(st.lists(st.text("abc:.-~ä", min_size=1), min_size=1), st.integers(1, 3))
def test_a_path_is_the_same_however_many_slashes_part_it(parts: list[str], slashes: int) -> None:
    path = ("/" * slashes).join(["", *parts, ""])

    assert path_of(f"HTTP://h{path}?q#f") == path_of(f"https://h/{'/'.join(parts)}")


# Counting

MESSAGES = [{"role": "user", "content": "Hello"}]
CONTENTS = [{"role": "user", "parts": [{"text": "Hello"}]}]


@pytest.mark.parametrize(
    ("path", "body", "reply"),
    [
        ("/v1/messages/count_tokens?beta=true", {"model": "m", "messages": MESSAGES},
         {"input_tokens": 5}),
        ("/v1/responses/input_tokens", {"model": "m", "input": "Hello"},
         {"object": "response.input_tokens", "input_tokens": 5}),
        ("/v1/responses/input_tokens", {"instructions": "Hello"},
         {"object": "response.input_tokens", "input_tokens": 5}),
        ("/v1beta/models/m:countTokens", {"contents": CONTENTS}, {"totalTokens": 5}),
        ("/v1beta/models/m:countTokens", {"generate_content_request": {"contents": CONTENTS}},
         {"totalTokens": 5}),
        ("/v1beta/models/m:countTokens", {"generateContentRequest": {"contents": CONTENTS}},
         {"totalTokens": 5}),
        ("/model/amazon.nova/count-tokens", {"input": {"converse": {"messages": [
            {"role": "user", "content": [{"text": "Hello"}]}]}}}, {"inputTokens": 5}),
    ],
)  # fmt: skip
def test_tokens_are_counted_as_claims_count_them(
    path: str, body: dict[str, object], reply: dict[str, object]
) -> None:
    request = HttpRequest("POST", f"https://api.example{path}", (), json_bytes(body))

    answer = answer_token_count(
        request, lambda messages: sum(len(m.content) for m in messages), lambda a: a
    )

    assert answer is not None
    assert record_of(answer.body) == reply
    assert protocol_of(request) is None


@pytest.mark.parametrize(
    "path",
    ["/v1beta/models/a%23b:countTokens", "/v1beta/models/a%3Fb:countTokens",
     "/%23x/v1/messages/count_tokens"],
)  # fmt: skip
def test_tokens_are_counted_however_the_address_is_encoded(path: str) -> None:
    body = json_bytes({"model": "m", "messages": MESSAGES, "contents": CONTENTS})
    request = HttpRequest("POST", f"https://api.example{path}", (), body)

    answer = answer_token_count(request, len, lambda a: a)

    assert answer is not None
    assert 1 in record_of(answer.body).values()


def test_a_service_that_ends_its_paths_as_a_provider_does_counts_itself() -> None:
    request = HttpRequest("POST", "https://shop.example/basket:countTokens", (), b"{}")

    assert answer_token_count(request, len, lambda a: a) is None


# Who else is asked

MODELS = [
    f"{BEDROCK}/amazon.nova-pro/invoke",
    "https://api.cohere.com/v1/chat",
    "https://api.cohere.com/v2/chat",
    "https://api.openai.com/v1/completions",
    "https://api.openai.com/v1/threads/t1/runs",
    "https://eu-aiplatform.googleapis.com/v1/publishers/anthropic/models/c:streamRawPredict",
    "https://api.anthropic.com/v1/complete",
    "https://api.groq.com/openai/v1/chat/competions",
]
OTHERS = [
    "https://api.openai.com/v1/embeddings",
    "https://api.openai.com/v1/files",
    "https://api.openai.com/v1/threads/t1/messages",
    "https://api.cohere.com/v2/rerank",
    "https://api.anthropic.com/v1/messages/count_tokens",
    "https://generativelanguage.googleapis.com/v1beta/models/m:embedContent",
    "https://search.example/api/generate/report",
    "https://shop.example/v1/chat",
    "https://notopenai.com/v1/anything",
]


@pytest.mark.parametrize("url", MODELS)
def test_an_interface_of_a_provider_that_nobody_reads_is_known(url: str) -> None:
    assert unsupported_interface(HttpRequest("POST", url))
    assert protocol_of(HttpRequest("POST", url)) is None


@pytest.mark.parametrize("url", OTHERS)
def test_what_is_no_model_call_is_not(url: str) -> None:
    assert unsupported_interface(HttpRequest("POST", url)) == ""
