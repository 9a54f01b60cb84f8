"""A pipeline's code is called as it is: functions, factories, classes, objects, streams."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from simkit.adapters import entry
from simkit.adapters.entry import Caller, build, found_as
from simkit.core.errors import FunctionMissing
from tests.adapters.running import run_app


def function(text: str) -> str:
    return f"said {text}"


async def coroutine(text: str) -> str:
    await asyncio.sleep(0)
    return f"said {text}"


def generator(text: str) -> Iterator[str]:
    yield "said "
    yield text


async def async_generator(text: str) -> AsyncIterator[str]:
    yield "said "
    yield text


async def made_of_items(text: str) -> AsyncIterator[str]:
    return async_generator(text)


def with_session(text: str, session: str) -> str:
    return f"{session} said {text}"


def with_session_by_name(text: str, *, session: str = "none") -> str:
    return f"{session} said {text}"


class Callable_:
    """Is called itself."""

    def __call__(self, text: str) -> str:
        return f"said {text}"


class Object:
    """Has one method with a name that is known."""

    def ask(self, text: str) -> str:
        return f"said {text}"

    def other(self, text: str) -> str:
        return f"other said {text}"


class Both(Object):
    """Has two."""

    def run(self, text: str) -> str:
        return text


def factory() -> Object:
    return Object()


def factory_of_a_function(*, model: str = "x") -> Callable[[str], str]:
    return function


def empty_factory() -> None:
    return None


def program() -> str:
    return "Bye."


PROGRAM = (
    "\nIf it is a program, which reads the user's messages by `input()` or none, run it as it is: "
    "`app: {input: turns}`. Else name a function that takes one message and returns the reply, "
    "`def answer(text): …`."
)


class Single:
    """Has one public method, of a name that nobody knows."""

    greeting = "said"

    def reply_to(self, text: str) -> str:
        return f"{self.greeting} {self._words(text)}"

    def _words(self, text: str) -> str:
        return text


class Unusual(Single):
    """Has two."""

    def __init__(self, size: int) -> None:
        self.size = size

    def close(self) -> None:
        return None


def call_app(result: Any, method: str | None = None) -> Any:
    caller = Caller()
    try:
        return caller.call(build("app:it", result, method, "s7"), "hi")
    finally:
        caller.close()


@pytest.mark.parametrize(
    ("expected", "method", "reply"),
    [
        (function, None, "said hi"),
        (partial(with_session, session="p"), None, "s7 said hi"),
        (coroutine, None, "said hi"),
        (generator, None, "said hi"),
        (async_generator, None, "said hi"),
        (made_of_items, None, "said hi"),
        (with_session, None, "s7 said hi"),
        (with_session_by_name, None, "s7 said hi"),
        (Callable_, None, "said hi"),
        (Callable_(), None, "said hi"),
        (Object, None, "said hi"),
        (Object(), None, "said hi"),
        (Object, "other", "other said hi"),
        (Both, "run", "hi"),
        (factory, None, "said hi"),
        (Single, None, "said hi"),
        (Single(), None, "said hi"),
        (factory, "other", "other said hi"),
        (factory_of_a_function, None, "said hi"),
        (Object().other, None, "other said hi"),
    ],
)
def test_whatever_takes_the_users_message_is_called(
    expected: Any, method: str | None, reply: str
) -> None:
    assert call_app(expected, method) == reply


def test_a_stream_that_is_not_of_texts_is_a_list() -> None:
    def numbers(text: str) -> Iterator[int]:
        yield from (1, 2)

    assert call_app(numbers) == [1, 2]


def test_a_factory_is_called_for_each_session_and_what_it_made_already_is_used() -> None:
    objects = [Object(), Object()]
    fresh = iter(objects)

    def make() -> Object:
        return next(fresh)

    first: Any = build("app:make", make, "ask", "s1")
    second: Any = build("app:make", make, "ask", "s2")
    third: Any = build("app:make", make, "ask", "s3", built=objects[0])

    assert [talk.__self__ for talk in (first, second, third)] == [
        objects[0],
        objects[1],
        objects[0],
    ]


@pytest.mark.parametrize(
    ("expected", "method", "text"),
    [
        (
            empty_factory, None,
            "`app:it` takes no parameter, so it must return the pipeline: a function of the "
            "user's message, or an object. It returned nothing."
            + PROGRAM,
        ),
        (
            program, None,
            "`app:it` takes no parameter, so it must return the pipeline: a function of the "
            "user's message, or an object. It returned 'Bye.', a `str`." + PROGRAM,
        ),
        (
            Unusual(2), None,
            "`app:it` is or makes an object of class `Unusual`, and it is not clear which method "
            "takes the user's message: close, reply_to.\n"
            "Name it: `app: {call: reply_to}`, or `app:it.reply_to` for `init` and `explore`.",
        ),
        (
            Object, "chat",
            "`app:it` is or makes an object of class `Object`, which has no method 'chat' "
            "(`app.call`). It has: ask, other.",
        ),
        (
            Both, None,
            "`app:it` is or makes an object of class `Both`, and it is not clear which method "
            "takes the user's message: run, ask.\n"
            "Name it: `app: {call: run}`, or `app:it.run` for `init` and `explore`.",
        ),
        (
            {"agent": 1}, None,
            "`app:it` is an object of class `dict`, not a function of the user's message, nor an "
            "object with such a method.\nName one that takes the message: `def answer(text): …`.",
        ),
    ],
    ids=["nothing made", "a program", "which is likeliest", "no such method", "several methods",
         "no pipeline"],
)  # fmt: skip
def test_what_cannot_be_called_is_an_error_that_says_what_to_do(
    expected: Any, method: str | None, text: str
) -> None:
    with pytest.raises(FunctionMissing) as caught:
        build("app:it", expected, method, "s1")

    assert (caught.value.what, caught.value.name) == (text, "app:it")


def test_what_a_module_does_not_hold_is_an_error() -> None:
    with pytest.raises(FunctionMissing) as caught:
        found_as("json:no_such")

    assert caught.value.what == (
        "`json:no_such`: module 'json' has no 'no_such'. It has: dump, dumps, detect_encoding, "
        "load, loads."
    )


def test_a_module_has_whatever_name_importlib_can_import(tmp_path: Path) -> None:
    folder = tmp_path / "01_intro"
    folder.mkdir()
    (folder / "my-app.py").write_text("def run(text):\n    return f'said {text}'\n")

    ran = run_app(
        "01_intro.my-app:run",
        "app: {path: [.]}\nturns: [{user: Hi, expect: {reply: said Hi}}]",
        tmp_path,
    )

    assert ran.judgement.findings == ()


def test_one_event_loop_serves_all_turns() -> None:
    loops = []

    async def talk(text: str) -> None:
        loops.append(asyncio.get_running_loop())

    caller = Caller()
    caller.call(talk, "a")
    caller.call(talk, "b")
    caller.close()

    assert loops[0] is loops[1]
    assert loops[0].is_closed()


def test_a_caller_inside_an_event_loop_is_served_by_another_with_its_context() -> None:
    name = contextvars.ContextVar[str]("name", default="nobody")
    caller = Caller()

    async def talk(text: str) -> str:
        await asyncio.sleep(0)
        return f"{name.get()} said {text}"

    async def inside() -> list[str]:
        name.set("ann")
        return [caller.call(talk, "a"), caller.call(talk, "b")]

    try:
        assert asyncio.run(inside()) == ["ann said a", "ann said b"]
    finally:
        caller.close()


def test_tasks_that_are_left_over_are_cancelled_at_the_end() -> None:
    ended: list[str] = []

    async def for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")

    async def talk(text: str) -> None:
        talk.task = asyncio.create_task(for_ever())  # type: ignore[attr-defined]
        await asyncio.sleep(0)

    caller = Caller()
    caller.call(talk, "a")
    assert ended == []
    caller.close()

    assert ended == ["ended"]


@pytest.mark.parametrize("is_inside", [False, True], ids=["alone", "inside an event loop"])
def test_code_that_waits_for_ever_is_given_up(
    is_inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry, "GRACE_S", 0.01)
    caller = Caller()

    async def talk(text: str) -> None:
        caller.give_up()
        await asyncio.Event().wait()

    async def inside() -> None:
        caller.call(talk, "a")

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(inside()) if is_inside else caller.call(talk, "a")
    caller.close()


def test_code_that_ends_by_itself_is_not_disturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "GRACE_S", 0.01)
    caller = Caller()

    async def stops(text: str) -> str:
        caller.give_up()
        return "stopped"

    async def goes_on(text: str) -> str:
        await asyncio.sleep(0.05)
        return "went on"

    results = [caller.call(stops, "a"), caller.call(goes_on, "b")]
    caller.close()

    assert results == ["stopped", "went on"]


def test_a_pipeline_that_waits_for_an_agent_that_was_stopped_is_told_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(entry, "GRACE_S", 0.01)
    (tmp_path / "waiting_team.py").write_text(
        dedent(
            """
            import asyncio
            import openai
            import simkit

            async def work(done):
                with simkit.agent("worker"):
                    client = openai.AsyncOpenAI()
                    said = [{"role": "user", "content": "Hi"}]
                    await client.chat.completions.create(model="m", messages=said)
                done.set()

            async def ask(text):
                done = asyncio.Event()
                task = asyncio.create_task(work(done))
                await done.wait()
            """
        )
    )

    ran = run_app("waiting_team:ask", "turns: [{user: Hi, expect: {reply: Hi}}]", tmp_path)

    assert "agent 'worker' made a model call in turn 1" in ran.judgement.findings[0].what
    assert caplog.text == ""
