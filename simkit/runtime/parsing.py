"""Parsing of a reply's text into the run's output."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from simkit.core.errors import OutputInvalid

_NONE: Any = object()
PLAIN_STARTS: Final = frozenset(map(chr, range(ord("!"), ord("~") + 1))) - {"{", "["}
"""Characters with which no JSON begins that ``auto`` would read, and no space either."""


def parsed(text: str, parse: str, agent: str) -> tuple[Any, str]:
    """Return the output, and how it was parsed: ``json``, ``json_in_text``, ``text`` or empty.

    ``text`` means that the text contains no JSON; empty, that it was not parsed. Raise
    OutputInvalid if ``parse: json`` meets something else.
    """
    if parse == "text" or (parse == "auto" and text[:1] in PLAIN_STARTS):
        # Most replies begin with a letter.
        return text, ""
    stripped = text.strip()
    if parse in ("json", "json_or_text", "json_in_text") or stripped[:1] in ("{", "["):
        value = _json(stripped)
        if value is not _NONE and (parse != "auto" or isinstance(value, (dict, list))):
            return value, "json"
    if parse == "json":
        raise OutputInvalid(f"agent {agent!r} must answer with JSON, but said: {_short(text)}")
    if parse == "json_in_text":
        value = _json_inside(text)
        if value is not _NONE:
            return value, "json_in_text"
        return text, "text"
    return text, ""


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return _NONE


def _json_inside(text: str) -> Any:
    """Return the first JSON object or array inside prose."""
    decoder = json.JSONDecoder()
    for place, character in enumerate(text):
        if character in "{[":
            try:
                value, _ = decoder.raw_decode(text, place)
            except ValueError:
                continue
            return value
    return _NONE


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "…")
