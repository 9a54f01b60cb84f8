"""OpenTelemetry: attribution of model calls by the GenAI spans of any framework."""

from __future__ import annotations

from typing import Any

from simkit.adapters.opentelemetry.watch import instrumentation as instrumentation


def driver(subject: Any, app: Any, adapter_context: Any) -> None:
    """Return None: spans show agents, not how to run a pipeline."""
