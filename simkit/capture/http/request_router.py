"""The router of a request: it decides what happens to a scenario's requests.

A router belongs to a context (`contextvars`): tasks of the user's code, and threads that get their
starter's context, inherit it. A thread without one (a worker of a pool that is older than the run)
uses the only open router; if several are open, that is an error, never the network.
"""

from __future__ import annotations

import contextvars
import os
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from errno import ECONNREFUSED
from time import perf_counter
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar
from urllib.parse import urlsplit

import msgspec

from simkit.capture.http.places import library_asking
from simkit.capture.http.refusals import note_refusal
from simkit.core.context_values import LOCK, Inside, set_until_reset
from simkit.core.errors import CallUnattributed, RunHalted
from simkit.core.stopping import is_copy_of_run, mark_copy_of_run
from simkit.providers import streams
from simkit.providers.http import Headers, HttpAnswer, HttpRequest, HttpResponse, NoResponse
from simkit.providers.protocols import is_providers_host, protocol_of

E = TypeVar("E", bound=BaseException)

CLOSED_EARLY: Final = "closed early"
"""The problem of a response that the client closed before its end."""


class Ending(Protocol):
    """Learns how a real response ended."""

    def ended(self, problem: str = "") -> None:
        """Observe the end, once; ``problem`` says why the response ended before it was complete.

        `CLOSED_EARLY`: the client closed it, as openai's does after ``data: [DONE]``.
        """


class Forward(msgspec.Struct, frozen=True):
    """The request goes to the network, and an observer gets the response."""

    tap: ChunkRecorder | None
    """Observes the response; None for an allowed host that simkit does not record."""


Decision: TypeAlias = HttpAnswer | Forward


class NoNetwork(NoResponse, frozen=True):
    """A library that asks by itself gets no response, as without a network."""

    watch: Callable[[BaseException], object]
    """Gets the error that the client raises."""


def failing_with(answer: NoResponse, error: E) -> E:
    """Return the error of a client that gets no response, once it is watched."""
    if isinstance(answer, NoNetwork):
        answer.watch(error)
    return error


class Pauses(Protocol):
    """Ways to wait for an answer, in virtual time, beside all others that wait."""

    def sleep(self, seconds: float) -> None:
        """Stop this thread."""

    async def sleep_in_loop(self, seconds: float) -> None:
        """Stop this task."""


class Later(msgspec.Struct, frozen=True):
    """An answer that takes time; the caller waits for it, and then takes it."""

    pauses: Pauses
    wait_ms: int
    take: Callable[[], Decision | Later]


class RequestRouter(Protocol):
    """Decides about every request of the user's code; any thread may call it."""

    def take(self, request: HttpRequest) -> Decision | Later:
        """Answer or forward a request, now or later; raise RunHalted if the run cannot continue."""


def decide(router: RequestRouter, request: HttpRequest) -> Decision:
    """Return a router's decision, after this thread has waited for it."""
    decision = router.take(request)
    while isinstance(decision, Later):
        decision.pauses.sleep(decision.wait_ms / 1_000)
        decision = decision.take()
    return decision


async def wait_in_loop(decision: Decision | Later) -> Decision:
    """Return a router's decision, after this task has waited for it."""
    while isinstance(decision, Later):
        await decision.pauses.sleep_in_loop(decision.wait_ms / 1_000)
        decision = decision.take()
    return decision


class _Opening(msgspec.Struct, eq=False):
    """One use of a router, from its opening to its end."""

    router: RequestRouter | None
    """None for one that is never open."""
    allowed: AllowedHosts
    owner: Owner | None


_current: Final = contextvars.ContextVar[_Opening | None]("simkit_router", default=None)
_forwarding: Final = contextvars.ContextVar[bool]("simkit_forwarding", default=False)
_open: Final[list[_Opening]] = []


def passing_through(
    router: RequestRouter, allow_hosts: Iterable[str] = (), owner: Owner | None = None
) -> Inside[_Opening]:
    """Send this context's requests through a router, and reject every other connection.

    ``allow_hosts`` allows connections outside the patched HTTP clients; an HTTP request goes to the
    router whatever its host. Raise ValueError for an invalid host. ``owner`` is the scenario, if it
    is not that of this code.
    """
    opening = _Opening(router, AllowedHosts(allow_hosts), owner or current_owner())
    return Inside(_current, opening, _open)


def _openings() -> list[_Opening]:
    """Return the open uses of routers that this context may belong to.

    Its own one, if that is still open; otherwise all candidates.
    """
    mine = _current.get()
    if mine in _open:
        return [mine]
    with LOCK:
        return [opening for opening in _open if may_belong_to(opening.owner)]


def is_intercepted() -> bool:
    """Return whether requests here go to a router."""
    return (bool(_open) or _current.get() is not None) and not _forwarding.get()


def current_router(request: HttpRequest) -> RequestRouter | None:
    """Return the router of a request; None while no scenario runs.

    Raise RunHalted if it is ambiguous.
    """
    if not is_intercepted():
        return None
    if is_copy_of_run():
        text = child_asked(request.method, request.url, protocol_of(request) is not None)
        note_refusal(text)
        raise CallUnattributed(text)
    openings = _openings()
    if len(openings) == 1:
        return openings[0].router
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
    if not openings:
        refuse_library_late(where + belongs, urlsplit(request.url).hostname or "")
        note_refusal(where + belongs, is_late=True)
    raise RunHalted(CallUnattributed(where + belongs))


def child_asked(method: str, url: str, asks_model: bool) -> str:
    """Return the error for a request of a process that the pipeline started."""
    action = "asks a model" if asks_model else "reaches for the network"
    return (
        f"a process that the pipeline started {action}: {method} {url}\n"
        "simkit sees this process only; point the other to `simkit serve`."
    )


def refuse_library_late(text: str, host: str) -> None:
    """Raise ConnectionRefusedError if a library of a run that is over asks a host by itself."""
    owner = current_owner()
    if owner is None or is_providers_host(host) or not library_asking(sys._getframe(1), owner.home):
        return
    raise ConnectionRefusedError(ECONNREFUSED, text)


def _mark_copy() -> None:
    if _open:
        mark_copy_of_run()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_copy)


def allowed_hosts() -> list[AllowedHosts]:
    """Return the allowed hosts of the runs that a connection here may belong to.

    Empty without a run, and inside `forwarding`.
    """
    if not _open or _forwarding.get():
        return []
    return [opening.allowed for opening in _openings()]


@contextmanager
def forwarding(observer: Ending | None = None) -> Iterator[None]:
    """Let this context reach the network for a forwarded request.

    ``observer`` learns of an exception, after which there is no response.
    """
    before = set_until_reset(_forwarding, True, False)
    try:
        yield
    except BaseException as problem:
        if observer is not None:
            observer.ended(problem_text(problem))
        raise
    finally:
        _forwarding.reset(before)


def problem_text(problem: BaseException) -> str:
    """Return an exception as observers learn of it."""
    return f"{type(problem).__name__}: {problem}"


def is_forwarding() -> bool:
    """Return whether a router forwarded the current request."""
    return _forwarding.get()


def is_left_behind() -> bool:
    """Return whether this code belongs to a scenario that has ended."""
    mine = _current.get()
    return mine is not None and mine not in _open and not _forwarding.get()


def context_after_run(owner: Owner) -> contextvars.Context:
    """Return the context of code that outlives a scenario, which holds nothing of the run."""
    context = contextvars.Context()
    context.run(_owner.set, owner)
    context.run(_current.set, _Opening(None, AllowedHosts(()), owner))
    return context


def leave() -> None:
    """Detach this context from its router, for a thread that several runs may share."""
    _current.set(None)


# The scenario that a piece of code belongs to, from the scenario's start to its end


class Owner(msgspec.Struct, eq=False):
    """A scenario that has begun, and may have ended."""

    home: str = ""
    """The top-level package of its code, wherever that is installed."""
    is_over: bool = False
    unfinished: Collection[int] = ()
    """The identifiers of threads that were busy when it ended."""


_owner: Final = contextvars.ContextVar[Owner | None]("simkit_owner", default=None)


def owned_by(owner: Owner) -> Inside[Owner]:
    """Let code in here, and code that it starts, belong to a scenario."""
    return Inside(_owner, owner)


current_owner: Final[Callable[[], Owner | None]] = _owner.get
"""Return the scenario of this code; None if there is none."""


def may_belong_to(owner: Owner | None) -> bool:
    """Return whether this code may belong to a scenario: it is not known to be another's."""
    mine = _owner.get()
    if mine is None or owner is None or mine is owner:
        return True
    return mine.is_over and threading.get_ident() not in mine.unfinished


# Allowed hosts: those that a run may connect to


PATTERNS: Final = "`example.com`, `*.example.com`, `example.com:5432`, or the path of a unix socket"


class HostRule(NamedTuple):
    """One allowed host."""

    host: str
    """The host in lower case; it begins with ``.`` if it means every name below it."""
    port: int | None
    """None for every port."""

    def fits(self, host: str, port: int | None) -> bool:
        """Return whether the rule allows this host; an unknown port fits."""
        if self.port is not None and port is not None and self.port != port:
            return False
        return host.endswith(self.host) if self.host.startswith(".") else host == self.host


def rule(text: str) -> HostRule:
    """Parse a rule as users write it; raise ValueError with the valid forms."""
    host, port = text.strip(), ""
    if host.startswith("["):
        host, _, port = host[1:].partition("]")
        port = port.removeprefix(":")
    elif host.count(":") == 1:
        host, _, port = host.partition(":")
    is_below = host.startswith("*.")
    name = host[1:] if is_below else host
    if "*" in name or not name.strip(".") or (port and not port.isdecimal()):
        raise ValueError(f"`{text}` is no host: write {PATTERNS}")
    host_name = name if name.startswith("/") else name.lower()
    return HostRule(host_name, int(port) if port else None)


class AllowedHosts:
    """Decides which connections are allowed; learns the addresses of resolved names."""

    def __init__(self, hosts: Iterable[str] = ()) -> None:
        self._rules = tuple(map(rule, hosts))
        self._names: dict[str, set[str]] = {}

    def allow(self, host: str, port: int | None) -> bool:
        """Return whether a rule fits the host, or a name that was resolved to this address."""
        if not self._rules:
            return False
        name = host if host.startswith("/") else host.lower().rstrip(".")
        names = (name, *self._names.get(name, ()))
        return any(each.fits(which, port) for each in self._rules for which in names)

    def learn(self, host: str, addresses: Iterable[str]) -> None:
        """Record the addresses of an allowed name."""
        for address in addresses:
            self._names.setdefault(address.lower(), set()).add(host.lower().rstrip("."))


# Observer of a real response that records its pieces, and passes it on at its end


class ChunkRecorder:
    """Keeps the pieces of a response, and when each came, while the client reads it.

    A response that the client left is passed on as far as it was read: as complete if ``is_whole``
    says so, else as cut.
    """

    last_words = b""
    """The bytes that end a broken response, in place of an error; empty for none."""

    def __init__(
        self,
        ended: Callable[[HttpAnswer], None],
        is_whole: Callable[[HttpResponse], bool] = lambda response: True,
    ) -> None:
        self._ended, self._is_whole = ended, is_whole
        self._start = perf_counter()
        self._status, self._headers = 0, Headers()
        self._chunks: list[bytes] = []
        self._offsets_ms: list[int] = []
        self._is_over = False

    def response_started(self, status: int, headers: Headers) -> None:
        """Observe the response's head; not called if the network gave none."""
        self._status, self._headers = status, headers

    def chunk(self, data: bytes) -> None:
        """Observe the next piece of the body, compressed as it was sent, without framing."""
        self._chunks.append(data)
        self._offsets_ms.append(round((perf_counter() - self._start) * 1_000))

    def ended(self, problem: str = "") -> None:
        """Observe the first end of several."""
        if self._is_over:
            return
        self._is_over = True
        self._ended(self._response(problem) if self._status else _nothing(problem))

    def _response(self, problem: str) -> HttpResponse:
        response = HttpResponse(self._status, self._headers, tuple(self._chunks))
        if not streams.is_stream(response):
            # The pieces of a response that is no stream have no meaning.
            response = HttpResponse(self._status, self._headers, (response.body,))
        else:
            befores = [0, *self._offsets_ms]
            pairs = zip(befores, self._offsets_ms, strict=False)
            waits_ms = tuple(after - before for before, after in pairs)
            response = HttpResponse(self._status, self._headers, response.chunks, waits_ms=waits_ms)
        if not problem or (problem == CLOSED_EARLY and self._is_whole(response)):
            return response
        return HttpResponse(
            response.status, response.headers, response.chunks, "cut", response.waits_ms
        )


def _nothing(problem: str) -> NoResponse:
    is_timeout = "timeout" in problem.partition(":")[0].lower()
    return NoResponse("timeout" if is_timeout else "connection", problem)
