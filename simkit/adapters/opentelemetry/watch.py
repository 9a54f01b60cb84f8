"""Attribution by spans: the nearest span that names an agent decides.

An agent run begins with its first model call, and ends with its span. So the agent is read when its
framework has named it, which may be after the start of the span.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.trace import Span

from simkit.adapters.api import (
    AdapterContext,
    Instrumentation,
    Run,
    is_annotated,
    keep_in_step,
    status_after,
)
from simkit.adapters.opentelemetry.spans import has_failed, observed_by

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


class SpanInstrument(Instrumentation):
    """Observes the spans of one scenario, and begins and ends their agent runs."""

    only_attributes: Final = True
    """An instrumentation of one framework knows more, and this one executes no tools."""

    def __init__(self, adapter_context: AdapterContext) -> None:
        self._recorder = adapter_context.recorder
        self._sights: dict[trace.Span, Sight] = {}
        self._ids: dict[int, Sight] = {}
        """Recorded spans by id: code that carries a span between tasks may keep only the id."""
        self._loose: dict[str, Run] = {}
        """Runs of agents that only the spans of model calls name."""

    def at_work(self) -> AbstractContextManager[None]:
        """Observe spans, and let none be exported over the network."""
        self._forget()
        return observed_by(self)

    def _forget(self) -> None:
        """Drop the spans of earlier turns, except open ones."""
        if not (self._sights or self._ids or self._loose):
            return
        with self._recorder.lock:
            self._sights = {
                span: sight for span, sight in self._sights.items() if not sight.is_over
            }
            self._ids = {number: sight for number, sight in self._ids.items() if not sight.is_over}
            self._loose.clear()

    # Spans

    def started(self, span: trace.Span, outer: trace.Span) -> None:
        """Handle a span's start; the threads of its event loop run one by one."""
        with suppress(RuntimeError):  # In synchronous code there is no loop.
            keep_in_step()
        with self._recorder.lock:
            sight = self._sights[span] = Sight(span, self._sight_of(outer))
            # An unrecorded span has the id of another one, or none.
            if span.get_span_context() is not outer.get_span_context():
                self._ids[span.get_span_context().span_id] = sight

    def _sight_of(self, span: trace.Span) -> Sight:
        """Return the observed span; one without an observed start is in no other."""
        sight = self._sights.get(span) or self._ids.get(span.get_span_context().span_id)
        if sight is None:
            sight = self._sights[span] = Sight(span, None)
        return sight

    def ended(self, span: trace.Span) -> None:
        """Handle the end of a span, which ends its agent run."""
        with self._recorder.lock:
            sight = self._sights.get(span)
            run = sight.run if sight is not None else None
            if run is None or run.is_over:
                return
            passes_control = bool(self._recorder.pending_handoffs(run))
            if self._loose.get(run.agent) is not run or run.final is not None or passes_control:
                self._recorder.end_run(run, _status(span, passes_control))

    # Agent runs

    def run_now(self) -> Run | None:
        """Return the run of the agent that the nearest span names."""
        if is_annotated():
            return None  # Code that names an agent says itself when that is done.
        with self._recorder.lock:
            named = naming(self._sight_of(trace.get_current_span()))
            if named is None:
                return None
            agent = activation(named)
            return self._loose_run(named) if agent is None else self._run_of(agent)

    def _run_of(self, sight: Sight) -> Run:
        """Return a span's agent run; begin it, inside those around it, if necessary."""
        if sight.run is None or sight.run.is_over:
            sight.run = self._recorder.begin_run(sight.agent, parent=self._parent(sight))
        return sight.run

    def _parent(self, sight: Sight) -> str:
        """Return the id of the agent run around a span; begin it if necessary. Empty for none."""
        named = naming(sight.outer)
        around = activation(named) if named is not None else None
        return self._run_of(around).id if around is not None else ""

    def _loose_run(self, named: Sight) -> Run:
        """Return an agent's run if only the spans of its model calls name it.

        It is the same one until the agent has given its final message.
        """
        run = self._loose.get(named.agent)
        if run is None or run.is_over:
            run = self._recorder.begin_run(named.agent, parent=self._parent(named))
            self._loose[run.agent] = run
        named.run = run
        return run


instrumentation = SpanInstrument


def _status(span: trace.Span, passes_control: bool) -> str:
    if status_after(sys.exception()) == "cancelled":
        return "cancelled"
    if has_failed(span):
        return "failed"
    return "handed_off" if passes_control else "done"
