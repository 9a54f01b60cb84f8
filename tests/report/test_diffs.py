# ruff: noqa: E501 -- whole texts are as wide as they are printed
"""Two runs as text, JSON, annotations and Markdown."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from simkit.report.diff_lines import Sides, diff_blocks
from simkit.report.diffs import (
    Compared,
    diff_annotations,
    diff_json,
    diff_markdown,
    exit_code,
    pair_lines,
    summary_line,
)
from simkit.trace.diff import FirstDifference, TraceDiff, trace_diff
from simkit.trace.events import JudgeAnswered
from simkit.trace.views import view_of
from tests.building import trace_yaml
from tests.report.conftest import COACH, TWO_TURNS

PIPELINE = COACH.removesuffix("---\n")
NAME = "scenarios/coach.scenario.yaml::two turns"
FILES = ("base/two-turns.jsonl", ".simkit/traces/two-turns.jsonl")
SIDES = Sides("base", "now")


def compared(
    pipeline: Callable[[str], str] = str, scenario: Callable[[str], str] = str
) -> Compared:
    """The two turns with the coach, and the same, changed."""
    result: TraceDiff = trace_diff(
        view_of(trace_yaml(PIPELINE, TWO_TURNS).events),
        view_of(trace_yaml(pipeline(PIPELINE), scenario(TWO_TURNS)).events),
    )
    return Compared(NAME, FILES, result, file="scenarios/coach.scenario.yaml", line=3)


def kinder(text: str) -> str:
    return text.replace("instructions: Coach.", 'instructions: "Coach.\\nBe kind."').replace(
        "[instructions, handoff", "[instructions, notes, handoff"
    )


def other_payload(text: str) -> str:
    return text.replace("payload: {km: 8}", "payload: {km: 9}").replace(
        "analyst: Faster than last week.", "analyst: Slower."
    )


def text_of(*pairs: Compared) -> str:
    blocks = ["\n".join(pair_lines(pair, SIDES)) for pair in pairs]
    return "\n\n".join(block for block in (*blocks, summary_line(pairs, SIDES)) if block)


def test_messages_that_came_and_changed_are_shown_and_the_rest_is_counted() -> None:
    assert (
        text_of(compared(kinder))
        == """\
scenarios/coach.scenario.yaml::two turns
  - base/two-turns.jsonl
  + .simkit/traces/two-turns.jsonl

  declared differently: agents.coach.instructions

  first differing event: 16
         13      0 ms  turn 1   AgentFinished       router r1: status done, output {"agent": "coach…
         14      0 ms  turn 1   RouteChosen         router r1: targets ["coach"]
         15      0 ms  turn 1   AgentStarted        coach r2: input I ran 8 km
    -    16      0 ms  turn 1   ContextBuilt        coach r2: c2 from instructions, history, curren…
    +    16      0 ms  turn 1   ContextBuilt        coach r2: c2 from instructions, notes, history,…
      parts[0].message.content: "Coach." → "Coach.\\nBe kind."
      parts[0].tokens: 2 → 4
      parts[1]
        + {"type": "made", "section": "notes", "message": {"role": "system", "content": "knee
          hurts", "section": "notes"}, "tokens": 3}

  coach, turn 1: 3 → 4 messages, 10 → 15 tokens
    ~ [0] system coach · instructions
        = 1 line
        + Be kind.
    + [1] system · notes
        knee hurts
      = 2 messages
    the same in turn 1, call 2; turn 2; turn 2, call 2

  analyst, turn 2: 7 → 8 messages, 23 → 26 tokens
      = 1 message
    + [1] system · notes
        knee hurts
      = 6 messages

1 scenario: 1 different"""
    )


def test_handoffs_turns_and_state_follow_the_contexts() -> None:
    assert (
        text_of(compared(scenario=other_payload))
        == """\
scenarios/coach.scenario.yaml::two turns
  - base/two-turns.jsonl
  + .simkit/traces/two-turns.jsonl

  first differing event: 51
         48   1500 ms  turn 2   MessageAdded        coach r4: m9 tool coach: Handoff to analyst rej…
         49   1500 ms  turn 2   ContextBuilt        coach r4: c6 on c5, said m8, m9, 51 tokens
         50   1500 ms  turn 2   ModelCalled         coach r4: call c6
    -    51   1500 ms  turn 2   MessageAdded        coach r4: m10 assistant coach: transfer_to_anal…
    +    51   1500 ms  turn 2   MessageAdded        coach r4: m10 assistant coach: transfer_to_anal…
      message.calls[0].args.payload.km: 8 → 9

  coach, turn 2, call 2: 8 messages, 51 tokens
    answer.calls[0].transfer_to_analyst.payload.km: 8 → 9

  analyst, turn 2: 7 messages, 23 tokens
      = 1 message
    ~ [1] system · handoff
        - {"km":8}
        + {"km":9}
      = 5 messages
    answer: "Faster than last week." → "Slower."

  turn 2
    reply: "Faster than last week." → "Slower."

  handoffs, turn 2
    ~ coach → analyst
      payload.km: 8 → 9

  state, turn 2
    messages[1].content: "Faster than last week." → "Slower."

1 scenario: 1 different"""
    )


def test_a_message_that_one_side_dropped_says_what_dropped_it() -> None:
    def keeps_tools(text: str) -> str:
        return text.replace("[tool_messages, tool_calls]}", "[tool_calls], window: {rounds: 1}}")

    lines = text_of(compared(keeps_tools)).splitlines()

    assert [line for line in lines if "dropped by" in line] == [
        "    + [3] tool coach log_run · history · turn 1 · was dropped by tool_messages",
        "    + [4] tool coach log_run · history · turn 1 · was dropped by tool_messages",
        "    + [7] tool coach transfer_to_analyst · history · turn 2 · was dropped by tool_messages",
        "    + [8] tool coach transfer_to_analyst · history · turn 2 · was dropped by tool_messages",
    ]


def test_equal_runs_take_one_line_that_says_what_is_only_declared_differently() -> None:
    same = compared()
    renamed = compared(
        lambda text: text.replace("pipeline: coach", "pipeline: other"),
        lambda text: text.replace("pipeline: coach", "pipeline: other"),
    )

    assert text_of(same) == "1 scenario: 1 equal"
    assert text_of(renamed) == (f"{NAME}: equal, declared differently: name\n\n1 scenario: 1 equal")


def test_a_scenario_that_one_side_lacks_and_one_that_is_broken_are_counted_apart() -> None:
    pairs = [
        compared(),
        Compared("a.scenario.yaml::gone", ("base/a.jsonl", "")),
        Compared("a.scenario.yaml::new", ("", "now/a.jsonl")),
        Compared("a.scenario.yaml::bad", ("base/b.jsonl", "now/b.jsonl"), error="b.jsonl: cut off"),
    ]

    assert (
        text_of(*pairs)
        == """\
a.scenario.yaml::gone: only in base

a.scenario.yaml::new: only in now

a.scenario.yaml::bad
  b.jsonl: cut off

4 scenarios: 1 equal, 1 only in base, 1 only in now, 1 broken"""
    )


@pytest.mark.parametrize(
    ("pairs", "code"),
    [
        ([compared()], 0),
        ([compared(), compared(kinder)], 1),
        ([Compared("gone", ("a", ""))], 1),
        ([compared(kinder), Compared("bad", ("a", "b"), error="cut off")], 2),
    ],
)
def test_the_exit_code_is_that_of_the_worst(pairs: list[Compared], code: int) -> None:
    assert exit_code(pairs) == code


def test_runs_that_differ_only_in_time_say_so() -> None:
    slower = compared(scenario=lambda text: text.replace("1500", "2500"))

    assert (
        text_of(slower)
        == """\
scenarios/coach.scenario.yaml::two turns
  - base/two-turns.jsonl
  + .simkit/traces/two-turns.jsonl

  first differing event: 21
         18      0 ms  turn 1   MessageAdded        coach r2: m3 assistant coach: log_run(km: 8)
         19      0 ms  turn 1   ModelReplied        coach r2: call c2, message m3, reply calls
         20      0 ms  turn 1   ToolCalled          coach r2: call_id call1, tool log_run, args {"k…
    -    21   1500 ms  turn 1   ToolReturned        coach r2: call_id call1, tool log_run, result {…
    +    21   2500 ms  turn 1   ToolReturned        coach r2: call_id call1, tool log_run, result {…
      at: 1500 → 2500

  every context, handoff and state is the same: only times, order or causes differ

1 scenario: 1 different"""
    )


def test_runs_that_differ_only_in_a_judge_s_answer_say_so() -> None:
    left, right = (JudgeAnswered(0, question="Is it kind?", answer=word) for word in ("yes", "no"))
    first = FirstDifference(1, (), left, right)

    *_, last = diff_blocks(TraceDiff((), first), Sides())

    assert last == [
        "every context, handoff and state is the same: only answers of the judge, times, order or "
        "causes differ"
    ]


def test_a_long_message_is_cut_and_a_second_change_like_it_is_counted() -> None:
    long = "\\n".join(f"Rule {n}." for n in range(30))
    pair = compared(lambda text: text.replace("instructions: Coach.", f'instructions: "{long}"'),
                    lambda text: text.replace("Well done.", "Great."))  # fmt: skip

    assert (
        text_of(pair)
        == """\
scenarios/coach.scenario.yaml::two turns
  - base/two-turns.jsonl
  + .simkit/traces/two-turns.jsonl

  declared differently: agents.coach.instructions

  first differing event: 16
         13      0 ms  turn 1   AgentFinished       router r1: status done, output {"agent": "coach…
         14      0 ms  turn 1   RouteChosen         router r1: targets ["coach"]
         15      0 ms  turn 1   AgentStarted        coach r2: input I ran 8 km
    -    16      0 ms  turn 1   ContextBuilt        coach r2: c2 from instructions, history, curren…
    +    16      0 ms  turn 1   ContextBuilt        coach r2: c2 from instructions, history, curren…
      parts[0].message.content
        - "Coach."
        + "Rule 0.\\nRule 1.\\nRule 2.\\nRule 3.\\nRule 4.\\nRule 5.\\nRule 6.\\nRule 7.\\nRule 8.\\nRule
          9.\\nRule 10.\\nRule 11.\\nRule 12.\\nRule 13.\\nRule 14.\\nRule 15.\\nRule 16.\\nRule 17.\\nRule
          18.\\nRule 19.\\nRule 20.\\nRule 21.\\nRule 22.\\nRule 23.\\nRule 24.\\nRule 25.\\nRule 26.\\nRule
          27.\\nRule 28.\\nRule 29."
      parts[0].tokens: 2 → 65
      tokens: 10 → 73

  coach, turn 1: 3 messages, 10 → 73 tokens
    ~ [0] system coach · instructions
        - Coach.
        + Rule 0.
        + Rule 1.
        + Rule 2.
        + Rule 3.
        + Rule 4.
        + Rule 5.
        + Rule 6.
        + Rule 7.
        + Rule 8.
        + Rule 9.
        + Rule 10.
        + Rule 11.
        + … 18 more lines
      = 2 messages

  coach, turn 1, call 2: 5 messages, 17 → 80 tokens
      ≈ 1 change as above
      = 4 messages
    answer: "Well done." → "Great."

  coach, turn 2: 6 messages, 21 → 83 tokens
      ≈ 1 change as above
      = 2 messages
    ~ [3] assistant coach · history · turn 1
        - Well done.
        + Great.
      = 2 messages
    the same in turn 2, call 2

  analyst, turn 2: 7 messages, 23 → 22 tokens
      = 4 messages
    ~ [4] assistant coach · history · turn 1
        - Well done.
        + Great.
      = 2 messages

  turn 1
    reply: "Well done." → "Great."

  state, turn 1
    messages[1].content: "Well done." → "Great."

1 scenario: 1 different"""
    )


def test_json_holds_everything_and_leaves_out_what_is_absent() -> None:
    given = compared(scenario=lambda text: text.replace("[knee hurts]", "[knee hurts, no milk]"))

    whole: dict[str, Any] = json.loads(diff_json([given], SIDES, "1.0"))

    first = whole["scenarios"][0].pop("first")
    first["before"] = [event["kind"] for event in first["before"]]
    assert first == {
        "number": 3,
        "before": ["RunStarted", "SessionStarted"],
        "one": {
            "kind": "StateUpdated",
            "at": 0,
            "session": "s1",
            "update": {"notes": {"$set": ["knee hurts"]}},
            "cause": "given",
        },
        "other": {
            "kind": "StateUpdated",
            "at": 0,
            "session": "s1",
            "update": {"notes": {"$set": ["knee hurts", "no milk"]}},
            "cause": "given",
        },
        "edits": [{"at": "update.notes.$set[1]", "other": "no milk"}],
    }
    assert whole == {
        "simkit": "1.0",
        "sides": ["base", "now"],
        "scenarios": [
            {
                "name": "scenarios/coach.scenario.yaml::two turns",
                "file": "scenarios/coach.scenario.yaml",
                "line": 3,
                "outcome": "different",
                "one": "base/two-turns.jsonl",
                "other": ".simkit/traces/two-turns.jsonl",
                "left_out": "",
                "error": "",
                "declared": [],
                "calls": [],
                "more_calls": 0,
                "turns": [
                    {
                        "turn": 0,
                        "other_turn": 0,
                        "user": "",
                        "edits": [],
                        "handoffs": [],
                        "state": [{"at": "notes[1]", "other": "no milk"}],
                    }
                ],
                "at_end": [],
            }
        ],
        "summary": {
            "equal": 0,
            "different": 1,
            "one": 0,
            "other": 0,
            "left_out": 0,
            "broken": 0,
            "exit_code": 1,
        },
    }


def test_json_of_equal_runs_is_the_same_bytes() -> None:
    assert diff_json([compared(kinder)], SIDES, "1") == diff_json([compared(kinder)], SIDES, "1")


def test_what_differs_is_an_annotation_at_the_scenario() -> None:
    broken = Compared("b.scenario.yaml::bad", ("", ""), error="no trace", file="b.scenario.yaml")
    slower = compared(scenario=lambda text: text.replace("1500", "2500"))

    assert list(diff_annotations([compared(), slower, broken], SIDES)) == [
        '::warning file=scenarios/coach.scenario.yaml,line=3,title=two turns%3A now differs from base::scenarios/coach.scenario.yaml::two turns%0A  - base/two-turns.jsonl%0A  + .simkit/traces/two-turns.jsonl%0A%0A  first differing event: 21%0A         18      0 ms  turn 1   MessageAdded        coach r2: m3 assistant coach: log_run(km: 8)%0A         19      0 ms  turn 1   ModelReplied        coach r2: call c2, message m3, reply calls%0A         20      0 ms  turn 1   ToolCalled          coach r2: call_id call1, tool log_run, args {"k…%0A    -    21   1500 ms  turn 1   ToolReturned        coach r2: call_id call1, tool log_run, result {…%0A    +    21   2500 ms  turn 1   ToolReturned        coach r2: call_id call1, tool log_run, result {…%0A      at: 1500 → 2500%0A%0A  every context, handoff and state is the same: only times, order or causes differ',
        "::error file=b.scenario.yaml,title=bad%3A broken::b.scenario.yaml::bad%0A  no trace",
    ]


def test_markdown_shows_the_contexts_that_changed_as_a_table_and_the_text_folded() -> None:
    pair = compared(kinder)

    text = text_of(pair).rpartition("\n\n")[0]
    assert (
        diff_markdown([pair, compared()], SIDES)
        == f"""\
### Contexts in now against base

2 scenarios: 1 equal, 1 different

| scenario | agent and call | messages |
|---|---|---|
| two turns | coach, turn 1 | 3 → 4 messages, 10 → 15 tokens; 1 came; 1 changed; the same in turn 1, call 2; turn 2; turn 2, call 2 |
| two turns | analyst, turn 2 | 7 → 8 messages, 23 → 26 tokens; 1 came |

<details><summary>scenarios/coach.scenario.yaml::two turns: now differs from base</summary>

```text
{text}
```

</details>"""
    )


def test_markdown_fences_hold_what_messages_fence() -> None:
    pair = compared(lambda text: text.replace("Coach.", "Use ``` here <b>|"))

    reply = diff_markdown([pair], SIDES)

    assert reply.count("````") == 2
    assert "<b>" in reply.partition("````text")[2]


def test_no_line_is_wider_than_a_page() -> None:
    long = "word " * 100
    pair = compared(
        lambda text: kinder(text).replace("instructions: Analyse.", f"instructions: {long}"),
        lambda text: other_payload(text).replace("knee hurts", long),
    )

    assert [line for line in text_of(pair).splitlines() if len(line) > 100] == []


def test_long_texts_and_values_are_shown_where_they_part() -> None:
    def long(end: str) -> Callable[[str], str]:
        reply = " ".join([*["Faster"] * 200, end])
        return lambda text: text.replace("Faster than last week.", reply)

    result: TraceDiff = trace_diff(
        view_of(trace_yaml(PIPELINE, long("today")(TWO_TURNS)).events),
        view_of(trace_yaml(PIPELINE, long("tomorrow")(TWO_TURNS)).events),
    )
    lines = text_of(Compared(NAME, FILES, result, file="scenarios/coach.scenario.yaml", line=3))

    assert lines.count("today") > 1
    assert lines.count("today") == lines.count("tomorrow")
