"""Which scenario's gate a client's request goes through.

A gate belongs to a context (`contextvars`): tasks that the user's code starts, and threads that are
given their starter's context, carry it. A thread without one (a worker of a pool that is older than
the run) goes through the only gate there is; where there are several, it is an error, never the
network.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol, TypeAlias

from simkit.capture.http.belonging import current_owner, may_belong_to
from simkit.capture.http.hosts import AllowedHosts
from simkit.core.errors import CallUnattributed, RunHalted
from simkit.providers.http import Headers, HttpAnswer, HttpRequest


class StreamObserver(Protocol):
    """Hears a real response go by, piece by piece, while the client reads it."""

    def response_started(self, status: int, headers: Headers) -> None:
        """The response's head is there; not called if the network gave none."""

    def chunk(self, data: bytes) -> None:
        """The next piece of the body: compressed as it was sent, without the framing of chunks."""

    def ended(self, problem: str = "") -> None:
        """The response is over, told once; ``problem`` says why if it ended before it was whole.

        ``closed early`` is the client's own doing, and what openai's does after ``data: [DONE]``.
        """


class Forward:
    """The request goes to the network, and a tap hears the response."""

    __slots__ = ("tap",)

    def __init__(self, tap: StreamObserver | None) -> None:
        """Without a tap nobody listens: an allowed host that is none of simkit's business."""
        self.tap = tap


Decision: TypeAlias = HttpAnswer | Forward


class Pauses(Protocol):
    """How who asks waits for an answer: in virtual time, beside all others who wait."""

    def sleep(self, seconds: float) -> None:
        """Stop this thread."""

    async def sleep_in_loop(self, seconds: float) -> None:
        """Stop this task."""


class Later:
    """An answer that takes time: who asked waits, and then takes it."""

    __slots__ = ("_pauses", "_seconds", "take")

    def __init__(self, pauses: Pauses, wait_ms: int, take: Callable[[], Decision | Later]) -> None:
        self._pauses, self._seconds, self.take = pauses, wait_ms / 1_000, take

    def waited_for(self) -> Decision | Later:
        """Return what comes of it, once this thread has waited."""
        self._pauses.sleep(self._seconds)
        return self.take()

    async def waited_for_in_loop(self) -> Decision | Later:
        """Return what comes of it, once this task has waited."""
        await self._pauses.sleep_in_loop(self._seconds)
        return self.take()


class RequestRouter(Protocol):
    """Decides about every request that leaves the user's code; may be called from any thread."""

    def take(self, request: HttpRequest) -> Decision | Later:
        """Answer or forwards, at once or later; raise RunHalted where the run cannot go on."""


def decide(gate: RequestRouter, request: HttpRequest) -> Decision:
    """Return what a gate decides, once this thread has waited for it."""
    decision = gate.take(request)
    while isinstance(decision, Later):
        decision = decision.waited_for()
    return decision


async def taken_in_loop(gate: RequestRouter, request: HttpRequest) -> Decision:
    """Return what a gate decides, once this task has waited for it."""
    decision = gate.take(request)
    while isinstance(decision, Later):
        decision = await decision.waited_for_in_loop()
    return decision


class _Opening:
    """One use of a gate, from its opening to its end."""

    __slots__ = ("allowed", "gate", "owner")

    def __init__(self, gate: RequestRouter, allowed: AllowedHosts) -> None:
        self.gate, self.allowed = gate, allowed
        self.owner = current_owner()


_current: Final = contextvars.ContextVar[_Opening | None]("simkit_gate", default=None)
_forwarding: Final = contextvars.ContextVar[bool]("simkit_forwarding", default=False)
_open: Final[set[_Opening]] = set()
_lock: Final = threading.RLock()


@contextmanager
def passing_through(gate: RequestRouter, allow_hosts: Iterable[str] = ()) -> Iterator[None]:
    """Send what this context requests through a gate, and reject every other connection.

    ``allow_hosts`` may be connected to by what is no HTTP client of a patched library; an HTTP
    request goes to the gate whatever its host. Raises ValueError for what is no host.
    """
    opening = _Opening(gate, AllowedHosts(allow_hosts))
    with _lock:
        _open.add(opening)
    before = _current.set(opening)
    try:
        yield
    finally:
        _current.reset(before)
        with _lock:
            _open.discard(opening)


def _openings() -> list[_Opening]:
    """Return what this context belongs to, if that is still open, else all that are open and may
    be meant."""
    mine = _current.get()
    if mine in _open:
        return [mine]
    with _lock:
        return [opening for opening in _open if may_belong_to(opening.owner)]


def is_gated() -> bool:
    """Return whether a gate is asked about what is requested here."""
    return (bool(_open) or _current.get() is not None) and not _forwarding.get()


def current_gate(request: HttpRequest) -> RequestRouter | None:
    """Return the gate that a request goes through; None while no scenario runs.

    Raises RunHalted if it cannot be told.
    """
    if not is_gated():
        return None
    openings = _openings()
    if len(openings) == 1:
        return openings[0].gate
    if not openings:
        owner = current_owner()
        state = "is over" if owner is None or owner.is_over else "has no turn now"
        belongs = f"a task or thread of a scenario that {state}.\nWait for it inside the run."
    else:
        belongs = (
            f"a thread that belongs to none of the {len(openings)} scenarios that run now.\n"
            "Start the thread inside the run, or give it the context: "
            "`contextvars.copy_context().run(...)`."
        )
    where = f"{request.method} {request.url} was sent from "
    raise RunHalted(CallUnattributed(where + belongs))


def allowed_hosts() -> list[AllowedHosts]:
    """Return what the runs allow that a connection here may belong to; empty for no run.

    Inside `forwarding` there is none to ask.
    """
    if not _open or _forwarding.get():
        return []
    return [opening.allowed for opening in _openings()]


@contextmanager
def forwarding() -> Iterator[None]:
    """Let this context reach the network for a request that its gate has forwarded."""
    before = _forwarding.set(True)
    try:
        yield
    finally:
        _forwarding.reset(before)


def is_forwarding() -> bool:
    """Return whether what is requested here was let through by a gate."""
    return _forwarding.get()


def is_left_behind() -> bool:
    """Return whether this code belongs to a scenario that is over."""
    mine = _current.get()
    return mine is not None and mine not in _open and not _forwarding.get()


def leave() -> None:
    """Let this context belong to no gate, as a thread that several runs may share must."""
    _current.set(None)
