"""Lists that a test looks at: compared as a whole, and asked only for what may be in them."""

from __future__ import annotations

from typing import Any, ClassVar, Final, TypeVar

from simkit.errors import MatcherError
from simkit.matchers import Expected, plain
from simkit.matching import kinds
from simkit.matching.kinds import ANYTHING, DROPPED, MESSAGE, Kind, check_kind
from simkit.messages import Dropped, JsonValue, Message

Item = TypeVar("Item")
_ELEMENT_ADVICE: Final = {
    MESSAGE.noun: "write `message(user=…)` or `contains(…)` of `simkit.matchers`",
    DROPPED.noun: "write `message(user=…, by=…)` or `contains(…)` of `simkit.matchers`",
}


class Listed(list[Item]):
    """A list that is compared as a whole, so that every matcher in the other one was asked.

    Whoever asks whether something is in it that no element can ever be gets a ValueError: the
    answer would be no, whatever the run did.
    """

    __hash__ = None
    kind: ClassVar[Kind] = ANYTHING
    """What its elements are."""

    def __contains__(self, wanted: object) -> bool:
        refuse_never(wanted, self.kind)
        return super().__contains__(wanted)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (list, tuple)):
            return NotImplemented
        same = [one == two for one, two in zip(self, other, strict=False)]
        return len(self) == len(other) and all(same)

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal


class Messages(Listed[Message]):
    """Messages in order."""

    kind = MESSAGE


class Drops(Listed[Dropped]):
    """What histories left out."""

    kind = DROPPED


class Names(Listed[str]):
    """Names of sections, tools or agents."""

    kind = kinds.NAME


class Handoffs(Listed[dict[str, JsonValue]]):
    """Requests to pass control."""

    kind = kinds.HANDOFF


class ToolCalls(Listed[dict[str, JsonValue]]):
    """Tool calls in order."""

    kind = kinds.TOOL_CALL


class LogRecords(Listed[dict[str, JsonValue]]):
    """Log records in order."""

    kind = kinds.LOG


class LeftOut(Listed[dict[str, Any]]):
    """Items that sections left out."""

    kind = kinds.ITEM_LEFT_OUT


class Agents(Listed[Any]):
    """Agents in start order; parallel ones as a list."""

    kind = kinds.RAN


def refuse_never(wanted: object, kind: Kind) -> None:
    """Raises ValueError for what no value of a kind is ever equal to."""
    if kind is ANYTHING or isinstance(wanted, (Message, Dropped)):
        return
    # A plain value is equal to a plain value alone: a text or a mapping is no message.
    if isinstance(wanted, Expected):
        problem = _problem(wanted.source, kind)
    elif kind.noun in _ELEMENT_ADVICE:
        problem = f"{wanted!r} is never equal to {kind.noun}: {_ELEMENT_ADVICE[kind.noun]}"
    else:
        problem = _problem(plain(wanted), kind)
    if problem:
        raise ValueError(problem)


def _problem(matcher: Any, kind: Kind) -> str:
    try:
        check_kind(matcher, kind)
    except MatcherError as problem:
        return f"{problem}; {problem.advice}" if problem.advice else str(problem)
    return ""
