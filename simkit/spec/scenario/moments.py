"""Time in a scenario: moments at which a turn is cut, orders of calls that wait, durations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, WithJsonSchema

from simkit.core.text import late_pattern
from simkit.language.yaml import SourcePath
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


def flat_order(
    order: Sequence[str | Sequence[str]],
) -> Iterator[tuple[tuple[int, ...], str]]:
    """Yield each name of an order with its path; one in a group of answers has two numbers."""
    for place, entry in enumerate(order):
        if isinstance(entry, str):
            yield (place,), entry
        else:
            yield from (((place, number), name) for number, name in enumerate(entry))


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
