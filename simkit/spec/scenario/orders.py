"""Orders: which of the model calls that wait at the same time is answered next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, WithJsonSchema

from simkit.language.yaml import SourcePath
from simkit.spec.fields import TEXT_SCHEMA, TextValue, refuse, shown_value

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


Order = Annotated[
    tuple[TextValue, ...],
    BeforeValidator(_order),
    WithJsonSchema({"type": "array", "items": TEXT_SCHEMA}),
]


def places_of_orders(data: Mapping[str, Any]) -> Iterator[SourcePath]:
    """Yield the path of each key of a scenario that asks for an order other than `FIFO`."""
    if data.get("schedule", FIFO) != FIFO:
        yield ("schedule",)
    for place, turn in enumerate(data["turns"]):
        if turn.get("schedule"):
            yield ("turns", place, "schedule")
