"""Calls that wait are answered together, too: code that gives way for no time meets only then."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import pytest

from simkit.explore.conversations import converse, converse_by
from tests.adapters.running import run_app
from tests.building import run_yaml
from tests.explore.searching import search, search_all
from tests.explore.test_simulations import replayed, subject_of

ADDS: Final = """
import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import openai

plain = openai.OpenAI(api_key="k")
tasks = openai.AsyncOpenAI(api_key="k")
total = {"sum": 0}
lock = None
thread_lock = threading.Lock()


def messages(agent):
    return [{"role": "system", "content": f"You are {agent}."}]


async def update(amount):
    old = total["sum"]
    await asyncio.sleep(0)
    total["sum"] = old + amount


async def add(agent, amount):
    await tasks.chat.completions.create(model="m", messages=messages(agent))
    await update(amount)


async def add_locked(agent, amount):
    await tasks.chat.completions.create(model="m", messages=messages(agent))
    async with lock:
        await update(amount)


async def add_by_queue(agent, amount):
    await tasks.chat.completions.create(model="m", messages=messages(agent))
    queue = asyncio.Queue()
    queue.put_nowait(total["sum"])
    done = asyncio.get_running_loop().create_task(queue.get())
    total["sum"] = await done + amount


def add_in_thread(agent, amount):
    plain.chat.completions.create(model="m", messages=messages(agent))
    old = total["sum"]
    time.sleep(0)
    total["sum"] = old + amount


def add_in_locked_thread(agent, amount):
    plain.chat.completions.create(model="m", messages=messages(agent))
    with thread_lock:
        old = total["sum"]
        time.sleep(0)
        total["sum"] = old + amount


async def gathered(add):
    global lock
    lock, total["sum"] = asyncio.Lock(), 0
    await asyncio.gather(add("a", 1), add("b", 2))
    return str(total["sum"])


async def gather(text):
    return await gathered(add)


async def locks(text):
    return await gathered(add_locked)


async def queues(text):
    return await gathered(add_by_queue)


async def group(text):
    total["sum"] = 0
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(add("a", 1))
        tasks.create_task(add("b", 2))
    return str(total["sum"])


async def threads_of_a_loop(text):
    total["sum"] = 0
    await asyncio.gather(
        asyncio.to_thread(add_in_thread, "a", 1), asyncio.to_thread(add_in_thread, "b", 2)
    )
    return str(total["sum"])


def in_pool(add):
    total["sum"] = 0
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(add, "ab", (1, 2)))
    return str(total["sum"])


def pool(text):
    return in_pool(add_in_thread)


def locked_pool(text):
    return in_pool(add_in_locked_thread)


def graph(is_async):
    from langgraph.graph import END, START, StateGraph

    def node(agent, amount):
        async def task(state):
            await add(agent, amount)

        def thread(state):
            add_in_thread(agent, amount)

        return task if is_async else thread

    builder = StateGraph(dict)
    for agent, amount in (("a", 1), ("b", 2)):
        builder.add_node(agent, node(agent, amount))
        builder.add_edge(START, agent)
        builder.add_edge(agent, END)
    return builder.compile()


async def async_nodes(text):
    total["sum"] = 0
    await graph(True).ainvoke({"text": text})
    return str(total["sum"])


def sync_nodes(text):
    total["sum"] = 0
    graph(False).invoke({"text": text})
    return str(total["sum"])
"""
SIMULATION: Final = """
simulation: no update is lost
pipeline: adds:NAME
turns: 1
app: {path: [.]}
agents: {a: {system: You are a.}, b: {system: You are b.}}
users: {u: {says: Hello.}}
models: {a: A, b: B}
always: {reply: "3"}
"""
LOSES: Final = ("gather", "queues", "group", "threads_of_a_loop", "pool")
GRAPHS: Final = tuple(
    pytest.param(name, marks=pytest.mark.slow) for name in ("async_nodes", "sync_nodes")
)


@pytest.fixture
def adds(cwd: Path) -> Path:
    pytest.importorskip("openai", reason="the environment of Google ADK has no other client")
    (cwd / "adds.py").write_text(ADDS, encoding="utf-8")
    return cwd


@pytest.mark.slow
@pytest.mark.parametrize("name", [*LOSES, *GRAPHS])
def test_an_update_that_is_lost_over_an_await_of_no_time_is_found(name: str, adds: Path) -> None:
    if name.endswith("nodes"):
        pytest.importorskip("langgraph")
    subject = subject_of(adds, "", pipeline=SIMULATION.replace("NAME", name))

    campaign = search_all(partial(converse_by, subject), runs=50, turns_max=1)

    assert (campaign.runs, campaign.is_complete) == (3, True)
    (discovery,) = campaign.discoveries
    assert discovery.runs == 1
    assert discovery.record.turns[0]["schedule"] == [["a", "b"]]
    assert replayed(discovery, subject, adds) == {discovery.cause}
    drawn = search(partial(converse, subject), runs=12, turns_max=1, seed=0)
    assert [each.cause for each in drawn.discoveries] == [discovery.cause]


@pytest.mark.parametrize("name", ["locks", "locked_pool"])
def test_code_that_locks_loses_nothing(name: str, adds: Path) -> None:
    subject = subject_of(adds, "", pipeline=SIMULATION.replace("NAME", name))

    campaign = search_all(partial(converse_by, subject), runs=50, turns_max=1)

    assert (campaign.runs, campaign.is_complete, campaign.discoveries) == (3, True, ())


RULES: Final = """
app: {path: [.]}
agents: {a: {system: You are a.}, b: {system: You are b.}}
turns: [{user: Hi, replies: {a: A, b: B}, schedule: ORDER}]
"""


@pytest.mark.parametrize(
    ("order", "reply"),
    [("[a, b]", "3"), ("[b, a]", "3"), ("[[a, b]]", "2"), ("[[b, a]]", "1"), ("[[a], b]", "3")],
)
def test_a_turn_lists_calls_that_are_answered_together(order: str, reply: str, adds: Path) -> None:
    ran = run_app("adds:gather", RULES.replace("ORDER", order), adds)

    assert (ran.judgement.findings, ran.view.turns[0].reply) == ((), reply)


def test_a_call_of_a_group_that_does_not_wait_is_found_at_its_place(adds: Path) -> None:
    ran = run_app("adds:gather", RULES.replace("ORDER", "[[a, a]]"), adds, fits=False)

    (finding,) = (finding for finding in ran.judgement.findings if "answers 'a'" in finding.what)
    assert finding.path == ("turns", 0, "schedule", 0, 1)


def test_a_declared_pipeline_answers_a_group_one_after_the_other() -> None:
    ran = run_yaml(
        "pipeline: p\nagents: {a: {instructions: A.}, b: {instructions: B.}}\n"
        "flow: {graph: {nodes: {s: {agent: a, start: true, role: split}, a: {exit: true}, "
        "b: {exit: true}}, edges: [{from: s, to: a}, {from: s, to: b}]}}\n",
        "turns: [{user: Hi, replies: {s: S, a: A, b: B}, schedule: [s, [b, a]]}]",
    )

    assert ran.judgement.findings == ()
