"""Where two runs part: their turns, run by run, without ids."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.checks.comparative_runs import Parting, first_parting, no_ids
from simkit.core.messages import Message, ToolCall
from simkit.trace.reducers import Appended
from tests.building import Ran, run_yaml

PIPELINE = """
channels: {kept: {reducer: merge}}
tools: {look: {}}
agents:
  a:
    instructions: A.
    tools: [look]
    context: [instructions, {shared: {from: kept}}, history, current_message]
    writes: {messages: ["${run.final_message}"], kept: "${run.output}"}
  b: {instructions: B., writes: {messages: ["${run.final_message}"]}}
flow: {router: {decide: b, to: [a]}}
"""
FIRST = "{user: One, replies: {b: go, a: {json: {n: 1}}}}"


def ran(*turns: str, pipeline: str = PIPELINE, more: str = "") -> Ran:
    listed = "".join(f"  - {turn}\n" for turn in turns)
    return run_yaml(pipeline, f"{more}\nturns:\n{listed}")


def parting(outcome: Ran, other: Ran) -> Parting | None:
    return first_parting(zip(outcome.view.turns, other.view.turns, strict=False))


def test_equal_runs_do_not_part() -> None:
    assert parting(ran(FIRST), ran(FIRST)) is None


def test_ids_are_no_difference() -> None:
    # The second turn's messages have other numbers where a turn ran before it.
    late = ran("{user: Zero, session: other, replies: {b: x, a: {json: {n: 0}}}}", FIRST)
    pairs = [(ran(FIRST).view.turns[0], late.view.turns[1])]

    assert first_parting(pairs) is None


def test_ids_as_keys_are_no_difference_and_hide_none() -> None:
    """``${run.timestamps}`` is by call, for one."""
    assert no_ids({"call1": "a", "call2": "b"}) == no_ids({"call10": "b", "call9": "a"})
    assert no_ids({"call1": "a", "call2": "b"}) != no_ids({"call9": "b", "call10": "a"})
    assert no_ids({"call1": "a", "call2": "a"}) != no_ids({"call3": "a"})
    assert no_ids({"call1": 1, "call#": 2, "call2": 3}) == {
        "call# [1]": 1,
        "call#": 2,
        "call# [2]": 3,
    }
    assert no_ids({"order": "call1", 7: "x"}) == {"order": "call#", 7: "x"}


@pytest.mark.parametrize(
    ("other", "agent", "at", "left", "right"),
    [
        ("{user: Two, replies: {b: go, a: {json: {n: 1}}}}", "b", "input of b", "One", "Two"),
        ("{user: One, replies: {b: stop, a: {json: {n: 1}}}}", "b", "output of b", "go", "stop"),
        (
            "{user: One, replies: {b: go, a: {json: {n: 2}}}}", "a", "output of a.n", "1", "2",
        ),
        (
            "{user: One, replies: {b: go, a: {json: {m: 1}}}}", "a", "output of a.n", "1", "null",
        ),
        (
            "{user: One, replies: {b: go, a: [{calls: [look: {}]}, {json: {n: 1}}]}, "
            "tool_results: {look: x}}", "a", "model calls of a", "1", "2",
        ),
        (
            "{user: One, replies: {b: go, a: {error: timeout}}, expect: {error: {type: timeout}}}",
            "a", "output of a", '{"n": 1}', "null",
        ),
    ],
)  # fmt: skip
def test_first_difference_is_told_with_its_place(
    other: str, agent: str, at: str, left: str, right: str
) -> None:
    assert parting(ran(FIRST), ran(other)) == Parting(1, agent, at, left, right)


def test_other_agents_are_told_first() -> None:
    only = PIPELINE.replace("to: [a]", "to: [a, c]").replace("  b: {", "  c: {}\n  b: {", 1)
    other = ran("{user: One, replies: {b: go, a: {json: {n: 2}}, c: x}}", pipeline=only)

    assert parting(ran(FIRST), other) == Parting(
        1, "", "agents", '["b", "a"]', '["b", "a", "c"]'
    )  # fmt: skip


def test_context_is_compared_message_by_message() -> None:
    given = "given: {state: {kept: {x: 1}}}"

    assert parting(ran(FIRST), ran(FIRST, more=given)) == Parting(
        1, "a", "context of a: messages[1].role", "assistant", "system"
    )


def test_difference_that_only_the_state_shows_is_found() -> None:
    default = PIPELINE.replace("channels: {", "channels: {other: {default: 1}, ")
    changed = PIPELINE.replace("channels: {", "channels: {other: {default: 2}, ")

    assert parting(ran(FIRST, pipeline=default), ran(FIRST, pipeline=changed)) == Parting(
        1, "", "state.other", "1", "2"
    )


def test_turn_is_named_as_the_first_run_numbers_it() -> None:
    outcome = ran("{user: X, session: x, replies: {b: x, a: {json: {n: 0}}}}", FIRST)
    other = ran("{user: One, replies: {b: go, a: {json: {n: 5}}}}")

    result = first_parting([(outcome.view.turns[1], other.view.turns[0])])

    assert result == Parting(2, "a", "output of a.n", "1", "5")


def test_errors_part_runs_that_are_equal_otherwise() -> None:
    failing = "{user: One, replies: {b: {error: KIND}}, expect: {error: {}}}"
    item, other = (
        ran(failing.replace("KIND", kind).replace("{}", f"{{type: {kind}}}"))
        for kind in ("timeout", "rate_limit")
    )

    result = parting(item, other)

    assert result is not None
    assert (result.agent, result.at, result.left[:10]) == ("", "error", '["timeout"')


def test_long_values_are_shown_in_part() -> None:
    item, other = (
        ran(f"{{user: One, replies: {{b: go, a: {{json: {{n: {letter * 300}}}}}}}}}")
        for letter in "xy"
    )

    result = parting(item, other)

    assert result is not None
    assert (len(result.left), result.left[:3], result.right[:3]) == (120, "xxx", "yyy")


@pytest.mark.parametrize(
    ("value", "without"),
    [
        ("see call3", "see call#"),
        ("m12 and h1, then r7", "m# and h#, then r#"),
        ('{"call_id":"call3","n":3}', '{"call_id":"call#","n":3}'),
        ("call3 was asked", "call# was asked"),
        ("'id': 'call_000000000000000000000012'", "'id': 'call#'"),
        ("recall3 x5 mm7", "recall3 x5 mm7"),
        ({"a": ["call1", 2]}, {"a": ["call#", 2]}),
        (Appended([1, "m2"]), [1, "m#"]),
        (
            Message("assistant", "Hi", "m7", "a", 3, (ToolCall("call9", "look", {"n": 1}),)),
            {"role": "assistant", "content": "Hi", "agent": "a", "calls": [{"look": {"n": 1}}]},
        ),
        (b"m1", b"m1"),
        (None, None),
    ],
)
def test_value_is_compared_without_ids(value: Any, without: Any) -> None:
    assert no_ids(value) == without


def test_message_that_is_settled_is_compared() -> None:
    # What differs is far back: said once, in a turn that is not compared.
    item, other = (
        ran(f"{{user: {text}, replies: {{b: go, a: {{json: {{n: 1}}}}}}}}", FIRST)
        for text in ("X", "Y")
    )

    result = first_parting([(item.view.turns[1], other.view.turns[1])])

    assert result == Parting(2, "b", "context of b: messages[1].content", "X", "Y")


def test_message_that_was_equal_before_is_not_compared_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[Any] = []

    def noting(value: Any) -> Any:
        compared.append(value)
        return no_ids(value)

    monkeypatch.setattr("simkit.checks.comparative_runs.no_ids", noting)

    def looked_at(turns: int) -> int:
        places = [FIRST] * turns
        outcome, other = ran(*places), ran(*places)
        compared.clear()
        assert parting(outcome, other) is None
        return len(compared)

    few, many = looked_at(10) / 10, looked_at(40) / 40
    assert many < 1.1 * few
