"""A run that is over leaves nothing of itself in memory, whatever framework it was on."""

from __future__ import annotations

import gc
import sys
import weakref
from pathlib import Path
from typing import Any, Final

import pytest

from simkit.adapters.recorder.trace import TraceRecorder
from simkit.session.simulate import simulate
from tests.adapters.running import prepared

ONE_TURN: Final = "turns: [{user: Hello, replies: {AGENT: Hi}}]"
LANGGRAPH = """
from typing import Annotated, TypedDict
from langchain_openai import ChatOpenAI
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

class Talk(TypedDict):
    messages: Annotated[list, add_messages]

def answer(talk):
    return {"messages": [ChatOpenAI(model="m", api_key="k").invoke(talk["messages"])]}

graph = StateGraph(Talk).add_node("a", answer).add_edge(START, "a").compile()
"""
AGENTS = """
from agents import Agent
agent = Agent(name="a", instructions="Answer.")
"""
PYDANTIC_AI = """
from pydantic_ai import Agent
agent = Agent("openai:gpt-5", name="a", instructions="Answer.")
"""
ADK = """
from google.adk.agents import LlmAgent
agent = LlmAgent(name="a", model="gemini-2.5-flash", instruction="Answer.")
"""
CLIENT = """
from openai import OpenAI

def ask(text):
    client = OpenAI(api_key="k")
    said = [{"role": "user", "content": text}]
    return client.chat.completions.create(model="m", messages=said).choices[0].message.content
"""
AGENT: Final = "agents: {a: {messages: {$has: [{user: Hello}]}}}\n"
APPLICATIONS: Final = {
    "openai": (
        CLIENT,
        "ask",
        "app: {path: [.]}\nagents: {a: {messages: {$has: [{user: Hello}]}}}\n",
    ),
    "langgraph": (LANGGRAPH, "graph", "app: {path: [.]}\n"),
    "agents": (AGENTS, "agent", "app: {path: [.]}\n"),
    "pydantic_ai": (PYDANTIC_AI, "agent", "app: {path: [.]}\n"),
    "google.adk": (ADK, "agent", "app: {path: [.]}\n"),
}


@pytest.mark.slow
@pytest.mark.parametrize("library", APPLICATIONS)
def test_the_recorder_of_a_run_that_is_over_is_collected(
    tmp_path: Path, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(library)
    recorders: list[weakref.ref[TraceRecorder]] = []
    begin = TraceRecorder.__init__

    def note(self: TraceRecorder, *args: Any, **options: Any) -> None:
        recorders.append(weakref.ref(self))
        begin(self, *args, **options)

    text, name, app = APPLICATIONS[library]
    (tmp_path / "remembered.py").write_text(text)
    monkeypatch.setattr(TraceRecorder, "__init__", note)
    for _ in range(4):
        scenario = prepared(f"remembered:{name}", app + ONE_TURN.replace("AGENT", "a"), tmp_path)
        assert simulate(scenario).passed
    sys.modules.pop("remembered", None)
    gc.unfreeze()
    gc.collect()

    alive = [place for place, recorder in enumerate(recorders) if recorder() is not None]
    assert len(recorders) == 4
    assert alive in ([], [3])  # The last one until another begins.
