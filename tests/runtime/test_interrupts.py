"""A run that asks the user: the turn ends with its question, and the answer goes to it alone."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from simkit.core.errors import SourceError
from simkit.trace import events as e
from tests.building import Ran, message_lines, run_yaml, trace_yaml
from tests.runtime.test_restart import NEW, stopped_and_not

AGENTS = """
channels:
  outputs: {reducer: merge, scope: turn}
  counted: {reducer: add, default: 0}
defaults:
  context: [history, current_message]
  writes:
    messages: ["${run.final_message}"]
    outputs: {"${agent}": "${run.output}"}
    counted: 1
agents:
  router: {context: [current_message], writes: {}}
  cook: {tools: [search], handoffs: [grocer]}
  shopper: {}
  grocer: {context: [handoff, {current_message: {name: question}}]}
  writer: {context: [shared: {from: outputs}, history: {from: log, as: text}]}
tools: {search: {}}
contracts:
  - {from: cook, to: grocer, type: price, mode: delegate, timeout_ms: 1000}
flow: {router: {decide: router, to: "${run.output.to}"}}
"""

ONE_QUESTION = """
turns:
  - user: What can I cook?
    replies:
      router: {json: {to: [cook, writer]}}
      cook: [{calls: {search: {what: pantry}}}, {interrupt: For how many?}]
    tool_results: {search: rice}
  - resume: For two
    # in a new process
    replies: {cook: Rice for two., writer: Written.}
"""

TWO_QUESTIONS = """
turns:
  - user: What can I cook, and what do I need?
    replies:
      router: {json: {to: {parallel: [cook, shopper]}}}
      cook: {interrupt: For how many?}
      shopper: {interrupt: From where?}
  - resume: For two
    # in a new process
    replies: {cook: Rice for two.}
  - resume: From the market
    # in a new process
    replies: {shopper: Leeks.}
"""

IN_A_DELEGATE = """
turns:
  - user: What can I cook?
    replies:
      router: {json: {to: cook}}
      cook: [{calls: {search: {}}}, {handoff: {to: grocer, query: What is rice?}}]
      grocer: {interrupt: {which: brand}, latency_ms: 600}
    tool_results: {search: rice}
  - user: Something that takes long
    session: two
    # in a new process
    replies: {router: {json: {to: shopper}}, shopper: {text: Leeks., latency_ms: 5000}}
  - resume: {brand: any}
    # in a new process
    replies: {grocer: {interrupt: Really any?}}
  - user: Meanwhile
    session: two
    replies: {router: {json: {to: shopper}}, shopper: {interrupt: What else?}}
  - resume: yes
    # in a new process
    replies: {grocer: {text: Two euros., latency_ms: 300}, cook: Rice it is.}
  - resume: nothing
    session: two
    # in a new process
    replies: {shopper: Fine.}
"""


def questions(ran: Ran) -> list[Any]:
    return [turn.interrupt for turn in ran.view.turns]


def runs(ran: Ran, turn: int) -> list[tuple[str, str]]:
    return [(run.agent, run.status) for run in ran.turn(turn).runs]


def test_a_turn_ends_with_the_question_and_without_a_reply() -> None:
    ran = run_yaml(AGENTS, ONE_QUESTION)

    assert ran.judgement.findings == ()
    assert questions(ran) == ["For how many?", None]
    assert runs(ran, 1) == [("router", "done"), ("cook", "interrupted")]
    assert ran.turn(1).reply is None
    assert ran.runs("cook", turn=1)[0].update == {}


def test_the_answer_starts_the_run_again_with_what_it_had_said_and_then_the_flow_goes_on() -> None:
    ran = run_yaml(AGENTS, ONE_QUESTION)

    assert runs(ran, 2) == [("cook", "done"), ("writer", "done")]
    assert message_lines(ran.context("cook", turn=2).messages) == [
        "user: What can I cook?",
        'assistant/cook: [search{"what":"pantry"}]',
        "tool/cook: rice",
        "assistant/cook: For how many?",
        "user: For two",
    ]
    assert ran.turn(2).reply == "Written."
    assert [event.value for event in ran.events(e.TurnResumed)] == ["For two"]


def test_tools_that_a_run_calls_after_the_answer_belong_to_the_run_that_goes_on() -> None:
    ran = run_yaml(
        AGENTS,
        """
        turns:
          - user: What can I cook?
            replies:
              router: {json: {to: [cook]}}
              cook: [{calls: {search: {what: pantry}}}, {interrupt: For how many?}]
            tool_results: {search: rice}
          - resume: For two
            replies: {cook: [{calls: {search: {what: shop}}}, Rice for two.]}
            tool_results: {search: {returns: beans, latency_ms: 5}}
        """,
    )

    before, after = ran.runs("cook", 1)[0].id, ran.runs("cook", 2)[0].id
    assert before != after
    assert [call.run for call in ran.events(e.ToolCalled)] == [before, after]
    assert [call.run for call in ran.events(e.ToolReturned)] == [before, after]


def test_the_turns_own_channels_last_until_the_flow_has_ended() -> None:
    ran = run_yaml(AGENTS, TWO_QUESTIONS)

    assert ran.state("outputs", turn=2) == {"cook": "Rice for two."}
    assert ran.state("outputs", turn=3) == {"cook": "Rice for two.", "shopper": "Leeks."}


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [ONE_QUESTION, TWO_QUESTIONS, IN_A_DELEGATE])
def test_a_new_process_comes_to_the_same_question_and_goes_on_from_there(scenario: str) -> None:
    stopped, uninterrupted = stopped_and_not(AGENTS, scenario)

    assert stopped == uninterrupted


# Two questions at once


def test_of_two_questions_the_first_is_answered_first_and_the_other_is_asked_still() -> None:
    ran = run_yaml(AGENTS, TWO_QUESTIONS)

    assert ran.judgement.findings == ()
    assert questions(ran) == ["For how many?", "From where?", None]
    assert runs(ran, 2) == [("cook", "done")]
    assert runs(ran, 3) == [("shopper", "done")]
    assert ran.state("outputs", turn=3) == {"cook": "Rice for two.", "shopper": "Leeks."}
    assert ran.state("counted", turn=3) == 2


def test_who_asks_once_more_asks_behind_those_who_wait_already() -> None:
    ran = run_yaml(
        AGENTS,
        TWO_QUESTIONS.replace("{cook: Rice for two.}", "{cook: {interrupt: With meat?}}")
        + "  - resume: no\n    replies: {cook: Rice.}\n",
    )

    assert ran.judgement.findings == ()
    assert questions(ran) == ["For how many?", "From where?", "With meat?", None]
    assert runs(ran, 4) == [("cook", "done")]


def test_an_answered_run_stays_in_its_branch_and_reads_no_sibling() -> None:
    ran = run_yaml(AGENTS, TWO_QUESTIONS)

    started = [event for event in ran.events(e.AgentStarted) if event.turn > 1]
    assert [(item.agent, item.group, item.branch) for item in started] == [
        ("cook", "", "r2"),
        ("shopper", "", "r3"),
    ]
    assert ran.history("shopper", turn=3) == []
    assert ran.runs("shopper", turn=3)[0].received["outputs"] == {}


def test_an_answered_run_sees_what_its_own_branch_wrote_before_it_asked() -> None:
    ran = run_yaml(
        AGENTS,
        """
        turns:
          - user: What can I cook, and what do I need?
            replies:
              router: {json: {to: {parallel: [cook, shopper]}}}
              cook: [{handoff: {to: grocer, query: Price?}}, {interrupt: For how many?}]
              grocer: Two euros.
              shopper: Leeks.
          - resume: For two
            replies: {cook: Rice for two.}
        """,
    )

    assert ran.judgement.findings == ()
    assert ran.runs("cook", turn=2)[0].received["outputs"] == {"grocer": "Two euros."}


def test_an_error_beside_a_question_ends_the_turn_and_nothing_is_asked() -> None:
    scenario = """
        turns:
          - user: What can I cook, and what do I need?
            replies:
              router: {json: {to: {parallel: [cook, shopper]}}}
              cook: {interrupt: For how many?}
              shopper: {error: rate_limit, latency_ms: 10}
            expect: {error: rate_limit, interrupt: null}
          - user: Again
            replies: {router: {json: {to: writer}}, writer: Written.}
            expect: {state: {outputs: {$exact: {writer: Written.}}}}
    """

    assert run_yaml(AGENTS, scenario).judgement.findings == ()


def test_an_error_after_an_answer_drops_the_other_question() -> None:
    scenario = TWO_QUESTIONS.replace("{cook: Rice for two.}", "{cook: {error: rate_limit}}")
    scenario = scenario.replace(NEW, "expect: {error: rate_limit}", 1)

    with pytest.raises(SourceError, match="in session 's1' nobody has asked one"):
        run_yaml(AGENTS, scenario)


# In the other flows


def test_a_delegate_may_ask_and_the_time_the_user_takes_is_not_its_own() -> None:
    ran = run_yaml(AGENTS, IN_A_DELEGATE)

    assert ran.judgement.findings == ()
    assert questions(ran) == [{"which": "brand"}, None, "Really any?", "What else?", None, None]
    assert runs(ran, 5) == [("grocer", "done")]
    assert [ran.turn(turn).reply for turn in (5, 6)] == ["Rice it is.", "Fine."]
    assert message_lines(ran.context("cook", turn=5).messages)[-2:] == [
        'assistant/cook: [transfer_to_grocer{"type":"price","query":"What is rice?"}]',
        "tool/cook: Two euros.",
    ]


GRAPH = """
channels: {seen: {reducer: append}}
defaults: {writes: {messages: ["${run.final_message}"], seen: ["${agent}"]}}
agents:
  plan: {context: [history, current_message]}
  look: {context: [input, history: {from: log}]}
  tell: {context: [upstream]}
flow:
  graph:
    nodes:
      plan: {role: split, start: true}
      near: {agent: look}
      nearer: {agent: look}
      far: {agent: look}
      tell: {role: merge, exit: true}
    edges:
      - {from: plan, to: near}
      - {from: near, to: nearer}
      - {from: plan, to: far}
      - {from: nearer, to: tell}
      - {from: far, to: tell}
"""

IN_A_GRAPH = """
turns:
  - user: Look around
    replies: {plan: {interrupt: How far?}}
  - resume: a mile
    # in a new process
    replies: {plan: Plan., near: Near., nearer: {interrupt: Closer?}, far: {interrupt: Further?}}
  - resume: yes
    # in a new process
    replies: {nearer: Nearer.}
  - resume: no
    # in a new process
    replies: {far: Far., tell: {interrupt: In what words?}}
  - resume: few
    # in a new process
    replies: {tell: Told.}
"""


@pytest.mark.slow
def test_nodes_of_a_graph_ask_and_a_merge_waits_for_the_answers() -> None:
    ran = run_yaml(GRAPH, IN_A_GRAPH)
    stopped, uninterrupted = stopped_and_not(GRAPH, IN_A_GRAPH)

    assert ran.judgement.findings == ()
    assert questions(ran) == ["How far?", "Closer?", "Further?", "In what words?", None]
    assert ran.runs("tell", turn=4)[0].input == {"nearer": "Nearer.", "far": "Far."}
    assert ran.turn(5).reply == "Told."
    assert ran.state("seen") == ["plan", "near", "nearer", "far", "tell"]
    assert stopped == uninterrupted


SUPERVISOR = """
defaults: {writes: {messages: ["${run.final_message}"]}}
agents:
  find: {tools: [search], returns: tool_output}
  sort: {context: [task]}
tools: {search: {}}
contracts:
  - {from: find, to: sort, type: rows, payload: {type: array}, on_invalid: retry}
flow:
  supervisor:
    goals: {g: {description: G, steps: [{find: find it}, {sort: "sort ${run.output}"}]}}
"""

IN_A_STEP = """
turns:
  - user: Go
    replies: {find: {interrupt: Where?}}
  - resume: here
    # in a new process
    replies: {find: [{calls: {search: {}}}, {interrupt: Nothing here; where else?}]}
    tool_results: {search: {returns: {rows: none}}}
  - resume: there
    # in a new process
    replies: {find: {calls: {search: {}}}, sort: {interrupt: By what?}}
    tool_results: {search: {returns: [2, 1]}}
  - resume: by size
    # in a new process
    replies: {sort: Sorted.}
"""


@pytest.mark.slow
def test_steps_of_a_supervisor_ask_also_when_they_run_again() -> None:
    ran = run_yaml(SUPERVISOR, IN_A_STEP)
    stopped, uninterrupted = stopped_and_not(SUPERVISOR, IN_A_STEP)

    assert ran.judgement.findings == ()
    assert questions(ran) == ["Where?", "Nothing here; where else?", "By what?", None]
    assert ran.turn(4).reply == "Sorted."
    assert stopped == uninterrupted


@pytest.mark.slow
def test_what_the_turn_had_said_before_the_question_is_no_settled_history() -> None:
    pipeline = """
        channels: {messages: {reducer: {append: {last: 3}}}}
        defaults: {writes: {messages: ["${run.final_message}"]}}
        agents:
          cook: {context: [history: {window: {rounds: 1}}, current_message]}
        flow: {handoffs: {start: cook}}
    """
    scenario = """
        turns:
          - user: One
            replies: {cook: Rice.}
          - user: Two
            replies: {cook: {interrupt: Which two?}}
          - resume: the second
            # in a new process
            replies: {cook: Soup.}
          - user: Three
            # in a new process
            replies: {cook: Bread.}
    """
    ran = run_yaml(pipeline, scenario)
    stopped, uninterrupted = stopped_and_not(pipeline, scenario)

    before = ["user: One", "assistant/cook: Rice."]
    assert [ran.history("cook", turn) for turn in (2, 3)] == [before, before]
    assert ran.history("cook", turn=4) == ["user: Two", "assistant/cook: Soup."]
    assert [ran.judgement.findings, ran.judgement.warnings] == [(), ()]
    assert stopped == uninterrupted


# No answer, and no question


SOMETHING_ELSE = """
turns:
  - user: What can I cook?
    replies:
      router: {json: {to: {parallel: [cook, shopper]}}}
      cook: {handoff: {to: grocer, query: What is rice?}}
      grocer: {interrupt: Which brand?}
      shopper: Leeks.
  - user: Forget it
    # in a new process
    replies: {router: {json: {to: shopper}}, shopper: Bread.}
"""


def test_a_message_instead_of_an_answer_drops_what_waited() -> None:
    ran = run_yaml(AGENTS, SOMETHING_ELSE)
    stopped, uninterrupted = stopped_and_not(AGENTS, SOMETHING_ELSE)

    assert ran.judgement.findings == ()
    assert runs(ran, 1) == [
        ("router", "done"),
        ("cook", "cancelled"),
        ("shopper", "done"),
        ("grocer", "interrupted"),
    ]
    assert ran.state("outputs", turn=1) == {"shopper": "Leeks."}
    assert ran.state("outputs", turn=2) == {"shopper": "Bread."}
    assert stopped == uninterrupted


@pytest.mark.slow
@pytest.mark.parametrize("restart", ["", "restart: true"])
def test_an_answer_to_what_nobody_asked_is_told_where_it_stands(restart: str) -> None:
    with pytest.raises(SourceError) as problem:
        run_yaml(
            AGENTS,
            f"""
            turns:
              - user: What do I need?
                replies: {{router: {{json: {{to: shopper}}}}, shopper: Leeks.}}
              - resume: From the market
                {restart}
                replies: {{shopper: Leeks.}}
            """,
        )

    assert str(problem.value).splitlines() == [
        "test.scenario.yaml:29:13: turn 2 answers a question, but in session 's1' nobody has asked "
        "one."
    ]


@pytest.mark.slow
def test_a_question_that_is_never_answered_leaves_the_trace_as_it_is() -> None:
    trace = trace_yaml(AGENTS, SOMETHING_ELSE[: SOMETHING_ELSE.index("  - user: Forget it")])
    events, digest = len(trace.events), trace.digest()

    gc.collect()

    assert (len(trace.events), trace.digest()) == (events, digest)


WATCHED = """
agents: {clerk: {tools: [refund, look]}}
tools:
  refund: {args: {type: object, required: [order]}, approval: true}
  look: {}
flow: {handoffs: {start: clerk}}
"""
ASKS = """
turns:
  - user: Refund A, please
    replies: {clerk: {calls: [{refund: {order: A}}, {look: {order: A}}]}}
    tool_results: {look: seen}
    expect:
      interrupt: [{tool: refund, args: {order: A}, agent: clerk}]
      tool_calls: [{tool: look}]
  - resume: ANSWER
    # in a new process
    replies: {clerk: Done.}
    tool_results: RESULT
    expect: {tool_calls: [CALLS]}
"""


def answered(answer: str, calls: str, result: str = "{}") -> Ran:
    turns = ASKS.replace("ANSWER", answer).replace("CALLS", calls).replace("RESULT", result)
    return run_yaml(WATCHED, turns)


@pytest.mark.parametrize(
    ("answer", "calls"),
    [
        ("true", "{tool: refund, args: {order: A}, edited_by: null}"),
        ("{refund: true}", "{tool: refund}"),
        (
            "{override_args: {order: B}}",
            "{tool: refund, asked: {order: A}, args: {order: B}, edited_by: user}",
        ),
    ],
)
def test_an_approved_call_is_made_as_the_user_wants_it(answer: str, calls: str) -> None:
    assert answered(answer, calls, "{refund: ok}").judgement.findings == ()
    wrong = answered(answer, calls.replace("refund", "look"), "{refund: ok}").judgement.findings
    assert [finding.id for finding in wrong] == ["claim"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [("false", "the user does not approve it"), ("{message: Not yet}", "Not yet")],
)
def test_a_call_that_the_user_refuses_is_not_made_and_its_model_is_told(
    answer: str, reason: str
) -> None:
    ran = answered(answer, "")

    assert ran.judgement.findings == ()
    assert message_lines(ran.context("clerk", turn=2).messages)[-2:] == [
        "tool/clerk: seen",
        f"tool/clerk: Tool refund was not called: {reason}",
    ]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("yes", "turn 2 decides `yes` on `refund`.\nDecide with `true`"),
        ("{refnd: true}", "turn 2 decides on `refnd`, but no call of it waits."),
        ("{override_args: {ordr: B}}", "turn 2 changes `refund`: 'order' is a required property."),
    ],
)
def test_an_answer_that_decides_nothing_is_an_error(answer: str, problem: str) -> None:
    with pytest.raises(SourceError) as error:
        answered(answer, "")

    assert problem in str(error.value)


def test_an_edge_cannot_wait_for_approval() -> None:
    pipeline = """
    agents: {a: {}, b: {}}
    contracts: [{from: a, to: b, approval: true}]
    flow: {graph: {nodes: {a: {start: true}, b: {exit: true}}, edges: [{from: a, to: b}]}}
    """

    with pytest.raises(SourceError, match="cannot have approval `true`"):
        run_yaml(pipeline, "turns: [{user: Hi}]")
