"""How a turn or a run ended: the pipeline's error, and the parts of the scenario without use."""

from __future__ import annotations

import msgspec


class UnusedLines(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Reply lines that no model call used."""

    agent: str
    lines: tuple[int, ...]
    """Their indices under the agent."""
    calls: int
    """The number of model calls of the agent in the turn."""


class UnusedResults(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Results of a tool that no call used."""

    tool: str
    answers: tuple[int, ...]
    """Their indices."""
    calls: int
    """The number of calls of the tool in the turn."""
    is_list: bool = False
    """Whether they answer one call each."""


class ErrorFacts(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The error of the pipeline."""

    type: str
    message: str
    agent: str = ""
    status: int = 0


class Misfit(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A part of the scenario that nothing in the run fits."""

    what: str
    path: tuple[str | int, ...] = ()
    """Its place in the scenario's document."""
