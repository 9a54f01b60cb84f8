"""What waits is answered in any order: races in unmodified code are found, kept and replayed."""

from __future__ import annotations

import sys
from collections import Counter
from functools import partial
from itertools import pairwise
from math import factorial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.core.errors import SourceError
from simkit.explore.choices import Source
from simkit.explore.conversations import ExploredRun, converse, converse_by
from simkit.explore.enumeration import Enumeration
from simkit.explore.scenarios import scenario_text
from simkit.explore.search import Campaign
from simkit.runtime.ports import WaitingCall
from simkit.runtime.schedules import Blocks, Pct, names_of
from tests.adapters.running import APPS, run_app
from tests.building import run_yaml
from tests.cli.projects import run_simkit
from tests.conftest import sample_by_day
from tests.explore.searching import search, search_all
from tests.explore.test_simulations import replayed, subject_of

CODE = f"""
simulation: three clerks
pipeline: races:NAME
turns: 1
app: {{path: ["{APPS}"]}}
agents: {{a: {{system: You are a.}}, b: {{system: You are b.}}, c: {{system: You are c.}}}}
users: {{u: {{says: Hello.}}}}
"""
RULES = "agents: {a: {system: You are a.}, b: {system: You are b.}, c: {system: You are c.}}\n"
REPLIES = "{a: [A, A], b: [B, B], c: [C, C]}"
ROOT = Path(__file__).resolve().parent.parent.parent
CONCURRENT = ("gather_clerks", "pool_clerks", "threads_of_a_loop", "graph", "graph_in_loop")
"""Three clerks of two model calls each."""


def code(name: str) -> str:
    return CODE.replace("NAME", name)


def campaign_of(subject: Any, runs: int = 60) -> Campaign:
    return search(partial(converse, subject), runs=runs, turns_max=1, seed=0)


def replies_in_all_orders(subject: Any) -> tuple[Campaign, Counter[str]]:
    """Runs every order; returns the campaign, and the replies with how often they were given."""
    replies: Counter[str] = Counter()

    def run(source: Source) -> ExploredRun:
        record = converse_by(subject, source)
        replies[sys.modules["races"].entries_text()] += 1
        return record

    return search_all(run, runs=1_000, turns_max=1), replies


# Schedules


def waiting(*names: str) -> list[WaitingCall]:
    return [WaitingCall(name.rstrip("0123456789"), name) for name in names]


def test_calls_are_named_by_their_agents() -> None:
    assert names_of(waiting("a1", "b1", "a2", "a3")) == ["a", "b", "a[1]", "a[2]"]


@given(st.integers(0, 2**32))
def test_a_flow_of_higher_priority_is_answered_for_as_long_as_it_waits(seed: int) -> None:
    pick, answers = Pct(Random(seed).randrange), []
    left = {name: 3 for name in "abc"}
    while any(left.values()):
        calls = waiting(*(name for name, count in left.items() if count))
        name = calls[pick(calls)].agent
        answers.append(name)
        left[name] -= 1

    changes = sum(first != second for first, second in pairwise(answers))
    assert changes <= 3  # Three flows follow each other, and one of them is put off once.


def test_blocks_are_the_orders_in_which_flows_end() -> None:
    ends = []
    for source in Enumeration(1):
        pick, left, order = Blocks(source.order().below), {name: 2 for name in "abc"}, ""
        while any(left.values()):
            calls = waiting(*(name for name, count in left.items() if count))
            name = calls[pick(calls)].agent
            left[name] -= 1
            order += name * (left[name] == 0)
        ends.append(order)

    assert len(ends) == len({*ends}) == factorial(3)


# Code


@pytest.mark.slow
@pytest.mark.parametrize("name", sample_by_day(CONCURRENT, 5))
def test_three_clerks_of_two_calls_have_ninety_orders(name: str, tmp_path: Path) -> None:
    campaign, replies = replies_in_all_orders(subject_of(tmp_path, "", pipeline=code(name)))

    # 84 of them answer calls together, once each.
    assert (campaign.runs, campaign.is_complete, len(replies)) == (174, True, 90)
    assert Counter(text[0] for text in replies) == {"1": 48, "2": 36, "3": 6}


def test_sequential_code_has_one_order_and_needs_no_schedule(tmp_path: Path) -> None:
    subject = subject_of(tmp_path, "always: {reply: A}\n", pipeline=code("in_sequence"))

    campaign, replies = replies_in_all_orders(subject)

    assert (campaign.runs, {*replies}) == (1, {"3 aabbcc"})
    assert "schedule" not in campaign.discoveries[0].record.turns[0]


@pytest.mark.parametrize(
    ("name", "runs", "orders"),
    [
        ("told_first", 4, 4),
        ("fail_together", 8, 6),
        ("tasks_and_threads", 10, 6),
        ("read_streams", 10, 6),
        ("two_at_a_time", 7, 4),
        ("sleep_between", 26, 12),
        ("block_the_loop", 1, 1),
        ("one_at_a_time", 1, 1),
    ],
)
def test_code_waits_for_answers_in_many_ways(
    name: str, runs: int, orders: int, tmp_path: Path
) -> None:
    campaign, replies = replies_in_all_orders(subject_of(tmp_path, "", pipeline=code(name)))

    assert (campaign.runs, len(replies), campaign.is_complete) == (runs, orders, True)


RACES = {
    "gather_clerks": "{$starts: '3'}",
    "graph": "{$starts: '3'}",
    "graph_in_loop": "{$starts: '3'}",
    "verdict": "c",
}
"""Functions whose race the order in which calls are made does not show, with the right reply."""


@pytest.mark.slow
@pytest.mark.parametrize("name", RACES)
def test_a_race_is_found_made_small_and_replayed(name: str, tmp_path: Path) -> None:
    replies = REPLIES if name != "verdict" else "{a: A, b: B, c: C}"
    turn = f"{RULES}turns: [{{user: Hello., replies: {replies}, expect: {{reply: {RACES[name]}}}}}]"
    assert run_app(f"races:{name}", turn).judgement.findings == ()
    subject = subject_of(tmp_path, f"always: {{reply: {RACES[name]}}}\n", pipeline=code(name))

    (discovery,) = campaign_of(subject).discoveries

    (turn_data,) = discovery.record.turns
    # The simplest order in which all calls wait for each other shows it, or the first other one.
    assert "".join(turn_data["schedule"]) == ("ac" if name == "verdict" else "abcab")
    assert turn_data["replies"].keys() == {*"abc"}
    assert replayed(discovery, subject, tmp_path) == {discovery.cause}


@pytest.mark.slow
def test_a_race_is_replayed_in_another_process(tmp_path: Path) -> None:
    claim = "always: {reply: {$starts: '3'}}\n"
    subject = subject_of(tmp_path, claim, pipeline=code("graph"))
    (discovery,) = campaign_of(subject).discoveries
    file = tmp_path / "found.scenario.yaml"
    file.write_text(scenario_text(discovery, subject, tmp_path, "simkit explore"), encoding="utf-8")

    done = run_simkit("replay", str(file), "--verify", folder=ROOT)

    assert done.code == 1, done.out + done.err
    assert "1 of 1 digest is equal" in done.out
    assert 'wanted $starts: "3"' in done.out


@pytest.mark.parametrize("name", CONCURRENT)
def test_an_order_is_the_same_every_time(name: str) -> None:
    turn = f"{RULES}turns: [{{user: Hello., replies: {REPLIES}, schedule: [b, c, b, a]}}]"

    first, second = (run_app(f"races:{name}", turn) for _ in range(2))

    assert first.judgement.findings == ()
    assert first.view.turns[0].reply == "2 bcbaca"
    assert first.trace.digest() == second.trace.digest()


def test_calls_of_one_agent_are_numbered() -> None:
    turn = "turns: [{user: Hello., replies: {a: [A, A, A]}, schedule: ['a[2]', 'a[1]']}]"

    ran = run_app("races:votes_of_one", RULES + turn)

    assert ran.view.turns[0].reply == "when what who"


def test_calls_of_one_agent_are_found_in_any_order(tmp_path: Path) -> None:
    claim = "always: {reply: {$not: when what who}}\n"
    subject = subject_of(tmp_path, claim, pipeline=code("votes_of_one"))

    campaign = search_all(partial(converse_by, subject), runs=100, turns_max=1)

    assert campaign.runs == 10, "six orders, and four groups"
    (discovery,) = campaign.discoveries
    assert discovery.record.turns[0]["schedule"] == ["a[2]", "a[1]"]


@pytest.mark.slow
def test_the_seed_chooses_where_the_scenario_says_so() -> None:
    def reply(word: str, seed: int) -> Any:
        text = f"schedule: {word}\nseed: {seed}\n{RULES}turns: [{{user: Hi, replies: {REPLIES}}}]"
        return run_app("races:gather_clerks", text).view.turns[0].reply

    for word in ("random", "pct"):
        replies = [reply(word, seed) for seed in range(4)]
        assert len({*replies}) > 1
        assert reply(word, 3) == replies[3]
    assert {reply("fifo", seed) for seed in range(3)} == {"3 aabbcc"}


@pytest.mark.parametrize(
    ("order", "problem"),
    [
        ("[b, b, b]", "the `schedule` of turn 1 answers 'b' as call 3, but no call of it waits"),
        ("[a, 'a[1]']", "answers 'a[1]' as call 2"),
        (
            "[a, a, b, b, c, c, c]",
            "lists 7 calls, but the turn made 6: c did not wait for an answer",
        ),
    ],
)
@pytest.mark.parametrize("name", ["gather_clerks", "pool_clerks", "graph"])
def test_an_order_that_does_not_fit_is_a_finding_at_its_place(
    name: str, order: str, problem: str
) -> None:
    turn = f"{RULES}turns: [{{user: Hello., replies: {REPLIES}, schedule: {order}}}]"

    ran = run_app(f"races:{name}", turn, fits=False)

    finding = next(finding for finding in ran.judgement.findings if problem in finding.what)
    assert finding.path[:3] == ("turns", 0, "schedule")


# Declared pipelines

PIPELINE = """
pipeline: clerks
channels:
  decision: {scope: turn}
  totals: {reducer: append, scope: turn}
defaults: {context: [instructions, current_message]}
agents:
  head: {instructions: You decide., writes: {decision: "${run.output}"}}
  a: {instructions: You are a., tools: [look], writes: {totals: ["${run.reply}"]}}
  b: {instructions: You are b., tools: [look], writes: {totals: ["${run.reply}"]}}
  c: {instructions: You are c., tools: [look], writes: {totals: ["${run.reply}"]}}
tools: {look: {args: {type: object}}}
flow: {router: {decide: head, to: "${run.output.to}"}}
"""
CLERK = "{function: tests.functions:clerk}"
NATIVE = f"""
---
simulation: three clerks
pipeline: clerks
turns: 1
users: {{u: {{says: Hello.}}}}
models:
  head: {{function: tests.functions:opened}}
  a: {CLERK}
  b: {CLERK}
  c: {CLERK}
tools: {{look: {{returns: ok}}}}
"""


@pytest.mark.slow
def test_functions_of_a_declared_pipeline_are_called_in_ninety_orders(tmp_path: Path) -> None:
    subject = subject_of(tmp_path, "", pipeline=PIPELINE + NATIVE)

    campaign = search_all(partial(converse_by, subject), runs=1_000, turns_max=1)

    assert (campaign.runs, campaign.is_complete) == (90, True)


@pytest.mark.slow
def test_a_lost_update_of_functions_is_found_and_replayed(tmp_path: Path) -> None:
    claim = "always: {state: {totals: ['1', '2', '3']}}\n"
    subject = subject_of(tmp_path, claim, pipeline=PIPELINE + NATIVE)

    (discovery,) = campaign_of(subject).discoveries

    assert "schedule" in discovery.record.turns[0]
    assert replayed(discovery, subject, tmp_path) == {discovery.cause}


TURN = """
scenario: three clerks
pipeline: clerks
turns:
  - user: Hello.
    replies: {head: {json: {to: {parallel: [a, b, c]}}}, a: A, b: B, c: C}
"""


@pytest.mark.parametrize(
    ("order", "totals"), [("[head, c, a, b]", "CAB"), ("[head, b]", "BAC"), ("[]", "ABC")]
)
def test_a_turn_lists_the_order_of_its_answers(order: str, totals: str) -> None:
    claim = f"    expect: {{state: {{totals: [{', '.join(totals)}]}}}}\n"

    ran = run_yaml(PIPELINE, f"{TURN}    schedule: {order}\n{claim}")

    assert ran.judgement.findings == ()


@pytest.mark.parametrize(
    ("order", "problem"),
    [
        ("[a]", "answers 'a' as call 1, but no call of it waits then; head waits."),
        ("[head, head]", "answers 'head' as call 2, but no call of it waits then; a, b, c wait."),
        ("[head, a, b, c, c]", "lists 5 calls, but the turn made 4: c did not wait for an answer"),
    ],
)
def test_an_order_that_a_declared_pipeline_does_not_follow(order: str, problem: str) -> None:
    with pytest.raises(SourceError) as caught:
        run_yaml(PIPELINE, f"{TURN}    schedule: {order}\n")

    assert problem in str(caught.value)
