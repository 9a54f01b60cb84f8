"""Exporters of telemetry, which send nothing over the network while a turn runs.

What an application exports would else be a request that the scenario refuses, sent from a thread
at some time: it would end one run and not the next. Exporters that stay in the process, to a
console or a list, get every span.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry import trace

from simkit.capture.http.installing import Installation, Replacement, Row

_OTLP: Final = "opentelemetry.exporter.otlp.proto"
EXPORTERS: Final = (
    (f"{_OTLP}.http.trace_exporter", "OTLPSpanExporter", "SpanExportResult"),
    (f"{_OTLP}.http.metric_exporter", "OTLPMetricExporter", "MetricExportResult"),
    (f"{_OTLP}.http._log_exporter", "OTLPLogExporter", "LogRecordExportResult"),
    (f"{_OTLP}.grpc.trace_exporter", "OTLPSpanExporter", "SpanExportResult"),
    (f"{_OTLP}.grpc.metric_exporter", "OTLPMetricExporter", "MetricExportResult"),
    (f"{_OTLP}.grpc._log_exporter", "OTLPLogExporter", "LogRecordExportResult"),
)
"""Module, class, and what its ``export`` returns, by the name that the module has for it."""


def _refusing(result: Any) -> Any:
    def replaced(before: Replacement) -> Replacement:
        def export(self: Any, *args: Any, **kwargs: Any) -> Any:
            return result

        return export

    return replaced


def _rows() -> Iterator[Row]:
    for name, exporter, result in EXPORTERS:
        module = sys.modules.get(name)
        if module is not None:
            yield getattr(module, exporter), "export", _refusing(getattr(module, result).FAILURE)


_installation: Final = Installation()


@contextmanager
def nothing_exported() -> Iterator[None]:
    """Let exporters fail that would use the network, also with what waits when it is left."""
    with _installation:
        _installation.replace(_rows())  # Another scenario may be inside since before an import.
        try:
            yield
        finally:
            provider = trace.get_tracer_provider()
            if _installation.replaced and hasattr(provider, "force_flush"):
                provider.force_flush()
