"""What applications of other people showed: names of nodes, own types, filters and their names."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if any(find_spec(name) is None for name in ("langgraph", "langchain", "langchain_openai")):
    pytest.skip("langgraph, langchain, langchain-openai are not installed", allow_module_level=True)

from simkit.adapters.langgraph import filters, stream_observers
from simkit.adapters.langgraph.listener import GraphListener
from simkit.core.errors import SourceError
from tests.adapters import running
from tests.adapters.running import digests_of, prepared, run_app
from tests.building import Ran

SERVED = """
from dataclasses import dataclass

from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime


@dataclass
class Context:
    language: str = "French"


def talk(state: MessagesState, runtime: Runtime[Context]):
    runtime.store.put(("said",), str(len(state["messages"])), {})
    return {"messages": [("ai", f"{runtime.context.language} {len(state['messages'])}")]}


graph = StateGraph(MessagesState, context_schema=Context)
graph = graph.add_node(talk).add_edge(START, "talk").compile()
"""
REMEMBERED = """
app: {path: [src]}
turns:
  - {user: Hi, expect: {reply: French 1}}
  - user: Hi again
    expect: {reply: French 3, events: {$has: [{kind: StoreWritten, channel: said/3}]}}
"""


def run(name: str, scenario: str) -> Ran:
    return run_app(f"langgraph_shapes:{name}", scenario)


def check_app(name: str, scenario: str) -> Ran:
    """Runs a scenario that must hold."""
    return running.check_app(f"langgraph_shapes:{name}", scenario)


# Nodes of usual names


def test_code_whose_graph_asked_nothing_is_given_no_answer() -> None:
    with pytest.raises(SourceError) as caught:
        run("approved", "turns: [{user: Hi}, {resume: Really}, {resume: Once more}]")

    assert str(caught.value).partition(": ")[2] == (
        "turn 3 answers an interrupt, but session 's1' of `langgraph_shapes:approved` waits for "
        "nothing."
    )


# Graphs that LangGraph's server serves


def run_served(folder: Path, name: str) -> Ran:
    """Runs an application whose `langgraph.json` names something of its module."""
    served = folder / "src" / "served"
    served.mkdir(parents=True)
    (served / "__init__.py").write_text("")
    (served / "graph.py").write_text(SERVED)
    (folder / "langgraph.json").write_text(f'{{"graphs": {{"a": "./src/served/graph.py:{name}"}}}}')
    return run_app("served.graph:graph", REMEMBERED, folder)


def test_a_graph_that_the_server_serves_has_its_memory_store_and_context(tmp_path: Path) -> None:
    ran = run_served(tmp_path, "graph")

    assert [finding.what for finding in ran.judgement.findings] == []


def test_a_graph_that_no_server_serves_is_left_as_it_is(tmp_path: Path) -> None:
    error = run_served(tmp_path, "other").error()

    assert error is not None
    assert "'NoneType' object has no attribute 'put'" in error[1]


# Values of the user's own types


# What filters take


AGAIN = """
    turns:
      - {user: I am Bob, replies: {WHO: "Hello, Bob."}}
      - user: Who am I?
        replies: {WHO: I do not know.}
        expect:
          context: {WHO: {messages: [{user: Who am I?}], dropped: [CUTS]}}
"""
BOTH = '{user: I am Bob, by: BY}, {assistant: "Hello, Bob.", by: BY}'


def again(agent: str, by: str, cuts: str = BOTH) -> str:
    return AGAIN.replace("CUTS", cuts).replace("WHO", agent).replace("BY", by)


FILTERS = [
    ("trimmed", again("trimming", "trim_messages")),
    ("piped", again("chained", "trim_messages")),
    ("wrapped", again("helper", "short")),
    ("removing", again("helper", "only_the_last")),
]


@pytest.mark.parametrize(("name", "scenario"), FILTERS)
def test_what_a_filter_dropped_is_told_with_its_name(name: str, scenario: str) -> None:
    check_app(name, scenario)


FORGOTTEN = """
    turns:
      - {user: I am Bob, replies: {talk: "Hello, Bob."}}
      - user: Who am I?
        replies: {talk: Bob.}
        expect: {context: {talk: {dropped: []}}}
      - user: Really?
        replies: {talk: Who knows.}
        expect:
          state: {messages: {$len: 2}}
          context:
            talk:
              messages: [{user: Who am I?}, {assistant: Bob.}, {user: Really?}]
              dropped:
                - {user: I am Bob, by: forget}
                - {assistant: "Hello, Bob.", by: forget}
      - user: Hm
        replies: {talk: Indeed.}
        expect:
          context: {talk: {messages: {$len: 3}, dropped: {$len: 4}}}
"""


def test_messages_that_a_node_removes_are_dropped_from_then_on() -> None:
    check_app("forgetful", FORGOTTEN)


HOOKED = """
    turns:
      - {user: I am Bob, replies: {helper: "Hello, Bob."}}
      - user: Who am I?
        replies: {helper: I do not know.}
        expect:
          context:
            helper:
              messages: [{assistant: "Hello, Bob."}, {user: Who am I?}]
              dropped: [{user: I am Bob, by: pre_model_hook}]
"""


def test_what_a_hook_before_the_model_leaves_out_is_told() -> None:
    check_app("hooked", HOOKED)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["removing", "wrapped"])
def test_many_runs_with_a_filter_are_one(name: str) -> None:
    scenario = prepared(f"langgraph_shapes:{name}", dict(FILTERS)[name])

    assert len(digests_of(scenario)) == 1


# Each hook, removed, turns a scenario red


def _without_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_observers, "filter_rows", list)


def _without_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GraphListener, "on_chain_end", lambda self, *args, **kwargs: None)


def _without_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters.Filters, "asks", lambda self, run, sent_messages: None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("remove", "name", "scenario"),
    [
        pytest.param(_without_rows, *FILTERS[0], id="LangChain's functions"),
        pytest.param(_without_rows, *FILTERS[2], id="middleware around the model"),
        pytest.param(_without_results, *FILTERS[1], id="functions in a chain"),
        pytest.param(_without_results, *FILTERS[3], id="middleware before the model"),
        pytest.param(_without_results, "hooked", HOOKED, id="hooks"),
        pytest.param(_without_results, "forgetful", FORGOTTEN, id="what is removed"),
        pytest.param(_without_questions, *FILTERS[0], id="what is sent"),
    ],
)
def test_a_scenario_fails_without_what_it_looks_through(
    remove: Any, name: str, scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(name, scenario).judgement.passed

    remove(monkeypatch)

    assert not run(name, scenario).judgement.passed


def test_nothing_of_the_filters_is_left_replaced_after_a_run() -> None:
    before = [inner.function for inner in filters._INNER]

    run(*FILTERS[0])

    assert [inner.function for inner in filters._INNER] == before
    assert [inner.cell.cell_contents for inner in filters._INNER] == before
