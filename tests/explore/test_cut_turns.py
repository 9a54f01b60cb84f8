"""Turns that are cut, hit by faults, or run again in a new process: what follows then."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from simkit.core.errors import SourceError
from simkit.explore.causes import label_of
from simkit.explore.choices import ODDS, ChoiceLog, Plan, Source, TurnPlan
from simkit.explore.conversations import ExploredRun, converse, converse_by
from simkit.explore.scenarios import scenario_text, shows
from simkit.explore.search import Discovery
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in
from tests.explore.desks import DESK
from tests.explore.searching import search, search_all
from tests.explore.test_simulations import campaign_of, labels, replayed, subject_of

HANDS_OVER: Final = """
models: {desk: {handoff: {to: billing, payload: {order: A-1}}}, billing: Refunded.}
"""
RARE: Final = TurnPlan(rare=(ODDS - 1,))
"""A turn to which the first fault happens."""


def planned(*turns: TurnPlan) -> Plan:
    return Plan(turns, enabled=(True, True))


@pytest.mark.parametrize(("fault", "key"), [("cancelled_turn", "cancel"), ("crash", "crash")])
def test_a_turn_is_cut_and_the_next_one_works(fault: str, key: str, tmp_path: Path) -> None:
    subject = subject_of(tmp_path, HANDS_OVER + f"faults: {{{fault}: 0.5}}\nlints: {{HND-03: x}}\n")

    record = converse(subject, planned(RARE))

    # After the last turn was cut, the user says it once more.
    first, again = record.turns
    assert (first[key], first["user"], "expect" in first) == ({"call": 1}, again["user"], False)
    assert "replies" not in first
    assert key not in again
    assert again["replies"]["desk"]["handoff"]["to"] == "billing"
    assert record.causes == {}


@pytest.mark.parametrize("moment", [9, 17], ids=["call 4", "the end of a second tool"])
def test_a_turn_that_ends_before_was_not_cut(moment: int, tmp_path: Path) -> None:
    text = "models: {desk: Hello.}\nusers: {u: {says: Hi}}\nfaults: {cancelled_turn: 0.5}\n"
    subject = subject_of(tmp_path, text)

    (turn,) = converse(subject, planned(TurnPlan(user=moment, rare=(ODDS - 1,)))).turns

    assert "cancel" not in turn
    assert turn["replies"] == {"desk": "Hello."}


REFUNDS: Final = """
pipeline: p
channels: {messages: {reducer: append, scope: session}}
agents:
  desk:
    instructions: You refund what was not refunded.
    tools: [refund]
    context: [instructions, history, current_message]
    writes: {messages: ["${run.final_message}"]}
tools: {refund: {args: {type: object, properties: {order: {type: string}}}}}
flow: {handoffs: {start: desk}}
---
simulation: nobody is refunded twice
pipeline: p
turns: 2
users: {u: {says: Refund A-1.}}
models:
  desk:
    - {calls: [refund: {order: A-1}], when: {messages: {$len: {$lte: 3}}}}
    - {text: Done., when: {messages: {$len: {$gt: 3}}}}
faults: {<FAULT>: 0.5}
never: [{tool: refund, twice_with: args}]
"""


@pytest.mark.parametrize(("fault", "key"), [("cancelled_turn", "cancel"), ("crash", "crash")])
def test_every_moment_at_which_a_tool_takes_effect_twice_is_found(
    fault: str, key: str, tmp_path: Path
) -> None:
    subject = subject_of(tmp_path, REFUNDS.replace("<FAULT>", fault), pipeline="")
    cuts: dict[str, bool] = {}

    def run(source: Source) -> ExploredRun:
        record = converse_by(subject, source)
        moment = record.turns[0].get(key)
        if moment is not None:
            cuts[str(moment)] = bool(record.causes)
        return record

    campaign = search_all(run, runs=100, turns_max=2)

    assert campaign.is_complete
    # Only what comes after its effect lets the user's next message refund again.
    assert cuts == {
        "{'call': 1}": False,
        "{'call': 2}": True,
        "{'tool': 'refund'}": False,
        "{'tool': 'refund', 'at': 'end'}": True,
    }


def test_a_cut_at_a_tool_is_kept(tmp_path: Path) -> None:
    subject = subject_of(tmp_path, REFUNDS.replace("<FAULT>", "crash"), pipeline="")
    at_end = TurnPlan(user=13, rare=(ODDS - 1,))

    record = converse(subject, planned(at_end, TurnPlan()))

    assert record.turns[0]["crash"] == {"tool": "refund", "at": "end"}
    (cause,) = record.causes
    file = tmp_path / "kept.scenario.yaml"
    text = scenario_text(Discovery(cause, record, 1, 1), subject, tmp_path, "c")
    file.write_text(text, encoding="utf-8")
    assert "crash: {tool: refund, at: end}" in text
    assert shows(file, cause)


LOCKED: Final = """
import openai

client = openai.AsyncOpenAI(api_key="sk-test")
busy = []


async def run(text):
    if busy:
        raise RuntimeError("still at work")
    busy.append(text)
    messages = [{"role": "system", "content": "You are the desk."}]
    messages.append({"role": "user", "content": text})
    answer = await client.chat.completions.create(model="gpt-5-mini", messages=messages)
    busy.clear()
    return answer.choices[0].message.content
"""
OF_CODE: Final = """
version: 1
simulation: nothing is left behind
pipeline: locked_desk:run
app: {path: [.], fresh: true}
agents: {desk: {system: You are the desk.}}
models: {desk: Hello.}
faults: {cancelled_turn: 1}
turns: 2
"""


@pytest.mark.slow
def test_what_a_cancelled_turn_leaves_behind_is_found_and_kept(cwd: Path) -> None:
    Path("locked_desk.py").write_text(LOCKED, encoding="utf-8")
    subject = subject_of(cwd, OF_CODE, pipeline="")

    causes = labels(campaign_of(subject, runs=40))

    (discovery,) = (each for name, each in causes.items() if "RuntimeError" in name)
    file = cwd / "found.scenario.yaml"
    file.write_text(scenario_text(discovery, subject, cwd, "c"), encoding="utf-8")
    library = Library()
    (item,) = items_in(str(file), library.cache)
    turns: list[dict[str, Any]] = library.documents(str(file))[item.index].data["turns"]
    assert [turn.get("cancel") for turn in turns] == [{"call": 1}, None]
    assert shows(file, discovery.cause)


def test_a_misspelt_fault_is_told(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="unknown fault `canceled_turn`") as caught:
        subject_of(tmp_path, "faults: {canceled_turn: 0.1}\n")

    assert caught.value.near == "cancelled_turn"


STUCK = """
from openai import OpenAI, RateLimitError

class Desk:
    def __init__(self):
        self.is_busy = False

    def run(self, text: str) -> str:
        if self.is_busy:
            raise RuntimeError("the turn before is not over")
        self.is_busy = True
        try:
            reply = OpenAI(max_retries=0).chat.completions.create(
                model="gpt-5", messages=[{"role": "user", "content": text}]
            )
        except RateLimitError:
            return "Try again."
        self.is_busy = False
        return reply.choices[0].message.content
"""
SIMULATION = """
simulation: it goes on
pipeline: stuck_after_fault:Desk
app: {path: [.]}
agents: {desk: {model: gpt-5}}
turns: 1
faults: {rate_limit: 0.5}
"""
LIMITED = Plan((TurnPlan(rare=(0, ODDS - 1)),), enabled=(True,))


def test_the_last_message_is_said_again_after_a_fault_and_only_then(tmp_path: Path) -> None:
    subject = subject_of(tmp_path, "turns: 1\nfaults: {rate_limit: 0.5}\n")

    hit = converse(subject, LIMITED)
    spared = converse(subject, Plan((TurnPlan(),), enabled=(True,)))

    assert [turn["replies"]["desk"] for turn in hit.turns] == [{"error": "rate_limit"}, "Done."]
    assert hit.turns[0]["user"] == hit.turns[1]["user"]
    assert (hit.causes, len(spared.turns)) == ({}, 1)


def test_nothing_is_said_again_where_a_question_waits(tmp_path: Path) -> None:
    models = "models: {desk: [{interrupt: Which order?}]}\n"
    subject = subject_of(tmp_path, models + "turns: 1\nfaults: {rate_limit: 0.5}\n", pipeline=DESK)

    record = converse(subject, Plan((TurnPlan(),), enabled=(True,)))

    assert len(record.turns) == 1


@pytest.mark.slow
def test_code_that_does_not_recover_is_found_and_the_scenario_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    (tmp_path / "stuck_after_fault.py").write_text(STUCK, encoding="utf-8")
    subject = subject_of(tmp_path, SIMULATION, pipeline="")

    discoveries: list[Discovery] = [
        each for each in campaign_of(subject, 20).discoveries if label_of(each.cause) == "error"
    ]

    (discovery,) = discoveries
    assert discovery.cause.detail == "RuntimeError"
    assert len(discovery.record.turns) == 2
    assert replayed(discovery, subject, tmp_path) == {discovery.cause}


PIPELINE: Final = """
pipeline: asking
agents:
  first: {instructions: You are first., tools: [look]}
  left: {instructions: You are left.}
  right: {instructions: You are right.}
tools: {look: {args: {type: object, properties: {}}, returns: {enum: [a, b]}}}
flow:
  graph:
    nodes: {first: {start: true, role: split}, left: {exit: true}, right: {exit: true}}
    edges: [{from: first, to: left}, {from: first, to: right}]
"""
TURNS_AGAIN_SIMULATION: Final = """
---
simulation: s
pipeline: asking
turns: 2
users: {ann: {says: [Hi.], answers: [Yes.]}}
models:
  first: [{calls: {look: {}}}, Done.]
  left: [{interrupt: Which?}, {interrupt: When?}, L]
  right: [R]
faults: {restart: 0.5}
"""


@pytest.mark.slow
def test_what_runs_again_is_what_ran_and_is_kept_once(tmp_path: Path) -> None:
    subject = subject_of(tmp_path, TURNS_AGAIN_SIMULATION, pipeline=PIPELINE)
    records: list[ExploredRun] = []

    def run(choices: Plan | ChoiceLog) -> ExploredRun:
        records.append(converse(subject, choices))
        return records[-1]

    campaign = search(run, runs=80, turns_max=2, seed=0, rare=1)
    again = [r for r in records if len(r.turns) == 2 and r.turns[1].get("restart")]
    resumed = [r for r in again if "resume" in r.turns[1]]

    assert [str(each.cause) for each in campaign.discoveries] == []
    assert any("schedule" in r.turns[0] for r in resumed)
    assert any("tool_results" in r.turns[0] for r in resumed)
    for record in resumed[:: max(1, len(resumed) // 8)]:
        assert findings_of(record, tmp_path) == []


def findings_of(record: ExploredRun, folder: Path) -> list[str]:
    """Return what a scenario of the conversation finds: it says what each model answers."""
    data = {"scenario": "s", "pipeline": "asking", "turns": list(record.turns)}
    file = folder / "a.scenario.yaml"
    file.write_text(f"{PIPELINE}\n---\n{yaml.safe_dump(data)}", encoding="utf-8")
    library = Library()
    (item,) = items_in(str(file), library.cache)
    return [str(finding) for finding in simulate(library.prepared(item)).judgement.findings]
