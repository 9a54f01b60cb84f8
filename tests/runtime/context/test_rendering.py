"""What each built-in section says, as text."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from simkit.core.messages import Message
from simkit.runtime.context.rendering import (
    Loss,
    conversation_text,
    fenced,
    grouped,
    handoff_text,
    item_line,
    json_text,
    moment,
    note_line,
    previous_agents_text,
    shortened,
    text_form,
)
from simkit.spec.pipeline.recipe import HandoffSection, PreviousAgents

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
    return {
        "state": {},
        "user": "Hi",
        "handoff": None,
        "agent": "me",
        "now": NOW.isoformat(),
        **known,
    }


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

    assert previous_agents_text(root(state=state), PreviousAgents()) == (PREVIOUS_AGENTS, [])


@pytest.mark.parametrize(
    ("options", "text", "losses"),
    [
        ({"truncate": 8}, '## a:\nA long r\n**Structured Data:**\n```json\n{"t":1}\n```',
         [Loss("a", "truncate", characters=4)]),
        ({"truncate": 12}, '## a:\nA long reply\n**Structured Data:**\n```json\n{"t":1}\n```', []),
        ({"structured_data": False}, "## a:\nA long reply", []),
        ({"structured_data": False, "preview": {"a.reply": 6, "me.reply": 1}}, "## a:\nA long",
         [Loss("a.reply", "preview", characters=6)]),
        ({"from": "elsewhere"}, '## b:\n{"n":1}', []),
    ],
)  # fmt: skip
def test_previous_agents_take_options(
    options: dict[str, Any], text: str, losses: list[Loss]
) -> None:
    state = {
        "agent_outputs": {
            "a": {"reply": "A long reply", "tool_results": {"t": 1}},
            "me": {"reply": "My own words."},
        },
        "elsewhere": {"b": {"output": {"n": 1}}},
    }

    assert previous_agents_text(root(state=state), PreviousAgents.model_validate(options)) == (
        f"# Context from Previous Agents\n{text}",
        losses,
    )


@pytest.mark.parametrize("outputs", [None, {}, {"me": {"reply": "x"}}, [1]])
def test_no_other_agents_make_no_section(outputs: Any) -> None:
    state = {"agent_outputs": outputs}

    assert previous_agents_text(root(state=state), PreviousAgents()) == ("", [])


HANDOFF = {
    "from": "coach", "to": "analyst", "type": "run", "mode": "transfer", "query": "How was it?",
    "payload": {"km": 8, "notes": "A long note", "splits": [4, 5], "none": None},
}  # fmt: skip


@pytest.mark.parametrize(
    ("options", "text", "losses"),
    [
        ({}, '{"km":8,"notes":"A long note","splits":[4,5],"none":null}', []),
        ({"preview": {"payload.notes": 6, "query": 1}},
         '{"km":8,"notes":"A long","splits":[4,5],"none":null}',
         [Loss("payload.notes", "preview", characters=5)]),
        (
            {"fields": {"From": "from", "Distance": "payload.km", "Splits": "payload.splits",
                        "First": "payload.splits[0]", "Missing": "payload.x",
                        "Null": "payload.none",
                        "Query": "query"}},
            "- From: coach\n- Distance: 8\n- Splits: [4,5]\n- First: 4\n- Query: How was it?",
            [],
        ),
        (
            {"fields": {"Notes": "payload.notes"}, "preview": {"payload.notes": 3, "query": 1}},
            "- Notes: A l",
            [Loss("payload.notes", "preview", characters=8)],
        ),
        ({"fields": {"Missing": "payload.x"}}, "", []),
    ],
)  # fmt: skip
def test_handoff_is_its_payload_or_the_fields_that_are_there(
    options: dict[str, Any], text: str, losses: list[Loss]
) -> None:
    section = HandoffSection.model_validate(options)

    assert handoff_text(root(handoff=HANDOFF), section) == (text, losses)


def test_no_handoff_or_no_payload_make_no_text() -> None:
    assert handoff_text(root(), HandoffSection()) == ("", [])
    assert handoff_text(root(handoff={**HANDOFF, "payload": None}), HandoffSection()) == ("", [])


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
    ("value", "expected"),
    [
        ("2026-01-04", datetime(2026, 1, 4, tzinfo=UTC)),
        ("2026-01-04T08:00:00Z", datetime(2026, 1, 4, 8, tzinfo=UTC)),
        ("2026-01-04T08:00:00+02:00", datetime(2026, 1, 4, 6, tzinfo=UTC)),
        ("yesterday", None),
        (None, None),
        (20260104, None),
    ],
)
def test_moment_is_an_iso_time_in_utc_where_it_names_no_zone(value: Any, expected: Any) -> None:
    assert moment(value) == expected


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
    ("preview", "value", "cut"),
    [
        (None, {"a": "12345", "b": {"c": "12345", "d": 1}}, {}),
        ({"a": 2}, {"a": "12", "b": {"c": "12345", "d": 1}}, {"a": 3}),
        ({"a": 9}, {"a": "12345", "b": {"c": "12345", "d": 1}}, {}),
        ({"b.c": 2}, {"a": "12345", "b": {"c": "12", "d": 1}}, {"b.c": 3}),
        ({"b": 5}, {"a": "12345", "b": '{"c":'}, {"b": 14}),
        ({"x.y": 2}, {"a": "12345", "b": {"c": "12345", "d": 1}}, {}),
        ({"a": 2, "b.c": 4}, {"a": "12", "b": {"c": "1234", "d": 1}}, {"a": 3, "b.c": 1}),
    ],
)
def test_preview_cuts_the_text_at_a_path_and_says_how_much(
    preview: Any, value: Any, cut: dict[str, int]
) -> None:
    original = {"a": "12345", "b": {"c": "12345", "d": 1}}
    losses = [Loss(path, "preview", characters=size) for path, size in cut.items()]

    assert shortened(original, preview) == (value, losses)
    assert original == {"a": "12345", "b": {"c": "12345", "d": 1}}


@pytest.mark.parametrize("path", ["items[0].text", "items[-1]", '["a.b"]', "a.b"])
def test_preview_takes_every_path_that_a_reference_takes(path: str) -> None:
    value = {"items": [{"text": "12345"}], "a.b": "12345"}
    cut = {
        "items[0].text": {"items": [{"text": "12"}], "a.b": "12345"},
        "items[-1]": {"items": ['{"'], "a.b": "12345"},
    }.get(path, {"items": [{"text": "12345"}], "a.b": "12"})

    assert shortened(value, {path: 2})[0] == cut


def test_preview_cuts_a_message_at_its_content() -> None:
    value = {"last": Message("user", "12345", "m1")}

    assert shortened(value, {"last.content": 2})[0] == {"last": {"role": "user", "content": "12"}}


def test_only_cuts_in_what_is_shown_are_told() -> None:
    value = {"a": {"b": "12345"}, "c": "12345", "[d": "12345"}
    preview = {"a.b": 1, "c": 1, "[d": 1}

    assert shortened(value, preview, ["a", "[d"])[1] == [
        Loss("a.b", "preview", characters=4), Loss("[d", "preview", characters=4),
    ]  # fmt: skip
    assert shortened(value, preview, ["a.b.x"])[1] == [Loss("a.b", "preview", characters=4)]


def test_items_of_several_channels_stand_below_their_names() -> None:
    lines = [("project", "- b"), ("task", "- a"), ("project", "- c")]

    assert grouped(lines, ["task", "project", "global"]) == [
        "task:", "- a", "project:", "- b", "- c",
    ]  # fmt: skip
    assert grouped(lines[:1], ["project"]) == ["- b"]
    assert grouped([], ["task", "project"]) == []


def test_a_block_of_json_is_fenced_and_indented() -> None:
    assert fenced({"a": [1]}) == '```json\n{\n  "a": [\n    1\n  ]\n}\n```'
