"""Spans and agents: the agent that a span names, read while it is open.

Pure, except for reading spans.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from opentelemetry.trace import Span

from simkit.adapters.api import Run

AGENT: Final = "gen_ai.agent.name"
OPERATION: Final = "gen_ai.operation.name"
INVOKES: Final = ("invoke_agent", "")
"""Operations of spans that are one run of the agent they name; a span made by hand has none."""
TOOL: Final = "execute_tool"


class Sight:
    """One observed span, and the one around it."""

    __slots__ = ("outer", "run", "span")

    def __init__(self, span: Span, outer: Sight | None) -> None:
        self.span, self.outer = span, outer
        self.run: Run | None = None
        """The agent run that began with it; None if there is none."""

    @property
    def is_over(self) -> bool:
        """Return whether it has ended."""
        return not self.span.is_recording()

    @property
    def agent(self) -> str:
        """Return the agent that it names by now."""
        return _text(self.span, AGENT)

    @property
    def operation(self) -> str:
        """Return its operation."""
        return _text(self.span, OPERATION)

    def outwards(self) -> Iterator[Sight]:
        """Yield it and the spans around it."""
        at: Sight | None = self
        while at is not None:
            yield at
            at = at.outer


def _text(span: Span, key: str) -> str:
    """Return a span's attribute; keys and values may be of subclasses of str."""
    attributes = getattr(span, "attributes", None)
    if not isinstance(attributes, Mapping):
        return ""
    attribute: Any = next((value for name, value in attributes.items() if name == key), "")
    return str.__str__(attribute) if isinstance(attribute, str) else ""


def naming(sight: Sight | None) -> Sight | None:
    """Return the nearest span that names an agent; an ended one only if no open one does.

    Code may keep a span of its starter as the current one long after it ended.
    """
    named = [outward for outward in sight.outwards() if outward.agent] if sight is not None else []
    return next((outward for outward in named if not outward.is_over), named[0] if named else None)


def activation(named: Sight) -> Sight | None:
    """Return the span that is the run of the agent which a span names; None if none is open.

    Frameworks wrap one run in several spans of the same name: it is the outermost. A tool's span
    between two of them separates an agent from a nested call of itself.
    """
    activation = None
    for outward in named.outwards():
        if outward.agent not in ("", named.agent) or (
            activation is not None and outward.operation == TOOL
        ):
            break
        if outward.agent and outward.operation in INVOKES and not outward.is_over:
            activation = outward
    return activation
