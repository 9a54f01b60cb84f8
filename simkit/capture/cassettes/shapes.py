"""Shapes of responses: their fields and types, without the model's text. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from simkit.capture.cassettes.normalising import json_of
from simkit.providers import sse
from simkit.providers.http import HttpResponse, header

Shape: TypeAlias = Mapping[str, frozenset[str]]
"""A path, with ``[]`` for list indices, to the types of value there."""

OPAQUE: Final = frozenset(("args", "input", "parameters", "schema"))
"""Keys with values that a model made up, or that were sent."""
DIFFERENCES_MAX: Final = 20
_KINDS: Final[Mapping[type, str]] = {
    dict: "mapping",
    list: "list",
    str: "text",
    bool: "boolean",
    int: "number",
    float: "number",
    type(None): "null",
}


def shape_of(response: HttpResponse) -> Shape:
    """Return the shape of a response; of a stream, the shape of all its events together."""
    shape: dict[str, set[str]] = {"status": {str(response.status)}}
    media = header(response.headers, "content-type").partition(";")[0].strip().lower()
    shape["content-type"] = {media or "none"}
    bodies = [("body", response.body)]
    if sse.is_stream(response):
        bodies = [("events[]", data.encode()) for _, data in sse.events(response.body)]
    for at, body in bodies:
        try:
            entries = list(_entries(json_of(body), at))
        except ValueError:
            entries = [(at, "other")] if body else []
        for path, kind in entries:
            shape.setdefault(path, set()).add(kind)
    return {path: frozenset(kinds) for path, kinds in shape.items()}


def _entries(value: Any, at: str) -> Iterator[tuple[str, str]]:
    yield at, _KINDS.get(type(value), "other")
    if isinstance(value, dict):
        for key, below in value.items():
            if key in OPAQUE:
                yield f"{at}.{key}", "anything"
            else:
                yield from _entries(below, f"{at}.{key}")
    elif isinstance(value, list):
        for below in value:
            yield from _entries(below, f"{at}[]")


def shape_differences(recorded: Shape, now: Shape) -> list[str]:
    """Return the differences of two shapes, a line for each outermost path."""
    lines: list[str] = []
    difference_lines: list[str] = []
    for path in [*recorded, *(path for path in now if path not in recorded)]:
        left, right = recorded.get(path), now.get(path)
        if left == right or any(
            path.startswith((f"{near}.", f"{near}[")) for near in difference_lines
        ):
            continue
        difference_lines.append(path)
        if left is None or right is None:
            sign, kinds = ("+", right) if left is None else ("-", left)
            lines.append(f"{sign} {path}: {_words(kinds)}")
        else:
            lines.append(f"~ {path}: {_words(left)} → {_words(right)}")
    more = len(lines) - DIFFERENCES_MAX
    return [*lines[:DIFFERENCES_MAX], *([f"… {more} more"] if more > 0 else [])]


def _words(kinds: frozenset[str] | None) -> str:
    return " or ".join(sorted(kinds or ()))
