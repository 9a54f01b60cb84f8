"""The shape of a response: its fields and their kinds, whatever was said."""

from __future__ import annotations

import json
from typing import Any

from simkit.capture.cassettes.traffic import shape_differences, shape_of
from simkit.providers import sse
from simkit.providers.http import HttpResponse

JSON = (("content-type", "application/json; charset=utf-8"),)


def answer(value: Any, status: int = 200) -> HttpResponse:
    return HttpResponse(status, JSON, (json.dumps(value).encode(),))


def differences(response: HttpResponse, other: HttpResponse) -> list[str]:
    return shape_differences(shape_of(response), shape_of(other))


def test_other_words_are_the_same_shape() -> None:
    response = answer({"choices": [{"text": "a", "args": {"x": 1}}], "n": 1})
    other = answer({"n": 2.5, "choices": [{"text": "b", "args": {"y": "z"}}, {"text": "c"}]})

    assert differences(response, other) == []


def test_what_came_went_and_changed_is_told_once_at_its_outermost_place() -> None:
    response = answer({"id": "a", "usage": {"total": 1}, "text": None})
    other = answer({"id": 7, "text": "x", "more": {"deep": {"er": 1}}}, 201)

    assert differences(response, other) == [
        "~ status: 200 → 201",
        "~ body.id: text → number",
        "- body.usage: mapping",
        "~ body.text: null → text",
        "+ body.more: mapping",
    ]


def test_the_events_of_a_stream_are_one_shape_however_many_there_are() -> None:
    headers = (("content-type", "text/event-stream"),)
    few = HttpResponse(200, headers, (sse.frame({"delta": "a"}), sse.frame(sse.DONE)))
    many = HttpResponse(200, headers, (*[sse.frame({"delta": "b"})] * 5, sse.frame(sse.DONE)))
    other = HttpResponse(200, headers, (sse.frame({"delta": 1}), sse.frame(sse.DONE)))

    assert differences(few, many) == []
    assert differences(few, other) == ["~ events[].delta: text → number"]


def test_another_kind_of_content_is_told() -> None:
    plain = HttpResponse(200, (("content-type", "text/html"),), (b"<p>",))

    assert differences(answer({}), plain) == [
        "~ content-type: application/json → text/html",
        "~ body: mapping → other",
    ]


def test_of_many_differences_the_first_are_shown() -> None:
    lines = differences(answer({}), answer({f"k{n:02}": n for n in range(25)}))

    assert (len(lines), lines[-1]) == (21, "… 5 more")
