"""Agent runs and tool requests, as recorders create them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from simkit.core.messages import JsonValue, Message, ToolCall
from simkit.trace.events import Cut

NO_TOOLS: Final[Mapping[str, str]] = MappingProxyType({})


class CallFacts(msgspec.Struct, frozen=True):
    """The input of a run, if it is not the session's state."""

    state: str = ""
    """The name of the graph's state in which it runs; empty for the session's."""
    received: JsonValue = None
    """Input that no channel holds."""
    channels: tuple[str, ...] | None = None
    """The channels that it can read; None for all."""


class Run:
    """One agent run, current or ended."""

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
        """Its last message without a tool call; None if there is none."""
        self.has_replied = False
        self.output_tools: Mapping[str, str] = NO_TOOLS
        """Tool that the model calls to give the run's output to the argument that holds it; an
        empty text if the arguments are the output."""
        self.cuts: tuple[Cut, ...] = ()
        """Messages that filters dropped from the next context."""
        self.lasting_cuts: tuple[Cut, ...] = ()
        """Messages that filters dropped from all later contexts."""


class ToolRequest(msgspec.Struct):
    """A tool call that a model has asked for."""

    call: ToolCall
    agent: str
    run: Run
    is_told: bool = False
    """Whether ToolCalled has been emitted."""
    is_answered: bool = False
