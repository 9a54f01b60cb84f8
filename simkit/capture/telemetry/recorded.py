"""Conversations that happened elsewhere, as an export tells them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from simkit.capture.telemetry.spans import Step
from simkit.core.messages import JsonValue, ToolCall


class RecordedTurn(msgspec.Struct):
    """One message of the user, and all that it caused."""

    user: str
    own: Mapping[str, JsonValue] = {}
    """Its facts in a run of simkit, by names of `conventions`; empty for others."""
    calls: list[Step] = []
    """The model calls, as they began."""
    tools: list[Step] = []
    targets: list[str] = []
    """The agents that were handed to."""
    asking: frozenset[str] = frozenset()
    """The tools inside which models were asked, so that they are no fixed results."""
    failed: bool = False
    """Whether it ended with an error."""

    @property
    def asks(self) -> list[ToolCall]:
        """The calls of tools that its replies ask for."""
        return [ask for call in self.calls if call.answer for ask in call.answer.calls]


class RecordedConversation(msgspec.Struct):
    """One user's conversation."""

    name: str
    turns: list[RecordedTurn] = []
    missing: list[str] = []
    """The gaps of the export without which a scenario is right."""
    refused: list[str] = []
    """Why no scenario can be made of it."""
    own: Mapping[str, JsonValue] = {}
    """The facts of a run of simkit; empty for others."""
