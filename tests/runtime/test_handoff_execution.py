"""What a contract writes: channels that a handoff fills before its target starts."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.core.errors import SourceError
from simkit.trace import events as e
from tests.building import Ran, line, message_lines, run_yaml


def pipeline(contract: str, flow: str = "{handoffs: {start: source}}", extra: str = "") -> str:
    return f"""
channels:
  memory: {{reducer: merge, scope: turn}}
  made: {{reducer: add, scope: session, default: 0}}
  current: {{scope: session}}
  plan: {{scope: session}}
  level: {{scope: session, default: 1, schema: {{type: integer}}}}
  draft: {{scope: agent_run}}
agents:
  source: {{instructions: S., handoffs: [target]}}
  target:
    instructions: T.
    context: [instructions, handoff, {{shared: {{from: memory}}}}, current_message]
  third: {{instructions: Third.}}
contracts:
  - {{from: source, to: target, {contract}}}
{extra}
flow: {flow}
"""


WRITES = (
    'writes: {memory: {given: "${handoff.payload}", by: "${agent}"}, made: 1, '
    'current: "${handoff.to} after ${state.level}: ${user}"}'
)
HAND_OFF = "{handoff: {to: target, query: Go on, payload: {km: 8}}}"


def turns(source: str = HAND_OFF, target: str = "Done.") -> str:
    return f"turns:\n  - {{user: Hi, replies: {{source: {source}, target: {target}}}}}"


def received(ran: Ran, *channels: str) -> list[Any]:
    return [ran.runs("target")[0].received[name] for name in channels]


@pytest.mark.parametrize("mode", ["transfer", "replace", "delegate"])
def test_the_target_receives_what_its_contract_writes_and_the_source_does_not(mode: str) -> None:
    source = f"[{HAND_OFF}, Well.]" if mode == "delegate" else HAND_OFF

    ran = run_yaml(pipeline(f"mode: {mode}, {WRITES}"), turns(source))

    assert ran.judgement.findings == ()
    assert received(ran, "memory", "made", "current") == [
        {"given": {"km": 8}, "by": "source"}, 1, "target after 1: Hi",
    ]  # fmt: skip
    assert ran.runs("source")[0].received["memory"] == {}
    assert ran.runs("source")[0].update["made"] == 1
    assert message_lines(ran.context("target").section("shared")) == [
        'system: {"given":{"km":8},"by":"source"}'
    ]
    assert "made" not in ran.runs("target")[0].update


def test_the_trace_tells_which_handoff_wrote_after_it_was_made_and_before_its_target() -> None:
    ran = run_yaml(pipeline(WRITES), turns())

    kinds = (e.HandoffMade, e.AgentStarted)
    events = [
        event for event in ran.trace.events
        if isinstance(event, kinds) or (isinstance(event, e.StateUpdated) and event.handoff)
    ]  # fmt: skip
    assert [type(event).__name__ for event in events] == [
        "AgentStarted", "HandoffMade", "StateUpdated", "AgentStarted",
    ]  # fmt: skip
    (update,) = [event for event in events if isinstance(event, e.StateUpdated)]
    assert (update.cause, update.handoff, update.agent) == ("handoff", "h1", "source")


def test_a_handoff_that_is_rejected_writes_nothing() -> None:
    contract = f"payload: {{type: object, required: [miles]}}, {WRITES}"

    ran = run_yaml(pipeline(contract), turns(f"[{HAND_OFF}, Alone.]", "null").replace(
        ", target: null", ""))  # fmt: skip

    assert ran.state("made") == 0
    assert ran.view.state_at_end()["memory"] == {}
    assert not any(
        isinstance(event, e.StateUpdated) and event.handoff for event in ran.trace.events
    )


def test_each_of_several_handoffs_writes_for_itself() -> None:
    ran = run_yaml(
        pipeline(f"mode: delegate, {WRITES}"),
        turns(
            "[{handoff: {to: target, payload: {km: 1}}}, {handoff: {to: target, "
            "payload: {km: 2}}}, Well.]",
            "[One., Two.]",
        ),
    )

    given_values = [run.received["memory"]["given"] for run in ran.runs("target")]
    assert given_values == [{"km": 1}, {"km": 2}]
    assert [run.received["made"] for run in ran.runs("target")] == [1, 2]


def test_what_the_source_has_said_and_done_can_be_written() -> None:
    writes = 'writes: {plan: {words: "${run.reply}", calls: "${run.messages[0].content}"}}'

    ran = run_yaml(pipeline(writes), turns("{text: Take over., handoff: {to: target}}"))

    assert received(ran, "plan") == [{"words": None, "calls": "Take over."}]


def test_only_what_travels_is_received_of_it() -> None:
    ran = run_yaml(pipeline(f"carries: [current], {WRITES}"), turns())

    assert ran.runs("target")[0].received == {"current": "target after 1: Hi"}
    assert ran.state("made") == 1


def test_messages_may_be_written_into_the_conversation() -> None:
    writes = 'writes: {messages: [{system: "${agent} hands over to ${handoff.to}."}]}'

    ran = run_yaml(pipeline(writes), turns())

    messages = ran.runs("target")[0].received["messages"]
    assert [line(message) for message in messages] == [
        "user: Hi",
        "system: source hands over to target.",
    ]


GRAPH = """{graph: {nodes: {source: {start: true, role: split}, target: {exit: true},
  third: {exit: true}}, edges: [{from: source, to: target}, {from: source, to: third}]}}"""


def test_an_edge_with_a_contract_writes_the_sources_output_before_any_branch_begins() -> None:
    graph = pipeline('writes: {plan: "${run.output}", made: 1}', GRAPH)

    ran = run_yaml(graph, "turns: [{user: Hi, replies: {source: Plan A, target: A, third: B}}]")

    assert [ran.runs(name)[0].received["plan"] for name in ("target", "third")] == ["Plan A"] * 2
    assert ran.runs("source")[0].update["plan"] == "Plan A"
    assert ran.judgement.findings == ()


def test_two_ways_that_open_at_once_and_write_differently_lose_one_of_the_values() -> None:
    third = "  - {from: source, to: third, writes: {current: b}}"
    graph = pipeline("writes: {current: a}", GRAPH, third)
    script = "turns: [{user: Hi, replies: {source: Plan A, target: A, third: B}}]"

    lost = [
        finding.what
        for finding in run_yaml(graph, script).judgement.findings
        if finding.id == "STA-01"
    ]
    same = run_yaml(graph.replace("current: b", "current: a"), script)

    assert lost == [
        "the handoffs 'h1' and 'h2' of agent 'source' open at once in turn 1 and wrote different "
        "values to channel `current` (reducer replace): the first is lost"
    ]
    assert "STA-01" not in [finding.id for finding in same.judgement.findings]


def test_the_words_of_a_step_see_what_the_handoff_to_it_has_written() -> None:
    steps = """{supervisor: {goals: {g: {description: G.,
      steps: [source: Plan, target: "Do ${state.plan} as ${state.level}"]}}}}"""
    text = 'on_invalid: retry, payload: {type: object}, writes: {plan: "${handoff.payload.it}"}'

    ran = run_yaml(
        pipeline(text, steps),
        "turns: [{user: Hi, replies: {source: [Plan A, {json: {it: B}}], target: A}}]",
    )

    assert [run.input for run in ran.runs("target")] == ["Do B as 1"]
    assert ran.runs("target")[0].received["plan"] == "B"


def test_delegations_one_after_the_other_lose_nothing() -> None:
    again = "[{handoff: {to: target, payload: 1}}, {handoff: {to: target, payload: 2}}, Well.]"

    ran = run_yaml(
        pipeline('mode: delegate, writes: {plan: "${handoff.payload}"}'), turns(again, "[A, B]")
    )

    assert [run.received["plan"] for run in ran.runs("target")] == [1, 2]
    assert "STA-01" not in [finding.id for finding in ran.judgement.findings]


BRANCHES = """
channels: {plan: {scope: turn}, trail: {reducer: append, scope: turn}}
agents:
  router: {instructions: R., output: {type: object}, context: [current_message]}
  one: {instructions: One.}
  two: {instructions: Two.}
  helper: {instructions: H., context: [instructions, handoff, current_message]}
contracts:
  - {from: [one, two], to: helper, writes: {trail: "${agent}"}}
flow: {router: {decide: router, to: "${run.output.to}"}}
"""


def test_a_parallel_branch_writes_for_itself_and_its_sibling_sees_nothing_of_it() -> None:
    script = """
turns:
  - user: Hi
    replies:
      router: {json: {to: {parallel: [one, two]}}}
      one: {handoff: {to: helper, payload: 1}}
      two: {handoff: {to: helper, payload: 2}}
      helper:
        - {when: {handoff: {$has: [{$contains: "1"}]}}, text: A}
        - {when: {handoff: {$has: [{$contains: "2"}]}}, text: B}
"""

    ran = run_yaml(BRANCHES, script)

    assert sorted(str(run.received["trail"]) for run in ran.runs("helper")) == [
        "['one']",
        "['two']",
    ]
    assert list(ran.view.state_at_end()["trail"]) == ["one", "two"]


SUPERVISED = "{supervisor: {goals: {g: {steps: [{source: Plan}, {target: Do it}]}}}}"


def test_a_supervisors_step_writes_between_two_steps() -> None:
    ran = run_yaml(
        pipeline('writes: {plan: {from: "${handoff.from}", out: "${run.output}"}}', SUPERVISED),
        turns("Plan A"),
    )

    assert received(ran, "plan") == [{"from": "source", "out": "Plan A"}]


def test_what_was_written_outlives_the_process() -> None:
    script = turns() + "\n  - {user: And now?, restart: true, replies: {source: Bye.}}"

    ran = run_yaml(pipeline(WRITES), script)

    assert ran.judgement.findings == ()
    assert ran.runs("source", 2)[0].received["current"] == "target after 1: Hi"
    assert ran.runs("source", 2)[0].received["made"] == 1


def test_a_target_that_asks_the_user_keeps_what_was_written_for_it() -> None:
    script = """
turns:
  - {user: Hi, replies: {source: %s, target: {interrupt: How far?}}}
  - {resume: 8 km, replies: {target: Done.}, expect: {runs: {target: {received: {made: 1}}}}}
"""  # fmt: skip

    ran = run_yaml(pipeline(WRITES), script % HAND_OFF)
    anew = run_yaml(
        pipeline(WRITES), script.replace("{resume:", "{restart: true, resume:") % HAND_OFF
    )

    for item in (ran, anew):
        assert item.judgement.findings == ()
        assert item.runs("target", 2)[0].received["memory"]["given"] == {"km": 8}
        assert item.state("made") == 1


def test_a_value_that_its_channel_refuses_ends_the_turn_and_the_target_never_starts() -> None:
    ran = run_yaml(pipeline('writes: {level: "${handoff.payload.km} km"}'), turns())

    error = ran.turn().error
    assert error is not None
    assert (error.type, error.message) == (
        "WriteInvalid", "channel `level`: '8 km' is not of type 'integer'",
    )  # fmt: skip
    assert [run.agent for run in ran.turn().runs] == ["source"]


@pytest.mark.parametrize(
    ("writes", "problem"),
    [
        ("{nowhere: 1}", "unknown channel `nowhere`"),
        ("{current: '${handoff.reason}'}", "`${handoff.reason}` leads nowhere: a handoff has no"),
        ("{current: '${state.nothing}'}", "`${state.nothing}` leads nowhere"),
        ("{draft: 1}", "channel `draft` has scope agent_run: no target would ever receive it"),
        ("[current]", "mapping"),
    ],
)
def test_what_leads_nowhere_is_refused_with_its_place(writes: str, problem: str) -> None:
    with pytest.raises(SourceError) as refused:
        run_yaml(pipeline(f"writes: {writes}"), turns())

    assert problem in str(refused.value)
    assert "contracts[0].writes" in str(refused.value)


PIPELINE = """
version: 1
pipeline: p
agents:
  a: {{instructions: A.{handoffs}}}
  b: {{instructions: B.}}{defaults}
contracts: [{{from: "{source}", to: b}}]
flow: {{handoffs: {{start: a}}}}
"""
TURNS = """
turns:
  - user: Hello
    replies: {a: [{handoff: {to: b}}, Done.]}
    expect:
      handoffs: [{from: a, to: b, outcome: rejected, reason: {$contains: "handoffs: []"}}]
      context: {"a[0]": {handoffs: []}}
      reply: Done.
"""
TEXT = """
turns:
  - user: Hello
    replies: {a: {handoff: {to: b}}, b: Done.}
    expect:
      handoffs: [{from: a, to: b, outcome: made}]
      context: {a: {handoffs: [b]}}
"""


@pytest.mark.parametrize("source", ["a", "*"])
@pytest.mark.parametrize(
    ("handoffs", "defaults"), [(", handoffs: []", ""), ("", "\ndefaults: {handoffs: []}")]
)
def test_contracts_give_it_none(source: str, handoffs: str, defaults: str) -> None:
    pipeline = PIPELINE.format(handoffs=handoffs, defaults=defaults, source=source)

    findings = run_yaml(pipeline, TURNS).judgement.findings

    assert [finding.id for finding in findings if finding.severity == "E"] == []


def test_one_that_says_nothing_of_handoffs_has_those_of_contracts() -> None:
    pipeline = PIPELINE.format(handoffs="", defaults="", source="a")

    assert run_yaml(pipeline, TEXT).judgement.findings == ()
