"""Turns that their user cancels, or in which the process ends, natively and in code."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from simkit.core.errors import SourceError
from simkit.trace.events import AgentFinished, CheckpointRestored, FaultInjected, TurnFinished
from tests.adapters.running import run_app
from tests.building import Ran, run_yaml

DESK: Final = """
version: 1
pipeline: p
channels:
  messages: {reducer: append, scope: session}
  open: {reducer: append, scope: session}
  refunds: {reducer: append, scope: project}
agents:
  desk:
    instructions: You are the desk.
    context: [instructions, history, current_message]
    writes: {messages: ["${run.final_message}"]}
  billing:
    instructions: You refund.
    handoffs: []
    context: [instructions, history, current_message]
    writes: {messages: ["${run.final_message}"], refunds: ["${run.reply}"]}
contracts: [{from: desk, to: billing, writes: {open: [refund]}}]
flow: {handoffs: {start: desk}}
"""
TURNS: Final = """
turns:
  - user: Refund me.
    replies: {desk: {handoff: {to: billing}}, billing: Never said.}
    <CUT>
    expect: {agents: [desk, billing], state: {open: [refund], refunds: []}, reply: null}
  - user: Refund me, please.
    replies: {desk: {handoff: {to: billing}}, billing: Done.}
    expect:
      reply: Done.
      state: {open: [refund, refund], refunds: [Done.]}
      context: {desk: {includes: [Refund me., "Refund me, please."]}}
"""


def run_code(pipeline: str, scenario: str) -> Ran:
    return run_app(pipeline, scenario, Path.cwd())


def describe_findings(ran: Ran) -> list[str]:
    failing = (finding for finding in ran.judgement.findings if finding.severity == "E")
    return [f"{finding.id}: {finding.what}" for finding in failing]


def ends(ran: Ran) -> list[str]:
    """The type of the error of each turn's end."""
    errors = [event.error for event in ran.trace.events if isinstance(event, TurnFinished)]
    return [error.type if error is not None else "" for error in errors]


def faults(ran: Ran) -> list[str]:
    return [event.fault for event in ran.trace.events if isinstance(event, FaultInjected)]


@pytest.mark.parametrize(
    ("cut", "end", "words"),
    [
        ("cancel: {agent: billing}", "TurnCancelled", "cancel at call 1 of billing"),
        ("cancel: {call: 2}", "TurnCancelled", "cancel at call 2"),
        ("crash: {agent: billing, call: 1}", "ProcessCrashed", "crash at call 1 of billing"),
    ],
)
def test_what_was_written_before_the_end_is_there_in_the_next_turn(
    cut: str, end: str, words: str
) -> None:
    ran = run_yaml(DESK, TURNS.replace("<CUT>", cut))

    assert describe_findings(ran) == []
    assert (ends(ran), faults(ran)) == ([end, ""], [words])
    runs = [event.status for event in ran.trace.events if isinstance(event, AgentFinished)]
    assert runs == ["handed_off", "cancelled", "handed_off", "done"]


def test_only_after_a_crash_another_process_goes_on() -> None:
    def restored(cut: str) -> int:
        events = run_yaml(DESK, TURNS.replace("<CUT>", cut)).trace.events
        return sum(isinstance(event, CheckpointRestored) for event in events)

    assert restored("cancel: {call: 2}") == 0
    assert restored("crash: {call: 2}") == 1


def test_an_end_is_no_error_to_claim_but_may_be_claimed() -> None:
    cut = "cancel: {call: 1}\n    expect: {error: TurnCancelled}"
    wrong = "cancel: {call: 1}\n    expect: {error: ProcessCrashed}"
    turn = "turns: [{user: Hi, replies: {desk: Never.}, <CUT>}]"

    assert describe_findings(run_yaml(DESK, turn.replace("<CUT>", "cancel: {call: 1}"))) == []
    assert (
        describe_findings(run_yaml(DESK, turn.replace("<CUT>", cut.replace("\n    ", ", ")))) == []
    )
    assert describe_findings(run_yaml(DESK, turn.replace("<CUT>", wrong.replace("\n    ", ", "))))


def test_another_error_before_the_end_fails() -> None:
    failing = "turns: [{user: Hi, replies: {desk: {error: timeout}}, cancel: {call: 2}}]"

    (finding,) = describe_findings(run_yaml(DESK, failing))

    assert "ended with error timeout" in finding


def test_parallel_agents_end_together() -> None:
    pipeline = """
    version: 1
    pipeline: p
    agents: {first: {instructions: Go.}, a: {instructions: A.}, b: {instructions: B.}}
    flow: {router: {decide: first, to: [a, b]}}
    """
    turns = """
    turns:
      - user: Hi
        replies: {first: Go., a: A, b: B}
        cancel: {agent: b}
      - {user: Hi, replies: {first: Go., a: A, b: B}}
    """

    ran = run_yaml(pipeline, turns)

    assert (describe_findings(ran), ends(ran)) == ([], ["TurnCancelled", ""])


@pytest.mark.parametrize(
    ("cut", "problem"),
    [
        ("cancel: {call: 3}", "turn 1 ended before its `cancel`, call 3: its model calls were 1 of "
         "desk, 1 of billing.\nName a call that it makes."),
        ("crash: {agent: desk, call: 2}", "turn 1 ended before its `crash`, call 2 of desk"),
        ("cancel: {agent: biling}", "unknown agent `biling`"),
        ("cancel: {call: 0}", "must be"),
        ("cancel: {cal: 1}", "unknown key of a moment `cal`"),
        ("cancel: {call: 1}\n    crash: {call: 1}", "a turn is cancelled or crashes, not both"),
    ],
)  # fmt: skip
def test_a_moment_that_is_none_is_told(cut: str, problem: str) -> None:
    with pytest.raises(SourceError) as caught:
        run_yaml(DESK, TURNS.replace("<CUT>", cut))

    assert problem in str(caught.value)


def test_a_crash_needs_a_store_that_outlives_the_process() -> None:
    with pytest.raises(SourceError) as caught:
        run_yaml(f"{DESK}store: memory\n", TURNS.replace("<CUT>", "crash: {call: 2}"))

    assert "has `store: memory`, which ends with its process" in str(caught.value)
    assert caught.value.at == "turns[0].crash"


CODE: Final = """
import asyncio
import openai

refunds, seen = [], []
client = openai.AsyncOpenAI(api_key="sk-test")


def request(agent, text):
    messages = [{"role": "system", "content": f"You are the {agent}."}]
    return {"model": "gpt-5-mini", "messages": [*messages, {"role": "user", "content": text}]}


async def ask(agent, text):
    answer = await client.chat.completions.create(**request(agent, text))
    return answer.choices[0].message.content


async def run(text):
    try:
        refunds.append(await ask("desk", text))
        parts = await asyncio.gather(ask("billing", text), ask("writer", text))
        return f"{parts} {len(refunds)} {seen}"
    except asyncio.CancelledError:
        seen.append("cancelled")
        raise


async def stubborn(text):
    try:
        return await ask("desk", text)
    except asyncio.CancelledError:
        return await ask("billing", text)


async def failing(text):
    try:
        return await ask("desk", text)
    except asyncio.CancelledError:
        return {}["half"]


def sync(text):
    client = openai.OpenAI(api_key="sk-test")
    for agent in ("desk", "billing"):
        try:
            said = client.chat.completions.create(**request(agent, text)).choices[0].message.content
        except Exception as problem:
            said = repr(problem)
        seen.append(said)
    return str(seen)


async def threaded(text):
    return await asyncio.to_thread(sync, text)


async def grouped(text):
    async with asyncio.TaskGroup() as group:
        for agent in ("desk", "billing"):
            group.create_task(ask(agent, text))
"""
AGENTS: Final = """
    app: {path: [.]}
    agents: {desk: {system: You are the desk.}, billing: {system: You are the billing.},
             writer: {system: You are the writer.}}
"""


@pytest.fixture
def code(cwd: Path) -> Path:
    (cwd / "cut_app.py").write_text(CODE, encoding="utf-8")
    return cwd


@pytest.mark.usefixtures("code")
@pytest.mark.parametrize("schedule", ["", "schedule: random\n"])
def test_the_task_of_a_turn_is_cancelled_where_it_waits(schedule: str) -> None:
    ran = run_code(
        "cut_app:run",
        f"""{AGENTS}
    {schedule}
    turns:
      - user: Refund me.
        replies: {{desk: Ok., billing: "Yes."}}
        cancel: {{agent: writer}}
      - user: Again.
        replies: {{desk: Ok., billing: "Yes.", writer: W.}}
        expect: {{reply: "['Yes.', 'W.'] 2 ['cancelled']"}}
        """,
    )

    assert (describe_findings(ran), ends(ran)) == ([], ["TurnCancelled", ""])


@pytest.mark.usefixtures("code")
def test_what_the_cancellation_does_not_reach_is_answered() -> None:
    """A thread goes on; code that takes the cancellation asks once more."""
    turns = """
    turns:
      - user: Go.
        replies: {desk: D, billing: B}
        cancel: {agent: desk}
      - {user: Go., replies: {desk: D, billing: B}, expect: {reply: <REPLY>}}
    """
    both = "\"['D', 'B', 'D', 'B']\""
    threaded = run_code("cut_app:threaded", AGENTS + turns.replace("<REPLY>", both))
    stubborn = run_code(
        "cut_app:stubborn",
        AGENTS
        + turns.replace("replies: {desk: D, billing: B}, exp", "replies: {desk: D}, exp")
        .replace("replies: {desk: D, billing: B}", "replies: {billing: B}")
        .replace("<REPLY>", "D"),
    )

    assert (describe_findings(threaded), ends(threaded)) == ([], ["TurnCancelled", ""])
    assert (describe_findings(stubborn), ends(stubborn)) == ([], ["TurnCancelled", ""])


@pytest.mark.usefixtures("code")
def test_an_error_of_the_code_that_is_cancelled_fails() -> None:
    cut = "turns: [{user: Go., cancel: {call: 1}}]"

    (finding,) = describe_findings(run_code("cut_app:failing", f"{AGENTS}\n    {cut}"))

    assert "KeyError" in finding


@pytest.mark.usefixtures("code")
def test_sync_code_cannot_be_cancelled_but_its_process_may_end() -> None:
    turn = "turns: [{user: Go., replies: {desk: D}, <CUT>: {agent: billing}}]"
    crash = run_code("cut_app:sync", f"{AGENTS}\n    {turn.replace('<CUT>', 'crash')}")
    with pytest.raises(SourceError) as caught:
        run_code("cut_app:sync", f"{AGENTS}\n    {turn.replace('<CUT>', 'cancel')}")

    assert (describe_findings(crash), ends(crash)) == ([], ["ProcessCrashed"])
    assert "turn 1 cannot be cancelled: no task of asyncio runs it" in str(caught.value)


@pytest.mark.usefixtures("code")
def test_the_process_ends_also_in_a_group_of_tasks() -> None:
    turn = "turns: [{user: Go., replies: {desk: D, billing: B}, crash: {call: 2}}]"

    crash = run_code("cut_app:grouped", f"{AGENTS}\n    {turn}")

    assert (describe_findings(crash), ends(crash)) == ([], ["ProcessCrashed"])


GRAPH: Final = """
import operator
from typing import Annotated, TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

from cut_saver import saver

model = ChatOpenAI(model="gpt-5-mini", api_key="sk-test")


class State(TypedDict):
    messages: Annotated[list, operator.add]
    paid: Annotated[list, operator.add]


async def pay(state):
    return {"paid": [(await model.ainvoke(state["messages"][-1])).content]}


async def tell(state):
    return {"messages": [(await model.ainvoke(state["messages"][-1])).content]}


builder = StateGraph(State)
builder.add_node("pay", pay)
builder.add_node("tell", tell)
builder.add_edge(START, "pay")
builder.add_edge("pay", "tell")
builder.add_edge("tell", END)
graph = builder.compile(checkpointer=saver)
"""


@pytest.mark.slow
@pytest.mark.parametrize("cut", ["cancel", "crash"])
def test_a_graph_that_ends_between_two_nodes_has_written_the_first(code: Path, cut: str) -> None:
    pytest.importorskip("langgraph")
    saver = "from langgraph.checkpoint.memory import MemorySaver\nsaver = MemorySaver()\n"
    (code / "cut_saver.py").write_text(saver, encoding="utf-8")
    (code / f"cut_graph_{cut}.py").write_text(GRAPH, encoding="utf-8")

    ran = run_code(
        f"cut_graph_{cut}:graph",
        f"""
        app: {{path: [.], input: {{messages: ["${{user}}"]}}}}
        turns:
          - user: Pay.
            replies: {{pay: once}}
            {cut}: {{agent: tell}}
            expect: {{state: {{paid: [once]}}}}
          - user: Pay.
            replies: {{pay: twice, tell: Paid.}}
            expect: {{state: {{paid: [once, twice]}}}}
        """,
    )

    assert describe_findings(ran) == []
