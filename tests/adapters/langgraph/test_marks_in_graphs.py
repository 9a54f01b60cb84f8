"""A block that names an agent inside a graph's node receives what the node did."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("langgraph") is None:
    pytest.skip("langgraph is not installed", allow_module_level=True)

from tests.adapters.running import run_app

CODE = """
import json
import urllib.request
from typing import TypedDict

import simkit
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Send

def asked(text):
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    headers = {"content-type": "application/json"}
    url = "https://llm.example.test/v1/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as response:
        return json.load(response)["choices"][0]["message"]["content"]

class Inner(TypedDict):
    word: str

def work(state):
    with simkit.agent("desk"):
        return {"word": asked(state["word"])}

inner = StateGraph(Inner).add_node(work).add_edge(START, "work").compile()

def calls(state):
    return {"messages": [("ai", inner.invoke({"word": "hi"})["word"])]}

called = StateGraph(MessagesState).add_node(calls).add_edge(START, "calls").compile()

class Outer(MessagesState):
    word: str

def first(state):
    return {"word": "hi"}

nested = (
    StateGraph(Outer).add_node(first).add_node("inner", inner)
    .add_edge(START, "first").add_edge("first", "inner").compile()
)

def worker(state):
    with simkit.agent("desk"):
        return {"messages": [("ai", asked(state["word"]))]}

sent = (
    StateGraph(MessagesState).add_node(worker)
    .add_conditional_edges(START, lambda state: [Send("worker", {"word": "hi"})], ["worker"])
    .compile()
)
"""


@pytest.mark.parametrize("graph", ["called", "nested", "sent"])
def test_a_block_in_a_node_received_what_the_node_did(graph: str, tmp_path: Path) -> None:
    (tmp_path / "marked_graphs_app.py").write_text(CODE, encoding="utf-8")
    scenario = """
        app: {path: [.]}
        turns:
          - user: Look
            replies: {desk: Grey.}
            expect: {runs: {desk: {received: {$exact: {word: hi}}}}}
    """

    ran = run_app(f"marked_graphs_app:{graph}", scenario, tmp_path)

    assert ran.judgement.findings == ()
