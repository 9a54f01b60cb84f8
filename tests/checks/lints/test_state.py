"""STA-01, STA-03, STA-05, STA-09, STA-10: lost updates, reducers, shrinking, double numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simkit.checks.findings import Hit
from simkit.core.messages import ToolCall
from simkit.core.text import counted
from simkit.trace import events as e
from tests.checks.traces import Story, hits_of, ran

CHANNELS = {
    "topic": e.ChannelFacts("replace", "session"),
    "private": e.ChannelFacts("replace", "agent_run"),
    "facts": e.ChannelFacts("merge", "session"),
    "deep": e.ChannelFacts("merge_deep", "session"),
    "items": e.ChannelFacts("by_id", "session"),
    "notes": e.ChannelFacts("append", "session"),
    "log": e.ChannelFacts("append", "session", last=3),
    "count": e.ChannelFacts("add", "session"),
    "own": e.ChannelFacts("app:reduce", "session"),
    "brief": e.ChannelFacts("app:reduce", "turn"),
    "shared": e.ChannelFacts("app:reduce", "project"),
}


def in_parallel(channel: str, item: Any, two: Any, groups: tuple[str, str] = ("g1", "g1")) -> Story:
    """Agents ``a`` and ``b`` run in parallel, and each writes the channel."""
    story = Story(["a", "b"], channels=CHANNELS)
    story.turn()
    runs = [story.start("a", group=groups[0]), story.start("b", group=groups[1])]
    for agent, run, group, value in zip("ab", runs, groups, (item, two), strict=True):
        story.resume(agent, run, group)
        story.write({channel: value})
        story.finish()
    story.end()
    return story


@pytest.mark.parametrize(
    ("channel", "item", "two", "at", "key"),
    [
        ("topic", "sun", "rain", "channel `topic` (reducer replace)", None),
        ("topic", "sun", None, "channel `topic` (reducer replace)", None),
        ("facts", {"k": 1, "a": 1}, {"k": 2, "b": 2}, "channel `facts`, key k (reducer merge)",
         "k"),
        ("deep", {"k": {"x": 1}}, {"k": {"x": 2}}, "channel `deep`, key k.x (reducer merge_deep)",
         "k.x"),
        ("items", [{"id": 7, "t": 1}], {"id": 7, "t": 2}, "channel `items`, key 7 (reducer by_id)",
         "7"),
    ],
    ids=["replaced", "replaced by null", "merged", "merged deeply", "by id"],
)  # fmt: skip
def test_a_value_that_a_parallel_run_overwrites_is_found(
    channel: str, item: Any, two: Any, at: str, key: str | None
) -> None:
    story = in_parallel(channel, item, two)

    data = {"channel": channel, "agents": ["a", "b"], **({"key": key} if key else {})}
    assert hits_of("STA-01", story.trace) == [
        Hit(
            "STA-01",
            "agents 'a' and 'b' ran in parallel in turn 1 and wrote different values to "
            f"{at}: the first is lost",
            1, "b", data=data,
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("channel", "item", "two"),
    [
        ("topic", "sun", "sun"),
        ("topic", "sun", {"$set": "rain"}),
        ("private", "sun", "rain"),
        ("facts", {"a": 1}, {"b": 2}),
        ("facts", {"a": 1}, None),
        ("deep", {"k": {"x": 1}}, {"k": {"y": 2}}),
        ("items", [{"id": 7}], [{"id": 8}, {"text": "no id"}]),
        ("notes", "one", "two"),
        ("count", 1, 2),
        ("own", "one", "two"),
    ],
    ids=[
        "equal", "declared", "agent_run", "other keys", "nothing", "other deep keys", "other ids",
        "append", "add", "the user's own reducer",
    ],
)  # fmt: skip
def test_writes_that_do_not_meet_pass(channel: str, item: Any, two: Any) -> None:
    story = in_parallel(channel, item, two)

    assert hits_of("STA-01", story.trace) == []


@pytest.mark.parametrize("groups", [("g1", "g2"), ("", "")], ids=["two groups", "in order"])
def test_runs_that_are_not_of_one_group_overwrite_in_order(groups: tuple[str, str]) -> None:
    story = in_parallel("topic", "sun", "rain", groups)

    assert hits_of("STA-01", story.trace) == []


@pytest.mark.parametrize(
    ("item", "two", "expected"),
    [
        (["a1", "a2"], ["b1", "b2"], True),
        (["a1", "a2"], ["b1"], False),
        (["a1", "a2"], {"$set": ["b1", "b2"]}, False),
        (["a1"], None, False),
    ],
    ids=["too many", "room for all", "declared", "nothing"],
)
def test_items_that_a_parallel_run_pushes_out_of_a_short_list_are_found(
    item: Any, two: Any, expected: bool
) -> None:
    hits = hits_of("STA-01", in_parallel("log", item, two).trace)

    assert [hit.what for hit in hits] == [
        "agents 'a' and 'b' ran in parallel in turn 1 and added 4 items to channel `log`, which "
        "keeps the last 3: the first are lost"
    ] * expected


def test_runs_one_after_the_other_may_push_items_out() -> None:
    story = in_parallel("log", ["a1", "a2"], ["b1", "b2"], ("g1", "g2"))

    assert hits_of("STA-01", story.trace) == []


def holding(*messages: tuple[str, str]) -> Story:
    """Messages are added to a channel: role, and the call that each makes or answers."""
    story = Story(["a"], channels=CHANNELS)
    story.turn(agent="a")
    for role, call in messages:
        if role == "tool":
            number = story.hears(call, "found")
        else:
            number = story.says("", ToolCall(call, "look", {}))
        story.write({"messages": [{"$message": number}]})
    story.finish_turn()
    return story


@pytest.mark.parametrize(
    ("messages", "how"),
    [
        ([("assistant", "call1"), ("tool", "call1"), ("tool", "call1")], "two results of"),
        ([("assistant", "call1"), ("assistant", "call1")], "two messages that make"),
    ],
    ids=["results", "calls"],
)
def test_a_message_that_is_added_where_it_was_to_replace_is_found(
    messages: list[tuple[str, str]], how: str
) -> None:
    (hit,) = hits_of("STA-11", holding(*messages).trace)

    first, last = len(messages), len(messages) + 1
    assert hit.what == (
        f"channel `messages` holds {how} call call1 since turn 1: m{first} and m{last}, which may "
        "have been meant to take its place"
    )


def test_calls_with_their_results_pass_and_so_does_a_message_that_is_told_twice() -> None:
    story = holding(
        *[(role, call) for call in ("call1", "call2") for role in ("assistant", "tool")]
    )
    story.write({"messages": [{"$message": 2}]})

    assert hits_of("STA-11", story.trace) == []


def test_one_run_may_write_twice() -> None:
    story = Story(channels=CHANNELS)
    story.turn()
    story.start("a", group="g1")
    story.write({"topic": "sun"})
    story.write({"topic": "rain"})

    assert hits_of("STA-01", story.trace) == []


PARALLEL = """\
version: 1
pipeline: two at once
channels: {{topic: {{reducer: {reducer}}}}}
agents:
  router: {{instructions: Choose.}}
  a: {{instructions: I am a., writes: {{topic: {a}}}}}
  b: {{instructions: I am b., writes: {{topic: {b}}}}}
flow: {{router: {{decide: router, to: {{parallel: [a, b]}}}}}}
---
version: 1
scenario: both write
pipeline: two at once
turns:
  - {{user: hello, replies: {{router: Both., a: sun, b: rain}}}}
"""


@pytest.mark.parametrize(("reducer", "count"), [("replace", 1), ("append", 0)])
def test_a_lost_update_is_found_natively(tmp_path: Path, reducer: str, count: int) -> None:
    text = PARALLEL.format(reducer=reducer, a='"${run.reply}"', b='"${run.reply}"')
    trace = ran(tmp_path, text)

    assert len(hits_of("STA-01", trace)) == count


def test_an_impure_reducer_is_found_and_a_pure_one_passes() -> None:
    story = Story(channels=CHANNELS)
    story.turn(agent="a")
    story.write({"own": 1}, values={"own": [1]})
    story.write({"own": 2}, values={"own": [1, 2]}, impure={"own": "it changes its argument"})

    assert hits_of("STA-03", story.trace) == [
        Hit(
            "STA-03",
            "reducer `app:reduce` of channel `own` is impure: it changes its argument (turn 1)",
            1, "a", data={"channel": "own", "fault": "it changes its argument"},
        )
    ]  # fmt: skip


def writing(*updates: dict[str, Any]) -> Story:
    """One turn, in which agent ``a`` writes each update; of user reducers, with new values."""
    story = Story(channels=CHANNELS)
    story.turn(agent="a")
    for update in updates:
        values = update.pop("values", None)
        story.write(update, values=values)
    return story


@pytest.mark.parametrize("by", [-1, -0.5])
def test_a_counter_that_falls_is_found(by: float) -> None:
    story = writing({"count": 5}, {"count": by})

    assert hits_of("STA-05", story.trace) == [
        Hit(
            "STA-05",
            f"channel `count` fell by {-by} in turn 1, written by 'a', without a declared reset",
            1, "a", data={"channel": "count"},
        )
    ]  # fmt: skip


def test_a_list_that_shrinks_under_a_reducer_of_ones_own_is_a_warning() -> None:
    story = writing({"own": 1, "values": {"own": [1, 2]}}, {"own": 2, "values": {"own": [2]}})

    assert [(hit.what, hit.severity) for hit in hits_of("STA-05", story.trace)] == [
        (
            "channel `own` shrank from 2 to 1 items in turn 1, written by 'a', without a declared "
            "reset",
            "W",
        )
    ]


def test_a_list_that_shrinks_although_it_is_only_added_to_is_found() -> None:
    story = writing(
        {"notes": [1], "values": {"notes": [1, 2]}}, {"notes": [], "values": {"notes": []}}
    )

    assert [(hit.id, hit.severity) for hit in hits_of("STA-05", story.trace)] == [("STA-05", None)]


@pytest.mark.parametrize(
    "updates",
    [
        [{"count": 5}, {"count": 0}],
        [{"count": 5}, {"count": {"$set": 1}}],
        [{"topic": 5}, {"topic": -1}],
        [{"own": 1, "values": {"own": [1]}}, {"own": 2, "values": {"own": [1, 2]}}],
        [{"own": 1, "values": {"own": [1]}}, {"own": {"$set": []}, "values": {"own": []}}],
        [{"own": 1, "values": {"own": {"a": 1}}}, {"own": 2, "values": {"own": "text"}}],
    ],
    ids=["grows", "counter set", "no counter", "list grows", "list set", "no lists"],
)
def test_growth_and_declared_resets_pass(updates: list[dict[str, Any]]) -> None:
    story = writing(*[dict(update) for update in updates])

    assert hits_of("STA-05", story.trace) == []


def test_the_end_of_a_turn_empties_its_channels() -> None:
    story = writing({"brief": 1, "values": {"brief": [1, 2]}})
    story.end()
    story.turn(agent="a")
    story.write({"brief": 3}, values={"brief": [3]})

    assert hits_of("STA-05", story.trace) == []


def test_a_reset_of_a_shared_channel_holds_for_every_session() -> None:
    story = Story(channels=CHANNELS)
    story.turn(session="s1")
    story.write({"shared": 1}, values={"shared": [1, 2]})
    story.end()
    story.turn(session="s2")
    story.write({"shared": {"$set": []}}, values={"shared": []})
    story.end()
    story.turn(session="s1")
    story.write({"shared": 3}, values={"shared": [3]})

    assert hits_of("STA-05", story.trace) == []


def adding(*updates: list[Any]) -> Story:
    """Agent ``a`` runs once for each update of its list."""
    story = Story(["a"], channels=CHANNELS)
    story.turn()
    for update in updates:
        story.start("a")
        story.finish(notes=update)
    return story


def test_what_an_agent_was_given_and_adds_again_is_found() -> None:
    story = adding(["rain", "wind"], ["rain", "wind", "sun"])

    assert hits_of("STA-09", story.trace) == [
        Hit(
            "STA-09",
            "agent 'a' added to channel `notes` in turn 1 the 2 items that it was given, and more: "
            "they stand there twice",
            1, "a", data={"channel": "notes"},
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    "updates",
    [(["rain"], ["sun"]), (["rain", "wind"], ["rain", "sun", "wind"]), (["rain"], ["rain"])],
    ids=["something new", "a list that begins otherwise", "the same item once more"],
)
def test_what_is_added_for_the_first_time_passes(updates: tuple[list[Any], ...]) -> None:
    assert hits_of("STA-09", adding(*updates).trace) == []


BY_ID: list[Any] = [
    [{"$message": 1}],
    [{"role": "tool", "content": "late", "tool_call_id": "call_1"}],
    [{"role": "user", "content": "Hi"},
     {"role": "assistant", "content": "", "tool_calls": [{"id": "call_1"}]}],
    ["rain", {"role": "user", "content": "Hi", "id": "4f"}],
]  # fmt: skip


@pytest.mark.parametrize("items", BY_ID)
def test_a_list_that_doubles_just_so_is_found_where_an_id_makes_it_certain(
    items: list[Any],
) -> None:
    story = adding(items, items)

    (hit,) = hits_of("STA-09", story.trace)

    stand = "it stands" if len(items) == 1 else "they stand"
    assert hit.what == (
        f"agent 'a' added to channel `notes` in turn 1 the {counted(len(items), 'item')} that it "
        f"was given: {stand} there twice"
    )


@pytest.mark.parametrize(
    "items",
    [
        [{"$unlogged": {"role": "user", "content": "Hi"}}],
        [{"role": "user", "content": "Hi"}],
        [{"type": "visit", "id": "home"}],
        [{"role": "assistant", "content": "", "tool_calls": [{"name": "pay"}]}],
        [1, 2],
    ],
)
def test_a_list_that_doubles_by_chance_passes(items: list[Any]) -> None:
    assert hits_of("STA-09", adding(items, items).trace) == []


def test_a_change_in_place_is_found_and_an_update_passes() -> None:
    story = Story(channels=CHANNELS)
    story.turn(agent="a")
    story.finish(topic="sun")
    story.start("a")
    story.finish(changed=["messages", "topic"])

    assert hits_of("STA-10", story.trace) == [
        Hit(
            "STA-10",
            "agent 'a' changed the state it received in place in turn 1: `messages`, `topic`",
            1, "a", data={"channels": ["messages", "topic"]},
        )
    ]  # fmt: skip
