"""What adapters share to observe a framework: contexts, listeners, groups, messages."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

import msgspec

from simkit.adapters.recorder.trace import TraceRecorder
from simkit.capture.http.installing import Installation, Replacement, Row, put_in_place
from simkit.capture.http.request_router import Owner, current_owner, may_belong_to
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

    def inside(self, value: ValueT) -> AbstractContextManager[None]:
        """Make ``value`` current for code in here, and for code that it starts.

        It may be left in another context than it was entered in, as streams are.
        """
        return _Inside(self._variable, value)


class _Inside(Generic[ValueT]):
    """A context manager in which a value is current; every turn enters many, so it is a class."""

    __slots__ = ("_before", "_value", "_variable")

    def __init__(self, variable: ContextVar[ValueT | None], value: ValueT) -> None:
        self._variable, self._value = variable, value

    def __enter__(self) -> None:
        self._before = self._variable.get()
        self._variable.set(self._value)

    def __exit__(self, *problem: object) -> None:
        if self._variable.get() is self._value:
            self._variable.set(self._before)


ListenerT = TypeVar("ListenerT")


class Turn:
    """A turn of a scenario: code in it, and code that it starts, is not that of other scenarios.

    Frameworks that the pipeline does not seem to use wait: their listeners become active when code
    first calls something that is replaced in them. Otherwise each turn would cost more with each
    framework that anybody in this process has imported.
    """

    __slots__ = ("_before", "_waiting", "owner")

    def __init__(self) -> None:
        self.owner = current_owner()
        self._waiting: dict[object, Callable[[], object]] = {}
        """Listeners of frameworks that wait, and functions that activate one of them."""

    def __enter__(self) -> Turn:
        self._before = _turn_now()
        _turn.set(self)
        _turns[self] = None
        return self

    def __exit__(self, *problem: object) -> None:
        with _waking:  # Another thread may be activating one: all is left after it.
            del _turns[self]
            self._waiting.clear()
        if _turn_now() is self:
            _turn.set(self._before)

    def defer(self, listeners: object, activate: Callable[[], object]) -> None:
        """Call ``activate`` when code looks for one of these listeners, and there is none."""
        self._waiting[listeners] = activate

    def waits_for(self, listeners: object) -> bool:
        """Return whether one of these listeners waits."""
        return listeners in self._waiting

    def wake(self, listeners: object) -> bool:
        """Activate the waiting one of these listeners; return whether there was one.

        From whatever thread, it is a listener of this turn.
        """
        if listeners not in self._waiting:
            return False
        with _waking:  # Another thread waits until it is active.
            activate = self._waiting.get(listeners)
            if activate is None or activate is bool:
                return activate is None
            before = _turn_now()
            self._waiting[listeners] = bool  # It may look for a listener itself.
            _turn.set(self)
            try:
                activate()
            except BaseException:
                self._waiting[listeners] = activate
                raise
            finally:
                _turn.set(before)
            del self._waiting[listeners]
        return True


_turn: Final = ContextVar[Turn | None]("simkit_turn", default=None)
_turn_now: Final = _turn.get
_waking: Final = threading.RLock()
_turns: Final[dict[Turn, None]] = {}
"""The turns that run now; it changes in one step at a time."""


class ContextListeners(Generic[ListenerT]):
    """The active listeners of one framework, each for its own context."""

    def __init__(self, name: str) -> None:
        """``name`` is the name of the context variable."""
        self._variable = ContextVar[_Use[ListenerT] | None](name, default=None)
        self.use_now: Final = self._variable.get
        """Returns the use of a listener that this code's context has, also one that is over."""
        self._working: dict[_Use[ListenerT], None] = {}
        """The uses of listeners that are active now; it changes in one step at a time."""

    def current(self) -> ListenerT | None:
        """Return the listener for this code; None if there is none.

        A listener that became active in the middle of a turn is not in the context of code that ran
        already: such code belongs to the listener of its turn. Code without an active listener in
        its context, as in a thread, belongs to the only active one, unless it is code of another
        scenario that has not ended.
        """
        use = self.use_now()
        return use.listener if use is not None and use.is_active else self._listener_after(use)

    def _listener_after(self, use: _Use[ListenerT] | None) -> ListenerT | None:
        """Return the listener for code whose own one, if any, is no longer active."""
        turn, turns = _turn_now(), [*_turns.copy()]
        owner = turn.owner if turn is not None else use.owner if use is not None else None
        for running in turns:
            is_own = running is turn or running.owner is owner is not None
            if is_own and running.wake(self):
                return self.current()
        working = [*self._working.copy()]
        for other in working:
            if use is not None and other.listener is use.listener:
                return use.listener
        for other in reversed(working):
            if other.turn is turn is not None or other.owner is owner is not None:
                return other.listener
        active = [other.turn for other in working]
        waiting = [run for run in turns if run not in active and run.waits_for(self)]
        if len(working) + len(waiting) != 1:
            return None
        if working:
            return working[0].listener if may_belong_to(working[0].owner) else None
        is_heard = may_belong_to(waiting[0].owner) and waiting[0].wake(self)
        return self.current() if is_heard else None

    def are_active(self) -> bool:
        """Return whether any listener is active, for whatever code."""
        return bool(self._working)

    def activate(
        self, listener: ListenerT, *installations: Installation
    ) -> AbstractContextManager[None]:
        """Make a listener active for code in this context, and for code that it starts.

        ``installations`` are in place meanwhile. Example::

            with listeners.activate(listener, installation):
                ...
        """
        return _Use(self, listener, installations)

    def wrap(self, owner: Any, name: str, method: str = "") -> Row:
        """Return the row of an `Installation` that puts a listener's method around a function.

        Instead of the function ``name`` of ``owner``, the current listener's ``method`` is called,
        by default its method with the same name. It gets the function, and then the arguments of
        the call. Code without a listener calls the function as usual. Example::

            installation = Installation(lambda: [listeners.wrap(Agent, "run")])
        """

        def replace(before: Replacement) -> Replacement:
            @functools.wraps(before)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                listener = self.current()
                if listener is None:
                    return before(*args, **kwargs)
                return getattr(listener, method or name)(before, *args, **kwargs)

            return wrapper

        return owner, name, replace


def listeners_of(context: AbstractContextManager[object]) -> ContextListeners[Any] | None:
    """Return the listeners that a context is all about; None if it may do something else too."""
    return context._listeners if type(context) is _Use else None


class _Use(Generic[ListenerT]):
    """The use of a listener: a context in which it is active.

    Every turn enters many, so it is a class. Once it was left it may be entered again.
    """

    __slots__ = (
        "_entries",
        "_installations",
        "_listeners",
        "_token",
        "is_active",
        "listener",
        "owner",
        "turn",
    )  # fmt: skip

    def __init__(
        self,
        listeners: ContextListeners[ListenerT],
        listener: ListenerT,
        installations: tuple[Installation, ...],
    ) -> None:
        self._listeners, self.listener = listeners, listener
        self._installations = self._entries = installations
        self.is_active = False
        self.turn: Turn | None = None
        """The turn in which the listener became active."""
        self.owner: Owner | None = None
        """The scenario in which it did."""

    def __enter__(self) -> None:
        listeners = self._listeners
        if self._installations:
            self._entries = put_in_place(self._installations)
        self.turn = turn = _turn_now()
        self.owner = current_owner() if turn is None else turn.owner
        listeners._working[self] = None
        self.is_active = True
        self._token: Token[_Use[ListenerT] | None] = listeners._variable.set(self)

    def __exit__(self, *problem: object) -> None:
        listeners = self._listeners
        # It may be left in another context than it was entered in, as streams are.
        if listeners.use_now() is self:
            before = self._token.old_value
            listeners._variable.set(None if before is Token.MISSING else before)
        self.is_active = False
        del listeners._working[self]
        for installation in reversed(self._entries):
            installation.__exit__()


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
        return [other for other, place in self._waiting.items() if place is around]

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


MessageFormat: TypeAlias = Literal["anthropic", "gemini", "openai-chat", "openai-responses"]

_KEYS: Final = {"anthropic": "messages", "gemini": "contents", "openai-chat": "messages"}
"""Protocol to the key of the messages in the body of a request."""
_URL: Final = "https://localhost/models/m:generateContent"
"""A request to Gemini has the model in its address."""
_encode: Final = msgspec.json.Encoder().encode


def parse_messages(messages: Sequence[Any], format: MessageFormat) -> list[Message]:
    """Return messages in a provider's ``format`` as the interceptor parses those of a request.

    ``messages`` is the JSON data under `messages`, `contents` or `input`. Raise WireInvalid if no
    request could contain it. Example::

        parse_messages([{"role": "user", "content": "Hello"}], "openai-chat")
    """
    if format == "openai-responses":
        return messages_of([(item, f"input[{place}]") for place, item in enumerate(messages)])
    body = _encode({"model": "m", _KEYS[format]: messages})
    return list(PROTOCOLS[format].parse_request(HttpRequest("POST", _URL, (), body)).messages)


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
