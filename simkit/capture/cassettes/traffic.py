"""One scenario's cassette at work: it answers what is asked, or takes in what really came."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from simkit.capture.cassettes.encodings import NotDecodable, decoded
from simkit.capture.cassettes.keys import Keying
from simkit.capture.cassettes.lookup import Player
from simkit.capture.cassettes.reasons import Policy
from simkit.capture.cassettes.recording import Recorder
from simkit.capture.cassettes.saving import save
from simkit.capture.cassettes.shapes import shape_differences, shape_of
from simkit.capture.cassettes.values import Cassette, Interaction
from simkit.core.errors import CassetteInvalid, CassetteMissed
from simkit.providers.http import HttpAnswer, HttpRequest, HttpResponse, NoResponse, header

Mode: TypeAlias = Literal["none", "once", "new_episodes", "all", "verify"]
MODES: Final[tuple[Mode, ...]] = ("none", "once", "new_episodes", "all", "verify")


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """How a scenario's traffic is answered and recorded."""

    scenario: str = ""
    policy: Policy = "content"
    mode: Mode = "none"
    now: str = ""
    """When something is recorded, ISO 8601."""
    again: str = "simkit record"
    """The command that records it again."""
    cassette: str = ""
    """How messages name the file; its path, where nothing is said."""
    tools: frozenset[str] = frozenset()
    """The pipeline's own tools whose calls are recorded."""


class Exchange(msgspec.Struct, frozen=True):
    """One request that was asked of a cassette, and what it answers."""

    number: int
    """Its place among all that was asked."""
    agent: str
    turn: int
    request: HttpRequest
    recorded: HttpResponse | None
    """What was recorded, if that is to count."""
    answer: HttpResponse | None
    """What answers it; None where it is really to be sent."""


class Traffic:
    """What a file holds of one scenario, and what is to become of it.

    ``none`` only replays. ``once`` records where the file holds nothing of the scenario, and else
    replays; ``new_episodes`` records what the file does not answer; ``all`` records everything
    anew; ``verify`` sends everything, and holds it against the file.
    """

    def __init__(self, cassette: Cassette, keying: Keying, terms: Terms) -> None:
        self.mode = terms.mode
        self.cassette = heard_by(cassette, terms.scenario, terms.mode in ("none", "verify"))
        """What the file holds of this scenario."""
        self._terms, self._keying = terms, keying
        self._player = Player(
            self.cassette, keying, terms.policy, again=terms.again, name=terms.cassette
        )
        self._recorder = Recorder(keying.redactor)
        self._waiting: dict[int, HttpRequest] = {}
        self._problem: CassetteInvalid | None = None
        """Why what came cannot be recorded."""
        self.is_live = terms.mode in ("all", "verify", "new_episodes") or (
            terms.mode == "once" and not self.cassette.interactions
        )
        """Whether real traffic may flow."""
        self.turns: Sequence[int] = ()
        """The numbers that the turns of this run had when they were recorded; else the same."""
        self.differences: list[str] = []
        """What ``verify`` found: where what is sent or answered now is not what was recorded."""

    @property
    def knows_others(self) -> bool:
        """Whether requests that are no model calls have a part in it."""
        return self.is_live or any(map(_is_other, self.cassette.interactions))

    def records(self, tool: str) -> bool:
        """Return whether a tool's calls are recorded."""
        return tool in self._terms.tools

    def ask(self, agent: str, turn: int, session: str, request: HttpRequest) -> Exchange:
        """Return what answers a request; raise CassetteMissed where nothing may."""
        turn = self.turns[turn - 1] if self.turns else turn
        # What is answered has its place too: so calls are numbered as the agent makes them.
        number = self._recorder.begin(agent, turn, request, session)
        recorded = None
        if not self.is_live or self.mode not in ("all", "once"):
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
        """Record that a request is sent: it has no answer before one `came`."""
        self._waiting[exchange.number] = exchange.request

    def answered(
        self, exchange: Exchange, answer: HttpAnswer, forwarded: HttpRequest | None = None
    ) -> None:
        """Take in what was really answered; ``forwarded`` is the request as a client sent it.

        One that asks something else than was asked here, as clients of other versions may write
        it, is recorded as it was asked: so replay finds it.
        """
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
                lines = shape_differences(shape_of(recorded), shape_of(decoded_response(answer)))
            except NotDecodable as problem:
                lines = [f"the answer cannot be read: {problem}"]
        if lines:
            agent, request = exchange.agent, exchange.request
            owner = f"agent {agent!r}" if agent else "a call of no agent"
            url = self._keying.redactor.url(request.url)
            file = self._terms.cassette or self.cassette.path
            self.differences.append(
                "\n".join(
                    [
                        f"{file}: {owner} in turn {exchange.turn} is answered "
                        f"otherwise than was recorded: {request.method} {url}",
                        *(f"  {line}" for line in lines),
                        f"  if that is how it is now, record again: {self._terms.again}",
                    ]
                )
            )

    def unanswered(self) -> list[str]:
        """Return the requests that were sent and had no whole answer, a line for each."""
        url = self._keying.redactor.url
        return [f"{request.method} {url(request.url)}" for request in self._waiting.values()]

    def unplayed(self) -> list[str]:
        """Return what answered nothing, a line for each: agent, turn and address."""
        if self.mode == "all" or (self.mode == "once" and self.is_live):
            return []
        return [
            f"interactions[{self.cassette.place_of(number)}]: "
            f"{item.request.method} {item.request.url}"
            + (f", agent {item.agent!r} in turn {item.turn}" if item.agent else "")
            for number, item in self._player.unplayed()
        ]

    def drifted(self) -> list[str]:
        """Return where another request was answered than was recorded, a line for each."""
        place_of = self.cassette.place_of
        return [
            f"agent {drift.agent!r} in turn {drift.turn}: interactions[{place_of(drift.number)}]"
            for drift in self._player.drifts()
        ]

    def save(self, path: Path) -> int:
        """Write what was recorded; return how many interactions. Raises CassetteInvalid."""
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
        # `once` records where nothing was there; what is there now, another process recorded.
        is_whole = self.mode in ("all", "once")
        save(
            path,
            waiting,
            self._keying,
            placed=(lambda now: _in_place(now, name, waiting)) if is_whole else None,
        )
        return len(waiting)


def heard_by(cassette: Cassette, scenario: str, takes_all: bool) -> Cassette:
    """Return of a cassette what belongs to a scenario: its own, and what is nobody's.

    Where there is neither, a scenario that ``takes_all`` gets everything: it was renamed, or is a
    variant of the one that was recorded.
    """
    items = cassette.interactions
    places = [n for n, item in enumerate(items) if item.scenario in ("", scenario)]
    if len(places) == len(items) or (takes_all and not places):
        return cassette
    return msgspec.structs.replace(
        cassette, interactions=tuple(items[n] for n in places), places=tuple(places)
    )


def _in_place(
    cassette: Cassette, scenario: str, interactions: list[Interaction]
) -> tuple[Interaction, ...]:
    """Return what a file is to hold: a scenario's interactions stand where they stood."""
    items = cassette.interactions
    is_own = [item.scenario in ("", scenario) for item in items]
    first = is_own.index(True) if True in is_own else len(items)
    others = [item for item, own in zip(items, is_own, strict=True) if not own]
    return (*others[:first], *interactions, *others[first:])


def _is_other(item: Interaction) -> bool:
    return not item.protocol and item.request.method != "CALL"


def decoded_response(response: HttpResponse) -> HttpResponse:
    """Return a response as it was before it was compressed; raise NotDecodable."""
    encodings = header(response.headers, "content-encoding")
    return msgspec.structs.replace(response, chunks=decoded(response.chunks, encodings))
