"""The history section: sources, filters in order, windows, omission, summaries."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.core.messages import Message, ToolCall
from simkit.runtime.context.history import filter_named
from simkit.spec.pipeline.recipe import AgentFilter, FilterSpec
from simkit.trace.events import ContextBuilt, HistoryPart
from tests.building import Ran, dropped, line, message_lines, run_yaml


def pipeline(history: str, agents: str = "", current: str = "current_message") -> str:
    return f"""
version: 1
pipeline: p
channels: {{notes: {{reducer: append}}}}
agents:
  router: {{instructions: Route., context: [instructions, current_message], writes: {{}}}}
  a:
    instructions: A.
    tools: [look]
    context: [instructions, {{history: {history}}}, {current}]
  b: {{instructions: B.}}
{agents}
tools: {{look: {{}}}}
flow: {{router: {{decide: router, to: "${{run.output.to}}"}}}}
"""


TALK = """
turns:
  - user: One
    replies:
      router: {json: {to: a}}
      a: [{text: Looking., calls: {look: {n: 1}}}, {calls: {look: {n: 2}}}, First.]
    tool_results: {look: seen}
  - user: Two
    replies: {router: {json: {to: b}}, b: Second.}
  - user: Three
    replies: {router: {json: {to: a}}, a: Third.}
"""
ALL = [
    "user: One",
    'assistant/router: {"to":"a"}',
    'assistant/a: Looking. [look{"n":1}]',
    "tool/a: seen",
    'assistant/a: [look{"n":2}]',
    "tool/a: seen",
    "assistant/a: First.",
    "user: Two",
    'assistant/router: {"to":"b"}',
    "assistant/b: Second.",
    'assistant/router: {"to":"a"}',
]


def test_log_is_everything_said_before_the_run() -> None:
    ran = run_yaml(pipeline("{from: log}"), TALK)

    assert ran.history("a") == ALL
    assert dropped(ran.context("a")) == []


def test_conversation_is_what_agents_committed() -> None:
    ran = run_yaml(pipeline("{}"), TALK)

    assert ran.history("a") == [
        "user: One", "assistant/a: First.", "user: Two", "assistant/b: Second.",
    ]  # fmt: skip


def test_history_keeps_provenance_and_section() -> None:
    ran = run_yaml(pipeline("{name: past}"), TALK)
    messages = ran.context("a").section("past")

    assert [(m.id, m.agent, m.turn, m.section) for m in messages] == [
        ("m1", None, 1, "past"),
        ("m7", "a", 1, "past"),
        ("m8", None, 2, "past"),
        ("m10", "b", 2, "past"),
    ]


FILTERED = {
    "[tool_messages]": (
        [line for line in ALL if not line.startswith("tool")],
        [("tool/a: seen", "message", "tool_messages")] * 2,
    ),
    "[tool_calls]": (
        [
            "user: One",
            'assistant/router: {"to":"a"}',
            "assistant/a: Looking.",
            "tool/a: seen",
            "tool/a: seen",
            *ALL[6:],
        ],
        [
            ('assistant/a: Looking. [look{"n":1}]', "tool_calls", "tool_calls"),
            ('assistant/a: [look{"n":2}]', "tool_calls", "tool_calls"),
            ('assistant/a: [look{"n":2}]', "message", "tool_calls"),
        ],
    ),
    "[intermediate_ai]": (
        [
            "user: One", "tool/a: seen", "tool/a: seen", "assistant/a: First.", "user: Two",
            "assistant/b: Second.",
        ],
        [(ALL[k], "message", "intermediate_ai") for k in (1, 2, 4, 8, 10)],
    ),
    "[tool_messages, tool_calls, intermediate_ai]": (
        ["user: One", "assistant/a: First.", "user: Two", "assistant/b: Second."],
        [
            (ALL[1], "message", "intermediate_ai"),
            (ALL[2], "tool_calls", "tool_calls"),
            (ALL[2], "message", "intermediate_ai"),
            (ALL[3], "message", "tool_messages"),
            (ALL[4], "tool_calls", "tool_calls"),
            (ALL[4], "message", "intermediate_ai"),
            (ALL[5], "message", "tool_messages"),
            (ALL[8], "message", "intermediate_ai"),
            (ALL[10], "message", "intermediate_ai"),
        ],
    ),
    "[intermediate_ai, tool_calls]": (
        [
            "user: One", "tool/a: seen", "tool/a: seen", "assistant/a: First.", "user: Two",
            "assistant/b: Second.",
        ],
        [(ALL[k], "message", "intermediate_ai") for k in (1, 2, 4, 8, 10)],
    ),
    "[{agents: {only: [b]}}]": (
        ["user: One", "user: Two", "assistant/b: Second."],
        [(ALL[k], "message", "agents") for k in (1, 2, 3, 4, 5, 6, 8, 10)],
    ),
    "[{drop: {agent: router}}, {drop: {content: {$regex: Looking}}}]": (
        ["user: One", *ALL[3:8], "assistant/b: Second."],
        [(ALL[k], "message", "drop") for k in (1, 2, 8, 10)],
    ),
    "[{older_than: {rounds: 1}}]": (ALL[7:], [(item, "message", "older_than") for item in ALL[:7]]),
    "[{older_than: {messages: 6, filters: [tool_messages, tool_calls]}}]": (
        ["user: One", ALL[1], "assistant/a: Looking.", *ALL[5:]],
        [
            (ALL[2], "tool_calls", "tool_calls"),
            (ALL[3], "message", "tool_messages"),
            (ALL[4], "tool_calls", "tool_calls"),
            (ALL[4], "message", "tool_calls"),
        ],
    ),
    # What is old is told of what the filters before it have left.
    "[{agents: {only: [b]}}, {older_than: {messages: 2, filters: [{drop: {user: One}}]}}]": (
        ["user: Two", "assistant/b: Second."],
        [
            ("user: One", "message", "drop"),
            *((ALL[k], "message", "agents") for k in (1, 2, 3, 4, 5, 6, 8, 10)),
        ],
    ),
    "[{older_than: {tokens: 8}}, intermediate_ai]": (
        ["assistant/b: Second."],
        [
            *((item, "message", "older_than") for item in ALL[:8]),
            (ALL[8], "message", "intermediate_ai"), (ALL[10], "message", "intermediate_ai"),
        ],
    ),
    "[{agents: {not: [router, a]}}]": (
        ["user: One", "user: Two", "assistant/b: Second."],
        [(ALL[k], "message", "agents") for k in (1, 2, 3, 4, 5, 6, 8, 10)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("filters", FILTERED)
def test_filters_apply_in_order_and_name_what_they_drop_or_edit(filters: str) -> None:
    left, cut = FILTERED[filters]
    ran = run_yaml(pipeline(f"{{from: log, filters: {filters}}}"), TALK)

    assert ran.history("a") == left
    assert dropped(ran.context("a")) == cut


@pytest.mark.parametrize(
    ("filters", "left", "cut"),
    [
        (
            "['tests.functions:without_last']",
            ALL[:-1],
            [(ALL[-1], "message", "tests.functions:without_last")],
        ),
        (  # the user's function comes first, so it sees the router's last decision
            "['tests.functions:without_last', {agents: {not: [router, a]}}]",
            ["user: One", "user: Two", "assistant/b: Second."],
            [
                *((ALL[k], "message", "agents") for k in (1, 2, 3, 4, 5, 6, 8)),
                (ALL[10], "message", "tests.functions:without_last"),
            ],
        ),
        (  # it comes last, so what it drops is the last that the filter before it left
            "[{agents: {not: [router, a]}}, 'tests.functions:without_last']",
            ["user: One", "user: Two"],
            [
                *((ALL[k], "message", "agents") for k in (1, 2, 3, 4, 5, 6, 8)),
                (ALL[9], "message", "tests.functions:without_last"),
                (ALL[10], "message", "agents"),
            ],
        ),
        (
            "[{agents: {only: [b]}}, 'tests.functions:in_capitals']",
            ["user: ONE", "user: TWO", "assistant/b: SECOND."],
            [
                ("user: One", "content", "tests.functions:in_capitals"),
                *((ALL[k], "message", "agents") for k in (1, 2, 3, 4, 5, 6)),
                ("user: Two", "content", "tests.functions:in_capitals"),
                (ALL[8], "message", "agents"),
                (ALL[9], "content", "tests.functions:in_capitals"),
                (ALL[10], "message", "agents"),
            ],
        ),
        (
            "['tests.functions:in_capitals', tool_messages, tool_calls, intermediate_ai]",
            ["user: ONE", "assistant/a: FIRST.", "user: TWO", "assistant/b: SECOND."],
            None,
        ),
    ],
)
def test_users_filter_takes_its_place_in_the_order(
    filters: str, left: list[str], cut: list[tuple[str, str, str]] | None
) -> None:
    ran = run_yaml(pipeline(f"{{from: log, filters: {filters}}}"), TALK)

    assert ran.history("a") == left
    if cut is not None:
        assert dropped(ran.context("a")) == cut


def test_users_filter_that_raises_ends_the_turn_with_its_name() -> None:
    ran = run_yaml(
        pipeline("{filters: ['tests.functions:failing']}"),
        """
turns:
  - user: One
    replies: {router: {json: {to: a}}}
    expect: {error: {type: FunctionFailed}}
""",
    )

    assert ran.error() == (
        "FunctionFailed", "`tests.functions:failing` raised ValueError: out of order",
    )  # fmt: skip


LONG = "turns:\n" + "\n".join(
    f"  - {{user: Question {n}, replies: {{router: {{json: {{to: a}}}}, a: Answer {n}.}}}}"
    for n in range(1, 5)
)


def last(count: int, turns: int = 4) -> list[str]:
    results = [
        line
        for n in range(1, turns)
        for line in (f"user: Question {n}", f"assistant/a: Answer {n}.")
    ]
    return results[-count:] if count else []


@pytest.mark.parametrize(
    ("window", "count"),
    [
        ("{rounds: 1}", 2),
        ("{rounds: 2}", 4),
        ("{rounds: 3}", 6),
        ("{rounds: 9}", 6),
        ("{rounds: 0}", 6),
        ("{messages: 1}", 1),
        ("{messages: 5}", 5),
        ("{messages: 99}", 6),
        ("{messages: 0}", 6),
        ("{tokens: 0}", 6),
        ("{tokens: 2}", 0),
        ("{tokens: 3}", 1),  # `Question 3` and `Answer 3.` are three tokens each
        ("{tokens: 5}", 1),
        ("{tokens: 6}", 2),
        ("{tokens: 18}", 6),
        ("{rounds: 2, messages: 3}", 3),
        ("{rounds: 1, messages: 5, tokens: 9}", 2),
    ],
)
def test_window_shows_the_newest_part_and_lists_the_rest(window: str, count: int) -> None:
    ran = run_yaml(pipeline(f"{{window: {window}}}"), LONG)
    context = ran.context("a")

    assert message_lines(context.section("history")) == last(count)
    assert dropped(context) == [
        (line, "message", "window") for line in last(6)[: 6 - count]
    ]  # fmt: skip


def test_round_starts_at_a_user_message_of_the_current_turn_too() -> None:
    ran = run_yaml(pipeline("{from: log, window: {rounds: 1}}", current="task"), LONG)

    assert ran.history("a") == ["user: Question 4", 'assistant/router: {"to":"a"}']


def test_window_comes_after_the_filters() -> None:
    ran = run_yaml(pipeline("{from: log, filters: [intermediate_ai], window: {messages: 2}}"), LONG)

    assert ran.history("a") == last(2)
    assert [by for _, _, by in dropped(ran.context("a"))] == [
        "window", "intermediate_ai", "window", "window", "intermediate_ai", "window",
        "intermediate_ai", "intermediate_ai",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("recipe", "history", "sections"),
    [
        ("current_message", last(6), ["instructions", "history", "current_message"]),
        ("task", [*last(6), "user: Question 4"], ["instructions", "history"]),
        (
            "{current_message: {when: {user: {$contains: no such}}}}",
            [*last(6), "user: Question 4"],
            ["instructions", "history"],
        ),
        (
            "{current_message: {when: {user: {$contains: Question}}}}",
            last(6),
            ["instructions", "history", "current_message"],
        ),
        (
            "[current_message, instructions]",
            last(6),
            ["instructions", "history", "current_message"],
        ),
    ],
)
def test_current_message_is_omitted_exactly_where_the_recipe_shows_it(
    recipe: str, history: list[str], sections: list[str]
) -> None:
    ran = run_yaml(pipeline("{}", current=recipe), LONG)
    context = ran.context("a")

    assert message_lines(context.section("history")) == history
    assert context.sections == sections
    assert dropped(context) == []


def test_empty_current_message_shows_nothing_and_stays_in_history() -> None:
    ran = run_yaml(
        pipeline("{}"), "turns:\n  - {user: '', replies: {router: {json: {to: a}}, a: Hm?}}"
    )

    assert ran.context("a").sections == ["instructions", "history"]
    assert ran.history("a") == ["user: "]


def test_two_histories_of_one_recipe_are_filtered_each_for_itself() -> None:
    ran = run_yaml(
        pipeline(
            "{name: own, from: log, filters: [{agents: {only: [a]}}, tool_messages, tool_calls]}}, "
            "{history: {name: others, filters: [{agents: {not: [a]}}], window: {messages: 1}}"
        ),
        TALK,
    )

    assert ran.history("a", section="own") == [
        "user: One", "assistant/a: Looking.", "assistant/a: First.", "user: Two",
    ]  # fmt: skip
    assert ran.history("a", section="others") == ["assistant/b: Second."]
    assert ran.context("a").sections == ["instructions", "own", "others", "current_message"]


def test_history_of_another_channel_holds_what_was_written_there() -> None:
    ran = run_yaml(
        pipeline(
            "{from: notes}",
            agents="""
  c: {instructions: C., writes: {notes: ["${run.final_message}", {user: Said aside}, "a text"]}}
""",
        ),
        """
turns:
  - {user: One, replies: {router: {json: {to: c}}, c: Noted.}}
  - {user: Two, replies: {router: {json: {to: a}}, a: Read.}}
""",
    )

    assert ran.history("a") == ["assistant/c: Noted.", "user: Said aside", "assistant/c: a text"]


def test_history_shows_a_conversation_as_it_was_reset() -> None:
    ran = run_yaml(
        pipeline(
            "{}",
            agents="""
  forgets: {instructions: F., writes: {messages: {$set: [{system: Summary of before}]}}}
""",
        ).replace("{system: Summary of before}", "{role: system, content: Summary of before}"),
        """
turns:
  - {user: One, replies: {router: {json: {to: a}}, a: First.}}
  - {user: Two, replies: {router: {json: {to: forgets}}, forgets: Forgotten.}}
  - {user: Three, replies: {router: {json: {to: a}}, a: Third.}}
  - {user: Four, replies: {router: {json: {to: a}}, a: Fourth.}}
""",
    )
    summary = "system/forgets: Summary of before"

    assert ran.history("a", 3) == [summary]
    assert ran.history("a", 4) == [summary, "user: Three", "assistant/a: Third."]


SUMMARISED = pipeline(
    "{window: {rounds: 1}, summary: scribe}", agents="  scribe: {instructions: Sum up.}"
)


def summarised(*scribed: str, turns: int = 4, pipeline: str = SUMMARISED) -> Ran:
    replies = [f", scribe: {line}" if line else "" for line in scribed]
    replies += [""] * (turns - len(replies))
    return run_yaml(
        pipeline,
        "turns:\n" + "\n".join(
            f"  - {{user: Question {n}, replies: "
            f"{{router: {{json: {{to: a}}}}, a: Answer {n}.{replies[n - 1]}}}}}"
            for n in range(1, turns + 1)
        ),
    )  # fmt: skip


def test_summary_stands_for_what_the_window_leaves_out_and_rolls() -> None:
    ran = summarised("", "", "Sum of 1.", "Sum of 1 and 2.")

    assert [len(ran.calls("scribe", turn)) for turn in (1, 2, 3, 4)] == [0, 0, 1, 1]
    assert message_lines(ran.context("scribe", 3).messages) == [
        "system/scribe: Sum up.", "user: Question 1", "assistant/a: Answer 1.",
    ]  # fmt: skip
    assert message_lines(ran.context("scribe", 4).messages) == [
        "system/scribe: Sum up.",
        "system/scribe: Sum of 1.",
        "user: Question 2",
        "assistant/a: Answer 2.",
    ]
    assert ran.context("scribe", 4).sections == ["instructions", "summary", "history"]
    assert ran.history("a", 2) == ["user: Question 1", "assistant/a: Answer 1."]
    assert ran.history("a", 4) == [
        "system/scribe: Sum of 1 and 2.", "user: Question 3", "assistant/a: Answer 3.",
    ]  # fmt: skip
    assert dropped(ran.context("a", 4)) == [(line, "message", "window") for line in last(6)[:4]]


def test_summary_starts_no_run_and_commits_nothing() -> None:
    ran = summarised("", "", "Sum of 1.", turns=3)

    assert [run.agent for run in ran.turn().runs] == ["router", "a"]
    assert ran.state("messages") == [
        *last(4, 3), "user: Question 3", "assistant/a: Answer 3.",
    ]  # fmt: skip
    assert ran.runs("a")[0].calls == ran.calls("a")


def test_summary_takes_virtual_time_before_the_model_is_called() -> None:
    ran = summarised("", "", "{text: Sum of 1., latency_ms: 40}", turns=3)

    assert ran.calls("a")[0].at - ran.calls("scribe")[0].at == 40


def test_summariser_that_fails_spoils_no_later_context() -> None:
    ran = run_yaml(
        SUMMARISED,
        """
turns:
  - {user: Question 1, replies: {router: {json: {to: a}}, a: Answer 1.}}
  - {user: Question 2, replies: {router: {json: {to: a}}, a: Answer 2.}}
  - user: Question 3
    replies: {router: {json: {to: a}}, scribe: {error: overloaded}}
    expect: {error: {type: overloaded}}
  - {user: Question 4, replies: {router: {json: {to: a}}, scribe: Sum., a: Answer 4.}}
""",
    )

    assert message_lines(ran.context("scribe").messages)[1:] == last(4, 3)
    assert ran.history("a") == ["system/scribe: Sum.", "user: Question 3"]
    assert dropped(ran.context("a")) == [(line, "message", "window") for line in last(4, 3)]


def test_turns_that_are_over_are_told_once_however_many_contexts_show_them() -> None:
    ran = run_yaml(pipeline("{}"), LONG)
    parts = [
        part
        for built in ran.events(ContextBuilt)
        if built.agent == "a"
        for part in built.parts
        if isinstance(part, HistoryPart)
    ]

    assert [(part.kept, part.tail) for part in parts] == [
        ((), ()), ((1, 3), ()), ((4, 6), ()), ((7, 9), ()),
    ]  # fmt: skip


LOOK, PASS = ToolCall("call1", "look", {}), ToolCall("call2", "transfer_to_b", {})
MESSAGES = [
    Message("user", "Hi", "m1"),
    Message("assistant", "Looking.", "m2", "a", calls=(LOOK,)),
    Message("tool", "3", "m3", "a", call_id="call1", tool="look"),
    Message("assistant", "", "m4", "a", calls=(LOOK, PASS)),
    Message("tool", "Transferred to b.", "m5", "a", call_id="call2", tool="transfer_to_b"),
    Message("assistant", "Done.", "m6", "b"),
    Message("assistant", "Draft.", "m7", "b"),
    Message("system", "Be kind.", "m8"),
]
COMMITTED = {"m1", "m6"}


def left_by(spec: Any) -> list[str]:
    _, function = filter_named(spec)
    texts = [function(message, COMMITTED) for message in MESSAGES]
    return [line(message) for message in texts if message is not None]


def agents(**options: Any) -> FilterSpec:
    return FilterSpec(agents=AgentFilter.model_validate(options))


@pytest.mark.parametrize(
    ("spec", "left"),
    [
        ("tool_messages", ["user: Hi", "assistant/a: Looking. [look{}]",
                           "assistant/a: [look{}] [transfer_to_b{}]", "assistant/b: Done.",
                           "assistant/b: Draft.", "system: Be kind."]),
        ("tool_calls", ["user: Hi", "assistant/a: Looking.", "tool/a: 3", "assistant/a: ",
                        "tool/a: Transferred to b.", "assistant/b: Done.", "assistant/b: Draft.",
                        "system: Be kind."]),
        ("intermediate_ai", ["user: Hi", "tool/a: 3", "tool/a: Transferred to b.",
                             "assistant/b: Done.", "system: Be kind."]),
        ("handoffs", ["user: Hi", "assistant/a: Looking. [look{}]", "tool/a: 3",
                      "assistant/a: [look{}]", "assistant/b: Done.", "assistant/b: Draft.",
                      "system: Be kind."]),
        (agents(only=["b"]), ["user: Hi", "assistant/b: Done.", "assistant/b: Draft.",
                              "system: Be kind."]),
        (agents(**{"not": ["b"]}), ["user: Hi", "assistant/a: Looking. [look{}]", "tool/a: 3",
                                    "assistant/a: [look{}] [transfer_to_b{}]",
                                    "tool/a: Transferred to b.", "system: Be kind."]),
        (agents(only=["a", "b"], **{"not": ["a"]}), ["user: Hi", "assistant/b: Done.",
                                                     "assistant/b: Draft.", "system: Be kind."]),
        (agents(only=[]), ["user: Hi", "system: Be kind."]),
    ],
)  # fmt: skip
def test_filter_leaves_these_messages_and_no_others(spec: Any, left: list[str]) -> None:
    assert left_by(spec) == left


@pytest.mark.parametrize("name", ["tool_messages", "tool_calls", "intermediate_ai", "handoffs"])
def test_filter_returns_the_very_message_where_it_changes_nothing(name: str) -> None:
    _, function = filter_named(name)

    assert function(MESSAGES[0], COMMITTED) is MESSAGES[0]


def test_filter_is_named_as_dropped_messages_name_it() -> None:
    assert filter_named("handoffs")[0] == "handoffs"
    assert filter_named(agents(only=["b"]))[0] == "agents"


def test_assistant_of_whom_nobody_knows_the_name_is_none_of_those_to_keep() -> None:
    restored = Message("assistant", "Once.", "m9")

    assert filter_named(agents(only=["a"]))[1](restored, COMMITTED) is None
    assert filter_named(agents(**{"not": ["a"]}))[1](restored, COMMITTED) is restored
