"""Unusual but legal scenarios: one sentence of the format each, from the file to the findings."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

from simkit.core.errors import SourceError
from simkit.core.messages import Message
from tests.building import run_yaml

TEXT = "tests.testing.test_conformance"


def one_agent(channels: str, agent: str) -> str:
    """A pipeline of one agent `a`."""
    return f"""
        channels: {{messages: {{reducer: append}}, {channels}}}
        agents: {{a: {{instructions: A, {agent}}}}}
        flow: {{handoffs: {{start: a}}}}
    """


ONE_TURN = "turns: [{user: hi, replies: {a: ok}}]"


# What reducers join


@pytest.mark.parametrize(
    ("reducer", "default", "update", "after"),
    [
        ("union", "[1, 0]", "[true, false, 1.0, '1']", [1, 0, True, False, "1"]),
        ("union", "abc", "d", ["abc", "d"]),
        ("by_id", "[{id: 1}]", "{id: true}", [{"id": 1}, {"id": True}]),
        ("by_id", "[{id: [1], v: old}]", "{id: [1], v: new}", [{"id": [1], "v": "new"}]),
        ("by_id", "[{id: {k: 1}}]", "[5]", [{"id": {"k": 1}}, 5]),
    ],
)
def test_reducers_tell_values_apart_as_claims_do(
    reducer: str, default: str, update: str, after: Any
) -> None:
    channel = f"x: {{reducer: {reducer}, default: {default}}}"

    ran = run_yaml(one_agent(channel, f"writes: {{x: {update}}}"), ONE_TURN)

    assert str(ran.state("x")) == str(after)


@pytest.mark.parametrize(
    ("channel", "writes", "message"),
    [
        (
            "x: {reducer: add, default: text}",
            "x: 1",
            "channel `x`: reducer `add` joins a number to another, but the channel holds 'text'",
        ),
        (
            "x: {reducer: merge, default: [1]}",
            "x: {a: 1}",
            "channel `x`: reducer `merge` joins a mapping to another, "
            "but the channel holds a list of 1",
        ),
        ("x: {}", '"x${user}": 1', "there is no channel 'xhi' to write; channels: messages, x"),
    ],
)
def test_write_that_cannot_be_is_an_error_of_the_pipeline(
    channel: str, writes: str, message: str
) -> None:
    ran = run_yaml(one_agent(channel, f"writes: {{{writes}}}"), ONE_TURN)

    assert ran.error() == ("WriteInvalid", message)


# What histories read


def test_conversation_of_a_project_is_read_by_all_its_sessions() -> None:
    ran = run_yaml(
        """
        channels: {messages: {reducer: append, scope: project}}
        agents: {a: {instructions: A}}
        flow: {handoffs: {start: a}}
        """,
        """
        turns:
          - {user: one, replies: {a: first}}
          - {user: two, session: s2, replies: {a: second}}
          - {user: three, replies: {a: third}}
        """,
    )

    assert ran.history("a", turn=2) == ["user: one", "assistant/a: first"]
    assert ran.history("a", turn=3) == [
        "user: one", "assistant/a: first", "user: two", "assistant/a: second",
    ]  # fmt: skip


@pytest.mark.parametrize("scope", ["session", "turn"])
def test_history_shows_what_its_channel_holds_by_default(scope: str) -> None:
    default = "[plain text, {user: asked}, {role: assistant, content: told, agent: z}]"
    ran = run_yaml(
        one_agent(
            f"x: {{reducer: append, scope: {scope}, default: {default}}}",
            "context: [instructions, {history: {from: x}}, current_message], writes: {x: more}",
        ),
        "turns: [{user: hi, replies: {a: ok}}, {user: again, replies: {a: ok}}]",
    )

    texts = ["assistant: plain text", "user: asked", "assistant/z: told"]
    assert ran.history("a", turn=1) == texts
    assert ran.history("a", turn=2) == [
        *texts, *(["assistant/a: more"] if scope == "session" else []),
    ]  # fmt: skip


def test_history_of_a_channel_that_replaces_shows_its_last_value() -> None:
    ran = run_yaml(
        one_agent(
            "x: {}",
            "context: [instructions, {history: {from: x}}], writes: {x: ['${run.final_message}']}",
        ),
        "turns: [{user: hi, replies: {a: ok}}, {user: again, replies: {a: ok}}]",
    )

    assert ran.history("a", turn=1) == []
    assert ran.history("a", turn=2) == ["assistant/a: ok"]


def keeps_nothing(_current: Any, _update: Any) -> int:
    return 5


def test_users_reducer_of_a_channel_that_is_read_as_history_must_return_messages() -> None:
    ran = run_yaml(
        one_agent(
            f"x: {{reducer: '{TEXT}:keeps_nothing'}}",
            "context: [instructions, {history: {from: x}}], writes: {x: ['${run.final_message}']}",
        ),
        ONE_TURN,
    )

    assert ran.error() == (
        "WriteInvalid",
        "channel `x` is read as history, so its reducer must return a list "
        "of the messages that it is given",
    )


def says_text(_messages: Sequence[Message]) -> str:
    return "x"


def says_nothing(_messages: Sequence[Message]) -> None:
    return None


def adds_one(messages: Sequence[Message]) -> list[Message]:
    return [*messages, Message("user", "added")]


@pytest.mark.parametrize(
    ("function", "returned"),
    [("says_text", "str"), ("says_nothing", "NoneType"), ("adds_one", "message ''")],
)
def test_users_filter_that_is_none_is_an_error_of_the_pipeline(
    function: str, returned: str
) -> None:
    recipe = f"context: [instructions, {{history: {{filters: ['{TEXT}:{function}']}}}}]"

    ran = run_yaml(one_agent("", recipe), "turns: [{user: hi}]")

    assert ran.error() == (
        "FunctionFailed",
        f"`{TEXT}:{function}` is a history filter, so it must return some of the messages that "
        f"it is given, as they are or edited; it returned {returned}",
    )


# What a function answers


def slow(_messages: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    return {"text": "ok", "latency_ms": 5, "usage": {"input_tokens": 3}}


def test_line_that_a_function_returns_says_how_long_it_takes() -> None:
    ran = run_yaml(
        one_agent("took: {}, usage: {}", "writes: {took: '${run.took_ms}', usage: '${run.usage}'}"),
        f"turns: [{{user: hi, replies: {{a: {{function: '{TEXT}:slow', latency_ms: 2}}}}}}]",
    )

    assert ran.state("took") == 5
    assert ran.state("usage") == {"input_tokens": 3, "output_tokens": 0}


# Whole scenarios that hold


HOLDING = {
    "a key that has a dot is tried before its path": (
        one_agent("x: {default: {a.b: 2, a: {b: 3}}}", "writes: {messages: '${state.x.a.b}'}"),
        """
        turns:
          - user: hi
            replies: {a: ok}
            expect:
              state: {x.a.b: 2, x: {a: {b: 3}, a.c: {$absent: true}}, "messages[-1].content": "2"}
        """,
    ),
    "a delegate's delegate returns to it, and its depth is limited": (
        """
        agents: {a: {instructions: A}, b: {instructions: B}}
        contracts: [{from: "*", to: b, type: t, mode: delegate, depth_max: 2}]
        flow: {handoffs: {start: a}}
        """,
        """
        turns:
          - user: hi
            replies:
              a: [{handoff: {to: b}}, end]
              b: [{handoff: {to: b, query: q}}, {handoff: {to: b}}, too deep, outer]
            expect:
              agents: [a, b, b]
              handoffs: [{outcome: made}, {outcome: made}, {outcome: rejected}]
              runs: {"b[0]": {output: outer}, "b[1]": {output: too deep, input: q}}
              reply: end
        """,
    ),
    "a delegate that takes exactly as long as it may is in time": (
        """
        agents: {a: {instructions: A}, b: {instructions: B}}
        contracts: [{from: a, to: b, type: t, mode: delegate, timeout_ms: 100}]
        flow: {handoffs: {start: a}}
        """,
        """
        turns:
          - user: hi
            replies:
              a: [{handoff: {to: b}}, {handoff: {to: b}}, end]
              b: [{text: in time, latency_ms: 100}, {text: late, latency_ms: 101}]
            expect:
              context: {"a[-1]": {includes: [{$contains: in time}, {$contains: timed out}]}}
              reply: end
        """,
    ),
    "what summed up the turns before stands where the window begins": (
        """
        agents:
          a:
            instructions: A
            context:
              - instructions
              - history: {window: {rounds: 1}, summary: s}
              - current_message
          s: {instructions: S}
        flow: {handoffs: {start: a}}
        """,
        """
        turns:
          - {user: one, replies: {a: 1}}
          - user: two
            replies: {a: 2}
            expect: {model_calls: {s: 0}}
          - user: three
            replies: {a: 3, s: sum}
            expect: {context: {a: {history: [{system: sum}, two, "2"]}, s: {includes: [one]}}}
        """,
    ),
    "recalled items pass age, tags and score by the virtual clock": (
        one_agent(
            "notes: {reducer: append, scope: project}",
            "context: [instructions, {notes: {since_days: 3, max: 2, preview: {text: 4}}}, "
            "{recall: {name: old, from: notes, tags: [z], order: oldest_first}}, current_message]",
        ),
        """
        start: 2026-01-05T00:30:00+02:00
        given:
          state:
            notes:
              - {agent: n1, text: abcdefgh, at: 2026-01-04T22:00:00Z}
              - {agent: n2, text: ijkl, at: 2026-01-02T23:59:59Z, tags: [z]}
              - {agent: n3, text: mnop, at: 2026-01-01T00:00:00+01:00, tags: [y, z]}
        turns:
          - user: hi
            replies: {a: ok}
            expect:
              context:
                a:
                  notes: [{system: "[2026-01-04] (n1): abcd\\n[2026-01-02] (n2): ijkl"}]
                  old: [{system: "- mnop\\n- ijkl"}]
        """,
    ),
}


@pytest.mark.parametrize("name", HOLDING)
def test_legal_and_unusual_scenario_holds(name: str) -> None:
    ran = run_yaml(*HOLDING[name])

    assert [(finding.where, finding.what) for finding in ran.judgement.findings] == []


LEFT: Final = (
    "${run.reply}",
    "${run.final_message}",
    {"content": "${run.reply}"},
    ["${run.reply}"],
)
NAMED: Final = ("ok", {"assistant": "ok"}, {"$exact": {"content": "ok"}}, ["ok"])


@pytest.mark.parametrize("claim", range(len(NAMED)))
@pytest.mark.parametrize("left", range(len(LEFT)))
def test_claim_on_a_value_is_red_if_an_agent_leaves_one_of_another_kind(
    left: int, claim: int
) -> None:
    ran = run_yaml(
        one_agent("out: {}", f"writes: {{out: {{reply: {json.dumps(LEFT[left])}}}}}"),
        f"{ONE_TURN[:-2]}, expect: {{state: {{out.reply: {json.dumps(NAMED[claim])}}}}}}}]",
    )

    assert bool(ran.judgement.findings) is (left != claim)


# What a parallel group sees and loses

BRANCHES = """
    channels: {x: {}, out: {reducer: merge}}
    agents:
      r: {instructions: R, writes: {}}
      c: {instructions: C, handoffs: [d], writes: {CWRITES}}
      d:
        instructions: D
        context: [instructions, {shared: {from: out}}]
        writes: {x: "${run.reply}"}
      e: {instructions: E, writes: {x: "${run.reply}", out: {e: 1}}}
    contracts: [{from: c, to: d, mode: delegate}]
    flow: {router: {decide: r, to: "${run.output.to}"}}
"""


def branches(c_writes: str, findings: str) -> Any:
    return run_yaml(
        BRANCHES.replace("CWRITES", c_writes),
        f"""
        turns:
          - user: hi
            replies:
              r: {{json: {{to: {{parallel: [c, e]}}}}}}
              c: [{{handoff: {{to: d}}, latency_ms: 5}}, c says]
              d: d says
              e: e says
            expect: {{findings: {findings}}}
        """,
    )


def test_a_write_lost_between_a_branchs_delegate_and_a_sibling_is_found() -> None:
    ran = branches("", "[{id: STA-01, agent: d, channel: x}]")

    assert ran.judgement.findings == ()


def test_a_delegate_and_its_source_are_one_branch() -> None:
    ran = branches('x: "c too"', "[]")

    lost = [f for f in ran.judgement.findings if f.id == "STA-01"]
    assert [f.what for f in lost if "'c'" in f.what and "'d'" in f.what] == []


def test_a_delegate_of_a_branch_sees_the_state_of_the_fork() -> None:
    ran = branches("", "[{id: STA-01}]")

    assert ran.runs("d")[0].received["out"] == {}
    assert "shared" not in ran.context("d").sections


def test_an_error_is_claimed_by_its_type_alone() -> None:
    pipeline = """
        agents: {r: {instructions: R}, a: {instructions: A}}
        flow: {router: {decide: r, to: "${run.output.to}"}}
    """

    ran = run_yaml(
        pipeline, "turns: [{user: hi, replies: {r: {json: {to: no}}}, expect: {error: NoRoute}}]"
    )

    assert ran.judgement.findings == ()


def test_a_handoffs_format_is_shown_also_without_a_payload() -> None:
    pipeline = """
        agents:
          a: {instructions: A, handoffs: [b]}
          b: {instructions: B, context: [handoff: {format: "From ${handoff.from}"}]}
        flow: {handoffs: {start: a}}
    """

    ran = run_yaml(pipeline, "turns: [{user: hi, replies: {a: {handoff: {to: b}}, b: ok}}]")

    assert [m.content for m in ran.context("b").section("handoff")] == ["From a"]


def test_too_many_turns_are_claimed_for_the_whole_run() -> None:
    ran = run_yaml(
        one_agent("x: {}", ""),
        """
        limits: {turns: 1}
        turns: [{user: hi, replies: {a: ok}}, {user: hi, replies: {a: ok}}]
        expect: {error: LimitExceeded, findings: [FLW-01]}
        """,
    )

    assert ran.judgement.findings == ()


def test_a_function_that_is_not_there_is_told_at_its_place() -> None:
    pipeline = one_agent("x: {}", "tools: [t]").replace(
        "flow:", "tools: {t: {function: 'tests.functions:nowhere'}}\n        flow:"
    )

    with pytest.raises(SourceError) as error:
        run_yaml(pipeline, "turns: [{user: hi, replies: {a: [{calls: [t: {}]}, ok]}}]")

    assert "nowhere" in str(error.value)
    assert re.match(r"\S+\.yaml:\d+:\d+: function `tests.functions:nowhere`", str(error.value))


def test_what_ended_a_turn_is_told_before_what_follows_from_it() -> None:
    ran = run_yaml(one_agent("x: {}", ""), "turns: [{user: hi, replies: {}, expect: {reply: ok}}]")

    assert [finding.id for finding in ran.judgement.findings] == ["RUN-01", "claim"]
