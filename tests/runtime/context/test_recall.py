"""Recall at work: which items of which channels a section shows, and why not the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from simkit.core.errors import SourceError, WriteInvalid
from simkit.core.messages import Message
from simkit.runtime.context.recall import ContextItem, Recaller, RecallResult, ranges_of, score_for
from simkit.runtime.context.rendering import chars_over_four
from simkit.spec.pipeline.recipe import Recall
from simkit.trace.events import ContextBuilt, LeftOut
from simkit.trace.reducers import Appended, append
from tests.building import message_lines, prepared, run_yaml

NOW = datetime(2026, 1, 5, 9, tzinfo=UTC)
SCOPES = {"task": "turn", "project": "project", "global": "global"}


def root(state: Mapping[str, Any], **known: Any) -> dict[str, Any]:
    return {
        "state": state,
        "user": "Hi",
        "handoff": None,
        "agent": "me",
        "now": NOW.isoformat(),
        **known,
    }


def recaller(options: Mapping[str, Any], *channels: str) -> Recaller:
    return Recaller("recall", Recall.model_validate(options), channels, SCOPES, chars_over_four)


def recall_channels(options: Mapping[str, Any], **state: Any) -> RecallResult:
    """What a section shows of these channels, in this order."""
    return recaller(options, *state).recall(root(state), options.get("time_ranges"))


def texts_of(recall: RecallResult) -> list[str]:
    return [item["text"] for _, _, item in recall.items]


def reasons(recall: RecallResult) -> dict[tuple[str, str], list[list[int]]]:
    """(channel, reason) to the ranges of places left out for it."""
    return {(o.channel, o.by): [list(span) for span in o.places] for o in recall.left_out}


ITEMS: list[Mapping[str, Any]] = [
    {"text": "old", "at": "2025-12-01T08:00:00Z", "tags": ["a"], "score": 0.9},
    {"text": "three days", "at": "2026-01-02T09:00:00Z", "tags": ["a", "b"], "score": 0.8},
    {"text": "yesterday", "at": "2026-01-04T08:00:00Z", "tags": ["b"], "score": 0.7},
    {"text": "today", "at": "2026-01-05T08:00:00Z", "score": 0.79},
    {"text": "tomorrow", "at": "2026-01-06T08:00:00Z", "score": 0.95},
    {"text": "undated"},
]


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        ({}, ["tomorrow", "today", "yesterday", "three days", "old", "undated"]),
        ({"order": "oldest_first"},
         ["undated", "old", "three days", "yesterday", "today", "tomorrow"]),
        ({"order": "score"}, ["tomorrow", "old", "three days", "today", "yesterday", "undated"]),
        ({"max": 2}, ["tomorrow", "today"]),
        ({"max": 0}, []),
        ({"since_days": 3}, ["today", "yesterday", "three days"]),
        ({"since_days": 1}, ["today"]),
        ({"since_days": 0}, []),
        ({"tags": ["b", "c"]}, ["yesterday", "three days"]),
        ({"tags": []}, []),
        ({"threshold": 0.79, "order": "score"}, ["tomorrow", "old", "three days", "today"]),
        ({"top": 2}, ["tomorrow", "old"]),
        ({"top": 2, "order": "oldest_first"}, ["old", "tomorrow"]),
        ({"top": 3, "tags": ["a", "b"], "threshold": 0.75}, ["old", "three days"]),
        ({"time_ranges": [{"from": "2026-01-02", "to": "2026-01-04"}]},
         ["yesterday", "three days"]),
        ({"time_ranges": [{"to": "2025-12-31"}, {"from": "2026-01-06"}]}, ["tomorrow", "old"]),
        ({"time_ranges": [{"start": "2026-01-05T08:00:00Z", "end": "2026-01-05T08:00:00Z"}]},
         ["today"]),
        ({"time_ranges": None}, ["tomorrow", "today", "yesterday", "three days", "old", "undated"]),
        ({"time_ranges": []}, ["tomorrow", "today", "yesterday", "three days", "old", "undated"]),
        ({"tokens": 4}, ["tomorrow", "today"]),
        ({"tokens": 3}, ["tomorrow"]),
        ({"tokens": 1}, []),
    ],
)  # fmt: skip
def test_items_are_chosen_by_age_tags_score_and_budget(
    options: dict[str, Any], texts: list[str]
) -> None:
    assert texts_of(recall_channels(options, items=ITEMS)) == texts


def test_equally_old_items_are_newest_first_by_their_place() -> None:
    at = "2026-01-05T08:00:00Z"
    items = [{"text": "first", "at": at}, {"text": "second", "at": at}]

    assert texts_of(recall_channels({}, items=items)) == ["second", "first"]


def test_items_may_be_texts_and_messages() -> None:
    items = ["a text", Message("assistant", "said", agent="a"), 3]

    assert texts_of(recall_channels({"order": "oldest_first"}, items=items)) == [
        "a text",
        "said",
        "3",
    ]


def test_query_of_a_handoff_is_what_scores_are_for() -> None:
    items = [{"text": "x", "score": [{"when": {"$contains": "run"}, "score": 1}]}]
    section = recaller({"threshold": 0.5}, "items")

    def count(**known: Any) -> int:
        return len(section.recall(root({"items": items}, **known), None).items)

    assert count(user="my meal") == 0
    assert count(user="my run") == 1
    assert count(user="my meal", handoff={"query": "the run"}) == 1
    assert count(user="my run", handoff={"query": "the meal"}) == 0
    assert count(user="my run", handoff={"query": None}) == 1


SCORES = [
    {"text": "fixed", "at": "2026-01-01", "score": 0.5},
    {"text": "runs", "at": "2026-01-03", "score": [{"when": {"$contains": "run"}, "score": 0.9}]},
    {"text": "none", "at": "2026-01-04"},
    {"text": "meals", "at": "2026-01-05", "score": [{"when": "meal", "score": 1}, {"score": 0.4}]},
]


@pytest.mark.parametrize(
    ("options", "user", "texts"),
    [
        ({"order": "score"}, "my run", ["runs", "fixed", "meals", "none"]),
        ({"order": "score"}, "meal", ["meals", "fixed", "runs", "none"]),
        ({"threshold": 0.4}, "my run", ["meals", "runs", "fixed"]),
        ({"threshold": 0.45}, "my run", ["runs", "fixed"]),
        ({"threshold": 0.45, "since_days": 3}, "my run", ["runs"]),
        ({"top": 1}, "my run", ["runs"]),
        ({"top": 2, "since_days": 3}, "my run", ["runs", "meals"]),
        ({"top": 2, "order": "oldest_first"}, "my run", ["fixed", "runs"]),
    ],
)
def test_scores_that_depend_on_the_query_rank_among_the_fixed_ones(
    options: dict[str, Any], user: str, texts: list[str]
) -> None:
    chosen = recaller(options, "items").recall(root({"items": SCORES}, user=user), None)

    assert texts_of(chosen) == texts


# Several channels

TIERS = {
    "task": [{"text": "t1", "at": "2026-01-05", "tags": ["x"]}, {"text": "t2"}],
    "project": [{"text": "p1", "at": "2026-01-03", "tags": ["x"]},
                {"text": "p2", "at": "2026-01-05"}],
    "global": [{"text": "g1", "at": "2026-01-04"}, {"text": "g2"}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        # Of equally old items those of the first channel come first, then the later ones.
        ({}, ["t1", "p2", "g1", "p1", "t2", "g2"]),
        ({"order": "oldest_first"}, ["t2", "g2", "p1", "g1", "t1", "p2"]),
        ({"order": "score"}, ["t1", "t2", "p1", "p2", "g1", "g2"]),
        ({"max": 3}, ["t1", "p2", "g1"]),
        ({"tokens": 2}, ["t1", "p2"]),
        ({"tags": ["x"]}, ["t1", "p1"]),
        ({"since_days": 1}, ["t1", "p2"]),
        ({"scopes": ["turn", "project"]}, ["t1", "p2", "p1", "t2"]),
        ({"scopes": ["global"]}, ["g1", "g2"]),
        ({"scopes": ["session"]}, []),
    ],
)
def test_items_of_several_channels_are_chosen_together(
    options: dict[str, Any], texts: list[str]
) -> None:
    assert texts_of(recall_channels(options, **TIERS)) == texts


def test_what_is_chosen_knows_its_channel_and_place() -> None:
    chosen = recall_channels({"max": 2}, **TIERS)

    assert [(channel, place) for channel, place, _ in chosen.items] == [("task", 0), ("project", 1)]


def test_a_channel_that_does_not_travel_has_no_items() -> None:
    chosen = recaller({}, "task", "project").recall(root({"task": TIERS["task"]}), None)

    assert texts_of(chosen) == ["t1", "t2"]
    assert chosen.left_out == []


# What is left out

AGED = [{"text": f"i{n}", "at": f"2026-01-0{n}T08:00:00Z", "tags": ["odd"] if n % 2 else ["even"],
         "score": n / 10} for n in range(1, 6)]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "left_out"),
    [
        ({}, {}),
        ({"since_days": 2}, {"since_days": [[0, 3]]}),
        ({"time_ranges": [{"from": "2026-01-02", "to": "2026-01-03"}]},
         {"time_ranges": [[0, 1], [3, 5]]}),
        ({"tags": ["odd"]}, {"tags": [[1, 2], [3, 4]]}),
        ({"threshold": 0.3}, {"threshold": [[0, 2]]}),
        ({"max": 2}, {"max": [[0, 3]]}),
        ({"max": 2, "order": "oldest_first"}, {"max": [[2, 5]]}),
        ({"top": 2}, {"max": [[0, 3]]}),
        ({"max": 5}, {}),
        ({"max": 0}, {"max": [[0, 5]]}),
        ({"tokens": 2}, {"tokens": [[0, 3]]}),
        ({"tokens": 0}, {"tokens": [[0, 5]]}),
        # What is beyond the most would not be shown with a larger budget either.
        ({"tokens": 2, "max": 4}, {"max": [[0, 1]], "tokens": [[1, 3]]}),
        ({"tokens": 2, "top": 4, "order": "oldest_first"}, {"max": [[0, 1]], "tokens": [[3, 5]]}),
        # The first reason that holds is the one that is told.
        ({"since_days": 2, "tags": ["odd"], "threshold": 0.45, "max": 0},
         {"since_days": [[0, 3]], "tags": [[3, 4]], "max": [[4, 5]]}),
        ({"since_days": 3, "time_ranges": [{"to": "2026-01-04"}], "threshold": 0.9},
         {"since_days": [[0, 2]], "time_ranges": [[4, 5]], "threshold": [[2, 4]]}),
    ],
)  # fmt: skip
def test_what_is_left_out_is_told_with_the_first_reason(
    options: dict[str, Any], left_out: dict[str, list[list[int]]]
) -> None:
    chosen = recall_channels(options, items=AGED)

    assert reasons(chosen) == {("items", by): spans for by, spans in left_out.items()}
    missing = sum(hi - lo for spans in left_out.values() for lo, hi in spans)
    assert len(chosen.items) + missing == len(AGED)


def test_what_has_no_time_is_left_out_where_a_time_is_asked_for() -> None:
    items = [{"text": "a"}, {"text": "b", "at": "2026-01-05"}, {"text": "c"}, {"text": "d"}]

    assert reasons(recall_channels({"since_days": 1}, items=items)) == {
        ("items", "since_days"): [[0, 1], [2, 4]]
    }


def test_items_that_are_not_in_the_order_of_their_times_are_told_by_their_places() -> None:
    items = [AGED[4], AGED[0], AGED[3], AGED[1]]
    chosen = recall_channels({"since_days": 2, "max": 1}, items=items)

    assert texts_of(chosen) == ["i5"]
    assert reasons(chosen) == {
        ("items", "since_days"): [[1, 2], [3, 4]], ("items", "max"): [[2, 3]],
    }  # fmt: skip


def test_a_channel_out_of_scope_is_left_out_as_a_whole_in_the_order_of_the_channels() -> None:
    chosen = recall_channels({"scopes": ["turn", "global"], "max": 1}, **TIERS)

    assert chosen.left_out == [
        LeftOut("recall", "task", "max", ((1, 2),)),
        LeftOut("recall", "project", "scopes", ((0, 2),)),
        LeftOut("recall", "global", "max", ((0, 2),)),
    ]


# Any items and options


def plainly(options: Recall, items: Sequence[Mapping[str, Any]], query: str) -> list[int]:
    """The places that the definition gives, by looking at every item."""
    rows = []
    for place, item in enumerate(items):
        at = datetime.fromisoformat(item["at"]) if "at" in item else None
        score = score_for(item.get("score"), query)
        if options.tags is not None and not set(options.tags) & set(item.get("tags", ())):
            continue
        if options.since_days is not None and (
            at is None or not NOW - timedelta(days=options.since_days) <= at <= NOW
        ):
            continue
        if options.threshold is not None and (score is None or score < options.threshold):
            continue
        rows.append((at.timestamp() if at else float("-inf"), score or 0.0, place))
    orders: dict[str, Callable[[Any], Any]] = {
        "newest_first": lambda row: (-row[0], -row[2]),
        "oldest_first": lambda row: (row[0], row[2]),
        "score": lambda row: (-row[1], row[2]),
    }
    if options.top is not None:
        rows = sorted(rows, key=orders["score"])[: options.top]
    rows.sort(key=orders[options.order or ("score" if options.top is not None else "newest_first")])
    rows = rows[: options.max] if options.max is not None and options.top is None else rows
    left, chosen = options.tokens, []
    for *_, place in rows:
        if left is not None:
            left -= chars_over_four(items[place]["text"])
            if left < 0:
                break
        chosen.append(place)
    return chosen


def any_item(draw: Random) -> dict[str, Any]:
    item: dict[str, Any] = {"text": "x" * draw.randrange(12)}
    if draw.random() < 0.8:
        item["at"] = (NOW - timedelta(days=draw.randrange(-1, 6))).isoformat()
    if draw.random() < 0.7:
        item["tags"] = draw.sample(["a", "b", "c"], draw.randrange(3))
    if draw.random() < 0.7:
        item["score"] = draw.choice([0.2, 0.5, 0.9, [{"when": "Hi", "score": 0.6}, {"score": 0.1}]])
    return item


@pytest.mark.parametrize("seed", range(60))
def test_items_are_chosen_as_the_definition_says(seed: int) -> None:
    draw = Random(seed)
    drawn: dict[str, Any] = {
        "tags": draw.choice([None, ["a"], ["a", "b"]]),
        "since_days": draw.choice([None, None, 2]),
        "threshold": draw.choice([None, None, 0.4]),
        "max": draw.choice([None, 3]),
        "top": draw.choice([None, None, 4]),
        "tokens": draw.choice([None, 6]),
        "order": draw.choice([None, "newest_first", "oldest_first", "score"]),
    }
    options = {key: value for key, value in drawn.items() if value is not None}
    last = draw.choice([0, 0, 7])
    section = recaller(options, "items")
    sources = [Appended()]
    for _ in range(40):
        # Now and then an older list is read again, or grows another way, as in a branch.
        current = sources[-1] if draw.random() < 0.8 else draw.choice(sources)
        sources.append(append(current, [any_item(draw) for _ in range(draw.randrange(3))], last))
        for items in (sources[-1], draw.choice(sources)):
            for user in ("Hi", "Ho"):
                chosen = section.recall(root({"items": items}, user=user), None)
                places = [place for _, place, _ in chosen.items]
                left = [p for o in chosen.left_out for lo, hi in o.places for p in range(lo, hi)]
                assert places == plainly(section._options, items, user)
                assert sorted([*places, *left]) == list(range(len(items)))


# Items, and their scores


@pytest.mark.parametrize(
    ("score", "query", "expected"),
    [
        (0.5, "any", 0.5),
        (None, "any", None),
        ([{"when": {"$contains": "run"}, "score": 0.9}, {"score": 0.1}], "my run", 0.9),
        ([{"when": {"$contains": "run"}, "score": 0.9}, {"score": 0.1}], "my meal", 0.1),
        ([{"when": {"$contains": "run"}, "score": 0.9}], "my meal", None),
    ],
)
def test_score_is_a_number_or_the_first_rule_that_holds_of_the_query(
    score: Any, query: str, expected: float | None
) -> None:
    assert score_for(score, query) == expected


def test_an_item_is_a_mapping_a_text_or_a_message() -> None:
    def item_of(value: Any) -> ContextItem:
        return ContextItem("items", 0, value, "any")

    item = item_of({"text": "a", "at": "1970-01-01T00:01:00Z", "score": 1})

    assert (item.at, item.score, item.fields["text"]) == (60.0, 1.0, "a")
    assert (item_of("a text").at, item_of("a text").score) == (float("-inf"), None)
    message = Message("assistant", "said", agent="a")
    assert item_of(message).fields == {"text": "said", "agent": "a"}


@pytest.mark.parametrize(
    ("score", "place", "label"),
    [
        ("high", "score", "a score must be a number"),
        ("[{wen: x, score: 1}]", "score[0].wen", "unknown key of a score's rule `wen`"),
        ("[{when: x}]", "score[0]", "needs `score`"),
        ("[{when: {$bad: x}, score: 1}]", "score[0].when.$bad", "no operator is named `$bad`"),
        ("[{when: {$gt: 3}, score: 1}]", "score[0].when.$gt", "can never match the query"),
    ],
)
def test_a_score_that_is_none_is_refused_with_its_place(score: str, place: str, label: str) -> None:
    recipe = "[instructions, {memories: {top: 2, threshold: 0.5}}, current_message]"
    pipeline = f"""
    channels: {{memories: {{reducer: append, scope: project}}}}
    agents: {{a: {{context: {recipe}}}}}
    flow: {{handoffs: {{start: a}}}}
    """
    scenario = f"""
    given: {{state: {{memories: [{{text: likes tea, score: {score}}}]}}}}
    turns: [{{user: hi, replies: {{a: ok}}}}]
    """

    with pytest.raises(SourceError) as problem:
        prepared(pipeline, scenario)

    assert problem.value.at == f"given.state.memories[0].{place}"
    assert label in problem.value.what


def test_a_score_that_an_agent_wrote_and_that_is_none_is_an_error_of_the_run() -> None:
    for score in ("high", [{"when": {"$bad": 1}, "score": 1}], [7], [{"score": "x"}]):
        with pytest.raises(WriteInvalid, match="score"):
            score_for(score, "tea")


def test_places_in_a_row_are_one_range() -> None:
    assert ranges_of(iter([5, 1, 0, 2, 7])) == ((0, 3), (5, 6), (7, 8))


# In a pipeline

PIPELINE = """
channels:
  task_items: {reducer: append, scope: turn}
  project_items: {reducer: append, scope: project}
  global_items: {reducer: append, scope: global}
agents:
  helper:
    context:
      - recall:
          from: [task_items, project_items, global_items]
          scopes: [turn, project]
          tags: [documents]
          max: 2
      - current_message
flow: {handoffs: {start: helper}}
"""
GIVEN = """
given:
  state:
    task_items: [{text: Draft, tags: [documents], at: 2026-01-02}]
    project_items:
      - {text: Style guide v1, tags: [documents], at: 2025-12-01}
      - {text: Style guide v2, tags: [documents], at: 2026-01-01}
      - {text: Lunch, tags: [food], at: 2026-01-04}
    global_items: [{text: Law, tags: [documents]}]
turns:
  - user: Hi
    replies: {helper: Hello}
    expect:
      context:
        helper:
          recall: ["task_items:\\n- Draft\\nproject_items:\\n- Style guide v2"]
          left_out:
            - {section: recall, channel: project_items, text: Style guide v1, by: max}
            - {section: recall, channel: project_items, text: Lunch, by: tags, tags: [food]}
            - {section: recall, channel: global_items, text: Law, by: scopes}
"""


def test_tiers_are_shown_below_their_names_and_the_rest_is_told() -> None:
    ran = run_yaml(PIPELINE, GIVEN)

    assert [finding.what for finding in ran.judgement.findings] == []
    assert message_lines(ran.context("helper").section("recall")) == [
        "system: task_items:\n- Draft\nproject_items:\n- Style guide v2"
    ]


def test_a_section_that_makes_nothing_still_tells_what_it_left_out() -> None:
    ran = run_yaml(PIPELINE.replace("max: 2", "max: 0"), GIVEN)
    context = ran.context("helper")

    assert context.sections == ["current_message"]
    assert [entry["by"] for entry in context.left_out()] == ["max", "max", "max", "tags", "scopes"]


def test_notes_of_several_channels_keep_their_form_below_the_names() -> None:
    recipe = PIPELINE.replace("- recall:", "- memories:").replace("max: 2", "top: 2")
    ran = run_yaml(recipe, GIVEN[: GIVEN.index("    expect:")])

    assert message_lines(ran.context("helper").section("memories")) == [
        "system: # Relevant Long-Term Memories\n"
        "task_items:\n- Draft\nproject_items:\n- Style guide v1"
    ]


def test_a_long_channel_does_not_lengthen_what_each_turn_tells() -> None:
    turns = "".join(f"  - {{user: Question {n}, replies: {{helper: Noted}}}}\n" for n in range(60))
    ran = run_yaml(
        """
channels: {items: {reducer: append}}
agents:
  helper:
    context: [{recall: {max: 3}}, current_message]
    writes: {items: {text: "${user}"}}
flow: {handoffs: {start: helper}}
""",
        f"turns:\n{turns}",
    )
    left_out = [built.left_out for built in ran.events(ContextBuilt)]

    assert left_out[:4] == [()] * 4
    assert left_out[4:] == [
        (LeftOut("recall", "items", "max", ((0, n),)),) for n in range(1, len(left_out) - 3)
    ]


def test_later_calls_of_a_run_see_what_the_first_left_out() -> None:
    scenario = GIVEN.replace("helper: Hello", "helper: [{calls: {look: {}}}, Hello]").replace(
        "    expect:", "    tool_results: {look: seen}\n    expect:"
    )
    ran = run_yaml(PIPELINE.replace("  helper:\n", "  helper:\n    tools: [look]\n"), scenario)
    first, second = (call.context for call in ran.calls("helper"))

    assert second.left_out() == first.left_out()
    assert len(first.left_out()) == 3


def test_items_are_those_that_the_run_received() -> None:
    ran = run_yaml(
        """
channels: {items: {reducer: append}, hidden: {reducer: append}}
agents:
  coach: {instructions: Coach., handoffs: [analyst], writes: {}}
  analyst: {context: [{recall: {from: [hidden, items], max: 1}}, current_message]}
contracts: [{from: coach, to: analyst, carries: [items]}]
flow: {handoffs: {start: coach}}
""",
        """
given: {state: {items: [Old, New], hidden: [Secret, Older secret]}}
turns:
  - user: Hi
    replies: {coach: {handoff: {to: analyst}}, analyst: Hello}
    expect:
      context:
        analyst:
          recall: ["items:\\n- New"]
          left_out: [{$exact: {section: recall, channel: items, text: Old, by: max}}]
""",
    )

    assert [finding.what for finding in ran.judgement.findings] == []
