"""OpenTelemetry: whose a model call is, told by the GenAI spans of any framework."""

from __future__ import annotations

from typing import Any

from simkit.adapters.opentelemetry.watch import instrument as instrument


def pilot(subject: Any, app: Any, cockpit: Any) -> None:
    """Flies nothing: spans say who is at work, not how a pipeline is run."""
