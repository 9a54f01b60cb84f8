# ruff: noqa: E501 -- whole texts are as wide as they are printed
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simkit.report.contexts import UNSHOWN_MAX, context_lines
from simkit.trace.views import View
from tests.adapters.running import run_app
from tests.golden import assert_file_is

GOLDEN = Path(__file__).with_name("golden")

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


@pytest.mark.golden
def test_a_context_is_shown_whole_with_where_each_message_came_from(
    view_of_run: Callable[..., View],
) -> None:
    lines = list(context_lines(view_of_run(), turn=2, agent="coach"))

    assert_file_is(GOLDEN / "a-context-is-shown-whole-with.txt", "\n".join(lines))


@pytest.mark.golden
def test_joint_messages_settings_windows_and_failures_are_shown(
    view_of_run: Callable[..., View],
) -> None:
    lines = list(context_lines(view_of_run("", JOINED), turn=3))

    assert_file_is(GOLDEN / "joint-messages-settings-windows-and-failures.txt", "\n".join(lines))


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


@pytest.mark.golden
def test_what_sections_left_out_is_listed_with_the_reason(view_of_run: Callable[..., View]) -> None:
    lines = list(context_lines(view_of_run("", RECALLING.replace("ITEMS", ""))))

    assert_file_is(GOLDEN / "what-sections-left-out-is-listed.txt", "\n".join(lines))


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
        "turn 1, work, call 1 of 2 (in claims `work[0]` or `work[run 1][0]`)",
        "turn 1, work, call 2 of 2 (in claims `work[1]` or `work[run 1][1]`)",
    ]
