"""Listeners of scenarios that overlap: each is heard in its own context, while it works."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from typing import Any

import pytest

from simkit.adapters.observation import (
    ContextListeners,
    ContextScope,
    MessageFormat,
    ParallelGroups,
    attachment_text,
    function_name,
    observe_result,
    parse_messages,
)
from simkit.capture.http.request_router import Owner, owned_by
from simkit.core.errors import WireInvalid
from simkit.core.messages import Message, ToolCall
from tests.adapters.scribes import Desk


def test_each_context_has_its_own_listener() -> None:
    ears = ContextListeners[str]("test_ears")
    context = contextvars.copy_context()

    with ears.activate("one"):
        with ears.activate("other"):
            values = [ears.current(), context.run(ears.current)]
        values += [ears.current(), context.run(ears.current)]

    # Who has no listener is heard by the only one there is.
    assert values == ["other", None, "one", "one"]
    assert ears.current() is None


def test_listeners_that_leave_in_the_order_in_which_they_came_leave_nobody_behind() -> None:
    ears = ContextListeners[str]("test_ears")
    scope, other = ears.activate("one"), ears.activate("other")

    scope.__enter__()
    other.__enter__()
    scope.__exit__(None, None, None)
    still = ears.current()
    other.__exit__(None, None, None)

    assert (still, ears.current()) == ("other", None)


def test_a_listener_may_leave_in_another_context_than_it_came_in() -> None:
    ears = ContextListeners[str]("test_ears")
    scope = ears.activate("one")

    contextvars.copy_context().run(scope.__enter__)
    during = ears.current()
    scope.__exit__(None, None, None)

    assert (during, ears.current()) == ("one", None)


def test_code_that_outlives_its_scenario_is_heard_by_who_works_now() -> None:
    ears = ContextListeners[str]("test_ears")
    with ears.activate("one"):
        context = contextvars.copy_context()
    alone = context.run(ears.current)
    with ears.activate("other"):
        now = context.run(ears.current)

    assert (alone, now) == (None, "other")


def test_a_thread_without_a_context_is_heard_where_one_listens_alone() -> None:
    ears = ContextListeners[str]("test_ears")
    texts: list[str | None] = []

    def look() -> None:
        thread = threading.Thread(target=lambda: texts.append(ears.current()))
        thread.start()
        thread.join()

    with ears.activate("one"):
        look()
        with ears.activate("other"):
            look()
        look()
    look()

    assert texts == ["one", None, "one", None]


def test_code_that_outlives_its_turn_is_heard_by_the_next_one_of_its_scenario() -> None:
    ears = ContextListeners[str]("test_ears")
    owner, other = Owner(), Owner()
    with owned_by(owner):
        context = contextvars.copy_context()

    with owned_by(other), ears.activate("other"), owned_by(owner), ears.activate("one"):
        values = [context.run(ears.current)]
    with owned_by(other), ears.activate("other"):
        values.append(context.run(ears.current))

    assert values == ["one", None]


def test_what_is_started_inside_belongs_there_for_good() -> None:
    folder = ContextScope[str]("test_here")
    with folder.inside("outer"):
        started = contextvars.copy_context()
        with folder.inside("inner"):
            values = [folder.now(), started.run(folder.now)]
        values.append(folder.now())

    assert values == ["inner", "outer", "outer"]
    assert (folder.now(), started.run(folder.now)) == (None, "outer")


def test_a_place_may_be_left_in_another_context_than_it_was_entered_in() -> None:
    folder = ContextScope[str]("test_here")
    inside, context = folder.inside("a stream"), contextvars.copy_context()

    context.run(inside.__enter__)
    with folder.inside("its reader"):
        inside.__exit__(None, None, None)
        value = folder.now()

    assert value == "its reader"


def make_groups() -> ParallelGroups[str]:
    return ParallelGroups(Desk().recorder)


def test_all_that_was_begun_in_one_place_is_one_group() -> None:
    runs, group, other_group = make_groups(), object(), object()
    for item, place in [("left", group), ("elsewhere", other_group), ("right", group)]:
        runs.begin(item, place)

    assert runs.those_with("right") == ["left", "right"]
    assert [runs.starts(text) for text in ("right", "elsewhere", "left")] == ["g1", "", "g1"]


def test_what_is_at_work_is_beside_nothing_that_is_begun_later() -> None:
    runs = make_groups()
    runs.begin("first", None)
    groups = [runs.starts("first")]
    runs.begin("second", None)
    groups += [runs.starts("second"), runs.starts("second")]

    assert groups == ["", "", ""]
    assert runs.those_with("second") == []


def test_what_has_ended_before_it_went_to_work_is_no_part_of_a_group() -> None:
    runs = make_groups()
    runs.begin("first", None)
    runs.begin("second", None)
    runs.ended("first")

    assert runs.starts("second") == ""


def test_another_turn_knows_nothing_of_what_was_begun() -> None:
    runs = make_groups()
    runs.begin("first", None)
    runs.clear()
    runs.begin("second", None)

    assert runs.starts("second") == ""


def trim(messages: list[str]) -> list[str]:
    return messages[-1:]


async def trim_later(messages: list[str]) -> list[str]:
    await asyncio.sleep(0)
    return messages[-1:]


def test_a_function_goes_by_its_name_and_an_object_by_its_class() -> None:
    assert [function_name(item) for item in (trim, functools.partial(trim))] == ["trim", "partial"]


def test_what_is_returned_is_heard_when_it_is_there_and_passed_on() -> None:
    values: list[Any] = []

    at_once = observe_result(trim(["a", "b"]), values.append)
    later = observe_result(trim_later(["a", "c"]), values.append)
    before = list(values)

    assert (before, at_once) == ([["b"]], ["b"])
    assert (asyncio.run(later), values) == (["c"], [["b"], ["c"]])


CALL = Message("assistant", calls=(ToolCall("c1", "look_up", {"word": "x"}),))
CHAT_CALL = {
    "role": "assistant",
    "tool_calls": [
        {
            "id": "c1",
            "type": "function",
            "function": {"name": "look_up", "arguments": '{"word": "x"}'},
        }
    ],
}


@pytest.mark.parametrize(
    ("messages", "format", "parsed"),
    [
        ([{"role": "user", "content": "hi"}, CHAT_CALL], "openai-chat",
         [Message("user", "hi"), CALL]),
        ([{"role": "user", "content": "hi"},
          {"type": "function_call", "call_id": "c1", "name": "look_up",
           "arguments": '{"word": "x"}'}], "openai-responses", [Message("user", "hi"), CALL]),
        ([{"role": "user", "content": "hi"},
          {"role": "assistant", "content": [
              {"type": "tool_use", "id": "c1", "name": "look_up", "input": {"word": "x"}}]}],
         "anthropic", [Message("user", "hi"), CALL]),
        ([{"role": "user", "parts": [{"text": "hi"}]}], "gemini", [Message("user", "hi")]),
        ([], "openai-chat", []),
    ],
)  # fmt: skip
def test_messages_are_parsed_as_those_of_a_request(
    messages: list[Any], format: MessageFormat, parsed: list[Message]
) -> None:
    assert parse_messages(messages, format) == parsed


@pytest.mark.parametrize("format", ["openai-chat", "openai-responses", "anthropic"])
def test_what_no_request_could_hold_is_refused(format: MessageFormat) -> None:
    with pytest.raises(WireInvalid):
        parse_messages([{"role": "nobody", "content": "hi"}], format)


def test_an_attachment_is_named_by_its_address_or_by_its_bytes() -> None:
    assert attachment_text("image", "https://a.example/b.png") == "[image https://a.example/b.png]"
    assert attachment_text("file", "file-7") == "[file file-7]"
    assert attachment_text("image", data=b"1", media_type="image/png") == (
        "[image sha256:6b86b273ff34]"
    )
    assert attachment_text("file") == "[file]"
