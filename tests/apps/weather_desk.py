"""What each weather desk of the matrix has: two tools, and a report as data."""

from __future__ import annotations

from typing import Any

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
REPORT = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
    "required": ["city", "degrees"],
    "additionalProperties": False,
}
DESCRIPTIONS = {"weather": "Tells the weather.", "clock": "Tells the time."}


def weather(city: str) -> dict[str, Any]:
    """Tells the weather."""
    return {"city": city, "sky": "grey"}


def clock(city: str) -> str:
    """Tells the time."""
    return f"noon in {city}"


FUNCTIONS = {"weather": weather, "clock": clock}
