"""Outputs as text for a model, and a model's text as output."""

from __future__ import annotations

import json
from typing import Any


def compact(value: Any) -> str:
    """Returns a value as a prompt shows it: a text as it is, all else as JSON without spaces."""
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def written(value: Any) -> str:
    """Returns a value as it stands inside a sentence."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def parsed(text: str) -> Any:
    """Returns what a model's text says where it is a JSON object or list; else the text."""
    if text[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
