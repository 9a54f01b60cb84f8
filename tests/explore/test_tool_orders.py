"""Tools of code begin in an order that the schedule chooses, and races between them are found."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any, Final

import pytest

from simkit.checks.judge import Outcome
from simkit.core.errors import SourceError
from simkit.explore.choices import Source
from simkit.explore.conversations import ExploredRun, converse, converse_by
from simkit.explore.scenarios import scenario_text, shows
from simkit.explore.search import Discovery
from simkit.explore.subjects import Subject, with_profile
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in
from simkit.trace.events import ToolCalled, ToolReturned
from tests.adapters.running import APPS, run_app
from tests.building import run_yaml
from tests.cli.projects import run_simkit
from tests.conftest import sample_by_day
from tests.explore.searching import search, search_all
from tests.explore.test_simulations import labels, subject_of
from tests.session.execution.test_cut_turns import describe_findings, ends, faults

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
def bank(cwd: Path) -> Path:
    pytest.importorskip("openai", reason="the environment of Google ADK has no other client")
    (cwd / "bank_app.py").write_text(BANK, encoding="utf-8")
    return cwd


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


ROOT: Final = Path(__file__).resolve().parents[2]
FRAMEWORKS: Final = {
    "langgraph": "langchain",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
    "google_adk": "google.adk.agents",
}
TOOL_RACES_SIMULATION: Final = """
version: 1
simulation: who chose a seat is charged for it
pipeline: <PIPELINE>
app: {path: ["<APPS>"]}
agents: {desk: {system: {$contains: You are the desk.}}}
users: {u: {says: Book.}}
turns: 1
models:
  desk:
    - {calls: <CALLS>, when: {messages: {$len: {$lte: 2}}}}
    - {text: Done., when: {messages: {$len: {$gt: 2}}}}
always: {reply: <REPLY>}
"""
SEAT: Final = "[choose_seat: {seat: 12A}, charge: {card: visa}]"


def cases() -> Iterator[Any]:
    """Each framework with its tools in threads and in tasks."""
    for framework in FRAMEWORKS:
        for way in ("threads", "tasks", "threads_of_tasks"):
            if (framework, way) != ("google_adk", "threads"):
                yield pytest.param(framework, way, id=f"{framework}-{way}")


def races_of(
    folder: Path, framework: str, way: str, calls: str = SEAT, reply: str = "12A 0"
) -> Subject:
    pytest.importorskip(FRAMEWORKS[framework])
    words = {
        "<PIPELINE>": f"booking_{framework}:{way}",
        "<APPS>": APPS.as_posix(),
        "<CALLS>": calls,
        "<REPLY>": reply,
    }
    text = TOOL_RACES_SIMULATION
    for mark, word in words.items():
        text = text.replace(mark, word)
    return subject_of(folder, text, pipeline="")


def written_file(discovery: Discovery, subject: Subject, folder: Path) -> tuple[Path, Outcome]:
    """The file that is written of a discovery, and what comes of it here."""
    file = folder / "kept.scenario.yaml"
    file.write_text(scenario_text(discovery, subject, folder, "simkit"), encoding="utf-8")
    return file, outcome_of(file)


def outcome_of(file: Path) -> Outcome:
    library = Library()
    (item,) = items_in(str(file), library.cache)
    return simulate(library.prepared(item))


def digest_in_new_process(file: Path, hash_seed: str) -> str:
    """The digest of a file's run in a process of its own."""
    words = ("replay", "--format", "json", str(file))
    done = run_simkit(*words, folder=ROOT, PYTHONHASHSEED=hash_seed)
    digest = re.search(r'"digest": "(\w+)"', done.out)
    assert digest is not None, done.out + done.err
    return digest[1]


@pytest.mark.slow
@pytest.mark.parametrize(("framework", "way"), sample_by_day(cases(), 2))
def test_the_races_profile_finds_tools_that_need_an_order(
    framework: str, way: str, tmp_path: Path
) -> None:
    subject = with_profile(races_of(tmp_path, framework, way), "races")

    campaign = search(partial(converse, subject), runs=20, turns_max=1, seed=0)

    (discovery,) = labels(campaign).values()
    schedule = discovery.record.turns[0]["schedule"]
    assert schedule == ["desk", "charge()", "choose_seat()"]
    file, outcome = written_file(discovery, subject, tmp_path)
    assert outcome.view.turns[0].reply == "nothing 0"
    if way == "tasks":  # A process for each framework is enough.
        assert outcome.trace.digest() == digest_in_new_process(file, hash_seed="7")


@pytest.mark.slow
@pytest.mark.parametrize(("framework", "way"), sample_by_day(cases(), 2))
def test_a_tool_may_wait_for_another_one_of_its_message(
    framework: str, way: str, tmp_path: Path
) -> None:
    """Whichever begins first: what waits is at rest, so that the other one is let go."""
    if (framework, way) == ("google_adk", "threads_of_tasks"):
        pytest.skip("a plain function that blocks the ADK's loop would wait for ever anywhere")
    subject = races_of(tmp_path, framework, way, "[wait: {}, signal: {}]", '"0"')
    orders = set()

    def run(source: Any) -> ExploredRun:
        record = converse_by(subject, source)
        orders.add(" ".join(map(str, record.turns[0].get("schedule", ()))))
        return record

    campaign = search_all(run, runs=20, turns_max=1)

    assert campaign.is_complete
    assert campaign.discoveries == ()
    assert {"desk wait() signal()", "desk signal() wait()"} <= orders


@pytest.mark.slow
@pytest.mark.parametrize("framework", [*FRAMEWORKS])
def test_an_update_that_is_lost_inside_tools_is_found(framework: str, tmp_path: Path) -> None:
    """Tools that begin together meet in the middle of their work."""
    looks = "[look: {place: Bern}, look: {place: Rome}]"
    subject = races_of(tmp_path, framework, "tasks", looks, '"2"')

    campaign = search_all(partial(converse_by, subject), runs=20, turns_max=1)

    (discovery,) = labels(campaign).values()
    assert discovery.record.turns[0]["schedule"] == ["desk", ["look()", "look()"]]
    _, outcome = written_file(discovery, subject, tmp_path)
    assert outcome.view.turns[0].reply == "1"


@pytest.mark.slow
@pytest.mark.parametrize("framework", [*FRAMEWORKS])
def test_results_of_the_scenario_come_in_the_order_that_a_turn_lists(
    framework: str, tmp_path: Path
) -> None:
    pytest.importorskip(FRAMEWORKS[framework])
    text = f"""
version: 1
scenario: s
pipeline: booking_{framework}:tasks
app: {{path: ["{APPS.as_posix()}"]}}
agents: {{desk: {{system: {{$contains: You are the desk.}}}}}}
turns:
  - user: Hi
    replies: {{desk: [{{calls: [choose_seat: {{seat: 1A}}, look: {{place: Bern}}]}}, Done.]}}
    tool_results: {{choose_seat: one, look: two}}
    schedule: [desk, look(), choose_seat()]
    expect:
      events:
        $in_order:
          - {{kind: ToolReturned, tool: look, result: two}}
          - {{kind: ToolReturned, tool: choose_seat, result: one}}
"""
    file = tmp_path / "t.scenario.yaml"
    file.write_text(text, encoding="utf-8")

    assert [str(finding) for finding in outcome_of(file).judgement.findings] == []


@pytest.mark.slow
@pytest.mark.parametrize("framework", [*FRAMEWORKS])
@pytest.mark.parametrize("way", ["tasks", "threads_of_tasks"])
@pytest.mark.parametrize("key", ["cancel", "crash"])
@pytest.mark.parametrize("at", ["start", "end"])
def test_a_tool_that_a_framework_calls_is_where_a_turn_ends(
    framework: str, way: str, key: str, at: str, tmp_path: Path
) -> None:
    pytest.importorskip(FRAMEWORKS[framework])
    ran = run_app(
        f"booking_{framework}:{way}",
        f"""
        app: {{path: ["{APPS.as_posix()}"]}}
        agents: {{desk: {{system: {{$contains: You are the desk.}}}}}}
        turns:
          - user: Book.
            replies: {{desk: {{calls: [choose_seat: {{seat: 12A}}]}}}}
            {key}: {{tool: choose_seat, at: {at}}}
        """,
        tmp_path,
    )

    assert describe_findings(ran) == []
    assert ends(ran) == ["ProcessCrashed" if key == "crash" else "TurnCancelled"]
    start = "the end of " if at == "end" else ""
    assert faults(ran) == [f"{key} at {start}call 1 of choose_seat()"]
    goes_on = key == "cancel" and (framework, way) == ("langgraph", "threads_of_tasks")
    called = ["ToolCalled choose_seat"] if at == "end" or goes_on else []
    tool_events = [
        f"{type(event).__name__} {event.tool}"
        for event in ran.trace.events
        if isinstance(event, (ToolCalled, ToolReturned))
    ]
    assert tool_events == [*called, *(["ToolReturned choose_seat"] if goes_on else [])]
