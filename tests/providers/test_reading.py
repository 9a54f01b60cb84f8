"""Fields of foreign JSON: whatever is wrong names the field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from simkit.core.errors import WireInvalid
from simkit.providers.body_reader import json_text, maybe, need, record_of, records, typed, unknown


def test_fields_are_read_by_their_kind() -> None:
    record = record_of('{"text":"a","number":1,"half":0.5,"null":null,"list":[{"b":[]}]}')

    assert need(record, "text", str) == "a"
    assert need(record, "number", float) == 1
    assert maybe(record, "half", 0.0) == 0.5
    assert maybe(record, "null", "usual") == "usual"
    assert maybe(record, "missing", False) is False
    assert records(record, "list") == [({"b": []}, "list[0]")]
    assert records(record, "missing") == []


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: record_of(b"[1]"), "body: should be an object, is a list"),
        (lambda: record_of(b"\xff\xff", "events[2]"), "events[2]: is not JSON: "),
        (lambda: record_of(b'{"a":"\\ud800"}'), "body: is not JSON: "),
        (lambda: record_of(b"[" * 100_000), "body: is nested too deep"),
        (lambda: need({}, "model", str), "model: is missing"),
        (lambda: need({"model": None}, "model", str, "a"), "a.model: should be a text, is null"),
        (lambda: maybe({"n": True}, "n", 1), "n: should be a whole number, is true or false"),
        (lambda: typed(1.5, int, "n"), "n: should be a whole number, is a number"),
        (lambda: records({"a": [{}, 1]}, "a", "b"), "b.a[1]: should be an object, is a whole"),
    ],
)
def test_what_is_wrong_names_the_field(read: Callable[[], Any], message: str) -> None:
    with pytest.raises(WireInvalid) as refused:
        read()

    assert str(refused.value).startswith(message)


def test_an_unknown_word_is_named_with_those_known() -> None:
    error = unknown("part", "txt", ["text", "refusal"], "messages[2].content[0].type")

    assert str(error) == (
        "messages[2].content[0].type: unknown part 'txt'; did you mean 'text'? known: text, refusal"
    )


def test_json_is_compact_and_keeps_the_order() -> None:
    assert json_text({"b": [1, None], "a": "ü"}) == '{"b":[1,null],"a":"ü"}'
