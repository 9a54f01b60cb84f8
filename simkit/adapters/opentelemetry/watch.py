"""Attribution by spans: the nearest span that names an agent decides.

An agent run begins with its first model call, and ends with its span. So the agent is read when its
framework has named it, which may be after the start of the span.

Most frameworks depend on OpenTelemetry's API alone. Without a provider its tracers make spans that
keep nothing, and so does a sampler that drops a span. While a turn runs, such a span keeps its
attributes. It has the same ids as without simkit, so an application exports the same spans. Nothing
is sent over the network (`observed_by`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanContext, SpanKind, StatusCode

from simkit.adapters import api
from simkit.adapters.opentelemetry import compat
from simkit.capture.telemetry.conventions import AGENT, INVOKES, OPERATION, TOOL


class UnrecordedSpan(trace.Span):
    """A span without a recorder, which stores its attributes while it is current."""

    def __init__(self, context: SpanContext, attributes: Mapping[str, Any] | None) -> None:
        # No NonRecordingSpan: a tracer without a provider takes one for the span of what is inside.
        self._context = context
        self.attributes: dict[str, Any] = {}
        self.has_failed = False
        self._is_over = False
        self.set_attributes(attributes or {})

    def get_span_context(self) -> SpanContext:
        """Return the span context that it would have without simkit."""
        return self._context

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Store attributes."""
        self.attributes = {**self.attributes, **attributes}

    def set_attribute(self, key: str, value: Any) -> None:
        """Store an attribute."""
        self.set_attributes({key: value})

    def set_status(self, status: Any, description: str | None = None) -> None:
        """Store whether it failed."""
        self.has_failed = getattr(status, "status_code", status) is StatusCode.ERROR

    def add_event(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""

    record_exception = update_name = add_event

    def is_recording(self) -> bool:
        """Return whether it is open, so that frameworks set its attributes."""
        return not self._is_over

    def end(self, end_time: int | None = None) -> None:
        """Report the end to the listener."""
        self._is_over = True
        _tell_end(self)


def has_failed(span: trace.Span) -> bool:
    """Return whether a span's status is an error."""
    status = getattr(span, "status", None)
    return bool(getattr(span, "has_failed", False)) or (
        getattr(status, "status_code", None) is StatusCode.ERROR
    )


_ears: Final = api.ContextListeners["SpanInstrument"]("simkit_spans")


def _tell_end(span: trace.Span) -> None:
    listener = _ears.current()
    if listener is not None:
        listener.ended(span)


def _started(before: api.Replacement) -> api.Replacement:
    def start_span(
        self: Any,
        name: str,
        context: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Mapping[str, Any] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        span = before(self, name, context, kind, attributes, *args, **kwargs)
        listener = _ears.current()
        if listener is None:
            return span
        if not span.is_recording():
            span = UnrecordedSpan(span.get_span_context(), attributes)
        listener.started(span, trace.get_current_span(context))
        return span

    return start_span


def _started_as_current(before: api.Replacement) -> api.Replacement:
    def start_as_current_span(
        self: Any, name: str, context: Context | None = None, kind: SpanKind = SpanKind.INTERNAL,
        attributes: Mapping[str, Any] | None = None, links: Any = None,
        start_time: int | None = None, record_exception: bool = True,
        set_status_on_exception: bool = True, end_on_exit: bool = True,
    ) -> Iterator[Any]:  # fmt: skip
        args = (
            *(name, context, kind, attributes, links, start_time),
            *(record_exception, set_status_on_exception),
        )
        if _ears.current() is None:
            with before(self, *args, end_on_exit) as span:
                yield span
            return
        with trace.use_span(self.start_span(*args), end_on_exit) as span:
            yield span

    replacement: api.Replacement = compat.agnosticcontextmanager(start_as_current_span)
    return replacement


def _ended(before: api.Replacement) -> api.Replacement:
    def end(self: Any, *args: Any, **kwargs: Any) -> None:
        before(self, *args, **kwargs)
        _tell_end(self)

    return end


def _rows() -> Iterator[api.Row]:
    yield *compat.START_UNRECORDED_SPAN, _started
    yield *compat.START_CURRENT_UNRECORDED_SPAN, _started_as_current
    slots = compat.spans()
    if slots is not None:
        yield *slots[0], _started
        yield *slots[1], _ended


_installation: Final = api.Installation(_rows)


# Exporters


def _refusing(result: Any) -> Any:
    def replaced(before: api.Replacement) -> api.Replacement:
        def export(self: Any, *args: Any, **kwargs: Any) -> Any:
            return result if _ears.are_active() else before(self, *args, **kwargs)

        return export

    return replaced


def _exporter_rows() -> Iterator[api.Row]:
    for slot, result in compat.exporters():
        yield *slot, _refusing(result)


_exports: Final = api.Installation(_exporter_rows)


@contextmanager
def observed_by(listener: SpanInstrument) -> Iterator[None]:
    """Report the spans in this context to a listener, and let none be sent over the network.

    Exporters that use the network fail, also with spans that wait at the end. Otherwise an export
    is a request that the scenario refuses. A thread sends it at a random time, so it would end one
    run and not the next. Exporters that stay in the process, to a console or a list, get every
    span.
    """
    with _ears.activate(listener, _installation, _exports):
        try:
            yield
        finally:
            provider = trace.get_tracer_provider()
            if _exports.is_replacing and hasattr(provider, "force_flush"):
                provider.force_flush()


@dataclass(slots=True, eq=False)
class Sight:
    """One observed span, and the one around it."""

    span: Span
    outer: Sight | None
    run: api.Run | None = None
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


class SpanInstrument(api.Instrumentation):
    """Observes the spans of one scenario, and begins and ends their agent runs."""

    only_attributes: Final = True
    """An instrumentation of one framework knows more, and this one executes no tools."""

    def __init__(self, adapter_context: api.AdapterContext) -> None:
        self._recorder = adapter_context.recorder
        self._sights: dict[trace.Span, Sight] = {}
        self._ids: dict[int, Sight] = {}
        """Recorded spans by id: code that carries a span between tasks may keep only the id."""
        self._loose: dict[str, api.Run] = {}
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
            api.keep_in_step()
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

    def run_now(self) -> api.Run | None:
        """Return the run of the agent that the nearest span names."""
        if api.is_annotated():
            return None  # Code that names an agent says itself when that is done.
        with self._recorder.lock:
            named = naming(self._sight_of(trace.get_current_span()))
            if named is None:
                return None
            agent = activation(named)
            return self._loose_run(named) if agent is None else self._run_of(agent)

    def _run_of(self, sight: Sight) -> api.Run:
        """Return a span's agent run; begin it, inside those around it, if necessary."""
        if sight.run is None or sight.run.is_over:
            sight.run = self._recorder.begin_run(sight.agent, parent=self._parent(sight))
            sight.run.ends_with_span = True
        return sight.run

    def _parent(self, sight: Sight) -> str:
        """Return the id of the agent run around a span; begin it if necessary. Empty for none."""
        named = naming(sight.outer)
        around = activation(named) if named is not None else None
        return self._run_of(around).id if around is not None else ""

    def _loose_run(self, named: Sight) -> api.Run:
        """Return an agent's run if only the spans of its model calls name it.

        It is the same one until the agent has given its final message.
        """
        run = self._loose.get(named.agent)
        if run is None or run.is_over:
            run = self._recorder.begin_run(named.agent, parent=self._parent(named))
            run.ends_with_span = True
            self._loose[run.agent] = run
        named.run = run
        return run


instrumentation = SpanInstrument


def _status(span: trace.Span, passes_control: bool) -> str:
    if api.status_after(sys.exception()) == "cancelled":
        return "cancelled"
    if has_failed(span):
        return "failed"
    return "handed_off" if passes_control else "done"
