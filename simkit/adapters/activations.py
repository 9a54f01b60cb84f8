"""What a recorder hands out: activations of agents, and the tool calls that models asked for."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from simkit.core.messages import JsonValue, Message, ToolCall
from simkit.trace.events import Cut


class CallFacts(msgspec.Struct, frozen=True):
    """What a run received, where that is not the session's state."""

    state: str = ""
    """The graph's in which it works."""
    received: JsonValue = None
    """What no channel holds."""
    channels: tuple[str, ...] | None = None
    """The channels that it can read; None for all."""


class Run:
    """One activation of an agent that is, or was, at work."""

    __slots__ = (
        "agent",
        "call_facts",
        "cuts",
        "final",
        "has_replied",
        "id",
        "is_node",
        "is_over",
        "lasting_cuts",
        "model_calls",
        "output_tools",
    )  # fmt: skip

    def __init__(self, identity: str, agent: str, *, is_node: bool = False) -> None:
        self.id, self.agent, self.is_node = identity, agent, is_node
        self.is_over = False
        self.call_facts = CallFacts()
        self.model_calls = 0
        self.final: Message | None = None
        """The last thing it said without calling a tool."""
        self.has_replied = False
        self.output_tools: Sequence[str] = ()
        """The tools by which its model gives structured output."""
        self.cuts: tuple[Cut, ...] = ()
        """What filters took out of the context that is sent next."""
        self.lasting_cuts: tuple[Cut, ...] = ()
        """What they took out of all that are sent from now on."""


class ToolRequest(msgspec.Struct):
    """A tool call that a model has asked for."""

    call: ToolCall
    agent: str
    run: Run
    is_told: bool = False
    """ToolCalled has been emitted."""
    is_answered: bool = False
