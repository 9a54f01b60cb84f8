"""The undocumented parts of OpenTelemetry that simkit uses, and why.

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
"""Starts spans where no provider is configured. Such spans keep nothing by themselves."""
START_CURRENT_UNRECORDED_SPAN: Final = _API.slot(
    "opentelemetry.trace:NoOpTracer.start_as_current_span"
)
"""Starts a span as a context manager. Before 1.41 it does not call the other method: it has one
span for all."""
agnosticcontextmanager: Final = _API.find("opentelemetry.util._decorator:_agnosticcontextmanager")
"""Makes the kind of object that this method returns: usable in ``with`` and as a decorator of
any function."""
_EXPORTERS: Final = (
    ("trace_exporter", "OTLPSpanExporter", ("SpanExportResult",)),
    ("metric_exporter", "OTLPMetricExporter", ("MetricExportResult",)),
    ("_log_exporter", "OTLPLogExporter", ("LogRecordExportResult", "LogExportResult")),
)
"""Exporters: module, classes by all the names that the module has used, and the return value of
``export``."""


def spans() -> tuple[Slot, Slot] | None:
    """Return the methods with which the SDK starts and ends spans; None if it is not installed.

    It imports the SDK: the application may configure it in the middle of a turn.
    """
    try:
        import_module("opentelemetry.sdk.trace")
    except ImportError:
        return None
    place = "opentelemetry.sdk.trace"
    return _SDK.slot(f"{place}:Tracer.start_span"), _SDK.slot(f"{place}:Span.end")


def exporters() -> Iterator[tuple[Slot, Any]]:
    """Yield the ``export`` methods of imported exporters, each with its value for a failure.

    These exporters use the network from threads, at times of their own.
    """
    for way in ("http", "grpc"):
        library = Library(f"opentelemetry-exporter-otlp-proto-{way}")
        for name, exporter, results in _EXPORTERS:
            module = f"{OTLP}.{way}.{name}"
            for slot in library.slots_if_imported(f"{module}:{exporter}.export"):
                (result, *_) = library.attributes(*(f"{module}:{name}" for name in results))
                yield slot, library.find(f"{module}:{result}").FAILURE
