"""Annotations: a pipeline's own code reports its agents, handoffs and state to simkit.

Everything here does nothing while no scenario runs, so it may stay in production code::

    with simkit.agent("triage"):
        answer = client.responses.create(...)
    simkit.handoff("refunds", payload={"order_id": "A-1042"})
    simkit.state(order_id="A-1042")
"""

from __future__ import annotations

import contextvars
import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import AbstractContextManager, aclosing, closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from simkit.core.context_values import LOCK, Inside

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])


@dataclass(slots=True, eq=False)
class Mark:
    """One agent run that user code has named."""

    agent: str
    outer: Mark | None
    run: Any = None
    """The listener's own object for it."""


class AnnotationListener(Protocol):
    """A listener for annotations; any thread may call it."""

    def agent_began(self, mark: Mark) -> None:
        """Handle the start of an agent."""

    def agent_ended(self, mark: Mark, problem: BaseException | None) -> None:
        """Handle the end, or the failure, of annotated code."""

    def handed_over(
        self, source: str, to: str, payload: Any, type: str | None, query: str | None
    ) -> None:
        """Handle a handoff."""

    def state_changed(self, agent: str, update: dict[str, Any]) -> None:
        """Handle new values of channels."""


_mark: Final = contextvars.ContextVar[Mark | None]("simkit_agent", default=None)
_listener: Final = contextvars.ContextVar[AnnotationListener | None](
    "simkit_listener", default=None
)
_listening: Final[list[AnnotationListener]] = []


def current_mark() -> Mark | None:
    """Return the annotation around the caller's code; None if there is none."""
    return _mark.get()


def is_annotated() -> bool:
    """Return whether this code runs in a block that names its agent (`simkit.agent`)."""
    return _mark.get() is not None


def heard_by(listener: AnnotationListener) -> Inside[AnnotationListener]:
    """Report the annotations of the code inside to a listener."""
    return Inside(_listener, listener, _listening)


def _current_listener() -> AnnotationListener | None:
    """Return the context's listener; if it is closed, or there is none, the only open one."""
    listener = _listener.get()
    with LOCK:
        if listener in _listening:
            return listener
        return _listening[0] if len(_listening) == 1 else None


@contextmanager
def _activation(name: str) -> Iterator[Mark]:
    """Report an agent run, without making the code inside belong to it."""
    mark, listener = Mark(name, _mark.get()), _current_listener()
    if listener is not None:
        listener.agent_began(mark)
    problem: BaseException | None = None
    try:
        yield mark
    except BaseException as raised:
        problem = None if isinstance(raised, GeneratorExit) else raised
        raise
    finally:
        if listener is not None:
            listener.agent_ended(mark, problem)


def _steps(name: str, items: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Yield the items of an agent's generator; the agent runs only while it makes one."""
    with _activation(name) as mark, closing(items):
        value = None
        while True:
            with Inside(_mark, mark):
                try:
                    item = items.send(value)
                except StopIteration as end:
                    return end.value
            value = yield item


async def _async_steps(name: str, items: AsyncGenerator[Any, Any]) -> AsyncGenerator[Any, Any]:
    """Yield the items of an agent's asynchronous generator, as `_steps` does."""
    with _activation(name) as mark:
        async with aclosing(items):
            value = None
            while True:
                with Inside(_mark, mark):
                    try:
                        item = await items.asend(value)
                    except StopAsyncIteration:
                        return
                value = yield item


class agent:
    """Attributes a block, or a decorated function, to an agent.

    Model calls inside belong to the agent, also those in threads and tasks started inside. Blocks
    may be nested: the inner agent works for the outer one. Outside a scenario it does nothing.

    >>> with simkit.agent("billing"):
    ...     reply = "A model call in here belongs to billing."
    """

    __slots__ = ("_entered", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._entered: dict[Mark, AbstractContextManager[Mark]] = {}
        """The open runs; several tasks may share the object."""

    def __enter__(self) -> None:
        activation = _activation(self.name)
        mark = activation.__enter__()
        self._entered[mark] = activation
        _mark.set(mark)

    def __exit__(self, *problem: Any) -> None:
        mark = _mark.get()
        if mark is not None and mark in self._entered:
            _mark.set(mark.outer)
        else:
            mark = next(reversed(self._entered))  # It is left in another context.
        self._entered.pop(mark).__exit__(*problem)

    async def __aenter__(self) -> None:
        self.__enter__()

    async def __aexit__(self, *problem: Any) -> None:
        self.__exit__(*problem)

    def __call__(self, function: AnyFunction) -> AnyFunction:
        name = self.name
        wrapper: Any
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def wrapper(*args: Any, **kwargs: Any) -> Any:
                with agent(name):
                    return await function(*args, **kwargs)

        elif inspect.isasyncgenfunction(function):

            @functools.wraps(function)
            async def wrapper(*args: Any, **kwargs: Any) -> Any:
                async with aclosing(_async_steps(name, function(*args, **kwargs))) as items:
                    async for item in items:
                        yield item

        elif inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                return (yield from _steps(name, function(*args, **kwargs)))

        else:

            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                with agent(name):
                    return function(*args, **kwargs)

        wrapped: AnyFunction = wrapper
        return wrapped


def handoff(
    to: str,
    payload: Any = None,
    *,
    source: str | None = None,
    type: str | None = None,
    query: str | None = None,
) -> None:
    """Report a handoff to an agent; without ``source``, the current agent makes it.

    >>> simkit.handoff("billing", {"order": 7}, type="refund")
    """
    listener, mark = _current_listener(), _mark.get()
    if listener is not None:
        listener.handed_over(
            source or (mark.agent if mark is not None else ""), to, payload, type, query
        )


def state(**channels: Any) -> None:
    """Report new values of channels.

    >>> simkit.state(order=7, notes=["The parcel was late."])
    """
    listener, mark = _current_listener(), _mark.get()
    if listener is not None:
        listener.state_changed(mark.agent if mark is not None else "", channels)
