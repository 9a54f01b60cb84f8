"""Durations as text: `90 s`, `2h`, `1 h 30 min`, `3 days`."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BeforeValidator, WithJsonSchema

from simkit.core.text import late_pattern
from simkit.spec.fields import refuse, shown_value

_UNITS: Final = {
    "ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "day": 86_400_000,
    "days": 86_400_000,
}  # fmt: skip
"""Unit to its milliseconds."""
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
        return value
    raise refuse(
        f"must be a duration, not {shown_value(value)}",
        advice="Write a number and a unit: `500 ms`, `90 s`, `5 min`, `2 h`, `3 days`.",
    )


DURATION_SCHEMA: Final = {"type": "string", "pattern": f"^{_DURATION.pattern}$"}
Duration = Annotated[str, BeforeValidator(_duration), WithJsonSchema(DURATION_SCHEMA)]
