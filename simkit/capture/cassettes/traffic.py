"""One scenario's cassette during a run: it answers requests, or records real traffic."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec

from simkit.capture.cassettes.keys import Keying, json_of
from simkit.capture.cassettes.lookup import Player
from simkit.capture.cassettes.missing import Policy, caller
from simkit.capture.cassettes.redacting import Issued, redacted
from simkit.capture.cassettes.saving import save
from simkit.capture.cassettes.values import CALL, Cassette, Interaction, Lane, NotDecodable, decoded
from simkit.core.errors import CassetteInvalid, CassetteMissed
from simkit.core.redact import Redactor
from simkit.providers import mcp, streams
from simkit.providers.http import HttpAnswer, HttpRequest, HttpResponse, NoResponse, header
from simkit.providers.protocols import protocol_of, require_key

# Recording of requests, in the order in which they were sent


class Recorder:
    """Collects interactions; any number of threads may record.

    A call gets its number when it begins, so that parallel calls are recorded in the order in which
    they were sent, whichever is answered first. The stored data contains no secret.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor, self._issued = redactor, Issued(redactor)
        self._started: list[Interaction] = []
        self._ended: dict[int, Interaction] = {}
        self._calls: Counter[Lane] = Counter()
        self._lock = threading.RLock()  # Finalizers may call this again.

    def begin(self, agent: str, turn: int, request: HttpRequest, session: str = "") -> int:
        """Add a request that is about to be sent, and return its number."""
        protocol = protocol_of(request)
        name = protocol.name if protocol else ""
        with self._lock:
            lane = session, turn, agent
            self._calls[lane] += 1
            self._started.append(
                Interaction(
                    request=request,
                    response=_NOTHING,
                    agent=agent,
                    turn=turn,
                    call=self._calls[lane],
                    session=session,
                    protocol=name,
                )
            )
            return len(self._started) - 1

    def restate(self, number: int, request: HttpRequest) -> None:
        """Replace a request by the one that was really sent."""
        self._started[number] = msgspec.structs.replace(self._started[number], request=request)

    def end(self, number: int, response: HttpResponse, recorded_at: str = "") -> None:
        """Add a request's response, with the headers and chunks as they came.

        Raise CassetteInvalid for a body that does not fit its headers.
        """
        plain, started = _decoded(response), self._started[number]
        with self._lock:
            self._issued.learn(plain, [item.request for item in self._started])
            whole = msgspec.structs.replace(
                started,
                request=self._issued.request(started.request),
                response=self._issued.response(plain),
                recorded_at=recorded_at,
            )
            self._ended[number] = redacted(whole, self._redactor)

    def interactions(self) -> tuple[Interaction, ...]:
        """Return the recorded interactions, without unanswered requests."""
        with self._lock:
            return tuple(self._ended[number] for number in sorted(self._ended))


_NOTHING = HttpResponse(200, (), ())


def _decoded(response: HttpResponse) -> HttpResponse:
    """Return the response with its decoded body, without empty pieces."""
    try:
        chunks = decoded_response(response).chunks
    except NotDecodable as error:
        raise CassetteInvalid(f"a response cannot be recorded: {error}") from None
    waits = response.waits_ms or (0,) * len(chunks)
    pieces: list[bytes] = []
    waited: list[int] = []
    pending = 0
    for chunk, wait in zip(chunks, waits, strict=False):
        pending += wait
        if chunk:
            pieces.append(chunk)
            waited.append(pending)
            pending = 0
    return msgspec.structs.replace(
        response,
        chunks=tuple(pieces) or (b"",),
        waits_ms=tuple(waited) if response.waits_ms and pieces else (),
    )


Shape: TypeAlias = Mapping[str, frozenset[str]]
"""A path, with ``[]`` for list indices, to the types of value there."""

OPAQUE: Final = frozenset(("args", "input", "parameters", "schema"))
"""Keys with values that a model made up, or that were sent."""
DIFFERENCES_MAX: Final = 20
_KINDS: Final[Mapping[type, str]] = {
    dict: "mapping",
    list: "list",
    str: "text",
    bool: "boolean",
    int: "number",
    float: "number",
    type(None): "null",
}


def shape_of(response: HttpResponse) -> Shape:
    """Return the shape of a response; of a stream, the shape of all its events together."""
    shape: dict[str, set[str]] = {"status": {str(response.status)}}
    media = header(response.headers, "content-type").partition(";")[0].strip().lower()
    shape["content-type"] = {media or "none"}
    bodies = [("body", response.body)]
    if streams.is_stream(response):
        bodies = [("events[]", data.encode()) for _, data in streams.events(response)]
    for at, body in bodies:
        try:
            entries = list(_entries(json_of(body), at))
        except ValueError:
            entries = [(at, "other")] if body else []
        for path, kind in entries:
            shape.setdefault(path, set()).add(kind)
    return {path: frozenset(kinds) for path, kinds in shape.items()}


def _entries(value: Any, at: str) -> Iterator[tuple[str, str]]:
    yield at, _KINDS.get(type(value), "other")
    if isinstance(value, dict):
        for key, below in value.items():
            if key in OPAQUE:
                yield f"{at}.{key}", "anything"
            else:
                yield from _entries(below, f"{at}.{key}")
    elif isinstance(value, list):
        for below in value:
            yield from _entries(below, f"{at}[]")


def shape_differences(recorded: Shape, now: Shape) -> list[str]:
    """Return the differences of two shapes, a line for each outermost path."""
    lines: list[str] = []
    difference_lines: list[str] = []
    for path in [*recorded, *(path for path in now if path not in recorded)]:
        left, right = recorded.get(path), now.get(path)
        if left == right or any(
            path.startswith((f"{near}.", f"{near}[")) for near in difference_lines
        ):
            continue
        difference_lines.append(path)
        if left is None or right is None:
            sign, kinds = ("+", right) if left is None else ("-", left)
            lines.append(f"{sign} {path}: {_words(kinds)}")
        else:
            lines.append(f"~ {path}: {_words(left)} → {_words(right)}")
    more = len(lines) - DIFFERENCES_MAX
    return [*lines[:DIFFERENCES_MAX], *([f"… {more} more"] if more > 0 else [])]


def _words(kinds: frozenset[str] | None) -> str:
    return " or ".join(sorted(kinds or ()))


# One scenario's cassette during a run: it answers requests, or records real traffic


Mode: TypeAlias = Literal["none", "once", "new_episodes", "all", "verify"]
MODES: Final[tuple[Mode, ...]] = ("none", "once", "new_episodes", "all", "verify")


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a scenario's traffic."""

    scenario: str = ""
    policy: Policy = "content"
    mode: Mode = "none"
    now: str = ""
    """The time of recording, ISO 8601."""
    again: str = "simkit record"
    """The command that records the scenario again."""
    cassette: str = ""
    """The file's name in messages; if empty, its path."""
    tools: frozenset[str] = frozenset()
    """The pipeline's own tools whose calls are recorded."""
    first_live_turn: int = 1
    """The first turn whose requests are sent; the cassette answers those before, and what it
    answers is recorded again."""
    observer: TrafficObserver | None = None
    """The object that learns of each request that is sent, and of its answer."""


class TrafficObserver(Protocol):
    """Learns of real traffic, and may stop it."""

    def before_request(self, exchange: Exchange) -> None:
        """Learn of a request that is about to be sent; raise SimkitError to refuse it."""

    def after_answer(self, exchange: Exchange, answer: HttpAnswer) -> None:
        """Learn of the complete answer to a request."""


class Exchange(msgspec.Struct, frozen=True):
    """One request to a cassette, and its answer."""

    number: int
    """Its index among all requests."""
    agent: str
    turn: int
    request: HttpRequest
    recorded: HttpResponse | None
    """The recorded response, if it is to be used; else None."""
    answer: HttpResponse | None
    """The answer; None if the request must really be sent."""


class Traffic:
    """One scenario's part of a file, and what is recorded.

    Mode ``none`` only replays. ``once`` records if the file has nothing of the scenario, and
    otherwise replays; ``new_episodes`` records requests that the file does not answer; ``all``
    records everything again; ``verify`` sends everything, and compares it with the file.
    """

    def __init__(self, cassette: Cassette, keying: Keying, terms: Terms) -> None:
        self.mode = terms.mode
        self.cassette = heard_by(cassette, terms.scenario, terms.mode in ("none", "verify"))
        """The interactions of this scenario in the file."""
        self._terms, self._keying = terms, keying
        self._player = Player(
            self.cassette, keying, terms.policy, again=terms.again, name=terms.cassette
        )
        self._recorder = Recorder(keying.redactor)
        self._waiting: dict[int, HttpRequest] = {}
        self._problem: CassetteInvalid | None = None
        """Why the traffic cannot be recorded; None if it can."""
        self.is_live = terms.mode in ("all", "verify", "new_episodes") or (
            terms.mode == "once" and not self.cassette.interactions
        )
        """Whether real traffic is allowed."""
        self.turns: Sequence[int] = ()
        """The numbers of this run's turns at recording time."""
        self.differences: list[str] = []
        """The differences that ``verify`` found between current and recorded traffic."""

    @property
    def knows_others(self) -> bool:
        """Return whether requests that are no model calls are part of it."""
        return self.is_live or any(map(_is_other, self.cassette.interactions))

    def records(self, tool: str) -> bool:
        """Return whether a tool's calls are recorded."""
        return tool in self._terms.tools

    def ask(self, agent: str, turn: int, session: str, request: HttpRequest) -> Exchange:
        """Return the answer to a request; raise CassetteMissed if there is none."""
        turn = self.turns[turn - 1] if self.turns else turn
        # An answered request has a number too, so that calls are numbered as the agent makes them.
        number = self._recorder.begin(agent, turn, request, session)
        recorded = None
        if turn < self._terms.first_live_turn:
            recorded = self._player.take(agent, turn, request, session)
            self._recorder.end(number, recorded, self._terms.now)
        elif not self.is_live or self.mode not in ("all", "once"):
            try:
                recorded = self._player.take(agent, turn, request, session)
            except CassetteMissed as miss:
                if not self.is_live:
                    raise
                if self.mode == "verify":
                    self.differences.append(str(miss))
        answer = recorded if self.mode != "verify" else None
        return Exchange(number, agent, turn, request, recorded, answer)

    def wait_for(self, exchange: Exchange) -> None:
        """Record that a request is sent: it has no answer yet.

        Raise SimkitError if the observer refuses it, or its key is missing.
        """
        require_key(exchange.request)
        if self._terms.observer is not None:
            self._terms.observer.before_request(exchange)
        self._waiting[exchange.number] = exchange.request

    def answered(
        self, exchange: Exchange, answer: HttpAnswer, forwarded: HttpRequest | None = None
    ) -> None:
        """Record a real answer; ``forwarded`` is the request as a client sent it.

        If that differs from the question here, because another version of a client writes it
        differently, it is recorded as it was asked, so that replay finds it.
        """
        if self._terms.observer is not None:
            self._terms.observer.after_answer(exchange, answer)
        if isinstance(answer, HttpResponse):
            self._waiting.pop(exchange.number, None)
        if self.mode == "verify":
            if exchange.recorded is not None:
                self._compare(exchange, exchange.recorded, answer)
        elif isinstance(answer, HttpResponse):
            try:
                if forwarded is not None and self._is_like(forwarded, exchange.request):
                    self._recorder.restate(exchange.number, forwarded)
                self._recorder.end(exchange.number, answer, self._terms.now)
            except CassetteInvalid as problem:
                self._problem = problem

    def _is_like(self, left: HttpRequest, right: HttpRequest) -> bool:
        question = self._keying.question
        return question(left).is_like(question(right))

    def _compare(self, exchange: Exchange, recorded: HttpResponse, answer: HttpAnswer) -> None:
        if isinstance(answer, NoResponse):
            lines = [f"there is no answer: {answer.message}"]
        else:
            try:
                lines = _differences(exchange.request, recorded, decoded_response(answer))
            except NotDecodable as problem:
                lines = [f"the answer cannot be read: {problem}"]
        if lines:
            agent, request = exchange.agent, exchange.request
            owner = caller(agent, request.method)
            url = self._keying.redactor.url(request.url)
            file = self._terms.cassette or self.cassette.path
            self.differences.append(
                "\n".join(
                    [
                        f"{file}: {owner} in turn {exchange.turn} gets another answer than the "
                        f"recorded one: {request.method} {url}",
                        *(f"  {line}" for line in lines),
                        f"  if the new answer is right, record again: {self._terms.again}",
                    ]
                )
            )

    def unanswered(self) -> list[str]:
        """Return the requests that were sent and got no complete answer, a line for each."""
        url = self._keying.redactor.url
        return [f"{request.method} {url(request.url)}" for request in self._waiting.values()]

    def unplayed(self) -> list[str]:
        """Return the unused interactions, a line for each: agent, turn and address."""
        if self.mode == "all" or (self.mode == "once" and self.is_live):
            return []
        return [
            f"interactions[{self.cassette.place_of(number)}]: "
            f"{item.request.method} {item.request.url}"
            + (f", agent {item.agent!r} in turn {item.turn}" if item.agent else "")
            for number, item in self._player.unplayed()
        ]

    def drifted(self) -> list[str]:
        """Return the requests that differ from their recordings, a line for each."""
        place_of = self.cassette.place_of
        return [
            f"agent {drift.agent!r} in turn {drift.turn}: interactions[{place_of(drift.number)}]"
            for drift in self._player.drifts()
        ]

    def save(self, path: Path) -> int:
        """Write the recorded interactions; return their number. Raise CassetteInvalid."""
        if self.mode in ("none", "verify"):
            return 0
        if self._problem is not None:
            raise self._problem
        name = self._terms.scenario
        waiting = [
            msgspec.structs.replace(item, scenario=name) for item in self._recorder.interactions()
        ]
        if not waiting:
            return 0
        # `once` found an empty file; anything in it now was recorded by another process.
        is_whole = self.mode in ("all", "once")
        save(
            path,
            waiting,
            self._keying,
            placed=(lambda now: _in_place(now, name, waiting)) if is_whole else None,
        )
        return len(waiting)


def _differences(request: HttpRequest, recorded: HttpResponse, now: HttpResponse) -> list[str]:
    """Return how an answer differs: a server's lists by their values, all others by shape."""
    changes = mcp.changes(request, recorded, now) if request.method == mcp.RECORDED else None
    return shape_differences(shape_of(recorded), shape_of(now)) if changes is None else changes


def heard_by(cassette: Cassette, scenario: str, takes_all: bool) -> Cassette:
    """Return the interactions of a cassette that belong to a scenario, or to none.

    If there are neither, a scenario with ``takes_all`` gets everything: it was renamed, or is a
    variant of the recorded one.
    """
    items = cassette.interactions
    numbers = [n for n, item in enumerate(items) if item.scenario in ("", scenario)]
    if len(numbers) == len(items) or (takes_all and not numbers):
        return cassette
    return msgspec.structs.replace(
        cassette, interactions=tuple(items[n] for n in numbers), places=tuple(numbers)
    )


def _in_place(
    cassette: Cassette, scenario: str, interactions: list[Interaction]
) -> tuple[Interaction, ...]:
    """Return the new content of a file: a scenario's interactions keep their places."""
    items = cassette.interactions
    is_own = [item.scenario in ("", scenario) for item in items]
    first = is_own.index(True) if True in is_own else len(items)
    others = [item for item, own in zip(items, is_own, strict=True) if not own]
    return (*others[:first], *interactions, *others[first:])


def _is_other(item: Interaction) -> bool:
    return not item.protocol and item.request.method not in (CALL, mcp.RECORDED)


def decoded_response(response: HttpResponse) -> HttpResponse:
    """Return an uncompressed response; raise NotDecodable."""
    encodings = header(response.headers, "content-encoding")
    return msgspec.structs.replace(response, chunks=decoded(response.chunks, encodings))
