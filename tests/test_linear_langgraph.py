"""State of a graph is told in proportion to what is new, however many turns there were."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("langgraph") is None:
    pytest.skip("langgraph is not installed", allow_module_level=True)

from simkit.session.simulate import simulate
from tests.adapters.running import prepared

CODE = """
import operator
from typing import Annotated

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

class State(MessagesState):
    seen: Annotated[list[str], operator.add]
    facts: Annotated[dict, operator.or_]

def note(state):
    count = len(state["seen"])
    return {"seen": [f"turn {count}"], "facts": {f"k{count}": count}}

def answer(state):
    return {"messages": [("ai", f"Answer {len(state['seen'])}")]}

graph = (
    StateGraph(State).add_node(note).add_node(answer)
    .add_edge(START, "note").add_edge("note", "answer").compile(checkpointer=InMemorySaver())
)
"""
SIZES = (8, 32)
GROWTH_MAX = 1.3
"""How much more a turn's part of the trace may be in the longer conversation."""


def bytes_a_turn(turns: int, folder: Path) -> float:
    """The bytes of the trace, a turn."""
    lines = "".join(f"  - user: Question {number}\n" for number in range(turns))
    outcome = simulate(prepared("linear_graph_app:graph", f"turns:\n{lines}", folder))
    assert outcome.judgement.findings == ()
    return len(outcome.trace.encoded()) / turns


@pytest.mark.slow
def test_telling_of_a_graphs_state_is_linear_in_turns(tmp_path: Path) -> None:
    (tmp_path / "linear_graph_app.py").write_text(CODE, encoding="utf-8")

    short, long = (bytes_a_turn(turns, tmp_path) for turns in SIZES)

    assert long < GROWTH_MAX * short, (short, long)
