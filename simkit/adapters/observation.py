"""Observation of frameworks, for all adapters: contexts, listeners, groups, messages."""

from __future__ import annotations

import asyncio
import functools
import inspect
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

import msgspec

from simkit.adapters.recorder.trace import TraceRecorder
from simkit.capture.http.installing import Installation, Replacement, Row, enter_all
from simkit.capture.http.request_router import current_owner, may_belong_to
from simkit.core.messages import Message
from simkit.providers.attachments import inline, linked, placeholder
from simkit.providers.http import HttpRequest
from simkit.providers.openai.items import messages_of
from simkit.providers.protocols import PROTOCOLS

ValueT = TypeVar("ValueT")


class ContextScope(Generic[ValueT]):
    """A value that is current in this context, and in code that it starts."""

    def __init__(self, name: str) -> None:
        """``name`` is the name of the context variable."""
        self._variable = ContextVar[ValueT | None](name, default=None)

    def now(self) -> ValueT | None:
        """Return the current value; None if there is none."""
        return self._variable.get()

    @contextmanager
    def inside(self, value: ValueT) -> Iterator[None]:
        """Make ``value`` current for code in here, and for code that it starts.

        It may be left in another context than it was entered in, as streams are.
        """
        before = self._variable.get()
        self._variable.set(value)
        try:
            yield
        finally:
            if self._variable.get() is value:
                self._variable.set(before)


ListenerT = TypeVar("ListenerT")


class _Use(Generic[ListenerT]):
    """The use of a listener by a scenario, in which it is active until it is left."""

    __slots__ = ("is_active", "listener", "owner")

    def __init__(self, listener: ListenerT) -> None:
        self.listener, self.owner = listener, current_owner()
        self.is_active = True


class ContextListeners(Generic[ListenerT]):
    """The active listeners of one framework, each for its own context."""

    def __init__(self, name: str) -> None:
        """``name`` is the name of the context variable."""
        self._use = ContextScope[_Use[ListenerT]](name)
        self._active: dict[_Use[ListenerT], None] = {}
        """The uses of listeners that are active now; it changes in one step at a time."""

    def current(self) -> ListenerT | None:
        """Return the listener for this code; None if there is none.

        A listener that became active in the middle of a turn is not in the context of code that ran
        already: such code belongs to the listener of its scenario. Code without an active listener
        in its context, as in a thread, belongs to the only active one, unless it is code of another
        scenario that has not ended.
        """
        use = self._use.now()
        if use is not None and use.is_active:
            return use.listener
        owner = current_owner() or (use.owner if use is not None else None)
        active = [*self._active.copy()]
        for other in reversed(active):
            if use is not None and other.listener is use.listener:
                return use.listener
            if owner is not None and other.owner is owner:
                return other.listener
        is_only = len(active) == 1 and may_belong_to(active[0].owner)
        return active[0].listener if is_only else None

    def are_active(self) -> bool:
        """Return whether any listener is active, for whatever code."""
        return bool(self._active)

    @contextmanager
    def activate(self, listener: ListenerT, *installations: Installation) -> Iterator[None]:
        """Make a listener active for code in this context, and for code that it starts.

        ``installations`` are in place meanwhile. Example::

            with listeners.activate(listener, installation):
                ...
        """
        use = _Use(listener)
        with enter_all(installations), self._use.inside(use):
            self._active[use] = None
            try:
                yield
            finally:
                use.is_active = False
                del self._active[use]

    def around(self, function: Callable[..., Any]) -> Callable[[Replacement], Replacement]:
        """Return what makes replacements that call ``function`` where there is a listener.

        It gets the listener, the original, and the arguments of the call. Code without a listener
        calls the original. A coroutine function stays one. Example::

            @listeners.around
            async def append_event(log, before, self, session, event):
                log.appended(session, event)
                return await before(self, session, event)

            installation = Installation(lambda: [(Service, "append_event", append_event)])
        """

        def replace(before: Replacement) -> Replacement:
            def call(*args: Any, **kwargs: Any) -> Any:
                listener = self.current()
                if listener is None:
                    return before(*args, **kwargs)
                return function(listener, before, *args, **kwargs)

            async def await_call(*args: Any, **kwargs: Any) -> Any:
                return await call(*args, **kwargs)

            is_async = inspect.iscoroutinefunction(before)
            return functools.wraps(before)(await_call if is_async else call)

        return replace

    def wrap(self, owner: Any, name: str, method: str = "") -> Row:
        """Return the row of an `Installation` that puts a listener's method around a function.

        Instead of the function ``name`` of ``owner``, the current listener's ``method`` is called,
        by default its method with the same name. It gets the function, and then the arguments of
        the call. Code without a listener calls the function as usual. Example::

            installation = Installation(lambda: [listeners.wrap(Agent, "run")])
        """

        def call(listener: ListenerT, before: Replacement, *args: Any, **kwargs: Any) -> Any:
            return getattr(listener, method or name)(before, *args, **kwargs)

        return owner, name, self.around(call)


KeyT = TypeVar("KeyT")

TICKS: Final = 20
"""The number of event loop ticks in which parallel code can begin first."""


class ParallelGroups(Generic[KeyT]):
    """Runs that have begun but not started, and the parallel groups that they form."""

    def __init__(self, recorder: TraceRecorder) -> None:
        self._recorder = recorder
        self._waiting: dict[KeyT, object] = {}
        """Waiting runs, each with the place where it began."""
        self._groups: dict[KeyT, str] = {}

    def begin(self, key: KeyT, around: object) -> None:
        """Record that the code of ``around`` has begun the run of a key."""
        self._waiting[key] = around

    def those_with(self, key: KeyT) -> list[KeyT]:
        """Return the waiting runs from the same place in order, with this one."""
        if key not in self._waiting:
            return []
        around = self._waiting[key]
        return [other for other, siblings in self._waiting.items() if siblings is around]

    def starts(self, key: KeyT) -> str:
        """Start the run of a key; return its group, which is new for the first of several."""
        siblings = self.those_with(key)
        if key not in self._groups and len(siblings) > 1:
            self._groups |= dict.fromkeys(siblings, self._recorder.begin_group())
        self._waiting.pop(key, None)
        return self._groups.pop(key, "")

    def ended(self, key: KeyT) -> None:
        """Remove a key, whether or not its run started."""
        self._waiting.pop(key, None)
        self._groups.pop(key, None)

    def clear(self) -> None:
        """Remove all waiting runs."""
        self._waiting.clear()
        self._groups.clear()


async def let_others_begin() -> None:
    """Let parallel code begin first, so that a group starts together."""
    for _ in range(TICKS):
        await asyncio.sleep(0)


MessageFormat: TypeAlias = Literal[
    "anthropic", "bedrock", "gemini", "openai-chat", "openai-responses"
]

_URLS: Final = {"bedrock": "/model/m/converse", "gemini": "/models/m:generateContent"}
"""Protocols whose requests have the model in their address."""
_encode: Final = msgspec.json.Encoder().encode


def parse_messages(messages: Sequence[Any], format: MessageFormat) -> list[Message]:
    """Return messages in a provider's ``format`` as the interceptor parses those of a request.

    ``messages`` is the JSON data under `messages`, `contents` or `input`. Raise WireInvalid if no
    request could contain it. Example::

        parse_messages([{"role": "user", "content": "Hello"}], "openai-chat")
    """
    if format == "openai-responses":
        return messages_of([(item, f"input[{index}]") for index, item in enumerate(messages)])
    body = _encode({"model": "m", "contents" if format == "gemini" else "messages": messages})
    request = HttpRequest("POST", f"https://localhost{_URLS.get(format, '')}", (), body)
    return list(PROTOCOLS[format].parse_request(request).messages)


def attachment_text(
    kind: str, source: str = "", *, data: bytes | None = None, media_type: str = ""
) -> str:
    """Return the text that the interceptor shows in a message in place of an attachment.

    ``source`` is its address or id; without one, ``data`` are its bytes. Example::

        attachment_text("image", "https://example.com/a.png")  # "[image https://example.com/a.png]"
    """
    if data is None:
        return placeholder(linked(kind, source))
    return placeholder(inline(kind, b64encode(data).decode(), media_type))


def function_name(function: Any) -> str:
    """Return a function's name; for a callable object, its class's."""
    name: str = getattr(function, "__name__", type(function).__name__)
    return name


def observe_result(returned: Any, tell: Callable[[Any], None]) -> Any:
    """Return a function's result, and pass it to ``tell`` as soon as it is available."""
    if inspect.isawaitable(returned):
        return _awaited(returned, tell)
    tell(returned)
    return returned


async def _awaited(returned: Any, tell: Callable[[Any], None]) -> Any:
    result = await returned
    tell(result)
    return result
