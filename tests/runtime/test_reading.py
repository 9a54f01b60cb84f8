"""Where one run's history comes from: the log or a channel, as it was when the run began."""

from __future__ import annotations

from tests.building import Ran, dropped, run_yaml

DELEGATES = """
version: 1
pipeline: p
channels: {aside: {reducer: append}}
agents:
  a:
    handoffs: [b]
    context: [{history: HISTORY}, current_message]
    writes: {messages: ["${run.final_message}"]}
  b:
    context: [{history: HISTORY}, current_message]
    writes: {messages: ["${run.final_message}"], aside: ["${run.final_message}"]}
contracts: [{from: a, to: b, mode: delegate}]
flow: {handoffs: {start: a}}
"""
TURNS = """
turns:
  - user: One
    replies: {a: [{handoff: {to: b, query: Q1}}, {handoff: {to: b, query: Q2}}, A1.], b: [B1., B2.]}
  - user: Two
    replies: {a: A2.}
"""


def with_history(history: str) -> Ran:
    return run_yaml(DELEGATES.replace("HISTORY", history), TURNS)


def test_run_reads_what_other_runs_of_its_turn_said_before_it() -> None:
    ran = with_history("{}")

    assert ran.history("b", 1) == ["user: One"]
    assert [m.content for m in ran.context("b", 1, call=1).section("history")] == ["One", "B1."]
    assert ran.history("a", 2) == [
        "user: One", "assistant/b: B1.", "assistant/b: B2.", "assistant/a: A1.",
    ]  # fmt: skip


def test_query_is_the_current_message_and_the_users_message_stays_in_history() -> None:
    ran = with_history("{}")

    assert [m.content for m in ran.context("b", 1).section("current_message")] == ["Q1"]
    assert [m.id for m in ran.context("b", 1).section("current_message")] == [""]
    assert [m.id for m in ran.context("a", 1).section("current_message")] == ["m1"]


def test_log_holds_handoffs_and_their_results() -> None:
    ran = with_history("{from: log}")

    assert ran.history("a", 2) == [
        "user: One",
        'assistant/a: [transfer_to_b{"type":"handoff","query":"Q1"}]',
        "assistant/b: B1.",
        "tool/a: B1.",
        'assistant/a: [transfer_to_b{"type":"handoff","query":"Q2"}]',
        "assistant/b: B2.",
        "tool/a: B2.",
        "assistant/a: A1.",
    ]


def test_handoff_traffic_may_be_filtered_out() -> None:
    ran = with_history("{from: log, filters: [handoffs]}")

    assert ran.history("a", 2) == [
        "user: One", "assistant/b: B1.", "assistant/b: B2.", "assistant/a: A1.",
    ]  # fmt: skip
    assert [(subject, by) for _, subject, by in dropped(ran.context("a", 2))] == [
        ("tool_calls", "handoffs"), ("message", "handoffs"), ("message", "handoffs"),
    ] * 2  # fmt: skip


def test_other_channel_holds_only_what_was_written_there() -> None:
    ran = with_history("{from: aside}")

    assert ran.history("b", 1) == []
    assert ran.history("a", 2) == ["assistant/b: B1.", "assistant/b: B2."]


def test_channel_that_keeps_its_last_items_is_shown_as_it_is() -> None:
    pipeline = DELEGATES.replace("HISTORY", "{from: aside}").replace(
        "{reducer: append}", "{reducer: {append: {last: 2}}}"
    )
    turns = (
        TURNS
        + """
  - user: Three
    replies: {a: [{handoff: {to: b}}, A3.], b: B3.}
  - user: Four
    replies: {a: A4.}
"""
    )
    ran = run_yaml(pipeline, turns)

    assert ran.history("b", 3) == ["assistant/b: B1.", "assistant/b: B2."]
    assert ran.history("a", 4) == ["assistant/b: B2.", "assistant/b: B3."]


def test_conversation_that_keeps_its_last_items_is_shown_as_it_is() -> None:
    ran = run_yaml(
        """
channels: {messages: {reducer: {append: {last: 3}}}}
agents: {a: {context: [history, current_message]}}
flow: {handoffs: {start: a}}
""",
        "turns:" + "".join(f"\n  - {{user: Q{n}, replies: {{a: A{n}}}}}" for n in range(1, 5)),
    )

    assert [ran.history("a", n) for n in (2, 3, 4)] == [
        ["user: Q1", "assistant/a: A1"],
        ["user: Q2", "assistant/a: A2"],
        ["user: Q3", "assistant/a: A3"],
    ]
    assert ran.state("messages") == ["assistant/a: A3", "user: Q4", "assistant/a: A4"]


def test_turn_that_ends_with_an_error_leaves_what_it_said_in_the_log() -> None:
    ran = run_yaml(
        DELEGATES.replace("HISTORY", "{from: log}"),
        """
turns:
  - user: One
    replies: {a: {handoff: {to: b, query: Q1}}, b: {error: refusal}}
    expect: {error: {type: refusal}}
  - user: Two
    replies: {a: A2.}
""",
    )

    assert ran.history("a") == [
        "user: One", 'assistant/a: [transfer_to_b{"type":"handoff","query":"Q1"}]',
    ]  # fmt: skip


def test_conversation_may_be_another_channel() -> None:
    ran = run_yaml(
        """
conversation: talk
channels: {messages: {reducer: append}}
agents: {a: {context: [history, current_message]}}
flow: {handoffs: {start: a}}
""",
        "turns:\n  - {user: One, replies: {a: A1}}\n  - {user: Two, replies: {a: A2}}",
    )

    assert ran.history("a") == ["user: One", "assistant/a: A1"]
    assert ran.state("talk")[-1] == "assistant/a: A2"
    assert ran.state("messages") == []


PARALLEL = """
version: 1
pipeline: p
agents:
  r: {instructions: R.}
  a: {context: [{history: {window: {rounds: 1}, summary: scribe}}, current_message]}
  scribe: {instructions: Sum up.}
flow: {router: {decide: r, to: "${run.output.to}"}}
"""


def test_same_agent_twice_at_once_shows_both_the_whole_history() -> None:
    ran = run_yaml(
        PARALLEL,
        """
turns:
  - {user: One, replies: {r: {json: {to: a}}, a: A1.}}
  - {user: Two, replies: {r: {json: {to: a}}, a: A2.}}
  - user: Three
    replies:
      r: {json: {to: {parallel: [a, a]}}}
      a: [{text: X., when: {agent: a}}, {text: Y., when: {agent: a}}]
      scribe: {text: Sum., latency_ms: 10}
  - {user: Four, replies: {r: {json: {to: a}}, a: A4., scribe: All.}}
""",
    )
    expected = ["system/scribe: Sum.", "user: Two", "assistant/a: A2."]
    contexts = [call.context for call in ran.calls("a", 3)]

    assert [[m.content for m in context.section("history")] for context in contexts] == [
        ["Sum.", "Two", "A2."]
    ] * 2
    assert ran.history("a", 3) == expected
    assert ran.history("a", 4) == [
        "system/scribe: All.", "user: Three", "assistant/a: X.", "assistant/a: Y.",
    ]  # fmt: skip
