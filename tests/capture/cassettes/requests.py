"""Requests and interactions for the tests of cassettes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from simkit.capture.cassettes import Interaction, Keying, Recorder
from simkit.core.redact import Redactor
from simkit.providers.http import HttpRequest, HttpResponse

CHAT_URL = "https://api.openai.com/v1/chat/completions"
JSON = (("content-type", "application/json"),)
KEYING = Keying(Redactor({}))


def chat(*reply: str | Mapping[str, Any], url: str = CHAT_URL, **more: Any) -> HttpRequest:
    """A chat completion: a system prompt, then what the user says; ``more`` is its settings."""
    messages: list[Any] = [{"role": "system", "content": "You bill."}]
    messages += [
        {"role": "user", "content": item} if isinstance(item, str) else item for item in reply
    ]
    return post({"model": "gpt-5", "messages": messages, **more}, url)


def post(body: Any, url: str = CHAT_URL) -> HttpRequest:
    """A request with a JSON body."""
    return HttpRequest("POST", url, JSON, json.dumps(body).encode())


def answer(text: str) -> HttpResponse:
    """A response that is told from others by its text."""
    return HttpResponse(200, JSON, (json.dumps({"text": text}).encode(),))


def recorded(
    request: HttpRequest, text: str, agent: str = "billing", turn: int = 1, call: int = 1
) -> Interaction:
    """A request of an agent with its response."""
    return Interaction(
        request=request, response=answer(text), agent=agent, turn=turn, call=call,
        protocol="openai-chat", recorded_at="2026-01-02T03:04:05Z",
    )  # fmt: skip


def texts(responses: Sequence[HttpResponse]) -> list[str]:
    """What responses say."""
    return [json.loads(response.body)["text"] for response in responses]


def record(recorder: Recorder, request: HttpRequest, response: HttpResponse) -> None:
    """Record a request of billing's first turn, and its response."""
    recorder.end(recorder.begin("billing", 1, request), response)
