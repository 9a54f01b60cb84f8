"""Turns in time: moments at which one is cut, orders of calls that wait, turns that repeat."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from pydantic import BeforeValidator, WithJsonSchema

from simkit.core.messages import ABSENT
from simkit.core.text import late_pattern
from simkit.language.paths import as_text, lookup, with_texts, words_in
from simkit.language.yaml import Document, SourcePath
from simkit.spec.fields import TEXT_SCHEMA, Positive, TextValue, YamlModel, refuse, shown_value
from simkit.spec.refers_to import RefersTo

AT_START: Final = "start"
AT_END: Final = "end"
ANY_TOOL: Final = "*"
"""The name that stands for any tool."""


class Moment(YamlModel):
    """A moment in a turn: a model call waits for its answer, or a tool begins or ends."""

    noun: ClassVar[str] = "key of a moment"

    agent: Annotated[TextValue, RefersTo("agent")] | None = None
    """The agent that makes the call; without it, any agent."""
    tool: Annotated[TextValue, RefersTo("tool", also=(ANY_TOOL,))] | None = None
    """The tool that is called; `"*"` is any tool. Without it, the call is one of a model."""
    call: Positive = 1
    """The number of the call in the turn, from 1: of the agent's calls, or of all. Calls of tools
    are counted as they begin."""
    at: Literal["start", "end"] = AT_START
    """The moment of the tool's call: `start`, before it does anything, or `end`, after its effect
    and before anybody has its result."""
    is_certain: ClassVar[bool] = True
    """Whether a turn that does not come to it is an error."""


class PossibleMoment(Moment):
    """A moment that a turn may not come to: a model decides which calls it makes."""

    is_certain: ClassVar[bool] = False


def _of_a_call(value: Any) -> Any:
    if isinstance(value, dict) and "at" in value and "tool" not in value:
        raise refuse(
            "`at` says when in a tool's call, and no tool is named",
            advice="Name it: `tool: refund`. A model call is cut while it waits for its answer.",
            at=("at",),
        )
    return value


CutMoment = Annotated[Moment, BeforeValidator(_of_a_call)]


FIFO: Final = "fifo"
TOOL_MARK: Final = "()"
"""The end of a tool's name in an order, where other names are those of agents."""
EXHAUSTIVE: Final = "exhaustive"
SCHEDULES: Final = (FIFO, "random", "pct")
"""The words for how an order is chosen."""
SIMULATION_SCHEDULES: Final = (*SCHEDULES, EXHAUSTIVE)
"""Those of simulations, which may run every conversation."""


def _one_of(words: Sequence[str]) -> BeforeValidator:
    """Return the validator of one of some words for how an order is chosen."""
    listed = f"{', '.join(words[:-1])} or {words[-1]}"

    def check(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            raise refuse(
                "an order of calls stands in the turn that makes them",
                advice=f"Write it beside `user:`. Here stands {listed}.",
            )
        if value not in words:
            is_each = value == EXHAUSTIVE
            raise refuse(
                f"must be {listed}, not {shown_value(value)}",
                () if is_each else tuple(words),
                str(value),
                "Every order is taken by a simulation: `schedule: exhaustive` in its file, or "
                "`simkit explore --exhaustive`."
                if is_each
                else "",
            )
        return value

    return BeforeValidator(check)


def _schema(words: Sequence[str]) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "enum": [*words]})


Schedule = Annotated[str, _one_of(SCHEDULES), _schema(SCHEDULES)]
SimulationSchedule = Annotated[str, _one_of(SIMULATION_SCHEDULES), _schema(SIMULATION_SCHEDULES)]


def _order(value: Any) -> Any:
    if isinstance(value, str) and value in SIMULATION_SCHEDULES:
        raise refuse(
            "a turn lists its calls; how they are chosen is said once for all turns",
            advice=f"Write `schedule: {value}` beside `turns:`.",
        )
    return value


_TEXTS_SCHEMA: Final[dict[str, Any]] = {"type": "array", "items": TEXT_SCHEMA}
Order = Annotated[
    tuple[TextValue | tuple[TextValue, ...], ...],
    BeforeValidator(_order),
    WithJsonSchema({"type": "array", "items": {"anyOf": [TEXT_SCHEMA, _TEXTS_SCHEMA]}}),
]


def flat_order(order: Sequence[str | Sequence[str]]) -> Iterator[tuple[tuple[int, ...], str]]:
    """Yield each name of an order with its path; one in a group of answers has two numbers."""
    for index, entry in enumerate(order):
        if isinstance(entry, str):
            yield (index,), entry
        else:
            yield from (((index, number), name) for number, name in enumerate(entry))


def places_of_orders(data: Mapping[str, Any]) -> Iterator[SourcePath]:
    """Yield the path of each key of a scenario that asks for an order other than `FIFO`."""
    if data.get("schedule", FIFO) != FIFO:
        yield ("schedule",)
    for index, turn in enumerate(data["turns"]):
        if turn.get("schedule"):
            yield ("turns", index, "schedule")


_UNITS: Final = {
    "ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "day": 86_400_000,
    "days": 86_400_000,
}  # fmt: skip
"""Unit to its milliseconds."""
_DURATION_MS_MAX: Final = 36_500 * 86_400_000
_PART: Final = r"\d+(?:\.\d+)? ?(?:ms|s|min|h|days?|d)"
_DURATION: Final = late_pattern(rf"{_PART}(?: {_PART})*")
_PARTS: Final = late_pattern(r"(\d+(?:\.\d+)?) ?([a-z]+)")


def duration_ms(text: str) -> int:
    """Return the milliseconds of a duration; raise ValueError for another text."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f"no duration: {text!r}")
    return round(sum(float(number) * _UNITS[unit] for number, unit in _PARTS.findall(text)))


def _duration(value: Any) -> str:
    if isinstance(value, str) and _DURATION.fullmatch(value) and duration_ms(value):
        if duration_ms(value) > _DURATION_MS_MAX:
            raise refuse(f"is too long: {shown_value(value)}", advice="At most 36500 days pass.")
        return value
    raise refuse(
        f"must be a duration, not {shown_value(value)}",
        advice="Write a number and a unit: `500 ms`, `90 s`, `5 min`, `2 h`, `3 days`.",
    )


DURATION_SCHEMA: Final = {"type": "string", "pattern": f"^{_DURATION.pattern}$"}
Duration = Annotated[str, BeforeValidator(_duration), WithJsonSchema(DURATION_SCHEMA)]


# Repeated turns, and references of a turn to replies of earlier turns


WHOLE: Final = -1
"""The index that stands for the claims on the whole run."""
FIELDS: Final = ("reply",)
"""The fields of an earlier turn that can be referred to."""
MOST: Final = 10_000
"""The largest number of repetitions."""
_EARLIER: Final = late_pattern(r"turns\[(-?\d+)\]\.(\w+)(.*)", re.DOTALL)
_OPENS, _CLOSES = "\ufdd0", "\ufdd1"
"""The marks around an unresolved reference: characters from Unicode's private area."""
_WAITING: Final = late_pattern(f"{_OPENS}([^{_CLOSES}]*){_CLOSES}")
EQUALS: Final = "$eq"
PLACES: Final = {
    "user": "json",
    "replies": "json:of",
    "tool_results": "returns:of",
    "expect": EQUALS,
}
"""Key of a turn to the wrapper that keeps a value from being read as keywords there."""
_OF_VALUES: Final = ("$eq", "$ne", "$exact", "$in", "$contains", "$keys", "$schema")
"""Operators below which everything is a value."""


class Spot(msgspec.Struct, frozen=True):
    """A turn of a conversation, and its place in the file."""

    number: int
    """The number of the turn, from 1, over the whole conversation."""
    index: int
    """The index among the written turns."""
    repetition: int = 1
    times: int = 1

    @property
    def root(self) -> dict[str, Any]:
        """Return the target of `${turn.…}`."""
        return {"number": self.number, "repetition": self.repetition}


def spots(times: Sequence[int]) -> Iterator[Spot]:
    """Yield the turns of a conversation, given the number of repetitions of each written turn."""
    number = 0
    for index, often in enumerate(times):
        for repetition in range(1, often + 1):
            number += 1
            yield Spot(number, index, repetition, often)


def waits(value: Any) -> bool:
    """Return whether a value contains a reference to an earlier turn."""
    return any(_OPENS in word for word in words_in(value))


def waiting(reference: str) -> str:
    """Return the mark for a reference that cannot be resolved yet."""
    return f"{_OPENS}{reference}{_CLOSES}"


def as_written(value: Any) -> Any:
    """Return a value with marks turned back into references, as in the file."""
    return _with(value, lambda reference: f"${{{reference}}}")


def answered(
    value: Mapping[str, Any],
    turn_values: Sequence[Mapping[str, Any]],
    places: Mapping[str, str] = PLACES,
) -> dict[str, Any]:
    """Return a turn with references to earlier turns filled in.

    A missing reply, as in a turn that ended with a question or an error, is null. A JSON reply
    stays a value: a model's answer is never read as keywords of a scenario, so that a reply
    ``{"$any": true}`` is no matcher, and ``{"error": "bad"}`` no error of a tool.

    ``places`` gives the wrapper of a value for each key.
    """

    def value_at(reference: str) -> Any:
        leads_to = lookup({"turns": turn_values}, reference)
        return None if leads_to is ABSENT else leads_to

    return {
        _with(key, value_at): _with_values(inner, value_at, places.get(key, ""))
        for key, inner in value.items()
    }


def _with_values(value: Any, value_at: Callable[[str], Any], wrapper: str) -> Any:
    """Resolve references; a value at a place for keywords is wrapped."""
    if isinstance(value, str):
        filled = _with(value, value_at)
        stands_alone = wrapper and _WAITING.fullmatch(value) is not None
        if not stands_alone or filled is None or isinstance(filled, str):
            return filled
        if wrapper == EQUALS and not isinstance(filled, (dict, list)):
            return filled
        return {wrapper: filled}
    if isinstance(value, list):
        return [_with_values(inner, value_at, wrapper) for inner in value]
    if not isinstance(value, Mapping):
        return value
    return {
        _with(key, value_at): _with_values(inner, value_at, _below(key, wrapper))
        for key, inner in value.items()
    }


def _below(key: str, wrapper: str) -> str:
    """Return the wrapper below a key; empty if everything there is a value."""
    if wrapper == EQUALS:
        return "" if key in _OF_VALUES else EQUALS
    # In `replies: {agent: LINE}` and `tool_results: {tool: RESULT}`, everything below is a value.
    return {"json:of": "json", "returns:of": "returns"}.get(wrapper, "")


def _with(value: Any, value_there: Any) -> Any:
    def change(text: str) -> Any:
        whole = _WAITING.fullmatch(text)
        if whole is not None:
            return value_there(whole[1])
        if _OPENS not in text:
            return text
        return _WAITING.sub(lambda at: as_text(value_there(at[1])), text)

    return with_texts(value, change)


def check_earlier(document: Document, path: SourcePath, reference: str, number: int) -> None:
    """Raise SourceError for a reference to a turn that is not earlier.

    ``number`` is the number of the turn with the reference, from 1; for the whole run, one more
    than all turns.
    """
    match = _EARLIER.fullmatch(reference)
    if match is None:
        raise document.error(
            path,
            f"`${{{reference}}}` does not name a turn and a field",
            advice="Write `${turns[0].reply}`, or `${turns[-1].reply}` for the turn before.",
        )
    index, field = int(match[1]), match[2]
    if field not in FIELDS:
        raise document.error(
            path, f"nothing of a turn is called `{field}`", word=field, known=FIELDS
        )
    before = number - 1
    if not -before <= index < before:
        which = f"turns[{index}]"
        turns_text = f"turns[0] to turns[{before - 1}]" if before > 1 else "turns[0]"
        raise document.error(
            path,
            f"`{which}` is not before turn {number}",
            advice=f"What was said before it is {turns_text}."
            if before
            else "Nothing was said before the first turn.",
        )
