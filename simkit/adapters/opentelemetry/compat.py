"""What simkit uses of OpenTelemetry beside its documented API, and why.

`simkit.core.compat` says which versions were tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

from simkit.core.compat import Library, Slot

_API: Final = Library("opentelemetry-api")
_SDK: Final = Library("opentelemetry-sdk")
OTLP: Final = "opentelemetry.exporter.otlp.proto"

START_UNRECORDED_SPAN: Final = _API.slot("opentelemetry.trace:NoOpTracer.start_span")
"""Spans where no provider is configured, which keep nothing by themselves."""
START_CURRENT_UNRECORDED_SPAN: Final = _API.slot(
    "opentelemetry.trace:NoOpTracer.start_as_current_span"
)
"""Before 1.41 it does not start a span by the other one: it has one for all."""
agnosticcontextmanager: Final = _API.find("opentelemetry.util._decorator:_agnosticcontextmanager")
"""Makes what both a ``with`` and a decorator of any function take, as that method does."""
_EXPORTERS: Final = (
    ("trace_exporter", "OTLPSpanExporter", ("SpanExportResult",)),
    ("metric_exporter", "OTLPMetricExporter", ("MetricExportResult",)),
    ("_log_exporter", "OTLPLogExporter", ("LogRecordExportResult", "LogExportResult")),
)
"""Module, class, and what its ``export`` returns, by the names that the module has had for it."""


def spans() -> tuple[Slot, Slot] | None:
    """Return where the SDK starts and ends spans; None where it is not installed.

    It is imported for that: the application may configure it in the middle of a turn.
    """
    try:
        import_module("opentelemetry.sdk.trace")
    except ImportError:
        return None
    place = "opentelemetry.sdk.trace"
    return _SDK.slot(f"{place}:Tracer.start_span"), _SDK.slot(f"{place}:Span.end")


def exporters() -> Iterator[tuple[Slot, Any]]:
    """Yield where those exporters that are imported send something, and what says that they failed.

    They use the network from threads, at some time.
    """
    for way in ("http", "grpc"):
        library = Library(f"opentelemetry-exporter-otlp-proto-{way}")
        for name, exporter, results in _EXPORTERS:
            module = f"{OTLP}.{way}.{name}"
            for slot in library.slots_if_imported(f"{module}:{exporter}.export"):
                (result, *_) = library.attributes(*(f"{module}:{name}" for name in results))
                yield slot, library.find(f"{module}:{result}").FAILURE
