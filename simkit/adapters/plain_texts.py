"""What agents put out, ask and are called with, as plain data: whatever it is."""

from __future__ import annotations

from typing import Any

from simkit.adapters.plain_values import NotPlain, plain
from simkit.core.messages import JsonValue


def plain_or_text(value: Any) -> JsonValue:
    """Returns a value as plain data; what is none, as a text."""
    try:
        return plain(value)
    except NotPlain:
        return str(value)
