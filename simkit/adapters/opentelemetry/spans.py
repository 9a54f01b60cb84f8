"""Spans: their starts and ends, with and without a recorder.

Most frameworks depend on OpenTelemetry's API alone. Without a provider its tracers make spans that
keep nothing, and so does a sampler that drops a span. While a turn runs, such a span keeps its
attributes. It has the same ids as without simkit, so an application exports the same spans. Nothing
is sent over the network (`observed_by`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Protocol

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanContext, SpanKind, StatusCode

from simkit.adapters.api import ContextListeners, Installation, Replacement, Row
from simkit.adapters.opentelemetry import compat


class SpanListener(Protocol):
    """A listener for spans; any thread may call it."""

    def started(self, span: trace.Span, outer: trace.Span) -> None:
        """Handle the start of a span inside another one, or inside an invalid one."""

    def ended(self, span: trace.Span) -> None:
        """Handle the end of a span; called again if it is ended again."""


class UnrecordedSpan(trace.NonRecordingSpan):
    """A span without a recorder, which stores its attributes while it is current."""

    def __init__(self, context: SpanContext, attributes: Mapping[str, Any] | None) -> None:
        super().__init__(context)
        self.attributes: dict[str, Any] = {}
        self.has_failed = False
        self._is_over = False
        self.set_attributes(attributes or {})

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Store attributes."""
        self.attributes = {**self.attributes, **attributes}

    def set_attribute(self, key: str, value: Any) -> None:
        """Store an attribute."""
        self.set_attributes({key: value})

    def set_status(self, status: Any, description: str | None = None) -> None:
        """Store whether it failed."""
        self.has_failed = getattr(status, "status_code", status) is StatusCode.ERROR

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


_ears: Final = ContextListeners[SpanListener]("simkit_spans")


def _tell_end(span: trace.Span) -> None:
    listener = _ears.current()
    if listener is not None:
        listener.ended(span)


def _started(before: Replacement) -> Replacement:
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


def _started_as_current(before: Replacement) -> Replacement:
    def start_as_current_span(
        self: Any,
        name: str,
        context: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Mapping[str, Any] | None = None,
        links: Any = None,
        start_time: int | None = None,
        record_exception: bool = True,
        set_status_on_exception: bool = True,
        end_on_exit: bool = True,
    ) -> Iterator[Any]:
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

    replacement: Replacement = compat.agnosticcontextmanager(start_as_current_span)
    return replacement


def _ended(before: Replacement) -> Replacement:
    def end(self: Any, *args: Any, **kwargs: Any) -> None:
        before(self, *args, **kwargs)
        _tell_end(self)

    return end


def _rows() -> Iterator[Row]:
    yield *compat.START_UNRECORDED_SPAN, _started
    yield *compat.START_CURRENT_UNRECORDED_SPAN, _started_as_current
    slots = compat.spans()
    if slots is not None:
        yield *slots[0], _started
        yield *slots[1], _ended


_installation: Final = Installation(_rows)


# Exporters


def _refusing(result: Any) -> Any:
    def replaced(before: Replacement) -> Replacement:
        def export(self: Any, *args: Any, **kwargs: Any) -> Any:
            return result if _ears.are_active() else before(self, *args, **kwargs)

        return export

    return replaced


def _exporter_rows() -> Iterator[Row]:
    for slot, result in compat.exporters():
        yield *slot, _refusing(result)


_exports: Final = Installation(_exporter_rows)


@contextmanager
def observed_by(listener: SpanListener) -> Iterator[None]:
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
