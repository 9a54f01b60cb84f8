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
from simkit.session.simulate import simulate
from tests.adapters import running
from tests.adapters.running import prepared, run_app
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


def test_nodes_that_are_named_as_prebuilt_agents_name_theirs_are_agents() -> None:
    check_app(
        "desk",
        """
        turns:
          - user: Who was Ada?
            replies: {call_model: [{calls: [search: {query: Ada}]}, A mathematician.]}
            tool_results: {search: Ada Lovelace}
            expect:
              agents: [call_model, tools, call_model]
              tool_calls: [{agent: call_model, tool: search, result: Ada Lovelace}]
        """,
    )


def test_a_tool_that_goes_to_a_node_hands_over_for_whoever_called_it() -> None:
    check_app(
        "desk",
        """
        lints: {HND-12: the person reads the reason alone}
        turns:
          - user: It burns!
            replies: {call_model: [{calls: [escalate: {reason: fire}]}, Somebody comes.]}
            expect:
              handoffs: [{from: call_model, to: person, payload: {reason: fire}}]
              state: {reason: fire}
        """,
    )


def test_a_graph_of_such_nodes_that_a_node_is_works_as_that_node() -> None:
    check_app(
        "inner_graph",
        "turns: [{user: Hi, replies: {researcher: Hello.}, expect: {agents: [researcher]}}]",
    )


def test_nodes_that_go_to_one_node_together_choose_one_way_and_an_override_is_a_reset() -> None:
    check_app(
        "bag",
        """
        app: {path: [.], input: "langgraph_shapes:as_items", output: items}
        turns:
          - user: hat coat
            expect:
              agents: [[pack, pack], carry]
              handoffs: []
              events: {$has: [{kind: RouteChosen, agent: pack, targets: [carry]}]}
              reply: [carried]
              runs: {carry: {update: {items: {$$set: [carried]}}}}
        """,
    )


def test_graphs_that_work_beside_each_other_each_go_their_own_way() -> None:
    check_app(
        "bags",
        """
        app: {path: [.], input: "langgraph_shapes:as_items", output: items}
        turns:
          - user: hat coat
            expect:
              agents: [each, pack, pack, carry, carry]
              events:
                $has:
                  - {kind: RouteChosen, agent: pack, targets: [carry]}
                  - {kind: RouteChosen, agent: pack, targets: [carry]}
              reply: [hat, coat, carried, carried]
        """,
    )


def test_a_task_of_such_a_name_works_under_it() -> None:
    check_app(
        "chat",
        """
        app: {path: [.], input: "langgraph_shapes:as_messages"}
        turns:
          - {user: I am Bob, replies: {call_model: Hello.}}
          - user: Who am I?
            replies: {call_model: Bob.}
            expect:
              agents: [chat, call_model]
              reply: Bob.
              context: {call_model: {messages: {$len: 3}}}
        """,
    )


def test_code_is_called_with_the_answer_to_what_its_graph_asked() -> None:
    check_app(
        "approved",
        """
        turns:
          - user: Delete it
            expect: {interrupt: Really?, agents: [ask_first], reply: Really?}
          - resume: "yes"
            expect: {agents: [ask_first], reply: "Done: yes."}
        """,
    )


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


def test_models_in_the_state_are_seen_by_their_fields() -> None:
    check_app(
        "plan",
        """
        app: {path: [.], input: {topic: "${user}"}}
        turns:
          - user: lakes trams
            expect:
              state: {sections: [{name: lakes}, {name: trams}]}
              runs: {planned: {update: {sections: [{name: lakes}, {name: trams}]}}}
        """,
    )


def test_the_one_value_of_a_state_is_the_reply() -> None:
    check_app("titled", "turns: [{user: lakes, expect: {reply: LAKES}}]")


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


def test_a_filter_by_kind_leaves_the_users_messages() -> None:
    check_app(
        "filtered",
        """
        turns:
          - {user: I am Bob, replies: {filtering: "Hello, Bob."}}
          - user: Who am I?
            replies: {filtering: Bob.}
            expect:
              context:
                filtering:
                  messages: [{user: I am Bob}, {user: Who am I?}]
                  dropped: [{assistant: "Hello, Bob.", by: filter_messages}]
        """,
    )


def test_a_filter_whose_result_is_not_sent_dropped_nothing() -> None:
    check_app(
        "never_sent",
        """
        turns:
          - {user: I am Bob, replies: {unheeded: "Hello, Bob."}}
          - user: Who am I?
            replies: {unheeded: Bob.}
            expect: {context: {unheeded: {messages: {$len: 3}, dropped: []}}}
        """,
    )


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


def test_what_is_summarized_is_told_with_the_middleware() -> None:
    check_app(
        "summarizing",
        """
        turns:
          - {user: I am Bob, replies: {helper: "Hello, Bob."}}
          - user: Who am I?
            replies: {helper: [The user is Bob., You are Bob.]}
            expect:
              reply: You are Bob.
              agents: [helper]
              context:
                "helper[-1]":
                  includes: [{user: {$contains: The user is Bob.}}, {user: Who am I?}]
                  excludes: [{assistant: "Hello, Bob."}]
                  dropped: {$has: [{assistant: "Hello, Bob.", by: SummarizationMiddleware}]}
        """,
    )


def test_tool_results_that_are_cleared_are_edited_by_the_middleware() -> None:
    check_app(
        "editing",
        """
        turns:
          - user: Who was Ada?
            replies: {helper: [{calls: [search: {query: Ada}]}, A mathematician.]}
            tool_results: {search: Ada Lovelace was a mathematician.}
            expect:
              context:
                "helper[-1]":
                  includes: [{role: tool, content: "[cleared]"}]
                  dropped: [{role: tool, what: content, by: ContextEditingMiddleware}]
        """,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["removing", "wrapped"])
def test_ten_runs_with_a_filter_are_one(name: str) -> None:
    scenario = prepared(f"langgraph_shapes:{name}", dict(FILTERS)[name])

    assert len({simulate(scenario).trace.digest() for _ in range(10)}) == 1


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
