"""Orders: which of the model calls that wait at the same time is answered next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, WithJsonSchema

from simkit.language.yaml import SourcePath
from simkit.spec.fields import TEXT_SCHEMA, TextValue, refuse, shown_value

FIFO: Final = "fifo"
SCHEDULES: Final = (FIFO, "random", "pct")
"""The words for how an order is chosen."""


def _schedule(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        raise refuse(
            "an order of calls stands in the turn that makes them",
            advice=f"Write it beside `user:`. Here stands {_WORDS}.",
        )
    if value not in SCHEDULES:
        is_each = value == "exhaustive"
        raise refuse(
            f"must be {_WORDS}, not {shown_value(value)}",
            () if is_each else SCHEDULES,
            str(value),
            "`simkit explore --exhaustive` takes every order." if is_each else "",
        )
    return value


_WORDS: Final = f"{', '.join(SCHEDULES[:-1])} or {SCHEDULES[-1]}"

Schedule = Annotated[
    str, BeforeValidator(_schedule), WithJsonSchema({"type": "string", "enum": [*SCHEDULES]})
]


def _order(value: Any) -> Any:
    if isinstance(value, str) and value in SCHEDULES:
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
