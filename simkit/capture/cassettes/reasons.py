"""Reasons: why no recording answers a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from simkit.capture.cassettes.keys import Question
from simkit.capture.cassettes.values import Cassette, Lane, lane_of
from simkit.providers.http import HttpRequest

Policy: TypeAlias = Literal["content", "per-agent", "strict"]
"""``content``: the next recording of the same request. ``per-agent``: the agent's next recording
in the turn, even of another request, which is a drift. ``strict``: the agent's next recording in
the turn, if it is of the same request."""

POLICIES: Final[tuple[str, ...]] = get_args(Policy)

Reason: TypeAlias = Literal[
    "no cassette",
    "already played",
    "used up",
    "out of order",
    "other turn",
    "other agent",
    "differs",
    "nothing similar",
]


class Asking(msgspec.Struct, frozen=True, gc=False):
    """A request that is looked up, and its agent."""

    agent: str
    turn: int
    session: str
    request: HttpRequest
    """The redacted request."""
    question: Question


class PlayState(msgspec.Struct, frozen=True):
    """A cassette during replay: the questions of its interactions, and which were used."""

    cassette: Cassette
    name: str
    """The file's name in messages."""
    questions: Sequence[Question]
    played: bytes


class Why(msgspec.Struct, frozen=True, gc=False):
    """The reason why no recording answers."""

    reason: Reason
    number: int | None = None
    """The index of the recording that it concerns; None if none."""
    same: int = 0
    """The number of recordings of the same request; if used up, how many there were."""


def why_missed(call: Asking, state: PlayState, policy: Policy) -> Why:
    """Return why no recording answers; ``differs`` without a number if none asks the same."""
    if not state.cassette.is_there:
        return Why("no cassette")
    if policy == "content":
        return _why_not_found(call, state)
    lane = call.session, call.turn, call.agent
    its_own = _places_in(lane, state)
    left = [number for number in its_own if not state.played[number]]
    if its_own and not left:
        return Why("used up", its_own[-1], len(its_own))
    if not left:
        return _why_not_found(call, state)
    same = _same(call, state)
    # The agent's next recording is the request that it should have sent.
    is_later = any(number in same for number in left)
    return Why("out of order" if is_later else "differs", left[0], len(same))


def _why_not_found(call: Asking, state: PlayState) -> Why:
    items = state.cassette.interactions
    same = _same(call, state)
    mine = [number for number in same if items[number].agent in (call.agent, "")]
    for number in mine:
        if not state.played[number]:
            return Why("other turn", number, len(same))
    if mine:
        return Why("already played", mine[-1], len(mine))
    return Why("other agent", same[0], len(same)) if same else Why("differs")


def _places_in(lane: Lane, state: PlayState) -> list[int]:
    items = state.cassette.interactions
    return [number for number, item in enumerate(items) if lane_of(item) == lane]


def _same(call: Asking, state: PlayState) -> list[int]:
    """Return the indices of recordings that ask the same, of any agent."""
    return [number for number, other in enumerate(state.questions) if call.question.is_like(other)]
