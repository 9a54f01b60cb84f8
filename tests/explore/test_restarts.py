"""A simulation restarts code only if the code can go on: else one error says so at once."""

from __future__ import annotations

import pytest

from tests.cli.projects import Call, write

pytestmark = pytest.mark.slow

PLAIN = """
import simkit
from openai import OpenAI


def answer(text):
    messages = [{"role": "user", "content": text}]
    with simkit.agent("desk"):
        reply = OpenAI().chat.completions.create(model="m", messages=messages)
    return reply.choices[0].message.content
"""
GRAPH = """
from typing import TypedDict

from langgraph.graph import START, StateGraph

from {saver} import saver


class State(TypedDict):
    text: str


builder = StateGraph(State)
builder.add_node("node", lambda state: {{"text": "Done."}})
builder.add_edge(START, "node")
graph = builder.compile(checkpointer=saver)
"""
SAVER = """
from langgraph.checkpoint.memory import InMemorySaver

saver = InMemorySaver()
"""
SIMULATION = """
simulation: the process ends
pipeline: {pipeline}
app: {{path: [.]}}
users: {{u: {{says: Hello.}}}}
faults: {{{fault}: 0.01}}
"""


@pytest.mark.parametrize("fault", ["restart", "crash"])
def test_code_that_cannot_be_restarted_is_one_error_at_once(fault: str, simkit: Call) -> None:
    write("plain.py", PLAIN)
    write("a.simulation.yaml", SIMULATION.format(pipeline="plain:answer", fault=fault))

    done = simkit("explore", "a.simulation.yaml")
    all_of_it = simkit("explore", "a.simulation.yaml", "--exhaustive")

    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "a.simulation.yaml:6:10: `plain:answer` cannot be restarted: nothing is known of where it "
        f"keeps what outlives its process\n  at faults.{fault}\n  Leave `{fault}` out of "
        "`faults:`. simkit restarts declared pipelines, LangGraph graphs, Google ADK agents, and "
        "programs that read the user's messages.\n"
    )
    assert (all_of_it.code, all_of_it.err) == (2, done.err)


def test_a_profile_that_asks_for_restarts_is_named_instead_of_a_file(simkit: Call) -> None:
    """No file has `faults:`, from which they could be left out."""
    write("plain.py", PLAIN)

    done = simkit("explore", "plain:answer", "--profile", "restarts")

    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "`plain:answer` cannot be restarted: nothing is known of where it keeps what outlives its "
        "process\n  Explore it with another `--profile`. simkit restarts declared pipelines, "
        "LangGraph graphs, Google ADK agents, and programs that read the user's messages.\n"
    )


def test_code_that_never_restarts_within_the_bound_is_explored(simkit: Call) -> None:
    write("plain.py", PLAIN)
    write("a.simulation.yaml", SIMULATION.format(pipeline="plain:answer", fault="restart"))

    done = simkit("explore", "a.simulation.yaml", "--turns", "1", "--runs", "10")

    assert done.code == 0, done.err


def test_a_graph_without_what_outlives_it_is_told_what_to_give_it(simkit: Call) -> None:
    pytest.importorskip("langgraph")
    write("own_graph.py", GRAPH.format(saver="own_graph_saver"))
    write("own_graph_saver.py", SAVER)
    text = SIMULATION.format(pipeline="own_graph:graph", fault="restart")
    write("a.simulation.yaml", text)
    durable = simkit("explore", "a.simulation.yaml", "--runs", "10")
    assert durable.code == 0, durable.err

    write("bare_graph.py", GRAPH.format(saver="own_graph_saver").replace("=saver", "=None"))
    write("b.simulation.yaml", text.replace("own_graph", "bare_graph"))
    no_saver = simkit("explore", "b.simulation.yaml")

    assert no_saver.code == 2
    assert "it has no checkpointer, so nothing outlives its process" in no_saver.err
    assert no_saver.err.endswith("  Or leave `restart` out of `faults:`.\n")
