"""Channels at work: reducers, scopes, resets, and all writes of a run as one update."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.core.errors import SimkitError, WriteInvalid
from simkit.runtime.state import as_message
from simkit.trace.events import StateUpdated, StoreWritten
from tests.building import Ran, run_yaml


def one_agent(channels: str, writes: str = "{}") -> str:
    return f"""
version: 1
pipeline: p
channels: {channels}
agents:
  helper: {{instructions: Help., writes: {writes}}}
flow: {{handoffs: {{start: helper}}}}
"""


def after_replies(channels: str, *replies: str, writes: str = "{x: '${run.output}'}") -> list[Any]:
    """The channel `x` after each of these JSON replies, a turn each."""
    turns = "\n".join(
        f"  - user: Turn {number}\n    replies: {{helper: {{json: {reply}}}}}"
        for number, reply in enumerate(replies, 1)
    )
    ran = run_yaml(one_agent(channels, writes), f"turns:\n{turns}")
    return [ran.state("x", number) for number in range(1, len(replies) + 1)]


@pytest.mark.parametrize(
    ("channel", "replies", "values"),
    [
        ("{}", ["1", "null", "[2]"], [1, None, [2]]),
        ("{reducer: append}", ["[1, 2]", "3", "null", "{a: 1}"],
         [[1, 2], [1, 2, 3], [1, 2, 3], [1, 2, 3, {"a": 1}]]),
        ("{reducer: {append: {last: 2}}}", ["[1, 2, 3]", "4"], [[2, 3], [3, 4]]),
        ("{reducer: merge}", ["{a: {b: 1}}", "{a: {c: 2}, d: 3}"],
         [{"a": {"b": 1}}, {"a": {"c": 2}, "d": 3}]),
        ("{reducer: {merge: deep}}", ["{a: {b: 1}}", "{a: {c: 2}}"],
         [{"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}]),
        ("{reducer: add}", ["1", "2.5", "null"], [1, 3.5, 3.5]),
        ("{reducer: add, default: 10}", ["1"], [11]),
        ("{reducer: union}", ["[1, 2]", "[2, 3]", "1"], [[1, 2], [1, 2, 3], [1, 2, 3]]),
        ("{reducer: by_id}", ["{id: a, v: 1}", "[{id: b}, {id: a, v: 2}]"],
         [[{"id": "a", "v": 1}], [{"id": "a", "v": 2}, {"id": "b"}]]),
        ("{reducer: 'tests.functions:longest'}", ["ab", "c", "abc"], ["ab", "ab", "abc"]),
        ("{reducer: append}", ["[1]", "{$set: [5]}", "6"], [[1], [5], [5, 6]]),
        ("{reducer: append}", ["[1]", "{$set: null}", "6"], [[1], [], [6]]),
        ("{reducer: add}", ["4", "{$set: 1}", "1"], [4, 1, 2]),
        ("{reducer: merge}", ["{a: 1}", "{$set: {b: 2}}"], [{"a": 1}, {"b": 2}]),
        ("{reducer: 'tests.functions:longest'}", ["abc", "{$set: d}", "ef"], ["abc", "d", "ef"]),
    ],
)  # fmt: skip
def test_channel_takes_updates_by_its_reducer(
    channel: str, replies: list[str], values: list[Any]
) -> None:
    assert after_replies(f"{{x: {channel}}}", *replies) == values


@pytest.mark.parametrize(
    ("scope", "values"),
    [("turn", [[1], [2]]), ("session", [[1], [1, 2]]), ("project", [[1], [1, 2]]),
     ("global", [[1], [1, 2]])],
)  # fmt: skip
def test_channel_of_scope_turn_begins_anew_and_is_seen_after_its_turn(
    scope: str, values: list[Any]
) -> None:
    assert after_replies(f"{{x: {{reducer: append, scope: {scope}}}}}", "1", "2") == values


def test_turn_scoped_channel_begins_anew_as_its_default() -> None:
    ran = run_yaml(
        one_agent("{x: {scope: turn, default: fresh}}", "{x: '${run.reply}'}"),
        """
turns:
  - user: One
    replies: {helper: stale}
  - user: Two
    replies: {helper: stale}
""",
    )

    assert [ran.runs("helper", turn)[0].received["x"] for turn in (1, 2)] == ["fresh", "fresh"]
    assert [ran.state("x", turn) for turn in (1, 2)] == ["stale", "stale"]


SHARING = one_agent(
    "{own: {reducer: append}, mine: {reducer: append, scope: project},"
    " everyones: {reducer: append, scope: global}}",
    "{own: '${run.reply}', mine: '${run.reply}', everyones: '${run.reply}'}",
)


def test_sessions_share_project_and_global_channels_and_nothing_else() -> None:
    ran = run_yaml(
        SHARING,
        """
turns:
  - {user: A, session: s1, project: p1, replies: {helper: one}}
  - {user: B, session: s2, project: p1, replies: {helper: two}}
  - {user: C, session: s3, project: p2, replies: {helper: three}}
  - {user: D, session: s1, project: p1, replies: {helper: four}}
""",
    )

    assert [
        [ran.state(channel, turn) for channel in ("own", "mine", "everyones")]
        for turn in (1, 2, 3, 4)
    ] == [
        [["one"], ["one"], ["one"]],
        [["two"], ["one", "two"], ["one", "two"]],
        [["three"], ["three"], ["one", "two", "three"]],
        [["one", "four"], ["one", "two", "four"], ["one", "two", "three", "four"]],
    ]
    assert ran.state("messages", 4) == [
        "user: A", "user: D",
    ]  # fmt: skip
    assert ran.runs("helper", 4)[0].received["everyones"] == ["one", "two", "three"]


def test_given_state_is_there_before_the_first_turn_whatever_the_reducer() -> None:
    ran = run_yaml(
        one_agent("{x: {reducer: append, default: [9]}, y: {reducer: add}, z: {scope: turn}}"),
        """
given: {state: {x: [1, 2], y: 5, z: once}}
turns:
  - {user: A, replies: {helper: Hi}}
  - {user: B, replies: {helper: Hi}}
""",
    )
    received = [ran.runs("helper", turn)[0].received for turn in (1, 2)]

    assert [(got["x"], got["y"], got["z"]) for got in received] == [
        ([1, 2], 5, "once"),
        ([1, 2], 5, None),
    ]


def test_every_session_begins_with_what_is_given_and_long_lived_channels_get_it_once() -> None:
    ran = run_yaml(
        one_agent(
            "{own: {reducer: append}, mine: {reducer: append, scope: project}}", "{own: x, mine: x}"
        ),
        """
given: {state: {own: [g], mine: [g]}}
turns:
  - {user: A, session: s1, replies: {helper: Hi}}
  - {user: B, session: s2, replies: {helper: Hi}}
""",
    )

    assert ran.state("own", 2) == ["g", "x"]
    assert ran.state("mine", 2) == ["g", "x", "x"]


def test_given_conversation_is_said_before_the_first_turn() -> None:
    ran = run_yaml(
        one_agent("{}", "{messages: ['${run.final_message}']}"),
        """
given:
  state:
    messages:
      - user: I ate pizza
      - assistant: Logged.
        agent: nutrition
      - {role: assistant, content: Anything else?}
turns:
  - {user: No, replies: {helper: Fine}}
""",
    )

    assert ran.history("helper") == [
        "user: I ate pizza",
        "assistant/nutrition: Logged.",
        "assistant: Anything else?",
    ]
    assert ran.state("messages")[-2:] == ["user: No", "assistant/helper: Fine"]
    assert [m.turn for m in ran.turn().state["messages"]] == [0, 0, 0, 1, 1]


def test_given_messages_keep_their_calls_and_results() -> None:
    ran = run_yaml(
        one_agent("{}", "{messages: ['${run.final_message}']}"),
        """
given:
  state:
    messages:
      - user: I ate pizza
      - {assistant: Let me log that., calls: [{id: c1, tool: log_meal, args: {food: pizza}}]}
      - {role: tool, content: done, tool: log_meal, call_id: c1}
turns:
  - {user: No, replies: {helper: Fine}}
""",
    )
    _, request, answered, *_ = ran.turn().state["messages"]

    assert request.content == "Let me log that."
    assert [(call.id, call.name, call.args) for call in request.calls] == [
        ("c1", "log_meal", {"food": "pizza"})
    ]
    assert (answered.role, answered.tool, answered.call_id) == ("tool", "log_meal", "c1")


def test_a_value_that_is_no_whole_message_is_said_as_it_is() -> None:
    message = as_message({"user": "Ada", "age": 36}, "clerk")

    assert (message.role, message.content, message.agent) == (
        "assistant",
        '{"user":"Ada","age":36}',
        "clerk",
    )


def test_a_message_that_code_writes_loses_nothing_in_silence() -> None:
    with pytest.raises(WriteInvalid, match="unknown key of a message `tool_calls`"):
        as_message({"role": "assistant", "content": "", "tool_calls": []}, "clerk")


AGENT_RUN = """
channels:
  phase: {scope: agent_run}
  kept: {}
agents:
  router: {instructions: Route., writes: {phase: routing, kept: seen}}
  helper: {instructions: Help., writes: {}}
flow: {router: {decide: router, to: "${run.reply}"}}
"""


def test_channel_of_scope_agent_run_reaches_no_other_run_and_no_state() -> None:
    ran = run_yaml(AGENT_RUN, "turns:\n  - {user: Hi, replies: {router: helper, helper: Hello}}")
    router, helper = ran.turn().runs

    assert router.update == {"phase": "routing", "kept": "seen"}
    assert "phase" not in router.received
    assert "phase" not in helper.received
    assert helper.received["kept"] == "seen"
    assert "phase" not in ran.turn().state


def test_all_writes_of_a_run_are_one_update() -> None:
    ran = run_yaml(
        one_agent("{a: {}, b: {}}", "{a: '${run.reply}', b: '${run.output}'}"),
        "turns:\n  - {user: Hi, replies: {helper: {json: {n: 1}}}}",
    )
    updates = [(u.cause, u.agent, u.update) for u in ran.events(StateUpdated)]

    assert updates == [
        ("user", "", {"messages": [{"$message": 1}]}),
        ("writes", "helper", {"a": '{"n":1}', "b": {"n": 1}}),
    ]


RULES = """
channels: {a: {}, b: {}, c: {}}
agents:
  helper:
    instructions: Help.
    writes: {a: writes, b: writes}
    after:
      - {when: {run.output: {score: {$gt: 5}}}, writes: {a: first, c: first}}
      - {when: {run.output: {score: {$gt: 1}}}, writes: {a: second, c: second}}
flow: {handoffs: {start: helper}}
"""


@pytest.mark.parametrize(
    ("score", "texts_by_name"),
    [
        (9, {"a": "first", "b": "writes", "c": "first"}),
        (3, {"a": "second", "b": "writes", "c": "second"}),
        (0, {"a": "writes", "b": "writes"}),
    ],
)
def test_first_rule_that_holds_wins_over_the_writes_it_meets(
    score: int, texts_by_name: dict[str, str]
) -> None:
    ran = run_yaml(
        RULES, f"turns:\n  - {{user: Hi, replies: {{helper: {{json: {{score: {score}}}}}}}}}"
    )

    assert ran.runs("helper")[0].update == texts_by_name


BEFORE = """
channels: {a: {}, b: {}, c: {}, done: {}}
agents:
  helper:
    instructions: Help.
    writes: {a: writes, b: writes}
    before:
      - {when: {state.done: true}, writes: {a: before, c: before}}
      - {when: {user: {$contains: second}}, writes: {a: second}}
    after:
      - {writes: {c: after}}
flow: {handoffs: {start: helper}}
"""


def test_rule_before_a_run_stands_in_for_the_model_and_skips_after() -> None:
    ran = run_yaml(
        BEFORE, "given: {state: {done: true}}\nturns:\n  - {user: the second, replies: {}}"
    )
    run = ran.runs("helper")[0]

    assert run.update == {"a": "before", "b": "writes", "c": "before"}
    assert (run.status, run.output, run.calls, run.messages) == ("stood_in", None, [], [])
    assert [u.cause for u in ran.events(StateUpdated)] == ["given", "user", "before"]


def test_rule_before_that_does_not_hold_leaves_the_run_to_the_model() -> None:
    ran = run_yaml(BEFORE, "turns:\n  - {user: Hi, replies: {helper: Hello}}")

    assert ran.runs("helper")[0].update == {"a": "writes", "b": "writes", "c": "after"}


def test_references_in_writes_keep_their_type_and_are_text_within_text() -> None:
    ran = run_yaml(
        one_agent(
            "{x: {}, known: {}}",
            "{x: {out: '${run.output}', text: 'got ${run.output}', agent: '${agent}',"
            " said: '${user}', was: '${state.known}', literal: '$${agent}',"
            " none: '${run.output.such}', took: '${run.took_ms}'}}",
        ),
        "given: {state: {known: [1]}}\n"
        "turns:\n  - {user: Hi, replies: {helper: {json: {n: 1}, latency_ms: 30}}}",
    )

    assert ran.state("x") == {
        "out": {"n": 1},
        "text": 'got {"n": 1}',
        "agent": "helper",
        "said": "Hi",
        "was": [1],
        "literal": "${agent}",
        "none": None,
        "took": 30,
    }


def test_write_that_a_reducer_cannot_take_ends_the_run_and_writes_nothing() -> None:
    ran = run_yaml(
        one_agent("{a: {}, n: {reducer: add}}", "{a: new, n: '${run.reply}'}").replace(
            "Help.", '"a is ${state.a}"'
        ),
        """
turns:
  - user: Hi
    replies: {helper: many}
    expect: {error: {type: WriteInvalid}}
  - user: Again
    replies: {helper: {json: 2}}
    expect: {error: {type: WriteInvalid}}
""",
    )

    assert ran.error(1) == (
        "WriteInvalid", "channel `n`: reducer `add` takes a number, not 'many'",
    )  # fmt: skip
    assert ran.state("a", 1) is None
    assert ran.runs("helper", 1)[0].status == "failed"
    assert ran.runs("helper", 2)[0].received["a"] is None
    assert ran.context("helper", 2).messages[0].content == "a is null"


def updates_with(reducer: str) -> Ran:
    return run_yaml(
        one_agent(f"{{x: {{reducer: 'tests.functions:{reducer}'}}}}", "{x: '${run.reply}'}"),
        """
lints: {STA-03: a reducer that is not pure is shown on purpose}
turns:
  - {user: A, replies: {helper: one}}
  - {user: B, replies: {helper: two}}
""",
    )


def test_reducer_that_changes_its_argument_is_told_and_changes_no_snapshot() -> None:
    ran = updates_with("growing_in_place")

    assert [u.impure for u in ran.events(StateUpdated) if u.cause == "writes"] == [
        None,  # it made the first list itself
        {"x": "it changes its argument"},
    ]
    assert [ran.state("x", turn) for turn in (1, 2)] == [["one"], ["one", "two"]]


def test_reducer_that_answers_otherwise_when_called_again_is_told() -> None:
    ran = updates_with("drawing")

    assert [u.impure for u in ran.events(StateUpdated) if u.cause == "writes"] == [
        {"x": "it gives another value when called again"}
    ] * 2


def test_reducer_that_raises_ends_the_turn_with_its_name() -> None:
    ran = run_yaml(
        one_agent("{x: {reducer: 'tests.functions:failing'}}", "{x: '${run.reply}'}"),
        "turns:\n  - {user: A, replies: {helper: one}, expect: {error: {type: FunctionFailed}}}",
    )

    assert ran.error() == (
        "FunctionFailed", "`tests.functions:failing` raised ValueError: out of order",
    )  # fmt: skip


def test_reducer_that_is_not_there_is_told() -> None:
    with pytest.raises(SimkitError) as error:
        run_yaml(
            one_agent("{x: {reducer: 'tests.functions:longst'}}"),
            "turns:\n  - {user: A, replies: {helper: one}}",
        )

    assert "tests.functions" in str(error.value)
    assert "longst" in str(error.value)


@pytest.mark.parametrize(
    ("channel", "reply", "is_told"),
    [
        ("{reducer: append, scope: project}", "[1]", True),
        ("{reducer: append, scope: project}", "null", False),
        ("{reducer: merge, scope: global}", "null", False),
        ("{scope: global}", "null", True),
        ("{reducer: append, scope: session}", "[1]", False),
    ],
)
def test_a_long_lived_channel_is_told_as_written_where_its_reducer_takes_the_write(
    channel: str, reply: str, is_told: bool
) -> None:
    ran = run_yaml(
        one_agent(f"{{x: {channel}}}", "{x: '${run.output}'}"),
        f"turns:\n  - {{user: A, replies: {{helper: {{json: {reply}}}}}}}",
    )

    assert [event.channel for event in ran.events(StoreWritten)] == ["x"] * is_told
