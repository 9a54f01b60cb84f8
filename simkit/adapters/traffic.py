"""Answers from recorded traffic, and real traffic that is recorded as it goes by."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from simkit.adapters.hearing import Call
from simkit.adapters.scribe import Scribe
from simkit.adapters.shapes import shape_differences, shape_of
from simkit.adapters.taps import Listener
from simkit.adapters.tool_traffic import real_result, result_of, tool_request
from simkit.cassettes import Cassette, Interaction, Keying, Player, Policy, Recorder, save
from simkit.cassettes.encodings import NotDecodable, decoded
from simkit.errors import CassetteInvalid, CassetteMissed, WireInvalid
from simkit.messages import JsonValue
from simkit.transports.gate import Decision, Forward
from simkit.wire.http import HttpAnswer, HttpRequest, HttpResponse, NoResponse, header

Mode: TypeAlias = Literal["none", "once", "new_episodes", "all", "verify"]
MODES: Final[tuple[Mode, ...]] = ("none", "once", "new_episodes", "all", "verify")

Told: TypeAlias = Callable[[HttpAnswer], None]
"""Takes the whole answer to a model call."""


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """How a scenario's traffic is answered and recorded."""

    scenario: str = ""
    policy: Policy = "content"
    mode: Mode = "none"
    now: str = ""
    """When something is recorded, ISO 8601."""
    again: str = "simkit record"
    """The command that records it again."""
    tools: frozenset[str] = frozenset()
    """The pipeline's own tools whose calls are recorded."""


class Traffic:
    """One scenario's cassette at work: it answers, or what it does not know is let through.

    ``none`` only replays. ``once`` records where the file holds nothing of the scenario, and else
    replays; ``new_episodes`` records what the file does not answer; ``all`` records everything
    anew; ``verify`` sends everything, and holds it against the file.
    """

    def __init__(self, cassette: Cassette, keying: Keying, terms: Terms) -> None:
        self.mode = terms.mode
        self.cassette = heard_by(cassette, terms.scenario, terms.mode in ("none", "verify"))
        """What the file holds of this scenario."""
        self._terms, self._keying = terms, keying
        self._player = Player(self.cassette, keying, terms.policy, terms.again)
        self._recorder = Recorder(keying.redactor)
        self._waiting: dict[int, HttpRequest] = {}
        self._problem: CassetteInvalid | None = None
        """Why what came cannot be recorded."""
        self.is_live = terms.mode in ("all", "verify", "new_episodes") or (
            terms.mode == "once" and not self.cassette.interactions
        )
        """Whether real traffic may flow."""
        self.differences: list[str] = []
        """What ``verify`` found: where what is sent or answered now is not what was recorded."""

    def decide(self, call: Call, scribe: Scribe, told: Told) -> Decision:
        """Answers a model call, or lets it through; raises CassetteMissed."""
        recorded, number = self._asked(call.run.agent, call.request, scribe)
        if recorded is not None and self.mode != "verify":
            told(recorded)
            return recorded

        def ended(answer: HttpAnswer) -> None:
            self._came(number, call.run.agent, call.request, recorded, answer, scribe.turn)
            told(answer)

        self._waiting[number] = call.request
        return Forward(Listener(ended, lambda response: _is_whole(response, call)))

    def decide_other(self, request: HttpRequest, agent: str, scribe: Scribe) -> Decision | None:
        """Answers a request that is no model call; None where the cassette knows of no such."""
        agent = agent or _at_work(scribe)
        if not self.is_live and not any(map(_is_other, self.cassette.interactions)):
            return None
        recorded, number = self._asked(agent, request, scribe)
        if recorded is not None and self.mode != "verify":
            return recorded

        def ended(answer: HttpAnswer) -> None:
            self._came(number, agent, request, recorded, answer, scribe.turn)

        self._waiting[number] = request
        return Forward(Listener(ended, lambda response: True))

    def records(self, tool: str) -> bool:
        """Whether a tool's calls are recorded."""
        return tool in self._terms.tools

    def carried_out(
        self, tool: str, args: JsonValue, agent: str, scribe: Scribe, real: Callable[[], Any]
    ) -> Any:
        """Returns a tool's result, or an awaitable of it: the recorded one, or the real one.

        Raises CassetteMissed, ToolFailed where the recorded call failed, and CassetteInvalid for a
        result that is no plain data.
        """
        request = tool_request(tool, args)
        recorded, number = self._asked(agent, request, scribe)
        if recorded is not None and self.mode != "verify":
            return result_of(recorded)
        turn = scribe.turn
        return real_result(
            tool, real,
            lambda answer: self._came(number, agent, request, recorded, answer, turn),
        )  # fmt: skip

    def _asked(
        self, agent: str, request: HttpRequest, scribe: Scribe
    ) -> tuple[HttpResponse | None, int]:
        """Returns what was recorded, if that is to count, and the number of what is asked."""
        turn, session = scribe.turn, scribe.session
        # What is answered has its place too: so calls are numbered as the agent makes them.
        number = self._recorder.begin(agent, turn, request, session)
        if self.is_live and self.mode in ("all", "once"):
            return None, number
        try:
            return self._player.take(agent, turn, request, session), number
        except CassetteMissed as miss:
            if not self.is_live:
                raise
            if self.mode == "verify":
                self.differences.append(str(miss))
            return None, number

    def _came(
        self, number: int, agent: str, request: HttpRequest, recorded: HttpResponse | None,
        answer: HttpAnswer, turn: int,
    ) -> None:  # fmt: skip
        """Takes in what was really answered."""
        if isinstance(answer, HttpResponse):
            self._waiting.pop(number, None)
        if self.mode == "verify":
            if recorded is not None:
                self._compare(agent, request, recorded, answer, turn)
        elif isinstance(answer, HttpResponse):
            try:
                self._recorder.end(number, answer, self._terms.now)
            except CassetteInvalid as problem:
                self._problem = problem

    def _compare(
        self, agent: str, request: HttpRequest, recorded: HttpResponse, answer: HttpAnswer,
        turn: int,
    ) -> None:  # fmt: skip
        if isinstance(answer, NoResponse):
            lines = [f"there is no answer: {answer.message}"]
        else:
            try:
                lines = shape_differences(shape_of(recorded), shape_of(_plain(answer)))
            except NotDecodable as problem:
                lines = [f"the answer cannot be read: {problem}"]
        if lines:
            whose = f"agent {agent!r}" if agent else "a call of no agent"
            url = self._keying.redactor.url(request.url)
            self.differences.append(
                "\n".join(
                    [
                        f"{self.cassette.path}: {whose} in turn {turn} is answered otherwise than "
                        f"was recorded: {request.method} {url}",
                        *(f"  {line}" for line in lines),
                        f"  if that is how it is now, record again: {self._terms.again}",
                    ]
                )
            )

    def unanswered(self) -> list[str]:
        """Returns the requests that were sent and had no whole answer, a line for each."""
        url = self._keying.redactor.url
        return [f"{one.method} {url(one.url)}" for one in self._waiting.values()]

    def unplayed(self) -> list[str]:
        """Returns what answered nothing, a line for each: agent, turn and address."""
        if self.mode == "all" or (self.mode == "once" and self.is_live):
            return []
        return [
            f"interactions[{self.cassette.place_of(number)}]: "
            f"{item.request.method} {item.request.url}"
            + (f", agent {item.agent!r} in turn {item.turn}" if item.agent else "")
            for number, item in self._player.unplayed()
        ]

    def drifted(self) -> list[str]:
        """Returns where another request was answered than was recorded, a line for each."""
        place_of = self.cassette.place_of
        return [
            f"agent {drift.agent!r} in turn {drift.turn}: interactions[{place_of(drift.number)}]"
            for drift in self._player.drifts()
        ]

    def save(self, path: Path) -> int:
        """Writes what was recorded; returns how many interactions. Raises CassetteInvalid."""
        if self.mode in ("none", "verify"):
            return 0
        if self._problem is not None:
            raise self._problem
        name = self._terms.scenario
        found = [
            msgspec.structs.replace(item, scenario=name) for item in self._recorder.interactions()
        ]
        if not found:
            return 0
        # `once` records where nothing was there; what is there now, another process recorded.
        is_whole = self.mode in ("all", "once")
        save(
            path, found, self._keying,
            placed=(lambda now: _in_place(now, name, found)) if is_whole else None,
        )  # fmt: skip
        return len(found)


def heard_by(cassette: Cassette, scenario: str, takes_all: bool) -> Cassette:
    """Returns of a cassette what belongs to a scenario: its own, and what is nobody's.

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
    cassette: Cassette, scenario: str, found: list[Interaction]
) -> tuple[Interaction, ...]:
    """Returns what a file is to hold: a scenario's interactions stand where they stood."""
    items = cassette.interactions
    is_own = [item.scenario in ("", scenario) for item in items]
    first = is_own.index(True) if True in is_own else len(items)
    others = [item for item, own in zip(items, is_own, strict=True) if not own]
    return (*others[:first], *found, *others[first:])


def _at_work(scribe: Scribe) -> str:
    """Returns the agent that is at work; empty where that is none, or not one alone."""
    open_runs = {run.agent for run in scribe.runs if not run.is_over}
    return next(iter(open_runs)) if len(open_runs) == 1 else ""


def _is_other(item: Interaction) -> bool:
    return not item.protocol and item.request.method != "CALL"


def _plain(response: HttpResponse) -> HttpResponse:
    encodings = header(response.headers, "content-encoding")
    return msgspec.structs.replace(response, chunks=decoded(response.chunks, encodings))


def _is_whole(response: HttpResponse, call: Call) -> bool:
    """Whether a model call's response says all that it had to say."""
    try:
        return call.protocol.heard(_plain(response), call.asked).error is None
    except (WireInvalid, NotDecodable):
        return False
