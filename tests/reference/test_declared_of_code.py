"""What a pipeline's file says of code matters: without it, the same scenarios say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from simkit.checks.judge import Outcome
from simkit.cli.selection import named_for, on_pipeline
from simkit.core.errors import SourceError
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library
from simkit.trace.views import view_of
from tests.mutations import findings_at, item
from tests.twins import ROOT

GRAPH = "scenarios/fitness_coach/langgraph.pipeline.yaml"
DESK = "scenarios/handoff_pattern/openai_agents.pipeline.yaml"
HANDOFF = "handoff.scenario.yaml::a handoff goes to its target and leaves a handoff context"


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def on(twin: str, scenario: str, change: Callable[[Any], None] = lambda data: None) -> Outcome:
    """Returns what comes of a scenario on a twin whose file is changed."""
    pytest.importorskip("langgraph" if twin == GRAPH else "agents.run_context")
    entry = item(twin.split("/")[1], scenario)
    files = Library()
    (document,) = files.documents(str(ROOT / twin))
    data = _copied(document.data)
    change(data)
    changed = files.with_document(document.with_data(data))
    return simulate(on_pipeline(entry, named_for(entry.file, str(ROOT / twin)), changed))


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, list) else value


def without(key: str) -> Callable[[Any], None]:
    """Takes a key out of what is said of every agent."""

    def change(data: Any) -> None:
        for rule in data["agents"].values():
            rule.pop(key, None)

    return change


def handoffs(outcome: Outcome) -> list[tuple[str, str, Any]]:
    fields = [value.fields() for value in view_of(outcome.trace.events).handoffs.values()]
    return [(str(field["from"]), str(field["to"]), field["payload"]) for field in fields]


@pytest.mark.slow
def test_a_command_of_a_router_is_a_route_whether_or_not_the_file_says_so() -> None:
    request = ("workout_coach", "workout_analyst", {"distance_km": 8})

    for outcome in (on(GRAPH, HANDOFF), on(GRAPH, HANDOFF, without("routes"))):
        turns = view_of(outcome.trace.events).turns
        assert outcome.passed
        assert handoffs(outcome) == [request]
        assert [route.targets for turn in turns for route in turn.routes][:2] == [
            ("workout_coach",), ("workout_coach",)
        ]  # fmt: skip


@pytest.mark.slow
def test_what_an_agent_reads_of_others_is_noted_where_its_business_is_said() -> None:
    scenario = (
        "example_conversation.scenario.yaml::the workout coach is sent the nutrition conversation"
    )
    outcome = on(GRAPH, scenario, without("sees"))

    assert on(GRAPH, scenario).passed
    assert [finding.what for finding in outcome.judgement.findings] == [
        "CTX-11 is claimed, but not found in turn 2"
    ]


@pytest.mark.slow
def test_claims_on_what_code_does_not_show_are_passed_over_where_that_is_declared() -> None:
    scenario = (
        "history_filter.scenario.yaml::history keeps user messages and final answers, "
        "no tool traffic"
    )
    outcome = on(GRAPH, scenario, lambda data: data["implements"].pop("unseen"))

    assert on(GRAPH, scenario).passed
    coaches = ("workout_coach", "nutrition", "workout_analyst")
    dropped = [
        findings_at(outcome, f"turns[1].expect.context.{coach}.dropped") for coach in coaches
    ]
    assert all(dropped)
    assert list(outcome.judgement.findings) == [each for part in dropped for each in part]


@pytest.mark.slow
def test_sections_of_code_are_told_apart_where_its_file_says_how() -> None:
    scenario = (
        "context_order.scenario.yaml::a context is prompt, notes, memories, outputs, history, "
        "message"
    )

    def change(data: Any) -> None:
        del data["agents"]["workout_coach"]["sections"]["notes"]

    outcome = on(GRAPH, scenario, change)

    assert on(GRAPH, scenario).passed
    assert findings_at(outcome, "turns[0].expect.context.workout_coach.sections")


def test_nothing_is_given_to_code_where_its_file_does_not_say_how() -> None:
    scenario = (
        "quick_lookup.scenario.yaml::after a delegation the next message stays with the source"
    )

    with pytest.raises(SourceError, match="nothing can be given"):
        on(DESK, scenario, lambda data: data["app"].pop("given"))


def test_an_agent_with_a_context_object_of_its_own_receives_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = (
        "delegation.scenario.yaml::preferences and identity travel beside the payload, and nothing "
        "else of the state does"
    )
    sound = on(DESK, scenario)
    monkeypatch.setattr(
        "simkit.adapters.openai_agents.agent_runs._channels_of", lambda flight: None
    )
    outcome = on(DESK, scenario)

    assert sound.passed
    assert findings_at(outcome, "turns[0].expect.runs.research_agent.received")
