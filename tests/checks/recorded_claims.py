"""Claims on runs whose value is one field of one event: their rows say all that tests need."""

from __future__ import annotations

from typing import Any

from msgspec.structs import fields, replace

from simkit.spec.scenario.claims import RUN_CLAIMS
from simkit.trace import events as e

RECORDED = {
    name: row.recorded_in for name, row in RUN_CLAIMS.items() if row.recorded_in is not None
}
"""Claim to the event, and the field of it."""


def value_of(name: str, turn: int) -> Any:
    """A value that a claim may have in a turn: a number, or a text that ends with it."""
    event, field = RECORDED[name]
    (of_field,) = (each for each in fields(event) if each.name == field)
    return turn if of_field.type in (int, float) else f"{name} {turn}"


def recorded(event: e.AnyEvent) -> e.AnyEvent:
    """The event with the value of its turn in each field that a claim on runs reads."""
    values = {
        field: value_of(name, event.turn)
        for name, (kind, field) in RECORDED.items()
        if type(event) is kind
    }
    return replace(event, **values)
