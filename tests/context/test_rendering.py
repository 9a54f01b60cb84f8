"""What each built-in section says, as text."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from simkit.context.rendering import (
    conversation_text,
    handoff_text,
    item_line,
    json_text,
    moment,
    note_line,
    previous_agents_text,
    recalled,
    score_of,
    shortened,
    text_form,
)
from simkit.context.tokens import chars_over_four
from simkit.messages import Message
from simkit.pipeline.recipe import HandoffSection, PreviousAgents, Recall

NOW = datetime(2026, 1, 5, 9, tzinfo=UTC)

PREVIOUS_AGENTS = """\
# Context from Previous Agents
## nutrition:
You ate 1800 kcal.
**Structured Data:**
```json
{"log_meal":{"kcal":800,"items":["pizza"]}}
```
## recovery:
Sleep more."""


def root(**known: Any) -> dict[str, Any]:
    return {"state": {}, "user": "Hi", "handoff": None, "agent": "me", "now": NOW, **known}


def test_previous_agents_read_as_reference_system_1_writes_them() -> None:
    outputs = {
        "nutrition": {
            "reply": "You ate 1800 kcal.",
            "output": "ignored",
            "tool_results": {"log_meal": {"kcal": 800, "items": ["pizza"]}},
        },
        "me": {"reply": "My own words."},
        "recovery": {"reply": "Sleep more.", "tool_results": {}},
    }
    state = {"agent_outputs": outputs}

    assert previous_agents_text(root(state=state), PreviousAgents()) == PREVIOUS_AGENTS


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"truncate": 8}, '## a:\nA long r\n**Structured Data:**\n```json\n{"t":1}\n```'),
        ({"structured_data": False}, "## a:\nA long reply"),
        ({"from": "elsewhere"}, '## b:\n{"n":1}'),
    ],
)
def test_previous_agents_take_options(options: dict[str, Any], text: str) -> None:
    state = {
        "agent_outputs": {"a": {"reply": "A long reply", "tool_results": {"t": 1}}},
        "elsewhere": {"b": {"output": {"n": 1}}},
    }

    assert (
        previous_agents_text(root(state=state), PreviousAgents.model_validate(options))
        == f"# Context from Previous Agents\n{text}"
    )


@pytest.mark.parametrize("outputs", [None, {}, {"me": {"reply": "x"}}, [1]])
def test_no_other_agents_make_no_section(outputs: Any) -> None:
    assert previous_agents_text(root(state={"agent_outputs": outputs}), PreviousAgents()) == ""


HANDOFF = {
    "from": "coach", "to": "analyst", "type": "run", "mode": "transfer", "query": "How was it?",
    "payload": {"km": 8, "notes": "A long note", "splits": [4, 5], "none": None},
}  # fmt: skip


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, '{"km":8,"notes":"A long note","splits":[4,5],"none":null}'),
        ({"preview": {"payload.notes": 6}}, '{"km":8,"notes":"A long","splits":[4,5],"none":null}'),
        (
            {"fields": {"From": "from", "Distance": "payload.km", "Splits": "payload.splits",
                        "First": "payload.splits[0]", "Missing": "payload.x",
                        "Null": "payload.none",
                        "Query": "query"}},
            "- From: coach\n- Distance: 8\n- Splits: [4,5]\n- First: 4\n- Query: How was it?",
        ),
        (
            {"fields": {"Notes": "payload.notes"}, "preview": {"payload.notes": 3, "query": 1}},
            "- Notes: A l",
        ),
        ({"fields": {"Missing": "payload.x"}}, ""),
    ],
)  # fmt: skip
def test_handoff_is_its_payload_or_the_fields_that_are_there(
    options: dict[str, Any], text: str
) -> None:
    section = HandoffSection.model_validate(options)

    assert handoff_text(root(handoff=HANDOFF), section) == text


def test_no_handoff_or_no_payload_make_no_text() -> None:
    assert handoff_text(root(), HandoffSection()) == ""
    assert handoff_text(root(handoff={**HANDOFF, "payload": None}), HandoffSection()) == ""


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
    found = recalled(
        root(state={"items": ITEMS}), Recall.model_validate(options), "items", chars_over_four
    )

    assert [item["text"] for item in found] == texts


def test_equally_old_items_are_newest_first_by_their_place() -> None:
    at = "2026-01-05T08:00:00Z"
    items = [{"text": "first", "at": at}, {"text": "second", "at": at}]
    found = recalled(root(state={"items": items}), Recall(), "items", chars_over_four)

    assert [item["text"] for item in found] == ["second", "first"]


def test_items_may_be_texts_and_messages() -> None:
    items = ["a text", Message("assistant", "said", agent="a"), 3]
    options = Recall.model_validate({"order": "oldest_first"})
    found = recalled(root(state={"items": items}), options, "items", chars_over_four)

    assert [item["text"] for item in found] == ["a text", "said", "3"]


@pytest.mark.parametrize(
    ("score", "query", "found"),
    [
        (0.5, "any", 0.5),
        (None, "any", None),
        ([{"when": {"$contains": "run"}, "score": 0.9}, {"score": 0.1}], "my run", 0.9),
        ([{"when": {"$contains": "run"}, "score": 0.9}, {"score": 0.1}], "my meal", 0.1),
        ([{"when": {"$contains": "run"}, "score": 0.9}], "my meal", None),
    ],
)
def test_score_is_a_number_or_the_first_rule_that_holds_of_the_query(
    score: Any, query: str, found: float | None
) -> None:
    assert score_of({"score": score}, query) == found


def test_query_of_a_handoff_is_what_scores_are_for() -> None:
    items = [{"text": "x", "score": [{"when": {"$contains": "run"}, "score": 1}]}]
    options = Recall.model_validate({"threshold": 0.5})

    def count(**known: Any) -> int:
        return len(recalled(root(state={"i": items}, **known), options, "i", chars_over_four))

    assert count(user="my meal") == 0
    assert count(user="my run") == 1
    assert count(user="my meal", handoff={"query": "the run"}) == 1
    assert count(user="my run", handoff={"query": "the meal"}) == 0
    assert count(user="my run", handoff={"query": None}) == 1


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ({"text": "Prefers metric units", "agent": "nutrition", "at": "2026-01-04T08:00:00Z"},
         "[2026-01-04] (nutrition): Prefers metric units"),
        ({"text": "Undated", "agent": "a"}, "(a): Undated"),
        ({"text": "Nobody's", "at": "2026-01-04"}, "[2026-01-04] Nobody's"),
        ({"text": {"k": 1}}, '{"k":1}'),
        ({"fact": "no text"}, '{"fact":"no text"}'),
    ],
)  # fmt: skip
def test_note_says_date_agent_and_text(item: Mapping[str, Any], text: str) -> None:
    assert note_line(item) == text


def test_other_items_are_list_items() -> None:
    assert item_line({"text": "Ran 4 miles", "at": "2026-01-04"}) == "- Ran 4 miles"


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("2026-01-04", datetime(2026, 1, 4, tzinfo=UTC)),
        ("2026-01-04T08:00:00Z", datetime(2026, 1, 4, 8, tzinfo=UTC)),
        ("2026-01-04T08:00:00+02:00", datetime(2026, 1, 4, 6, tzinfo=UTC)),
        ("yesterday", None),
        (None, None),
        (20260104, None),
    ],
)
def test_moment_is_an_iso_time_in_utc_where_it_names_no_zone(value: Any, found: Any) -> None:
    assert moment(value) == found


def test_conversation_as_text_names_speakers_as_reference_system_4_does() -> None:
    messages = [
        Message("user", "Hi"),
        Message("assistant", "Hello", agent="a"),
        Message("tool", "3", tool="look"),
        Message("system", "Be kind."),
    ]

    assert conversation_text(messages) == "User: Hi\nAI: Hello\nTool: 3\nSystem: Be kind."


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", "text"),
        (Message("user", "Hi"), "Hi"),
        ({"b": 1, "a": [None, True]}, '{"b":1,"a":[null,true]}'),
        ([Message("user", "Hi")], '[{"role":"user","content":"Hi"}]'),
        (2.5, "2.5"),
        ({"x": {3, 1}}, '{"x":[1,3]}'),
    ],
)
def test_values_within_a_context_are_compact_json(value: Any, text: str) -> None:
    assert text_form(value) == text


def test_json_may_be_indented() -> None:
    assert json_text({"a": [1]}, indent=2) == '{\n  "a": [\n    1\n  ]\n}'


@pytest.mark.parametrize(
    ("preview", "value"),
    [
        (None, {"a": "12345", "b": {"c": "12345", "d": 1}}),
        ({"a": 2}, {"a": "12", "b": {"c": "12345", "d": 1}}),
        ({"a": 9}, {"a": "12345", "b": {"c": "12345", "d": 1}}),
        ({"b.c": 2}, {"a": "12345", "b": {"c": "12", "d": 1}}),
        ({"b": 5}, {"a": "12345", "b": '{"c":'}),
        ({"x.y": 2}, {"a": "12345", "b": {"c": "12345", "d": 1}}),
    ],
)
def test_preview_cuts_the_text_at_a_path(preview: Any, value: Any) -> None:
    original = {"a": "12345", "b": {"c": "12345", "d": 1}}

    assert shortened(original, preview) == value
    assert original == {"a": "12345", "b": {"c": "12345", "d": 1}}


@pytest.mark.parametrize("path", ["items[0].text", "items[-1]", '["a.b"]', "a.b"])
def test_preview_takes_every_path_that_a_reference_takes(path: str) -> None:
    value = {"items": [{"text": "12345"}], "a.b": "12345"}
    cut = {
        "items[0].text": {"items": [{"text": "12"}], "a.b": "12345"},
        "items[-1]": {"items": ['{"'], "a.b": "12345"},
    }.get(path, {"items": [{"text": "12345"}], "a.b": "12"})

    assert shortened(value, {path: 2}) == cut


def test_preview_cuts_a_message_at_its_content() -> None:
    value = {"last": Message("user", "12345", "m1")}

    assert shortened(value, {"last.content": 2}) == {"last": {"role": "user", "content": "12"}}
