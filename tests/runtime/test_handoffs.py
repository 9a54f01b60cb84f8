"""Handoffs: made or rejected, in three modes, and what travels with them."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.core.errors import SourceError
from simkit.trace.events import AgentFinished, HandoffMade
from tests.building import Ran, message_lines, run_yaml


def pipeline(contract: str, extra: str = "", target: str = "{instructions: T.}") -> str:
    return f"""
version: 1
pipeline: p
channels: {{facts: {{}}, other: {{}}, seen: {{reducer: append}}}}
defaults:
  writes: {{messages: ["${{run.final_message}}"], seen: "${{agent}}"}}
agents:
  source: {{instructions: S., handoffs: [target]}}
  target: {target}
  third: {{instructions: Third.}}
contracts: [{{from: source, to: target, {contract}}}]
flow: {{handoffs: {{start: source}}}}
{extra}
"""


def one_turn(source: str, target: str = "Done.", expect: str = "{}") -> str:
    replies = f"source: {source}" + (f", target: {target}" if target else "")
    return f"turns:\n  - {{user: Hi, replies: {{{replies}}}, expect: {expect}}}"


HAND_OFF = "{handoff: {to: target, payload: {km: 8}}}"


def requests(ran: Ran) -> list[tuple[Any, ...]]:
    return [(h.outcome, h.reason, h.event.mode, h.event.type) for h in ran.turn().handoffs]


# Modes


def test_transfer_gives_the_turn_to_the_target_and_the_source_writes_nothing() -> None:
    ran = run_yaml(pipeline("mode: transfer, type: t"), one_turn(HAND_OFF))

    assert [(r.agent, r.status) for r in ran.turn().runs] == [
        ("source", "handed_off"), ("target", "done"),
    ]  # fmt: skip
    assert ran.turn().reply == "Done."
    assert ran.state("messages") == ["user: Hi", "assistant/target: Done."]
    assert ran.state("seen") == ["target"]
    assert ran.runs("source")[0].update == {}
    assert requests(ran) == [("made", "", "transfer", "t")]
    assert ran.calls("source") == ran.runs("source")[0].calls
    assert len(ran.calls("source")) == 1


def test_replace_leaves_the_targets_message_under_its_own_name() -> None:
    ran = run_yaml(
        pipeline("mode: replace"), one_turn("{text: One moment., handoff: {to: target}}")
    )

    assert ran.turn().reply == "Done."
    assert ran.state("messages") == ["user: Hi", "assistant/target: Done."]
    assert ran.runs("source")[0].update == {}
    assert ran.runs("source")[0].status == "handed_off"


def test_delegate_comes_back_with_the_targets_output_as_the_result() -> None:
    ran = run_yaml(
        pipeline("mode: delegate"),
        one_turn(
            "[{text: Asking., handoff: {to: target, query: How far?}}, Eight.]", "{json: {km: 8}}"
        ),
    )  # fmt: skip

    assert [r.agent for r in ran.turn().runs] == ["source", "target"]
    assert ran.turn().reply == "Eight."
    assert message_lines(ran.context("source", call=1).section("run")) == [
        'assistant/source: Asking. [transfer_to_target{"type":"handoff","query":"How far?"}]',
        'tool/source: {"km":8}',
    ]
    assert ran.context("source", call=1).section("run")[1].data == {"km": 8}
    assert ran.state("messages") == [
        "user: Hi", 'assistant/target: {"km":8}', "assistant/source: Eight.",
    ]  # fmt: skip
    assert ran.state("seen") == ["target", "source"]


def test_delegate_may_be_asked_again_in_the_same_run() -> None:
    ran = run_yaml(
        pipeline("mode: delegate"),
        one_turn("[{handoff: {to: target}}, {handoff: {to: target}}, Both.]", "[One, Two]"),
    )

    section = ran.context("source", call=2).section("run")
    assert [m.content for m in section if m.role == "tool"] == [
        "One", "Two",
    ]  # fmt: skip
    assert [h.depth for h in ran.turn().handoffs] == [1, 1]


def test_handoff_counts_neither_among_tools_nor_among_tool_calls() -> None:
    ran = run_yaml(pipeline("mode: delegate"), one_turn("[{handoff: {to: target}}, Fine.]"))

    assert ran.context("source").tools == ()
    assert ran.turn().tools == []


# What starts the target


def test_target_reads_the_payload_and_the_query_and_the_users_message_stays_in_history() -> None:
    ran = run_yaml(
        pipeline("mode: transfer"),
        one_turn("{handoff: {to: target, query: Compare the runs., payload: {km: 8}}}"),
    )
    context = ran.context("target")

    assert message_lines(context.messages) == [
        "system/target: T.",
        'system: {"km":8}',
        "user: Hi",
        "user: Compare the runs.",
    ]
    assert context.sections == ["instructions", "handoff", "history", "current_message"]
    assert ran.runs("target")[0].input == {"km": 8}


def test_target_without_a_query_answers_the_users_message() -> None:
    ran = run_yaml(pipeline("mode: transfer"), one_turn(HAND_OFF))

    assert message_lines(ran.context("target").messages) == [
        "system/target: T.", 'system: {"km":8}', "user: Hi",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "given", "payload"),
    [
        ("{properties: {source_agent: {type: string}}}", "{km: 8}",
         {"source_agent": "source", "km": 8}),
        ("{required: [handoff_type, source_agent]}", "{km: 8}",
         {"source_agent": "source", "handoff_type": "t", "km": 8}),
        ("{required: [source_agent]}", "{source_agent: somebody}", {"source_agent": "somebody"}),
        ("{required: [handoff_type]}", None, {"handoff_type": "t"}),
        ("{required: [km]}", "{km: 8}", {"km": 8}),
    ],
)  # fmt: skip
def test_source_and_type_are_in_the_payload_only_where_its_schema_names_them(
    schema: str, given: str | None, payload: dict[str, Any]
) -> None:
    text = f", payload: {given}" if given else ""
    ran = run_yaml(
        pipeline(f"type: t, payload: {schema}"), one_turn(f"{{handoff: {{to: target{text}}}}}")
    )

    assert ran.turn().handoffs[0].event.payload == payload
    assert ran.runs("target")[0].input == payload


# Rejected


def rejected(
    contract: str, handoff: str, expect: str = "{}", then: str = "Alone."
) -> tuple[str, Ran]:
    """The reason, where the source is told and then goes on alone."""
    ran = run_yaml(pipeline(contract), one_turn(f"[{{handoff: {handoff}}}, {then}]", "", expect))
    (request,) = ran.turn().handoffs
    assert request.outcome == "rejected"
    return request.reason, ran


@pytest.mark.parametrize(
    ("contract", "handoff", "reason"),
    [
        ("payload: {type: object, required: [km]}", "{to: target, payload: {m: 8}}",
         "payload: 'km' is a required property"),
        ("query: {max_chars: 5}", "{to: target, query: too long}",
         "query has 8 characters, at most 5 are allowed"),
        ("type: t", "{to: target, type: u}",
         "type 'u' is not registered for this pair; known: t"),
        ("type: t", "{to: third}", "'source' has no handoff to 'third'; declared: target"),
    ],
)  # fmt: skip
def test_source_is_told_why_its_handoff_is_rejected(
    contract: str, handoff: str, reason: str
) -> None:
    result, ran = rejected(contract, handoff)
    target = handoff.partition("to: ")[2].strip("{}").partition(",")[0]

    assert result == reason
    assert ran.context("source", call=1).section("run")[-1].content == (
        f"Handoff to {target} rejected: {reason}"
    )
    assert [r.agent for r in ran.turn().runs] == ["source"]
    assert ran.turn().reply == "Alone."
    assert ran.state("messages") == ["user: Hi", "assistant/source: Alone."]


def test_rules_are_matchers_of_the_whole_handoff() -> None:
    reason, _ = rejected(
        "rules: [{payload: {km: {$gt: 5}}}, {query: {$contains: run}, from: source}]",
        "{to: target, query: the walk, payload: {km: 3}}",
    )

    assert reason == (
        "rule on payload.km: wanted $gt: 5, found 3; "
        'rule on query: wanted $contains: "run", found "the walk"'
    )


@pytest.mark.parametrize("handoff", ["{to: target, payload: {km: 8}, query: run}"])
def test_handoff_that_breaks_nothing_is_made(handoff: str) -> None:
    ran = run_yaml(
        pipeline(
            "payload: {required: [km]}, query: {max_chars: 3}, rules: [{payload: {km: {$gt: 5}}}], "
            "depth_max: 1"
        ),
        one_turn(f"{{handoff: {handoff}}}"),
    )

    assert requests(ran) == [("made", "", "transfer", "handoff")]


def test_stop_ends_the_turn_without_an_error_or_a_reply() -> None:
    ran = run_yaml(
        pipeline("on_invalid: stop, payload: {type: object, required: [km]}"),
        one_turn("{handoff: {to: target, payload: {}}}", "", "{reply: null}"),
    )

    assert ran.error() is None
    assert ran.turn().reply is None
    assert requests(ran)[0][:2] == ("rejected", "payload: 'km' is a required property")
    assert ran.turn().finished
    assert all(run.finished for run in ran.turn().runs)
    assert ran.state("messages") == ["user: Hi"]
    assert ran.judgement.passed


def test_retry_tells_the_source_once_and_ends_with_an_error_the_second_time() -> None:
    ran = run_yaml(
        pipeline("on_invalid: retry, payload: {type: object, required: [km]}"),
        one_turn(
            "[{handoff: {to: target, payload: {}}}, {handoff: {to: target, payload: {m: 1}}}]",
            "",
            "{error: {type: HandoffInvalid}}",
        ),
    )

    assert [h.outcome for h in ran.turn().handoffs] == ["rejected", "rejected"]
    assert message_lines(ran.context("source", call=1).section("run"))[-1] == (
        "tool/source: Handoff to target rejected: payload: 'km' is a required property"
    )
    assert ran.error() == (
        "HandoffInvalid",
        "the handoff from 'source' to 'target' was refused again: "
        "payload: 'km' is a required property",
    )
    assert ran.runs("source")[0].status == "failed"


def test_retry_that_is_right_the_second_time_is_made() -> None:
    ran = run_yaml(
        pipeline("on_invalid: retry, payload: {type: object, required: [km]}"),
        one_turn("[{handoff: {to: target}}, {handoff: {to: target, payload: {km: 1}}}]"),
    )

    assert [h.outcome for h in ran.turn().handoffs] == ["rejected", "made"]
    assert ran.turn().reply == "Done."


def test_type_that_several_contracts_leave_open_must_be_written() -> None:
    two = pipeline("type: t").replace(
        "contracts: [", "contracts: [{from: source, to: target, type: u, mode: delegate}, "
    )

    with pytest.raises(SourceError) as error:
        run_yaml(two, one_turn("{handoff: {to: target}}"))
    assert "must say its type" in str(error.value)
    ran = run_yaml(two, one_turn("[{handoff: {to: target, type: u}}, Back.]"))
    assert requests(ran) == [("made", "", "delegate", "u")]


# What travels


def test_carries_names_the_only_channels_that_the_target_reads() -> None:
    ran = run_yaml(
        pipeline(
            "carries: [facts]",
            target="""
    instructions: "Facts ${state.facts}, other ${state.other}."
    context: [instructions, {shared: {from: other}}, history, current_message]""",
        ),
        "given: {state: {facts: F, other: O}}\n" + one_turn(HAND_OFF),
    )
    context = ran.context("target")

    assert dict(ran.runs("target")[0].received) == {"facts": "F"}
    assert context.messages[0].content == "Facts F, other null."
    assert context.sections == ["instructions", "current_message"]
    assert ran.state("other") == "O"


SAID_BEFORE = """
  - user: One
    replies:
      source: [{text: Looking., calls: {look: {}}}, First.]
    tool_results: {look: seen}
  - user: Two
    replies: {source: {text: Over., handoff: {to: target}}, target: Done.}
"""
FROM_LOG = "{tools: [], context: [instructions, {history: {from: log}}, current_message]}"


@pytest.mark.parametrize(
    ("policy", "history"),
    [
        ("all", ["user: One", "assistant/source: Looking. [look{}]", "tool/source: seen",
                 "assistant/source: First.",
                 'assistant/source: Over. [transfer_to_target{"type":"handoff"}]',
                 "tool/source: Transferred to target."]),
        ("none", []),
        ("filters", ["user: One", "assistant/source: First."]),
        ("[tool_messages, handoffs]", ["user: One", "assistant/source: Looking. [look{}]",
                                       "assistant/source: First.", "assistant/source: Over."]),
        ("[{agents: {only: []}}]", ["user: One"]),
    ],
)  # fmt: skip
def test_contract_says_what_of_the_conversation_travels(policy: str, history: list[str]) -> None:
    text = pipeline(f"history: {policy}, carries: []", "tools: {look: {}}", FROM_LOG)
    text = text.replace("{instructions: S.,", "{instructions: S., tools: [look],")
    ran = run_yaml(text, f"turns:{SAID_BEFORE}")

    assert ran.history("target") == history


def test_targets_own_filters_come_after_those_that_travel() -> None:
    text = pipeline(
        "history: [handoffs]",
        "tools: {look: {}}",
        "{context: [{history: {from: log, filters: [tool_messages, tool_calls]}}]}",
    ).replace("{instructions: S.,", "{instructions: S., tools: [look],")
    ran = run_yaml(text, f"turns:{SAID_BEFORE}")

    assert ran.history("target") == [
        "user: One", "assistant/source: Looking.", "assistant/source: First.", "user: Two",
        "assistant/source: Over.",
    ]  # fmt: skip
    assert [(d.what, d.by) for d in ran.context("target").dropped()] == [
        ("tool_calls", "tool_calls"),
        ("message", "tool_messages"),
        ("tool_calls", "handoffs"),
        ("message", "handoffs"),
    ]


def test_same_type_from_two_sources_travels_as_each_contract_says() -> None:
    ran = run_yaml(
        """
defaults: {writes: {messages: ["${run.final_message}"]}}
agents:
  one: {handoffs: [target]}
  two: {handoffs: [target]}
  target: {context: [history, current_message]}
contracts:
  - {from: one, to: target, type: t, history: [{agents: {only: [one]}}]}
  - {from: two, to: target, type: t, history: [{agents: {only: [two]}}]}
channels: {first: {}}
flow: {handoffs: {start: "${state.first}"}}
""",
        """
given:
  state:
    first: one
    messages: [{assistant: I am one, agent: one}, {assistant: I am two, agent: two}]
turns:
  - {user: A, session: s1, replies: {one: {handoff: {to: target}}, target: T1}}
  - {user: B, session: s1, replies: {one: {handoff: {to: target}}, target: T2}}
""",
    )  # fmt: skip

    assert ran.history("target", 2) == ["assistant/one: I am one", "user: A"]


# Chains, depth, time


CHAIN = """
agents:
  a: {handoffs: [b]}
  b: {handoffs: [c]}
  c: {handoffs: [d]}
  d: {instructions: D.}
contracts:
  - {from: a, to: b}
  - {from: b, to: c, mode: MODE}
  - {from: c, to: d, depth_max: DEPTH}
flow: {handoffs: {start: a}}
"""
CHAINED = """
turns:
  - user: Hi
    replies:
      a: {handoff: {to: b}}
      b: [{handoff: {to: c}}, B ends.]
      c: [{handoff: {to: d}}, C ends.]
      d: D ends.
"""


def test_depth_counts_the_handoffs_between_the_first_agent_and_the_target() -> None:
    ran = run_yaml(
        CHAIN.replace("MODE", "delegate").replace("DEPTH", "3"), CHAINED.replace(", C ends.", "")
    )

    assert [(event.to_agent, event.depth) for event in ran.events(HandoffMade)] == [
        ("b", 1), ("c", 2), ("d", 3),
    ]  # fmt: skip
    assert ran.turn().reply == "B ends."
    assert message_lines(ran.context("b", call=1).section("run"))[-1] == "tool/b: D ends."


def test_depth_beyond_what_the_contract_allows_is_rejected() -> None:
    ran = run_yaml(
        CHAIN.replace("MODE", "transfer").replace("DEPTH", "2"),
        CHAINED.replace(", B ends.", "").replace("      d: D ends.\n", ""),
    )

    assert ran.turn().handoffs[-1].reason == "depth 3 exceeds depth_max 2"
    assert ran.turn().reply == "C ends."


def test_delegate_that_takes_too_long_is_closed_and_the_source_is_told() -> None:
    ran = run_yaml(
        pipeline("mode: delegate, timeout_ms: 100"),
        one_turn("[{handoff: {to: target}}, Without it.]", "{text: Late., latency_ms: 101}"),
    )

    assert message_lines(ran.context("source", call=1).section("run"))[-1] == (
        "tool/source: Handoff to target timed out after 100 ms"
    )
    assert [(r.agent, r.status) for r in ran.turn().runs] == [
        ("source", "done"), ("target", "timed_out"),
    ]  # fmt: skip
    assert ran.turn().reply == "Without it."
    assert ran.state("messages") == ["user: Hi", "assistant/source: Without it."]
    assert ran.calls("source")[1].at == 100


@pytest.mark.parametrize("mode", ["transfer", "replace"])
def test_target_that_takes_too_long_ends_the_turn_with_an_error(mode: str) -> None:
    ran = run_yaml(
        pipeline(f"mode: {mode}, timeout_ms: 100"),
        one_turn(HAND_OFF, "{text: Late., latency_ms: 101}", "{error: {type: HandoffTimeout}}"),
    )

    assert ran.error() == (
        "HandoffTimeout",
        "agent 'target' took longer than the 100 ms that the handoff from 'source' allows",
    )
    assert ran.runs("target")[0].status == "timed_out"
    assert ran.events(AgentFinished)[-1].at == 100


@pytest.mark.parametrize("mode", ["transfer", "replace", "delegate"])
def test_target_may_take_all_of_its_time(mode: str) -> None:
    ran = run_yaml(
        pipeline(f"mode: {mode}, timeout_ms: 100"),
        one_turn("[{handoff: {to: target}}, Back.]" if mode == "delegate" else HAND_OFF,
                 "{text: Just so., latency_ms: 100}"),
    )  # fmt: skip

    assert ran.runs("target")[0].status == "done"


def test_time_of_a_delegate_includes_those_it_passes_control_to() -> None:
    ran = run_yaml(
        """
agents:
  a: {handoffs: [b]}
  b: {handoffs: [c]}
  c: {}
contracts: [{from: a, to: b, mode: delegate, timeout_ms: 50}, {from: b, to: c}]
flow: {handoffs: {start: a}}
""",
        """
turns:
  - user: Hi
    replies:
      a: [{handoff: {to: b}}, Alone.]
      b: {handoff: {to: c}, latency_ms: 30}
      c: {text: Late., latency_ms: 30}
""",
    )

    assert [(r.agent, r.status) for r in ran.turn().runs] == [
        ("a", "done"), ("b", "handed_off"), ("c", "timed_out"),
    ]  # fmt: skip
    assert ran.turn().reply == "Alone."


def test_handoff_stands_in_the_log_as_a_call_and_its_result() -> None:
    ran = run_yaml(
        pipeline("type: t"),
        one_turn("{text: Over., handoff: {to: target, query: Q, payload: {km: 8}}}"),
    )

    assert message_lines(ran.view.messages.values()) == [
        "user: Hi",
        'assistant/source: Over. [transfer_to_target{"type":"t","query":"Q","payload":{"km":8}}]',
        "tool/source: Transferred to target.",
        "assistant/target: Done.",
    ]


@pytest.mark.parametrize("carries", ["", ", carries: [words, count, last]"])
def test_writes_after_a_delegate_see_the_state_as_the_run_got_it(carries: str) -> None:
    ran = run_yaml(
        f"""
        channels:
          messages: {{reducer: append, scope: session}}
          words: {{reducer: append, scope: session}}
          count: {{reducer: add, scope: session}}
          last: {{scope: session}}
          seen: {{scope: session}}
        agents:
          front: {{handoffs: [ada]}}
          ada:
            writes: {{seen: ["${{state.words}}", "${{state.count}}", "${{state.last}}"]}}
            after: [{{when: {{state.last: new}}, writes: {{seen: the state as it is now}}}}]
          cleo: {{writes: {{words: new, count: 2, last: new}}}}
        contracts:
          - {{from: front, to: ada{carries}}}
          - {{from: ada, to: cleo, mode: delegate}}
        flow: {{handoffs: {{start: front}}}}
        """,
        """
        given: {state: {words: [old], count: 1, last: old}}
        turns:
          - user: Hi
            replies:
              front: {handoff: {to: ada}}
              ada: [{handoff: {to: cleo, query: What now?}}, Done.]
              cleo: This.
        """,
    )

    assert ran.state("seen") == [["old"], 1, "old"]
    assert ran.state("last") == "new"


def test_a_refusal_by_one_contract_is_no_second_refusal_by_another() -> None:
    ran = run_yaml(
        """
        channels: {messages: {reducer: append, scope: session}}
        agents: {ada: {}, ben: {}, cleo: {}}
        contracts:
          - {from: ada, to: ben, payload: {type: object}, on_invalid: retry}
          - {from: ada, to: cleo, payload: {type: object}, on_invalid: retry}
        flow: {handoffs: {start: ada}}
        """,
        """
        turns:
          - user: Hi
            replies:
              ada:
                - {handoff: {to: ben, payload: 1}}
                - {handoff: {to: cleo, payload: 1}}
                - {handoff: {to: cleo, payload: {}}}
              cleo: Here I am.
        """,
    )

    assert ran.error() is None
    assert ran.turn().reply == "Here I am."
