# ruff: noqa: E501 -- whole texts are as wide as they are printed
from __future__ import annotations

from collections.abc import Callable

from simkit.report.contexts import UNSHOWN_MAX, context_lines
from simkit.trace.views import View
from tests.adapters.running import run_app

JOINED = """\
version: 1
pipeline: joined
tokens: {count: chars/4}
agents:
  a:
    instructions: Say yes.
    output: {type: object}
    context: [instructions, history: {window: {rounds: 1}}, [current_message, {shared: {from: facts}}]]
channels: {messages: {reducer: append, scope: session}, facts: {scope: session}}
flow: {handoffs: {start: a}}
---
version: 1
scenario: three turns
pipeline: joined
given: {state: {facts: {k: 1}}}
turns:
  - {user: one, replies: {a: {json: {}}}}
  - {user: two, replies: {a: {json: {}}}}
  - {user: three, replies: {a: {error: timeout}}}
"""


def test_a_context_is_shown_whole_with_where_each_message_came_from(
    view_of_run: Callable[..., View],
) -> None:
    lines = list(context_lines(view_of_run(), turn=2, agent="coach"))

    assert (
        "\n".join(lines)
        == """\
turn 2, coach[0] of 2 calls, at 1500 ms: 6 messages, 21 tokens, 3 dropped
  [0] system · instructions
      Coach.
  [1] user · history · turn 1 · m1
      I ran 8 km
  [2] assistant router · history · turn 1 · m2
      {"agent":"coach"}
  [3] assistant coach · history · turn 1 · m5
      Well done.
  [4] assistant router · history · turn 2 · m7
      {"agent":"coach"}
  [5] user · current_message · turn 2 · m6
      How was it?
  tools offered: log_run
  may pass control to: analyst
  dropped by tool_calls (tool calls only): assistant coach · turn 1 · m3: log_run(km: 8)
  dropped by tool_calls: assistant coach · turn 1 · m3: log_run(km: 8)
  dropped by tool_messages: tool coach log_run · turn 1 · m4: {"ok":true}
  answered · m8
      calls transfer_to_analyst(type: "analysis", payload: {}) as call2

turn 2, coach[1] of 2 calls, at 1500 ms: 8 messages, 51 tokens, 3 dropped
  [0] system · instructions
      Coach.
  [1] user · history · turn 1 · m1
      I ran 8 km
  [2] assistant router · history · turn 1 · m2
      {"agent":"coach"}
  [3] assistant coach · history · turn 1 · m5
      Well done.
  [4] assistant router · history · turn 2 · m7
      {"agent":"coach"}
  [5] user · current_message · turn 2 · m6
      How was it?
  [6] assistant coach · run · turn 2 · m8
      calls transfer_to_analyst(type: "analysis", payload: {}) as call2
  [7] tool coach transfer_to_analyst · run · turn 2 · m9
      Handoff to analyst rejected: payload: 'km' is a required property
  tools offered: log_run
  may pass control to: analyst
  dropped by tool_calls (tool calls only): assistant coach · turn 1 · m3: log_run(km: 8)
  dropped by tool_calls: assistant coach · turn 1 · m3: log_run(km: 8)
  dropped by tool_messages: tool coach log_run · turn 1 · m4: {"ok":true}
  answered · m10
      calls transfer_to_analyst(type: "analysis", payload: {"km": 8}) as call3
"""
    )


def test_joint_messages_settings_windows_and_failures_are_shown(
    view_of_run: Callable[..., View],
) -> None:
    lines = list(context_lines(view_of_run("", JOINED), turn=3))

    assert (
        "\n".join(lines)
        == """\
turn 3, a, at 0 ms: 4 messages, 8 tokens, 2 dropped
  [0] system · instructions
      Say yes.
  [1] user · history · turn 2 · m3
      two
  [2] assistant a · history · turn 2 · m4
      {}
  [3] user · current_message + shared · turn 3 · m5
      three

      {"k":1}
  settings: {"output": {"type": "object"}}
  dropped by window: user · turn 1 · m1: one
  dropped by window: assistant a · turn 1 · m2: {}
  failed with timeout: The request timed out.
"""
    )


def test_only_what_is_asked_for_is_shown(view_of_run: Callable[..., View]) -> None:
    view = view_of_run()

    assert list(context_lines(view, turn=3)) == []
    assert list(context_lines(view, agent="nobody")) == []
    assert [line for line in context_lines(view, agent="analyst") if line.startswith("turn")] == [
        "turn 2, analyst, at 1500 ms: 7 messages, 23 tokens, 9 dropped"
    ]


RECALLING = """\
version: 1
pipeline: recalling
channels: {items: {reducer: append}, facts: {scope: session}}
agents:
  a:
    instructions: Say yes.
    context:
      - recall: {tags: [x], max: 1}
      - shared: {from: facts, tokens: 6, fields: {rows: rows}}
      - current_message
flow: {handoffs: {start: a}}
---
version: 1
scenario: one turn
pipeline: recalling
given:
  state:
    items: [{text: Untagged}, ITEMS{text: "Older\\nthan", tags: [x]}, {text: Newest, tags: [x]}]
    facts: {rows: [1000, 2000, 3000, 4000, 5000, 6000]}
turns: [{user: one, replies: {a: two}}]
"""


def test_what_sections_left_out_is_listed_with_the_reason(view_of_run: Callable[..., View]) -> None:
    lines = list(context_lines(view_of_run("", RECALLING.replace("ITEMS", ""))))

    assert (
        "\n".join(lines)
        == """\
turn 1, a, at 0 ms: 3 messages, 8 tokens, 0 dropped, 3 left out
  [0] system · recall
      - Newest
  [1] system · shared
      {"rows":[1000,2000]}
  [2] user · current_message · turn 1 · m1
      one
  left out by tags: recall · items: Untagged
  left out by max: recall · items: Older than
  left out by tokens: shared · facts: 4 items of rows
  answered · m2
      two
"""
    )


def test_of_many_things_left_out_the_first_are_listed(view_of_run: Callable[..., View]) -> None:
    more = "".join(f"{{text: No {n}}}, " for n in range(30))
    lines = list(context_lines(view_of_run("", RECALLING.replace("ITEMS", more))))
    listed = [line for line in lines if line.startswith("  left out")]

    assert lines[0].endswith("0 dropped, 33 left out")
    assert listed[-2:] == ["  left out by tags: recall · items: No 18", "  left out: 13 more"]
    assert len(listed) == UNSHOWN_MAX + 1


def test_runs_are_counted_as_claims_count_them() -> None:
    ran = run_app(
        "uneven_workers:team",
        """
        app: {path: [.]}
        lints: {RUN-02: the library runs nodes in threads}
        turns:
          - user: Go
            replies: {work: [One., Two.]}
            expect: {context: {"work[run 1][1]": {messages: [{$contains: Question 1}]}}}
        """,
    )

    titles = [line for line in context_lines(ran.view) if line.startswith("turn")]
    assert [finding.what for finding in ran.judgement.findings] == []
    assert [title.partition(", at")[0] for title in titles] == [
        "turn 1, work[0] of 2 calls, work[run 1][0]",
        "turn 1, work[1] of 2 calls, work[run 1][1]",
    ]
