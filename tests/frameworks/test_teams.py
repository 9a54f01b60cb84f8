"""Frameworks that tell OpenTelemetry who is at work, as they are: whichever of them are installed.

Each has an environment of its own, in which ``pytest tests/frameworks`` runs its scenarios too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.trace", reason="opentelemetry-api is not installed")

from opentelemetry import trace

from simkit.adapters.opentelemetry import watch
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Prepared
from tests.adapters import running
from tests.adapters.running import digests_of, passes

FOLDER = Path(__file__).parent
FRAMEWORKS = ("agent_framework", "autogen", "semantic_kernel", "strands")

pytestmark = pytest.mark.filterwarnings("default")
"""What frameworks warn of is their own."""


def scenarios(framework: str) -> tuple[Prepared, ...]:
    """Returns a framework's scenarios; skips where they say that it is not installed."""
    cases = running.scenarios(FOLDER / f"{framework}_team.scenario.yaml")
    for case in cases:
        if case.skip is not None:
            pytest.skip(case.skip)
    return cases


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_many_runs_have_one_digest(framework: str) -> None:
    for prepared in scenarios(framework):
        assert len(digests_of(prepared)) == 1


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_scenario_is_red_where_spans_are_not_seen(
    framework: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = scenarios(framework)
    assert [passes(case) for case in cases] == [True] * len(cases)

    monkeypatch.setattr(watch, "_started", lambda before: before)

    assert [passes(case) for case in cases] == [False] * len(cases)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_who_calls_whom_is_known_by_the_spans_around(
    framework: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (nested,) = [case for case in scenarios(framework) if "works for the one" in case.item.name]
    assert passes(nested)

    monkeypatch.setattr(watch.SpanInstrument, "_parent", lambda *args: "")

    assert not passes(nested)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_no_provider_is_left_behind(framework: str) -> None:
    before: Any = trace.NoOpTracer.start_span
    for prepared in scenarios(framework):
        simulate(prepared)

    assert trace.NoOpTracer.start_span is before
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
