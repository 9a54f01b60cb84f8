"""What a span says of the agent inside it, read while it is open: pure, but for the spans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from opentelemetry.trace import Span

from simkit.adapters.activations import Run

AGENT: Final = "gen_ai.agent.name"
OPERATION: Final = "gen_ai.operation.name"
INVOKES: Final = ("invoke_agent", "")
"""Operations of a span that is one activation of the agent it names; a span made by hand has
none."""
TOOL: Final = "execute_tool"


class Sight:
    """One span that was seen, and the one around it."""

    __slots__ = ("outer", "run", "span")

    def __init__(self, span: Span, outer: Sight | None) -> None:
        self.span, self.outer = span, outer
        self.run: Run | None = None
        """The activation that was begun for it."""

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return not self.span.is_recording()

    @property
    def agent(self) -> str:
        """The agent that it names, by now."""
        return _text(self.span, AGENT)

    @property
    def operation(self) -> str:
        """What is done in it."""
        return _text(self.span, OPERATION)

    def outwards(self) -> Iterator[Sight]:
        """Yield it and the spans around it."""
        at: Sight | None = self
        while at is not None:
            yield at
            at = at.outer


def _text(span: Span, key: str) -> str:
    """Return a span's attribute, which may have any subclass of str as its key and its value."""
    attributes = getattr(span, "attributes", None)
    if not isinstance(attributes, Mapping):
        return ""
    attribute: Any = next((value for name, value in attributes.items() if name == key), "")
    return str.__str__(attribute) if isinstance(attribute, str) else ""


def naming(sight: Sight | None) -> Sight | None:
    """Return the nearest span that names an agent; one that is over only where no other does.

    Code may still have a span as its current one that ended long ago: that of whoever started it.
    """
    named = [outward for outward in sight.outwards() if outward.agent] if sight is not None else []
    return next((outward for outward in named if not outward.is_over), named[0] if named else None)


def activation(named: Sight) -> Sight | None:
    """Return the span that is the activation of the agent which a span names, if one is open.

    Frameworks wrap one activation in several spans of the same name: it is the outermost. A tool's
    span between two of them parts an agent from itself, called by its own tool.
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
