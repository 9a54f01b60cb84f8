"""Frameworks that tell OpenTelemetry who is at work, as they are: whichever of them are installed.

Each has an environment of its own, in which ``pytest tests/frameworks`` runs its scenarios too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.trace", reason="opentelemetry-api is not installed")

from opentelemetry import trace

from simkit.adapters.opentelemetry import spans, watch
from simkit.errors import SourceError
from simkit.scenario.files import Item, Library, Prepared
from simkit.session import simulate

HERE = Path(__file__).parent
TEAMS = {
    "agent_framework": ("agent_framework_team", "agent-framework-orchestrations"),
    "autogen_agentchat": ("autogen_team", "autogen-agentchat"),
    "semantic_kernel": ("semantic_kernel_team", "semantic-kernel"),
    "strands": ("strands_team", "strands-agents"),
}
"""The module by which a framework is known, to its team and what installs it."""

pytestmark = pytest.mark.filterwarnings("default")
"""What frameworks warn of is their own."""


def scenarios(framework: str) -> list[Prepared]:
    """Returns a framework's scenarios; skips where it is not installed."""
    team, distribution = TEAMS[framework]
    pytest.importorskip(framework, reason=f"{distribution} is not installed")
    file = str(HERE / f"{team}.scenario.yaml")
    library, found = Library(), []
    for place, document in enumerate(library.documents(file)):
        found.append(library.prepared(Item(file, document.data["scenario"], place, 1)))
    return found


def passes(prepared: Prepared) -> bool:
    try:
        return simulate(prepared).passed
    except SourceError:
        return False


@pytest.mark.parametrize("framework", TEAMS)
def test_ten_runs_have_one_digest(framework: str) -> None:
    for prepared in scenarios(framework):
        assert len({simulate(prepared).trace.digest() for _ in range(10)}) == 1


@pytest.mark.parametrize("framework", TEAMS)
def test_a_scenario_is_red_where_spans_are_not_seen(
    framework: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = scenarios(framework)
    assert [passes(one) for one in found] == [True] * len(found)

    monkeypatch.setattr(spans, "_started", lambda before: before)

    assert [passes(one) for one in found] == [False] * len(found)


@pytest.mark.parametrize("framework", TEAMS)
def test_who_calls_whom_is_known_by_the_spans_around(
    framework: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (nested,) = [one for one in scenarios(framework) if "works for the one" in one.item.name]
    assert passes(nested)

    monkeypatch.setattr(watch.SpanInstrument, "_parent", lambda *args: "")

    assert not passes(nested)


@pytest.mark.parametrize("framework", TEAMS)
def test_no_provider_is_left_behind(framework: str) -> None:
    before: Any = trace.NoOpTracer.start_span
    for prepared in scenarios(framework):
        simulate(prepared)

    assert trace.NoOpTracer.start_span is before
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
