"""Claims that the events prove hold for the checks too: over shipped, drawn and damaged traces.

The claims are drawn from each trace: agents, texts and authors in contexts, replies and values of
channels, right ones and wrong ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from msgspec import to_builtins

from simkit.checks import judge
from simkit.checks.judge import Judgement, judge_seen
from simkit.checks.proving import all_hold
from simkit.core.errors import TraceError
from simkit.runtime.functions import function_named
from simkit.session.simulate import run
from simkit.spec.scenario.claims import Expect
from simkit.spec.scenario.files import Library, Prepared, items_in, scenario_files
from simkit.spec.scenario.model import Scenario
from simkit.trace import events as e
from simkit.trace.store import canonical
from simkit.trace.views import TurnView, view_of
from tests.checks.lints.test_screening import damaged, without_sections
from tests.checks.test_calls import CLAIMED
from tests.conversations import ROUTED, ROUTER, conversation

SCENARIOS: Final = Path(__file__).resolve().parents[2] / "scenarios"
UNREADABLE: Final = (
    LookupError, TypeError, ValueError, AttributeError, AssertionError, TraceError,
)  # fmt: skip


def expected_of(turn: TurnView, agents: list[str], rng: Random) -> dict[str, Any]:
    """Returns drawn claims on a turn, most of which hold."""
    claims: dict[str, Any] = {}
    if rng.random() < 0.6:
        claims["agents"] = [run.agent for run in turn.runs] or ["nobody"]
    if rng.random() < 0.3 and isinstance(turn.reply, str):
        claims["reply"] = {"$contains": turn.reply[:20]} if turn.reply else ""
    if rng.random() < 0.6 and turn.state:
        name = rng.choice(sorted(turn.state))
        value = canonical(turn.state[name])
        if isinstance(value, list):
            claims["state"] = {name: {"$len": len(value) + (rng.random() < 0.1)}}
        elif not any(text in str(value) for text in ("$", "{}")):
            claims["state"] = {name: value}
    for agent in sorted(turn.calls_by_agent):
        if rng.random() < 0.7:
            claims.setdefault("context", {})[agent] = _context(turn, agent, agents, rng)
    return claims


def _context(turn: TurnView, agent: str, agents: list[str], rng: Random) -> dict[str, Any]:
    call = rng.choice(turn.calls_by_agent[agent])
    contents = [message.content for message in call.context.messages if message.content]
    claims: dict[str, Any] = {}
    if contents and rng.random() < 0.8:
        text = rng.choice(contents[-6:] if rng.random() < 0.9 else contents)
        start = rng.randrange(len(text))
        claims["includes"] = [{"$contains": text[start : start + 30]}]
    if rng.random() < 0.5 or not claims:
        authors = {message.agent for message in call.context.messages}
        others = [name for name in agents if name not in authors]
        is_right = others and rng.random() < 0.8
        claims["excludes"] = [{"agent": rng.choice(others if is_right else agents)}]
    return claims


def claimed(scenario: Scenario, events: list[e.AnyEvent], rng: Random) -> Scenario:
    """Returns the scenario with drawn claims on two turns in place of its own."""
    view = view_of(events)
    agents = sorted({*view.pipeline.agents, "nobody"})
    places = rng.sample(range(len(view.turns)), min(2, len(view.turns)))
    turns = []
    for place, turn in enumerate(scenario.turns):
        claims = expected_of(view.turns[place], agents, rng) if place in places else {}
        turns.append(turn.model_copy(update={"expect": Expect.model_validate(claims)}))
    return scenario.model_copy(update={"turns": tuple(turns), "expect": Expect()})


def judged(
    scenario: Scenario, prepared: Prepared, events: list[e.AnyEvent]
) -> Judgement | type[Exception]:
    """Returns the judgement of a trace without findings of lints; or how reading it fails."""
    try:
        return judge_seen(scenario, prepared.document, view_of(events), (), function_named)
    except UNREADABLE as problem:
        return type(problem)


def cases(
    prepared: Prepared, name: str, draws: int
) -> Iterator[tuple[str, Scenario, list[e.AnyEvent]]]:
    """Yields scenarios with traces: its own, with drawn claims, and with damages."""
    events = list(run(prepared).events)
    yield f"{name}, as it is", prepared.scenario, events
    rng = Random(name)
    for number in range(draws):
        scenario = claimed(prepared.scenario, events, rng)
        yield f"{name} {number}", scenario, events
        yield f"{name} {number}, as code", scenario, without_sections(events)
        for damage in range(3):
            yield f"{name} {number}.{damage}", scenario, damaged(events, rng)


def check_agreement(
    prepared: Prepared, name: str, draws: int, monkeypatch: pytest.MonkeyPatch
) -> Counter[str]:
    """Asserts that a proof changes no judgement; returns how often there was one."""
    counts = Counter[str]()
    for title, scenario, events in cases(prepared, name, draws):
        is_proven = all_hold(scenario, events)
        with monkeypatch.context() as patch:
            patch.setattr(judge, "all_hold", lambda *_: False)
            plain = judged(scenario, prepared, events)
        if is_proven and isinstance(plain, Judgement):
            assert to_builtins(judged(scenario, prepared, events)) == to_builtins(plain), title
            claims = [finding for finding in plain.findings if "expect" in finding.path]
            assert claims == [], title
            assert (plain.warnings, plain.passed_over) == ((), ()), title
        counts["proven" if is_proven else "left to the checks"] += 1
    return counts


def test_claims_of_a_conversation_that_are_proven_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = conversation(ROUTER, ROUTED + CLAIMED, 8)

    counts = check_agreement(prepared, "a router", 40, monkeypatch)

    assert all_hold(prepared.scenario, run(prepared).events)
    assert counts["proven"] > 20
    assert counts["left to the checks"] > 30


@pytest.mark.slow
def test_claims_of_shipped_scenarios_that_are_proven_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, library = Counter[str](), Library()
    for file in scenario_files(SCENARIOS):
        for item in items_in(file):
            prepared = library.prepared(item)
            if prepared.skip is None:
                # The same draws wherever the project lies.
                name = item.id.removeprefix(f"{SCENARIOS}/")
                counts += check_agreement(prepared, name, 2, monkeypatch)

    assert counts["proven"] > 100
    assert counts["left to the checks"] > 100


def test_a_claim_that_does_not_hold_is_never_proven() -> None:
    prepared = conversation(ROUTER, ROUTED, 2)
    events = run(prepared).events
    wrong: list[dict[str, Any]] = [
        {"agents": ["triage", "writer"]},
        {"reply": "another"},
        {"state": {"outputs": {"billing": "another"}}},
        {"context": {"writer": {"includes": [{"$contains": "never said"}]}}},
        {"context": {"writer": {"excludes": [{"agent": "billing"}]}}},
        {"context": {"writer": {"excludes": [{"agent": "nobody"}]}}},
        {"context": {"nobody": {"includes": [{"$contains": "e"}]}}},
    ]

    for claims in wrong:
        turn = prepared.scenario.turns[1].model_copy(
            update={"expect": Expect.model_validate(claims)}
        )
        scenario = prepared.scenario.model_copy(
            update={"turns": (prepared.scenario.turns[0], turn)}
        )
        assert not all_hold(scenario, events), claims


def test_a_session_that_starts_in_a_turn_proves_nothing() -> None:
    prepared = conversation(ROUTER, ROUTED + CLAIMED, 2)
    events = list(run(prepared).events)
    (start,) = [place for place, event in enumerate(events) if isinstance(event, e.SessionStarted)]
    late = [*events[:start], *events[start + 1 : start + 4], events[start], *events[start + 4 :]]

    assert all_hold(prepared.scenario, events)
    assert not all_hold(prepared.scenario, late)
    assert not all_hold(prepared.scenario, [*events[:start], *events[start + 1 :]])
