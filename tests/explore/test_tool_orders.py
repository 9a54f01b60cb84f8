"""Tools that wait at the same time are answered in an order that the schedule chooses."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any, Final

import pytest

from simkit.core.errors import SourceError
from simkit.explore.choices import Source
from simkit.explore.conversations import ExploredRun, converse_by
from simkit.explore.scenarios import scenario_text, shows
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in
from tests.building import run_yaml
from tests.explore.searching import search_all
from tests.explore.test_simulations import labels, subject_of

DESK: Final = """
pipeline: p
channels: {used: {reducer: append, scope: session}}
agents:
  desk: {instructions: Help., tools: [look, pay, tell], writes: {used: ["${run.tools_called}"]}}
tools: {look: {}, pay: {}, tell: {}}
flow: {handoffs: {start: desk}}
"""
THREE: Final = "[{calls: [look: {}, pay: {}, tell: {}]}, Done.]"
SIMULATION: Final = """
---
simulation: three tools
pipeline: p
turns: 1
users: {u: {says: Hello.}}
models:
  desk:
    - {calls: [look: {}, pay: {}, tell: {}], when: {messages: {$len: {$lte: 2}}}}
    - {text: Done., when: {messages: {$len: {$gt: 2}}}}
tools: {look: {returns: 1}, pay: {returns: 2}, tell: {returns: 3}}
"""


def answered(record: ExploredRun) -> str:
    """The order of a turn's answers, models left out."""
    names = record.turns[0].get("schedule", ())
    return " ".join(name for name in names if name.endswith("()"))


def orders_of(subject: Any, runs: int = 2_000) -> Counter[str]:
    """How often each order of the first message's tools was run, each conversation once."""
    orders: Counter[str] = Counter()

    def run(source: Source) -> ExploredRun:
        record = converse_by(subject, source)
        orders[answered(record)] += 1
        return record

    campaign = search_all(run, runs=runs, turns_max=1)
    assert campaign.is_complete
    assert not campaign.discoveries
    return orders


def test_every_order_of_the_tools_of_one_message_is_taken(tmp_path: Path) -> None:
    orders = orders_of(subject_of(tmp_path, SIMULATION, pipeline=DESK))

    # The last of three calls that wait is no choice, but it stands in the list.
    names = ("look()", "pay()", "tell()")
    assert orders == Counter(" ".join(order) for order in permutations(names))


@pytest.mark.parametrize(
    ("schedule", "order"),
    [
        ("", ["look", "pay", "tell"]),
        ("schedule: [desk]", ["look", "pay", "tell"]),
        ("schedule: [desk, tell(), look()]", ["tell", "look", "pay"]),
        ("schedule: [desk, pay(), tell(), look(), desk]", ["pay", "tell", "look"]),
    ],
)
def test_a_turn_lists_the_order_of_its_tools(schedule: str, order: list[str]) -> None:
    ran = run_yaml(
        DESK,
        f"""
        turns:
          - user: Hi
            replies: {{desk: {THREE}}}
            tool_results: {{look: 1, pay: 2, tell: 3}}
            {schedule}
            expect: {{tool_calls: [{{tool: look}}, {{tool: pay}}, {{tool: tell}}]}}
        """,
    )

    assert ran.judgement.passed
    assert ran.state("used") == [order]
    # What the model is sent has the order of its calls all the same.
    assert [call.result for call in ran.view.turns[0].tools] == [1, 2, 3]


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        ("desk, pai()", "unknown tool `pai`"),
        ("desk, pay", "unknown agent `pay`"),
        ("desk, pay(), pay()", "answers 'pay()' as call 3, but no call of it waits then; look()"),
    ],
)
def test_a_wrong_order_is_told(names: str, problem: str) -> None:
    turn = f"user: Hi, replies: {{desk: {THREE}}}, tool_results: {{look: 1, pay: 2, tell: 3}}"
    with pytest.raises(SourceError) as caught:
        run_yaml(DESK, f"turns:\n  - {{{turn}, schedule: [{names}]}}")

    assert problem in str(caught.value)


BANK: Final = '''
import asyncio
from concurrent.futures import ThreadPoolExecutor

import openai

client = openai.AsyncOpenAI(api_key="sk-test")
account = {"balance": 0}


async def fee(order):
    raise RuntimeError("the real one")


def charge(order):
    raise RuntimeError("the real one")


async def book(order):
    """Loses an update if another booking ends while the fee is asked for."""
    balance = account["balance"]
    amount = await fee(order)
    account["balance"] = balance + amount


async def run(text):
    account["balance"] = 0
    messages = [{"role": "system", "content": "You are the desk."}]
    messages.append({"role": "user", "content": text})
    await client.chat.completions.create(model="gpt-5-mini", messages=messages)
    await asyncio.gather(book("a"), book("b"))
    return str(account["balance"])


def threads(text):
    said = []
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda order: said.append(charge(order)), ["a", "b"]))
    return str(said)
'''
OF_CODE: Final = """
version: 1
simulation: no booking is lost
pipeline: bank_app:run
app: {path: [.], tools: {fee: "bank_app:fee"}}
agents: {desk: {system: You are the desk.}}
models: {desk: Hello.}
tools: {fee: {returns: 1}}
users: {u: {says: Hello.}}
turns: 1
always: {reply: "2"}
"""


@pytest.fixture
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "bank_app.py").write_text(BANK, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_lost_update_around_a_tool_of_code_is_found_and_kept(bank: Path) -> None:
    subject = subject_of(bank, OF_CODE, pipeline="")

    campaign = search_all(partial(converse_by, subject), runs=20, turns_max=1)

    (discovery,) = labels(campaign).values()
    assert discovery.record.turns[0]["schedule"] == ["desk", "fee()", "fee()"]
    file = bank / "kept.scenario.yaml"
    file.write_text(scenario_text(discovery, subject, bank, "simkit"), encoding="utf-8")
    assert shows(file, discovery.cause)
    # Tools that are answered at once hide it.
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("schedule: [desk, fee(), fee()]", "schedule: [desk]"))
    library = Library()
    (item,) = items_in(str(file), library.cache)
    assert simulate(library.prepared(item)).judgement.passed


def test_tools_in_threads_wait_for_each_other(bank: Path) -> None:
    text = """
version: 1
scenario: s
pipeline: bank_app:threads
app: {path: [.], tools: {charge: "bank_app:charge"}}
turns:
  - user: Hi
    tool_results: {charge: [1, 2]}
    schedule: ["charge()[1]", charge()]
    expect:
      tool_calls:
        - {tool: charge, args: {order: b}, result: 1}
        - {tool: charge, args: {order: a}, result: 2}
"""
    file = bank / "t.scenario.yaml"
    file.write_text(text, encoding="utf-8")
    library = Library()
    (item,) = items_in(str(file), library.cache)

    assert [str(finding) for finding in simulate(library.prepared(item)).judgement.findings] == []


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        ('["fee()"]', "but no call of it waits then; desk waits."),
        ('[desk, "fee()"]', "but no call of it waits then; desk waits."),
        ('[desk, desk, "fee()"]', "made 2: fee() did not wait for an answer."),
    ],
)
def test_a_tool_that_does_not_wait_is_told(schedule: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "t.scenario.yaml"
    file.write_text(
        "pipeline: p\nagents: {desk: {instructions: Help., tools: [fee]}}\n"
        "tools: {fee: {args: {type: object}}}\nflow: {handoffs: {start: desk}}\n---\n"
        "scenario: s\npipeline: p\nturns:\n  - user: Hi\n"
        "    replies: {desk: [{calls: {fee: {}}}, Done.]}\n    tool_results: {fee: 1}\n"
        f"    schedule: {schedule}\n",
        encoding="utf-8",
    )
    library = Library()
    (item,) = items_in(str(file), library.cache)

    words = str(simulate(library.prepared(item)).judgement.findings[0].what)

    assert problem in words
    assert "a tool waits only beside others" in words


@pytest.mark.parametrize("schedule", ["['pay()']", "['charge()', 'charge()', 'pay()']"])
def test_a_tool_of_code_that_does_not_wait_has_advice_of_its_own(schedule: str, bank: Path) -> None:
    file = bank / "t.scenario.yaml"
    file.write_text(
        "scenario: s\npipeline: bank_app:threads\n"
        'app: {path: [.], tools: {charge: "bank_app:charge", pay: "bank_app:fee"}}\n'
        f"turns: [{{user: Hi, tool_results: {{charge: [1, 2]}}, schedule: {schedule}}}]\n",
        encoding="utf-8",
    )
    library = Library()
    (item,) = items_in(str(file), library.cache)

    words = str(simulate(library.prepared(item)).judgement.findings[0].what)

    assert words.endswith("or the tool is under `app: {tools: …}`.")
    assert "declared pipeline" not in words
