"""Saves of a graph's checkpointer: at once, in the thread of the graph."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("langgraph") is None:
    pytest.skip("langgraph is not installed", allow_module_level=True)

from tests.adapters.running import run_app

SAVING = """
import threading
from typing import TypedDict
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph

SAVED = []

class Saver(InMemorySaver):
    def put(self, config, checkpoint, metadata, versions):
        SAVED.append(threading.current_thread().name)
        if checkpoint["channel_values"].get("words") == "fail 1":
            raise OSError("the disk is full")
        return super().put(config, checkpoint, metadata, versions)

class State(TypedDict, total=False):
    words: str
    saves: int
    threads: list[str]

def first(state):
    return {"words": state["words"] + " 1"}

def second(state):
    return {"saves": len(SAVED), "threads": sorted({*SAVED} - {threading.current_thread().name})}

def graph():
    SAVED.clear()
    built = StateGraph(State)
    built.add_sequence([first, second])
    built.add_edge(START, "first")
    built.add_edge("second", END)
    return built.compile(checkpointer=Saver())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "saving_graph.py").write_text(SAVING)
    return tmp_path


def test_a_step_is_saved_in_its_own_thread_before_the_next_one_begins(folder: Path) -> None:
    ran = run_app(
        "saving_graph:graph",
        """
        app: {path: [.], input: {words: "${user}"}, output: words}
        turns: [{user: hello, expect: {reply: hello 1, state: {saves: 3, threads: []}}}]
        """,
        folder,
    )

    assert [finding.what for finding in ran.judgement.findings] == []


def test_a_save_that_fails_ends_the_turn_with_its_error(folder: Path) -> None:
    ran = run_app(
        "saving_graph:graph",
        """
        app: {path: [.], input: {words: "${user}"}, output: words}
        turns:
          - {user: fail, expect: {error: {type: FunctionFailed, message: {$contains: is full}}}}
        """,
        folder,
    )

    assert [finding.what for finding in ran.judgement.findings] == []


THREAD_BOUND = """
import sqlite3
from typing import TypedDict
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph

class State(TypedDict, total=False):
    words: str

def compiled(**options):
    built = StateGraph(State)
    built.add_node("work", lambda state: {"words": state["words"] + " 1"})
    built.add_edge(START, "work")
    return built.compile(checkpointer=SqliteSaver(sqlite3.connect(":memory:", **options)))

bound, free = compiled(), compiled(check_same_thread=False)
"""


@pytest.mark.skipif(
    find_spec("langgraph.checkpoint.sqlite") is None, reason="the SQLite saver is not installed"
)
def test_a_connection_for_one_thread_alone_fails_as_it_does_elsewhere(tmp_path: Path) -> None:
    """LangGraph saves in a thread of its own, for which SQLite refuses such a connection."""
    (tmp_path / "thread_bound.py").write_text(THREAD_BOUND)
    turn = "app: {path: [.], input: {words: '${user}'}, output: words}\nturns: [{user: hello}]"

    for _ in range(2):
        ran = run_app("thread_bound:bound", turn, tmp_path)
        (finding,) = ran.judgement.findings
        assert "SQLite objects created in a thread" in finding.what
        assert run_app("thread_bound:free", turn, tmp_path).turn().reply == "hello 1"


LOOPED = """
import asyncio
from typing import TypedDict
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

class State(TypedDict, total=False):
    words: str

class Saver(InMemorySaver):
    def put(self, *args):
        async def save():
            return InMemorySaver.put(self, *args)

        return asyncio.run(save())

built = StateGraph(State)
built.add_node("work", lambda state: {"words": state["words"] + " 1"})
built.add_edge(START, "work")
graph = built.compile(checkpointer=Saver())

async def answer(text):
    return graph.invoke({"words": text}, {"configurable": {"thread_id": "1"}})["words"]
"""


def test_a_save_may_run_a_loop_of_its_own_where_the_graph_blocks_a_loop(tmp_path: Path) -> None:
    (tmp_path / "looped_save.py").write_text(LOOPED)

    ran = run_app(
        "looped_save:answer",
        "app: {path: [.]}\nturns: [{user: hello, expect: {reply: hello 1}}]",
        tmp_path,
    )

    assert [finding.what for finding in ran.judgement.findings] == []
