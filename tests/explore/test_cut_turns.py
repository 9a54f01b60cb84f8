"""Simulations cancel turns and end processes in them; what breaks is kept as a scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from simkit.core.errors import SourceError
from simkit.explore.choices import ODDS, Plan, Source, TurnPlan
from simkit.explore.conversations import ExploredRun, converse, converse_by
from simkit.explore.scenarios import scenario_text, shows
from simkit.explore.search import Discovery
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in
from tests.explore.searching import search_all
from tests.explore.test_simulations import campaign_of, labels, subject_of

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
def test_what_a_cancelled_turn_leaves_behind_is_found_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("locked_desk.py").write_text(LOCKED, encoding="utf-8")
    subject = subject_of(tmp_path, OF_CODE, pipeline="")

    causes = labels(campaign_of(subject, runs=120))

    (discovery,) = (each for name, each in causes.items() if "RuntimeError" in name)
    file = tmp_path / "found.scenario.yaml"
    file.write_text(scenario_text(discovery, subject, tmp_path, "c"), encoding="utf-8")
    library = Library()
    (item,) = items_in(str(file), library.cache)
    turns: list[dict[str, Any]] = library.documents(str(file))[item.index].data["turns"]
    assert [turn.get("cancel") for turn in turns] == [{"call": 1}, None]
    assert shows(file, discovery.cause)


def test_a_misspelt_fault_is_told(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="unknown fault `canceled_turn`") as caught:
        subject_of(tmp_path, "faults: {canceled_turn: 0.1}\n")

    assert caught.value.near == "cancelled_turn"
