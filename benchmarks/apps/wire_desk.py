"""The smallest pipeline on a provider's client: one agent that sees its last messages."""

from __future__ import annotations

from typing import Any

from openai import OpenAI

WINDOW = 20


class Desk:
    """One conversation."""

    def __init__(self, client: OpenAI | None = None) -> None:
        self.client = client or OpenAI()
        self.history: list[Any] = []

    def ask(self, text: str) -> str:
        """Answers the user."""
        self.history.append({"role": "user", "content": text})
        messages = [{"role": "system", "content": "Help."}, *self.history[-WINDOW:]]
        completion = self.client.chat.completions.create(model="gpt-5", messages=messages)
        said = completion.choices[0].message.content or ""
        self.history.append({"role": "assistant", "content": said})
        return said
