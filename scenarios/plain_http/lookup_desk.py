"""Chat and research on plain HTTP, with no library: three protocols, streamed or not."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Iterator
from typing import Any

LOOKUP = "LOOKUP: "
CHAT = f"Chat. What you do not know, pass on: {LOOKUP}and a query."
RESEARCH = "Research. Answer the query."


def asked_of_chat(system: str, messages: list[Any]) -> tuple[str, dict[str, str], Any]:
    """OpenAI chat completions: the instructions are a message."""
    address = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
    said = [{"role": "system", "content": system}, *messages]
    return f"{address}/chat/completions", bearer(), {"model": "gpt-5-mini", "messages": said}


def asked_of_responses(system: str, messages: list[Any]) -> tuple[str, dict[str, str], Any]:
    """OpenAI Responses: the instructions stand beside the input."""
    address = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
    body = {"model": "gpt-5-mini", "instructions": system, "input": messages}
    return f"{address}/responses", bearer(), body


def asked_of_anthropic(system: str, messages: list[Any]) -> tuple[str, dict[str, str], Any]:
    """Anthropic messages: the instructions stand beside the messages."""
    address = os.environ.get("ANTHROPIC_BASE_URL", "https://api.anthropic.com")
    headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01"}
    body = {"model": "claude-haiku-4-5", "max_tokens": 500, "system": system, "messages": messages}
    return f"{address}/v1/messages", headers, body


def bearer() -> dict[str, str]:
    """The header with OpenAI's key."""
    return {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}


APIS = {
    "openai_chat": asked_of_chat,
    "openai_responses": asked_of_responses,
    "anthropic": asked_of_anthropic,
}


def text_of(answer: dict[str, Any]) -> str:
    """The text of a whole answer, in whichever protocol."""
    if "choices" in answer:
        return str(answer["choices"][0]["message"]["content"])
    parts = answer["content"] if "content" in answer else answer["output"][0]["content"]
    return "".join(part["text"] for part in parts)


def piece_of(event: dict[str, Any]) -> str:
    """The text that one event of a stream brings; empty where it brings none."""
    if event.get("choices"):
        return event["choices"][0]["delta"].get("content") or ""
    delta = event.get("delta", "")
    return delta if isinstance(delta, str) else delta.get("text", "")


def events(response: Any) -> Iterator[dict[str, Any]]:
    """The events of a stream, as they come."""
    for line in response:
        data = line.decode().strip().removeprefix("data: ")
        if data.startswith("{"):
            yield json.loads(data)


def ask(system: str, messages: list[Any]) -> str:
    """Asks the model that `DESK_API` names; `DESK_WAY` says whether it streams."""
    address, headers, body = APIS[os.environ.get("DESK_API", "openai_chat")](system, messages)
    streams = os.environ.get("DESK_WAY") == "streamed"
    request = urllib.request.Request(
        address,
        json.dumps({**body, "stream": streams}).encode(),
        {**headers, "content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as response:
        if streams:
            return "".join(piece_of(event) for event in events(response))
        return text_of(json.load(response))


class Desk:
    """Answers the messages of one conversation."""

    def __init__(self) -> None:
        self.messages: list[dict[str, str]] = []

    def chat(self, text: str) -> str:
        """Returns what chat says, or what research has found in its place."""
        self.messages.append({"role": "user", "content": text})
        said = ask(os.environ.get("DESK_CHAT", CHAT), self.messages)
        if said.startswith(LOOKUP):
            note = f"{said.removeprefix(LOOKUP)}\n\nThe user asked: {text}"
            said = ask(RESEARCH, [{"role": "user", "content": note}])
        self.messages.append({"role": "assistant", "content": said})
        return said
