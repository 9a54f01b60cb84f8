"""What a pipeline's file says of a graph: inputs and outputs, errors, and what its store holds."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("langgraph") is None:
    pytest.skip("langgraph is not installed", allow_module_level=True)

from langgraph.store.base import GetOp

from simkit.adapters.langgraph.tools import Stored
from simkit.core.errors import SourceError
from simkit.trace import events as e
from tests.adapters.running import check_app, run_app
from tests.adapters.scribes import Desk
from tests.building import Ran

ONE_NODE = """
from typing import TypedDict
import openai
from langgraph.graph import END, START, StateGraph
class State(TypedDict, total=False):
    question: str
    answer: str
def reader(state):
    messages = [{"role": "user", "content": state["question"]}]
    found = openai.OpenAI().chat.completions.create(model="m", messages=messages)
    return {"answer": found.choices[0].message.content + "!"}
built = StateGraph(State)
built.add_node(reader)
built.add_edge(START, "reader")
built.add_edge("reader", END)
graph = built.compile()
"""
STEPS = "langgraph_engine:steps"
WORDS = "langgraph_engine:build_words"
STEPS_APP = 'app: {path: [.], input: {request: "${user}"}, output: found}\n'
WORDS_APP = """\
app:
  path: [.]
  fresh: true
  input: {request: "${user}"}
  output: known
  given: langgraph_engine:begin
  config: {context: {project: "${project}"}}
  store:
    names: [projects, "${project}", names]
    last: {namespace: [everywhere], key: last, value: said}
"""


def started(ran: Ran) -> dict[str, e.AgentStarted]:
    return {event.agent: event for event in ran.trace.events if isinstance(event, e.AgentStarted)}


# Inputs and outputs


def test_a_rule_says_where_a_nodes_input_and_output_are() -> None:
    check_app(
        STEPS,
        STEPS_APP
        + """\
agents:
  plan: {input: received.request, output: update.current.answer}
  left: {input: received.current, output: "update.found[0]"}
turns:
  - user: left
    expect:
      runs:
        plan: {input: left, output: LEFT}
        left: {input: {$exact: {answer: LEFT}}, output: LEFT}
""",
    )


def test_a_place_that_holds_nothing_is_no_input() -> None:
    rules = "agents: {plan: {input: received.nothing}}\n"
    ran = run_app(STEPS, f"{STEPS_APP}{rules}turns: [{{user: left}}]")

    assert started(ran)["plan"].input is None


def test_a_place_that_holds_nothing_is_no_output_and_never_the_models_words(tmp_path: Path) -> None:
    (tmp_path / "one_node.py").write_text(ONE_NODE, encoding="utf-8")
    app = 'app: {path: [.], input: {question: "${user}"}}\n'
    turn = "turns: [{user: What?, replies: {reader: A lamp.}}]"

    ran = run_app(
        "one_node:graph", f"{app}agents: {{reader: {{output: update.no}}}}\n{turn}", tmp_path
    )

    (ended,) = [event for event in ran.trace.events if isinstance(event, e.AgentFinished)]
    assert ended.output is None


@pytest.mark.parametrize(("rule", "root"), [("input", "received"), ("output", "update")])
def test_a_place_that_is_in_neither_is_refused(rule: str, root: str) -> None:
    with pytest.raises(SourceError) as caught:
        run_app(STEPS, f"{STEPS_APP}agents: {{plan: {{{rule}: state.x}}}}\nturns: [{{user: a}}]")

    assert f"a path here begins with `{root}`: `{root}.question`" in str(caught.value)


# What led to a run


def test_a_run_names_the_runs_whose_edges_lead_to_it() -> None:
    ran = check_app(STEPS, f"{STEPS_APP}turns: [{{user: both}}]")

    starts = started(ran)
    by_id = {value.run: value.agent for value in starts.values()}
    assert {name: [by_id[run] for run in item.after] for name, item in starts.items()} == {
        "plan": [],
        "left": ["plan"],
        "right": ["plan"],
        "check": ["left", "right"],
        "last": ["check"],
        "report": ["last"],
    }


def test_a_loop_leads_to_each_of_its_runs_once() -> None:
    ran = check_app("langgraph_engine:build_loop", f"{STEPS_APP}turns: [{{user: round}}]")

    runs = [event for event in ran.trace.events if isinstance(event, e.AgentStarted)]
    assert [(run.agent, run.after) for run in runs] == [
        ("turn", ()), ("back", ("r1",)), ("turn", ("r2",)), ("back", ("r3",)), ("turn", ("r4",)),
    ]  # fmt: skip


def test_an_edge_that_was_not_gone_leads_nowhere() -> None:
    ran = check_app(STEPS, f"{STEPS_APP}turns: [{{user: left}}]")

    assert "right" not in started(ran)
    assert [item for item in started(ran)["check"].after] == [started(ran)["left"].run]


# Errors


def test_an_exception_of_the_code_has_the_name_that_the_file_gives_it() -> None:
    named = STEPS_APP.replace(
        "output:", 'errors: {BadRequest: "langgraph_engine:Refused"}, output:'
    )

    check_app(
        STEPS,
        f"{named}turns: [{{user: '', expect: {{error: "
        "{type: BadRequest, message: there is nothing to plan}}}]",
    )


def test_a_class_above_an_exceptions_own_names_it_too_and_no_other_does() -> None:
    above = STEPS_APP.replace("output:", 'errors: {Bad: "builtins:ValueError"}, output:')
    other = STEPS_APP.replace("output:", 'errors: {Bad: "builtins:KeyError"}, output:')
    turn = "turns: [{user: '', expect: {error: %s}}]"

    check_app(STEPS, above + turn % "Bad")
    check_app(STEPS, other + turn % "FunctionFailed")


# Stores


def values(ran: Ran, turn: int) -> dict[str, Any]:
    state = ran.view.turns[turn].state
    return {"names": [name["name"] for name in state["names"]], "last": state["last"]}


def test_what_a_node_keeps_in_the_store_is_a_channel_of_the_project_or_of_all() -> None:
    ran = check_app(
        WORDS,
        WORDS_APP
        + """\
turns:
  - {user: Ada, expect: {state: {names: [{name: Ada}], last: Ada}}}
  - user: Bob
    session: s2
    expect:
      runs:
        remember:
          received: {names: [{name: Ada}], last: Ada}
          update: {names: [{name: Bob}], last: Bob}
      reply: [Ada]
  - {user: Cleo, project: p2, session: s3, expect: {reply: [], state: {names: [{name: Cleo}]}}}
expect:
  events:
    $in_order:
      - {kind: StoreRead, agent: remember, channel: names, scope: project}
      - {kind: StoreWritten, agent: remember, channel: names, scope: project}
      - {kind: StoreWritten, agent: remember, channel: last, scope: global}
""",
    )

    assert [values(ran, turn) for turn in range(3)] == [
        {"names": ["Ada"], "last": "Ada"},
        {"names": ["Ada", "Bob"], "last": "Bob"},
        {"names": ["Cleo"], "last": "Cleo"},
    ]


def test_what_is_deleted_or_written_again_is_told_whole() -> None:
    ran = check_app(
        WORDS,
        WORDS_APP
        + """\
turns:
  - {user: Ada}
  - {user: Bob}
  - {user: Ada, expect: {reply: [Ada, Bob]}}
  - {user: "-Ada", expect: {state: {names: [{name: Bob}]}}}
""",
    )

    assert [values(ran, turn)["names"] for turn in range(4)] == [
        ["Ada"], ["Ada", "Bob"], ["Ada", "Bob"], ["Bob"],
    ]  # fmt: skip


def test_the_first_project_has_what_is_given_once() -> None:
    ran = check_app(
        WORDS,
        WORDS_APP
        + """\
given: {state: {names: [{name: Zoe}]}}
turns:
  - {user: Ada, expect: {reply: [Zoe], runs: {remember: {received: {names: [{name: Zoe}]}}}}}
  - {user: Bob, session: s2, expect: {reply: [Zoe, Ada]}}
  - {user: Cleo, project: p2, session: s3, expect: {reply: []}}
""",
    )

    # Putting it into the store is nobody's work, and nor is looking what is there.
    used = [
        event.agent
        for event in ran.trace.events
        if isinstance(event, (e.StoreRead, e.StoreWritten))
    ]
    assert used == ["remember"] * 9
    assert [values(ran, turn)["names"] for turn in range(3)] == [
        ["Zoe", "Ada"], ["Zoe", "Ada", "Bob"], ["Cleo"],
    ]  # fmt: skip


def test_what_the_store_holds_before_a_turn_is_told_though_nobody_gives_it() -> None:
    app = WORDS_APP.replace("given: langgraph_engine:begin", "setup: langgraph_engine_kept:fill")
    ran = run_app("langgraph_engine_kept:graph", f"{app}turns: [{{user: Ada}}]")

    first = next(event for event in ran.trace.events if isinstance(event, e.StateUpdated))
    assert first.update == {"names": {"$set": [{"name": "Old"}]}}
    assert values(ran, 0)["names"] == ["Old", "Ada"]
    assert [event.agent for event in ran.trace.events if isinstance(event, e.StoreRead)] == [
        "remember"
    ]


def test_who_looks_what_a_store_holds_is_not_heard() -> None:
    desk = Desk()
    desk.turn("Look")
    stored = Stored(desk.recorder)

    with stored.deaf():
        stored.tell(GetOp(("names",), "Ada"), None)
    stored.tell(GetOp(("names",), "Bob"), None)

    read = [event.channel for event in desk.trace.events if isinstance(event, e.StoreRead)]
    assert read == ["names/Bob"]


def test_a_reference_of_a_graphs_call_stands_nowhere_else() -> None:
    with pytest.raises(SourceError, match=r"unknown reference `\$\{project\}`"):
        run_app(WORDS, f'{WORDS_APP}turns: [{{user: "${{project}}"}}]')


# What a graph is given


def test_a_message_that_is_a_mapping_goes_through_the_input_that_the_file_says() -> None:
    ran = check_app(
        STEPS,
        STEPS_APP.replace('"${user}"', '"${user}"') + "agents: {plan: {input: received.request}}\n"
        "turns: [{user: {json: {a: 1}}, expect: {error: FunctionFailed}}]",
    )

    assert started(ran)["plan"].input == {"a": 1}
