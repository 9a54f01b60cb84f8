"""What a pipeline's own code says of itself is heard, wherever it runs."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import simkit
from simkit.adapters.annotations import Mark, current_mark, heard_by


class Hearing:
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def agent_began(self, mark: Mark) -> None:
        self.calls.append(f"{mark.agent} began")

    def agent_ended(self, mark: Mark, problem: BaseException | None) -> None:
        self.calls.append(f"{mark.agent} ended{': ' if problem else ''}{problem or ''}")

    def handed_over(
        self, source: str, to: str, payload: Any, type: str | None, query: str | None
    ) -> None:
        self.calls.append((source, to, payload, type, query))

    def state_changed(self, agent: str, update: dict[str, Any]) -> None:
        self.calls.append((agent, update))


def at_work() -> str:
    mark = current_mark()
    return mark.agent if mark is not None else ""


@pytest.fixture
def recorded_calls() -> Iterator[list[Any]]:
    hearing = Hearing()
    with heard_by(hearing):
        yield hearing.calls


def test_a_block_is_an_agents_work_and_blocks_may_be_nested(recorded_calls: list[Any]) -> None:
    texts = [at_work()]
    with simkit.agent("outer"):
        texts.append(at_work())
        with simkit.agent("inner"):
            texts.append(at_work())
        texts.append(at_work())
    texts.append(at_work())

    assert texts == ["", "outer", "inner", "outer", ""]
    assert recorded_calls == ["outer began", "inner began", "inner ended", "outer ended"]


def test_nothing_is_heard_where_nobody_listens() -> None:
    with simkit.agent("a"):
        simkit.handoff("b")
        simkit.state(x=1)
        assert at_work() == "a"


def test_an_error_is_heard_and_goes_on(recorded_calls: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"^no$"), simkit.agent("a"):
        raise ValueError("no")

    assert recorded_calls == ["a began", "a ended: no"]
    assert at_work() == ""


def test_handoffs_and_state_belong_to_the_agent_at_work(recorded_calls: list[Any]) -> None:
    simkit.handoff("first", source="user")
    with simkit.agent("a"):
        simkit.handoff("b", {"n": 1}, type="t", query="q")
        simkit.state(x=1, y=2)

    assert recorded_calls == [
        ("user", "first", None, None, None),
        "a began",
        ("a", "b", {"n": 1}, "t", "q"),
        ("a", {"x": 1, "y": 2}),
        "a ended",
    ]


@simkit.agent("plain")
def plain(text: str) -> str:
    """Says it."""
    return f"{at_work()} {text}"


@simkit.agent("coroutine")
async def coroutine(text: str) -> str:
    await asyncio.sleep(0)
    return f"{at_work()} {text}"


@simkit.agent("generator")
def generator(text: str) -> Iterator[str]:
    yield at_work()
    yield text


@simkit.agent("stream")
async def stream(text: str) -> AsyncIterator[str]:
    yield at_work()
    yield text


async def collected(text: str) -> list[str]:
    return [item async for item in stream(text)]


class Desk:
    """Has an agent for a method."""

    name = "desk"

    @simkit.agent("method")
    def ask(self, text: str) -> str:
        return f"{at_work()} of {self.name} {text}"


@pytest.mark.parametrize(
    ("call", "result", "agent"),
    [
        (lambda: plain("hi"), "plain hi", "plain"),
        (lambda: asyncio.run(coroutine("hi")), "coroutine hi", "coroutine"),
        (lambda: list(generator("hi")), ["generator", "hi"], "generator"),
        (lambda: asyncio.run(collected("hi")), ["stream", "hi"], "stream"),
        (lambda: Desk().ask("hi"), "method of desk hi", "method"),
    ],
    ids=["function", "coroutine", "generator", "async generator", "method"],
)
def test_a_decorated_function_is_an_agents_work(
    recorded_calls: list[Any], call: Callable[[], Any], result: Any, agent: str
) -> None:
    assert call() == result
    assert recorded_calls == [f"{agent} began", f"{agent} ended"]
    assert at_work() == ""


def test_a_decorated_function_stays_what_it_is() -> None:
    kinds = (
        inspect.iscoroutinefunction(coroutine), inspect.isgeneratorfunction(generator),
        inspect.isasyncgenfunction(stream), str(inspect.signature(plain)), plain.__doc__,
    )  # fmt: skip

    assert kinds == (True, True, True, "(text: 'str') -> 'str'", "Says it.")


def test_between_two_items_nobody_is_at_work(recorded_calls: list[Any]) -> None:
    items = generator("hi")
    observed = [next(items), at_work()]
    with simkit.agent("reader"):
        observed += [next(items), at_work()]
    items.close()  # type: ignore[attr-defined]

    assert observed == ["generator", "", "hi", "reader"]
    assert recorded_calls == ["generator began", "reader began", "reader ended", "generator ended"]


def test_a_stream_that_is_left_early_has_ended(recorded_calls: list[Any]) -> None:
    async def first() -> str:
        async for item in stream("hi"):
            return f"{item}, then {at_work()!r}"
        raise AssertionError

    assert asyncio.run(first()) == "stream, then ''"
    assert recorded_calls == ["stream began", "stream ended"]


def test_a_generator_is_sent_values_and_returns_its_own() -> None:
    @simkit.agent("a")
    def echo() -> Any:
        got = yield "first"
        return f"{at_work()} got {got}"

    items = echo()
    first = next(items)
    with pytest.raises(StopIteration) as end:
        items.send("it")

    assert (first, end.value.value) == ("first", "a got it")


def test_tasks_belong_to_the_agent_that_started_them() -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return at_work()

    async def both() -> list[str]:
        async with simkit.agent("a"):
            task = asyncio.create_task(work())
        async with simkit.agent("b"):
            other = asyncio.create_task(work())
        return [await task, await other, at_work()]

    assert asyncio.run(both()) == ["a", "b", ""]


def test_one_block_may_be_shared_by_tasks_that_run_at_once(recorded_calls: list[Any]) -> None:
    shared = simkit.agent("shared")
    order = [asyncio.Event(), asyncio.Event()]

    async def first() -> str:
        async with shared:
            await order[0].wait()
            text = at_work()
        order[1].set()
        return f"{text}, then {at_work()!r}"

    async def second() -> str:
        async with shared:
            order[0].set()
            await order[1].wait()
            return at_work()

    async def both() -> list[str]:
        return list(await asyncio.gather(first(), second()))

    assert asyncio.run(both()) == ["shared, then ''", "shared"]
    assert recorded_calls == ["shared began", "shared began", "shared ended", "shared ended"]


def in_a_bare_thread(work: Callable[[], Any]) -> None:
    thread = threading.Thread(target=lambda: contextvars.Context().run(work))
    thread.start()
    thread.join()


def test_a_thread_without_a_context_is_heard_by_the_only_listener(
    recorded_calls: list[Any],
) -> None:
    in_a_bare_thread(lambda: simkit.state(x=1))

    assert recorded_calls == [("", {"x": 1})]


def test_a_thread_without_a_context_is_heard_by_none_of_several() -> None:
    hearing, two = Hearing(), Hearing()
    with heard_by(hearing), heard_by(two):
        in_a_bare_thread(lambda: simkit.state(x=1))

    assert (hearing.calls, two.calls) == ([], [])


def test_a_context_that_outlives_its_listener_is_heard_by_the_next() -> None:
    hearing, two = Hearing(), Hearing()
    with heard_by(hearing):
        context = contextvars.copy_context()
    with heard_by(two):
        context.run(simkit.state, x=1)
    context.run(simkit.state, x=2)

    assert (hearing.calls, two.calls) == ([], [("", {"x": 1})])
