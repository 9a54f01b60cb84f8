"""OpenTelemetry: whose a model call is, told by the GenAI spans of any framework."""

from __future__ import annotations

from typing import Any

from simkit.adapters.opentelemetry.watch import instrumentation as instrumentation


def driver(subject: Any, app: Any, adapter_context: Any) -> None:
    """Run nothing: spans say who is at work, not how a pipeline is run."""
