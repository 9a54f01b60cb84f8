"""A scenario's turns: flows, parallel groups, sessions, limits, errors."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from simkit.core.errors import SourceError
from simkit.runtime.turn import Turn
from simkit.session.simulate import run
from simkit.trace.events import (
    AgentFinished,
    AgentStarted,
    LimitReached,
    RouteChosen,
    RunFinished,
    RunStarted,
    SessionStarted,
    StateUpdated,
    TurnFinished,
)
from tests.building import Ran, message_lines, prepared, run_yaml

ROUTER = """
version: 1
pipeline: p
channels:
  outputs: {reducer: merge, scope: turn}
  heard: {reducer: append}
defaults:
  writes:
    messages: ["${run.final_message}"]
    outputs: {"${agent}": "${run.output}"}
    heard: "${agent}"
agents:
  router: {instructions: R., context: [instructions, history, current_message], writes: {}}
  a:
    instructions: A.
    context: [instructions, {shared: {from: outputs}}, history, current_message]
  b:
    instructions: B.
    context: [instructions, {shared: {from: outputs}}, history, current_message]
  c: {instructions: C., handoffs: [a]}
flow: {router: {decide: router, to: "${run.output.to}"}}
"""


def routed(to: str, expect: str = "{}", pipeline: str = ROUTER, **replies: str) -> Ran:
    text = "".join(f"      {agent}: {line}\n" for agent, line in replies.items())
    return run_yaml(
        pipeline,
        f"turns:\n  - user: Hi\n    expect: {expect}\n    replies:\n"
        f"      router: {{json: {{to: {to}}}}}\n{text}",
    )


def runs(ran: Ran) -> list[tuple[str, str, str]]:
    return [(run.agent, run.status, run.group) for run in ran.turn().runs]


# One after the other


def test_router_names_one_agent() -> None:
    ran = routed("a", a="Hello")

    assert runs(ran) == [("router", "done", ""), ("a", "done", "")]
    assert [(e.agent, e.targets, e.parallel) for e in ran.events(RouteChosen)] == [
        ("router", ("a",), False)
    ]
    assert ran.turn().reply == "Hello"
    assert ran.state("messages") == ["user: Hi", "assistant/a: Hello"]


def test_router_names_several_agents_in_order_and_each_reads_what_came_before() -> None:
    ran = routed("[b, a]", a="Second.", b="First.")

    assert [agent for agent, *_ in runs(ran)] == ["router", "b", "a"]
    assert ran.turn().reply == "Second."
    assert ran.context("a").section("shared")[0].content == '{"b":"First."}'
    assert ran.history("a") == ["assistant/b: First."]
    assert ran.context("b").sections == ["instructions", "current_message"]
    assert ran.state("messages") == ["user: Hi", "assistant/b: First.", "assistant/a: Second."]


def test_reply_is_never_the_routers_decision() -> None:
    pipeline = ROUTER.replace("A.\n", "A.\n    before: [{writes: {heard: rule}}]\n")
    ran = routed("a", pipeline=pipeline)

    assert ran.turn().reply is None
    assert runs(ran)[1] == ("a", "stood_in", "")


@pytest.mark.parametrize(
    ("to", "chosen", "answered"),
    [
        ("nobody", "'nobody', which is no agent", '"nobody"'),
        ("[a, x]", "'x', which is no agent", '["a","x"]'),
        ("null", "nobody", "null"),
        ("[]", "nobody", "[]"),
        ("{parallel: []}", "nobody", '{"parallel":[]}'),
        ("3", "3, which is no agent", "3"),
    ],
)
def test_choice_of_what_is_no_agent_is_an_error_and_nobody_runs(
    to: str, chosen: str, answered: str
) -> None:
    ran = routed(to, "{error: {type: NoRoute}}")

    assert ran.error() == (
        "NoRoute",
        f"router 'router' chose {chosen}; it answered {{\"to\":{answered}}}; agents: a, b, c",
    )
    assert [agent for agent, *_ in runs(ran)] == ["router"]
    assert ran.turn().reply is None


def test_decider_is_no_target_of_its_own_choice() -> None:
    ran = routed("router", "{error: {type: NoRoute}}")

    assert ran.error() == (
        "NoRoute",
        'router \'router\' chose itself; it answered {"to":"router"}; agents: a, b, c',
    )
    assert [agent for agent, *_ in runs(ran)] == ["router"]


# At once


def test_parallel_agents_see_state_and_log_as_they_were_when_the_group_began() -> None:
    ran = routed(
        "{parallel: [a, b, c]}", a="From a.", b="{text: From b., latency_ms: 5}", c="From c."
    )

    assert runs(ran) == [
        ("router", "done", ""), ("a", "done", "g1"), ("b", "done", "g1"), ("c", "done", "g1"),
    ]  # fmt: skip
    for agent in "abc":
        assert ran.context(agent).section("shared") == []
        assert ran.history(agent) == []
        assert ran.runs(agent)[0].received["outputs"] == {}
        assert ran.runs(agent)[0].received["heard"] == []
    assert ran.state("outputs") == {"a": "From a.", "b": "From b.", "c": "From c."}
    assert ran.state("heard") == ["a", "c", "b"]
    assert ran.turn().reply == "From b."  # the last that finished
    assert [e.parallel for e in ran.events(RouteChosen)] == [True]


def test_parallel_agents_read_no_sibling_in_the_log_either() -> None:
    pipeline = ROUTER.replace(
        "history, current_message]", "{history: {from: log}}, current_message]"
    )
    ran = routed("{parallel: [a, b]}", pipeline=pipeline, a="From a.", b="From b.")

    assert ran.history("b") == ['assistant/router: {"to":{"parallel":["a","b"]}}']
    assert ran.history("a") == ran.history("b")


def test_run_that_a_parallel_agent_passes_control_to_sees_no_sibling_either() -> None:
    ran = routed(
        "{parallel: [c, b]}", c="{handoff: {to: a}, latency_ms: 5}", b="From b.", a="From a."
    )

    assert runs(ran) == [
        ("router", "done", ""), ("c", "handed_off", "g1"), ("b", "done", "g1"), ("a", "done", ""),
    ]  # fmt: skip
    assert ran.context("a").sections == ["instructions", "current_message"]
    assert ran.runs("a")[0].received["outputs"] == {}


def test_one_agent_in_parallel_is_no_group() -> None:
    ran = routed("{parallel: [a]}", a="Alone.")

    assert runs(ran) == [("router", "done", ""), ("a", "done", "")]


def test_error_in_a_group_cancels_those_who_wait_and_keeps_what_was_written() -> None:
    ran = routed(
        "{parallel: [a, b, c]}",
        "{error: {type: overloaded}}",
        a="{text: Late., latency_ms: 50}",
        b="{error: overloaded, latency_ms: 20}",
        c="{text: Early., latency_ms: 10}",
    )

    assert runs(ran) == [
        ("router", "done", ""),
        ("a", "cancelled", "g1"),
        ("b", "failed", "g1"),
        ("c", "done", "g1"),
    ]
    assert ran.state("outputs") == {"c": "Early."}
    assert ran.state("heard") == ["c"]
    assert ran.turn().reply is None
    assert ran.events(TurnFinished)[-1].at == 20


def test_error_in_a_group_also_ends_those_who_had_not_begun() -> None:
    ran = routed(
        "{parallel: [a, b]}",
        "{error: {type: overloaded}, findings: [RUN-01]}",
        a="{error: overloaded}",
        b="Never asked.",
    )

    assert runs(ran) == [
        ("router", "done", ""), ("a", "failed", "g1"), ("b", "cancelled", "g1"),
    ]  # fmt: skip
    assert len(ran.events(AgentStarted)) == len(ran.events(AgentFinished))


def test_a_timeout_in_a_group_is_no_reason_to_close_the_others() -> None:
    pipeline = ROUTER.replace(
        "flow:", "contracts: [{from: c, to: a, mode: delegate, timeout_ms: 5}]\nflow:"
    )
    ran = routed(
        "{parallel: [c, b]}",
        "{error: {type: overloaded}}",
        pipeline=pipeline,
        c="[{handoff: {to: a}}, {error: overloaded, latency_ms: 3}]",
        a="{text: Late., latency_ms: 9}",
        b="{text: Later., latency_ms: 90}",
    )

    assert runs(ran) == [
        ("router", "done", ""),
        ("c", "failed", "g1"),
        ("b", "cancelled", "g1"),
        ("a", "timed_out", ""),
    ]


def test_same_agent_twice_at_once_needs_lines_that_say_which_run_they_answer() -> None:
    with pytest.raises(SourceError) as error:
        routed("{parallel: [a, a]}", a="[One, Two]")

    assert "agent 'a' runs 2 times in parallel in turn 1" in str(error.value)


# Handoffs flow


def test_turn_starts_with_the_agent_that_a_channel_names() -> None:
    ran = run_yaml(
        """
channels: {active: {default: a}}
agents:
  a: {instructions: A., writes: {active: b}}
  b: {instructions: B.}
flow: {handoffs: {start: "${state.active}"}}
""",
        "turns:\n  - {user: One, replies: {a: I am a.}}\n  - {user: Two, replies: {b: I am b.}}",
    )

    assert [ran.turn(n).reply for n in (1, 2)] == ["I am a.", "I am b."]


@pytest.mark.parametrize(
    ("active", "message"),
    [
        ("c", "the flow starts with 'c', which is no agent; agents: a"),
        ("null", "the flow starts with nobody, which is no agent; agents: a"),
    ],
)
def test_start_with_what_is_no_agent_is_an_error(active: str, message: str) -> None:
    ran = run_yaml(
        'channels: {active: {}}\nagents: {a: {}}\nflow: {handoffs: {start: "${state.active}"}}',
        f"given: {{state: {{active: {active}}}}}\n"
        "turns:\n  - {user: One, replies: {}, expect: {error: {type: NoRoute}}}",
    )

    assert ran.error() == ("NoRoute", message)


# Turns


SIMPLE = "agents: {a: {instructions: A.}}\nflow: {handoffs: {start: a}}"


def test_run_tells_who_what_and_when_it_is() -> None:
    ran = run_yaml(
        SIMPLE,
        "seed: 7\nstart: 2026-03-01T12:00:00+01:00\nturns:\n  - {user: Hi, replies: {a: Hello}}",
    )
    (started,) = ran.events(RunStarted)

    assert (started.scenario, started.seed, started.start, started.driver) == (
        "s", 7, "2026-03-01T12:00:00+01:00", "native",
    )  # fmt: skip
    assert started.pipeline.name == "p"
    assert started.pipeline.starts == ("a",)
    assert [type(event).__name__ for event in ran.trace.events] == [
        "RunStarted", "SessionStarted", "TurnStarted", "MessageAdded", "StateUpdated",
        "AgentStarted", "ContextBuilt", "ModelCalled", "MessageAdded", "ModelReplied",
        "StateUpdated", "AgentFinished", "TurnFinished", "RunFinished",
    ]  # fmt: skip


def test_seed_may_be_given_from_outside() -> None:
    ran = run_yaml(SIMPLE, "seed: 7\nturns:\n  - {user: Hi, replies: {a: Hello}}", seed=9)

    assert ran.events(RunStarted)[0].seed == 9


def test_error_ends_the_run_unless_its_turn_claims_it() -> None:
    turns = """
turns:
  - {user: One, replies: {a: {error: refusal}}%s}
  - {user: Two, replies: {a: Hello}}
"""
    unclaimed = run_yaml(SIMPLE, turns % "")
    claimed = run_yaml(SIMPLE, turns % ", expect: {error: {type: refusal}}")

    assert len(unclaimed.view.turns) == 1
    assert unclaimed.events(RunFinished)[0].error is not None
    assert len(claimed.view.turns) == 2
    assert claimed.events(RunFinished)[0].error is None
    assert claimed.history("a") == ["user: One"]


@pytest.mark.parametrize(
    ("user", "message", "value"),
    [
        ("Hello there", "user: Hello there", None),
        ("{text: Hello}", "user: Hello", None),
        ("{json: {a: [1]}}", 'user: {"a":[1]}', {"a": [1]}),
        ("7", "user: 7", None),
        ("yes", "user: yes", None),
        ("1.50", "user: 1.50", None),
    ],
)
def test_user_says_text_or_a_value(user: str, message: str, value: Any) -> None:
    ran = run_yaml(SIMPLE, f"turns:\n  - {{user: {user}, replies: {{a: Hello}}}}")

    assert ran.state("messages")[0] == message
    assert ran.turn().state["messages"][0].data == value


def test_value_that_the_user_says_can_be_referred_to() -> None:
    ran = run_yaml(
        "channels: {x: {}}\nagents: {a: {writes: {x: '${user.order.id}'}}}\n"
        "flow: {handoffs: {start: a}}",
        "turns:\n  - {user: {json: {order: {id: 12}}}, replies: {a: Hello}}",
    )

    assert ran.state("x") == 12


# Limits


def reached(ran: Ran) -> list[tuple[str, int]]:
    return [(event.limit, event.allowed) for event in ran.events(LimitReached)]


def test_agent_runs_of_a_turn_are_limited() -> None:
    ran = routed(
        "[a, b]",
        "{error: {type: LimitExceeded}, findings: [FLW-01, RUN-01]}",
        pipeline=f"{ROUTER}\nlimits: {{agent_runs_per_turn: 2}}",
        a="Hello",
        b="Never",
    )

    assert ran.error() == ("LimitExceeded", "limit `agent_runs_per_turn` reached: 2 allowed")
    assert reached(ran) == [("agent_runs_per_turn", 2)]
    assert [agent for agent, *_ in runs(ran)] == ["router", "a"]


def test_agent_runs_of_a_group_are_limited_and_none_is_left_open() -> None:
    ran = routed(
        "{parallel: [a, b]}",
        "{error: {type: LimitExceeded}, findings: [FLW-01, RUN-01]}",
        pipeline=f"{ROUTER}\nlimits: {{agent_runs_per_turn: 2}}",
        a="Never",
        b="Never",
    )

    assert reached(ran) == [("agent_runs_per_turn", 2)]
    assert runs(ran) == [("router", "done", ""), ("a", "cancelled", "g1")]


def test_handoffs_of_a_turn_are_limited() -> None:
    ran = run_yaml(
        "agents: {a: {handoffs: [b]}, b: {handoffs: [a]}}\nflow: {handoffs: {start: a}}\n"
        "limits: {handoffs_per_turn: 2}",
        """
lints: {FLW-02: it goes round in a circle on purpose}
turns:
  - user: Hi
    replies: {a: [{handoff: {to: b}}, {handoff: {to: b}}], b: {handoff: {to: a}}}
    expect: {error: {type: LimitExceeded}, findings: [FLW-01]}
""",
    )

    assert ran.error() == ("LimitExceeded", "limit `handoffs_per_turn` reached: 2 allowed")
    assert reached(ran) == [("handoffs_per_turn", 2)]
    assert [run.agent for run in ran.turn().runs] == ["a", "b", "a"]
    assert len(ran.turn().handoffs) == 2


def test_turns_of_a_scenario_are_limited() -> None:
    ran = run_yaml(
        SIMPLE,
        "limits: {turns: 1}\n"
        "turns:\n  - {user: One, replies: {a: x}}\n  - {user: Two, replies: {a: x}}",
    )
    (finished,) = ran.events(RunFinished)

    assert len(ran.view.turns) == 1
    assert reached(ran) == [("turns", 1)]
    assert finished.error is not None
    assert (finished.error.type, finished.error.message) == (
        "LimitExceeded", "limit `turns` reached: 1 allowed",
    )  # fmt: skip
    assert not ran.judgement.passed


def test_virtual_time_of_a_scenario_is_limited() -> None:
    ran = run_yaml(
        SIMPLE,
        """
limits: {virtual_ms: 100}
turns:
  - {user: One, replies: {a: {text: x, latency_ms: 60}}}
  - user: Two
    replies: {a: {text: x, latency_ms: 60}}
    expect: {error: {type: LimitExceeded}, findings: [FLW-01]}
""",
    )

    assert ran.error(2) == ("LimitExceeded", "limit `virtual_ms` reached: 100 allowed")
    assert reached(ran) == [("virtual_ms", 100)]
    assert ran.runs("a")[0].status == "failed"


def test_virtual_time_that_runs_out_under_a_timeout_fails_the_run_that_waits() -> None:
    ran = run_yaml(
        "agents: {a: {handoffs: [b]}, b: {}}\nflow: {handoffs: {start: a}}\n"
        "contracts: [{from: a, to: b, mode: delegate, timeout_ms: 500}]",
        """
limits: {virtual_ms: 100}
turns:
  - user: One
    replies: {a: {handoff: {to: b}}, b: {text: x, latency_ms: 200}}
    expect: {error: {type: LimitExceeded}, findings: [FLW-01]}
""",
    )

    assert runs(ran) == [("a", "failed", ""), ("b", "failed", "")]
    assert [e.agent for e in ran.events(AgentFinished)] == ["b", "a"]


def test_scenario_may_replace_the_pipelines_limits() -> None:
    ran = run_yaml(
        f"{SIMPLE}\nlimits: {{turns: 1}}",
        "limits: {turns: 2}\n"
        "turns:\n  - {user: 1, replies: {a: x}}\n  - {user: 2, replies: {a: x}}",
    )

    assert len(ran.view.turns) == 2


# Sessions


TALKS = {
    "s1": [("One", "a"), ("Two", "b"), ("Three", "a")],
    "s2": [("Uno", "b"), ("Dos", "a"), ("Tres", "b")],
}


def talk(order: list[tuple[str, int]]) -> Ran:
    turns = []
    for session, place in order:
        reply, agent = TALKS[session][place]
        turns.append(
            f"  - {{user: {reply}, session: {session}, replies: "
            f"{{router: {{json: {{to: {agent}}}}}, {agent}: 'Re: {reply}'}}}}"
        )
    return run_yaml(ROUTER, "turns:\n" + "\n".join(turns))


def of_session(ran: Ran, session: str) -> list[Any]:
    """Everything that one session's judges would see, without numbers."""
    return [
        {
            "runs": [(run.agent, run.status, run.output) for run in turn.runs],
            "contexts": [
                [(line, m.section) for line, m in zip(message_lines(c.context.messages),
                                                      c.context.messages, strict=True)]
                for c in turn.calls
            ],
            "state": {k: message_lines(v) if k == "messages" else v for k, v in turn.state.items()},
            "reply": turn.reply,
        }
        for turn in ran.view.turns
        if turn.session == session
    ]  # fmt: skip


def test_interleaved_sessions_go_each_as_if_alone() -> None:
    mixed = talk([("s1", 0), ("s2", 0), ("s2", 1), ("s1", 1), ("s1", 2), ("s2", 2)])
    alone = {session: talk([(session, place) for place in range(3)]) for session in TALKS}

    for session in TALKS:
        assert of_session(mixed, session) == of_session(alone[session], session)
        assert len(of_session(mixed, session)) == 3
    assert [(e.session, e.project) for e in mixed.events(SessionStarted)] == [
        ("s1", "p1"), ("s2", "p1"),
    ]  # fmt: skip


def test_updates_name_their_session() -> None:
    mixed = talk([("s1", 0), ("s2", 0)])

    assert [(e.session, e.turn, e.cause) for e in mixed.events(StateUpdated)] == [
        ("s1", 1, "user"), ("s1", 1, "writes"), ("s2", 2, "user"), ("s2", 2, "writes"),
    ]  # fmt: skip


STEPS = {
    "a run that waits": "{user: Hi, replies: {desk: {text: Hello, latency_ms: 5}}}",
    "a question": (
        "{user: Hi, replies: {desk: {interrupt: Who?}}}, {resume: I, replies: {desk: Ah}}"
    ),
    "a question without an answer": "{user: Hi, replies: {desk: {interrupt: Who?}}}",
    "another turn in place of an answer": (
        "{user: Hi, replies: {desk: {interrupt: Who?}}}, {user: No, replies: {desk: Ah}}"
    ),
    "an error": "{user: Hi, faults: [{error: rate_limit}], expect: {error: {type: ModelError}}}",
}


def turns_alive() -> int:
    """Returns how many turns this process holds."""
    return sum(type(value) is Turn for value in gc.get_objects())


@pytest.mark.parametrize("name", STEPS)
def test_a_turn_is_freed_without_the_collector(name: str) -> None:
    pipeline = "agents: {desk: {instructions: Help.}}\nflow: {handoffs: {start: desk}}"
    scenario = prepared(f"version: 1\npipeline: p\n{pipeline}", f"turns: [{STEPS[name]}]")
    run(scenario)  # what a process makes once
    gc.collect()
    before = turns_alive()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        run(scenario)

        assert turns_alive() == before
    finally:
        if was_enabled:
            gc.enable()
