"""Sees which agent is at work by the nearest span that names one.

An activation is begun with its first model call, and ends with its span. So an agent is read where
its framework names it, which may be after the span has started.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from opentelemetry import trace

from simkit.adapters.activations import Run
from simkit.adapters.annotations import current_mark
from simkit.adapters.framework_driver import AdapterContext
from simkit.adapters.opentelemetry.sights import Sight, activation, naming
from simkit.adapters.opentelemetry.spans import has_failed, nothing_exported, told_to
from simkit.adapters.serial_executor import keep_in_step
from simkit.adapters.trace_recorder import STOPS
from simkit.core.errors import PipelineError


def instrumentation(adapter_context: AdapterContext) -> SpanInstrument:
    """Return what sees agents by their spans."""
    return SpanInstrument(adapter_context)


class SpanInstrument:
    """Hears the spans of one scenario, and begins and ends the activations that they are."""

    only_attributes: Final = True
    """Whoever knows one framework knows better, and it carries out no tools."""

    def __init__(self, adapter_context: AdapterContext) -> None:
        self._recorder = adapter_context.recorder
        self._sights: dict[trace.Span, Sight] = {}
        self._ids: dict[int, Sight] = {}
        """Recorded spans by id: what carries a span from one task to another may keep no more."""
        self._loose: dict[str, Run] = {}
        """Activations of agents that only the spans of model calls name."""

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Listen to spans, and let none be exported over the network."""
        self._forget()
        with nothing_exported(), told_to(self):
            yield

    def _forget(self) -> None:
        """Forget the spans of earlier turns, but for those that are still open."""
        with self._recorder.lock:
            self._sights = {
                span: sight for span, sight in self._sights.items() if not sight.is_over
            }
            self._ids = {number: sight for number, sight in self._ids.items() if not sight.is_over}
            self._loose.clear()

    # Spans

    def started(self, span: trace.Span, outer: trace.Span) -> None:
        """A span begins; the event loop that it is in has its threads one by one."""
        with suppress(RuntimeError):  # In synchronous code there is no loop.
            keep_in_step()
        with self._recorder.lock:
            sight = self._sights[span] = Sight(span, self._sight_of(outer))
            # The id of a span that nobody records is another one's, or none.
            if span.get_span_context() is not outer.get_span_context():
                self._ids[span.get_span_context().span_id] = sight

    def _sight_of(self, span: trace.Span) -> Sight:
        """Return a span as it was seen; one that was not seen to start is in no other."""
        sight = self._sights.get(span) or self._ids.get(span.get_span_context().span_id)
        if sight is None:
            sight = self._sights[span] = Sight(span, None)
        return sight

    def ended(self, span: trace.Span) -> None:
        """A span is over, and with it the activation that it is."""
        with self._recorder.lock:
            sight = self._sights.get(span)
            run = sight.run if sight is not None else None
            if run is None or run.is_over:
                return
            passes_control = any(handoff.run == run.id for handoff in self._recorder.requested)
            if self._loose.get(run.agent) is not run or run.final is not None or passes_control:
                self._recorder.end_run(run, _status(span, passes_control))

    # Activations

    def run_now(self) -> Run | None:
        """Return the activation of the agent that the nearest span names."""
        if current_mark() is not None:
            return None  # Code that names an agent says itself when that is done.
        with self._recorder.lock:
            named = naming(self._sight_of(trace.get_current_span()))
            if named is None:
                return None
            agent = activation(named)
            return self._loose_run(named) if agent is None else self._run_of(agent)

    def _run_of(self, sight: Sight) -> Run:
        """Return the activation that a span is, begun inside those around it."""
        if sight.run is None or sight.run.is_over:
            sight.run = self._recorder.begin_run(sight.agent, parent=self._parent(sight))
        return sight.run

    def _parent(self, sight: Sight) -> str:
        """Return the id of the activation around a span, begun if it was not; or no id."""
        named = naming(sight.outer)
        around = activation(named) if named is not None else None
        return self._run_of(around).id if around is not None else ""

    def _loose_run(self, named: Sight) -> Run:
        """Return an agent's activation where only the spans of its model calls name it: one until
        it has said its last word."""
        run = self._loose.get(named.agent)
        if run is None or run.is_over:
            run = self._recorder.begin_run(named.agent, parent=self._parent(named))
            self._loose[run.agent] = run
        named.run = run
        return run

    # What it has no part in

    def reply(self, returned: Any) -> Any:
        """Return what the pipeline returned."""
        return returned

    def failure(self, problem: Exception) -> PipelineError | None:
        """Knows no framework's exceptions."""
        return None

    def close(self) -> None:
        """There is nothing to take away."""


def _status(span: trace.Span, passes_control: bool) -> str:
    if isinstance(sys.exception(), STOPS):
        return "cancelled"
    if has_failed(span):
        return "failed"
    return "handed_off" if passes_control else "done"
