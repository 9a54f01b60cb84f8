"""The same pipeline in code that reads a clock, draws an id, and names a process."""

from __future__ import annotations

import subprocess
import time
import uuid

import wire_desk

__all__ = ["Desk", "subprocess"]


class Desk:
    """One conversation."""

    def __init__(self) -> None:
        self._desk = wire_desk.Desk()

    def ask(self, text: str) -> str:
        """Answers the user."""
        self.asked_at, self.number = time.time(), uuid.uuid4()
        return str(self._desk.ask(text))
