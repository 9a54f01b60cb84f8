"""A pipeline that sends all of a conversation that was long before, over plain httpx."""

from __future__ import annotations

import json
from typing import Any

import httpx

URL = "https://api.openai.com/v1/chat/completions"
TEXT = "the quick brown fox jumps over the lazy dog " * 4


class Desk:
    """One conversation, with so many messages before its first."""

    def __init__(self, earlier: int, client: httpx.Client | None = None) -> None:
        self.client = client or httpx.Client(verify=False)
        self.history: list[Any] = [
            {"role": "assistant" if number % 2 else "user", "content": f"{number}: {TEXT}"}
            for number in range(earlier)
        ]

    def ask(self, text: str) -> str:
        """Answers the user."""
        self.history.append({"role": "user", "content": text})
        messages = [{"role": "system", "content": "Help."}, *self.history]
        body = json.dumps({"model": "gpt-5", "messages": messages})
        answer = self.client.post(URL, content=body, headers={"content-type": "application/json"})
        said: str = answer.json()["choices"][0]["message"]["content"]
        self.history.append({"role": "assistant", "content": said})
        return said


def after_few() -> Desk:
    """Returns a conversation that has hardly begun."""
    return Desk(10)


def after_many() -> Desk:
    """Returns a long conversation."""
    return Desk(1_010)
