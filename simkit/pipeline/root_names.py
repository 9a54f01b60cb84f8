"""Names in ``${…}`` and in ``when``: paths over the one root that runs, rules and sections see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from simkit.errors import ReferenceInvalid, SourceError
from simkit.paths import parse
from simkit.references import references_in
from simkit.source import Document, SourcePath

ROOTS: Final = ("agent", "handoff", "input", "run", "state", "task", "upstream", "user")
RUN_FIELDS: Final = (
    "agent", "reply", "output", "final_message", "messages", "tools_called", "tool_results",
    "took_ms", "usage", "timestamps",
)  # fmt: skip
HANDOFF_FIELDS: Final = ("from", "to", "type", "mode", "query", "payload")

_SAME_VALUE: Final = ("$not", "$either", "$all", "$in")
"""Operators whose matchers are held against the value that the operator is held against."""


def check_references(document: Document, at: SourcePath, channels: tuple[str, ...]) -> None:
    """Raises SourceError for the first reference below ``at`` that leads nowhere.

    The operands of a ``when`` are values, not templates, and are not looked at.
    """
    for path, text in _texts(document, at):
        try:
            found = references_in(text)
        except ReferenceInvalid as problem:
            raise document.error(path, str(problem)) from None
        for _, reference in found:
            problem = _lost(document, path, reference, f"${{{reference}}}", channels)
            if problem is not None:
                raise problem


def check_when(
    document: Document, at: SourcePath, matcher: Any, channels: tuple[str, ...]
) -> None:
    """Raises SourceError for the first key of a ``when`` that leads nowhere."""
    for path, key in keys_in(matcher, at):
        problem = _lost(document, path, key, key, channels, key=True)
        if problem is not None:
            raise problem
        if key in ("state", "run", "handoff"):
            for inner, name in keys_in(_at(document.data, path), path):
                full = f"{key}.{name}"
                problem = _lost(document, inner, full, full, channels, key=True)
                if problem is not None:
                    raise problem


def keys_in(matcher: Any, at: SourcePath) -> Iterator[tuple[SourcePath, str]]:
    """Yields the plain keys that a matcher asks its value for, also inside ``$not`` and the like."""
    if isinstance(matcher, (list, tuple)):
        return
    if not isinstance(matcher, Mapping):
        return
    for key, operand in matcher.items():
        if not key.startswith("$"):
            yield (*at, key), key
        elif key == "$exact":
            yield from keys_in(operand, (*at, key))
        elif key in _SAME_VALUE:
            branches = enumerate(operand) if isinstance(operand, (list, tuple)) else [(None, operand)]
            for place, branch in branches:
                inner = (*at, key) if place is None else (*at, key, place)
                yield from keys_in(branch, inner)


def leads_to(path: str, known: Iterable[str]) -> bool:
    """Says whether a path begins with one of the known names, which may hold dots themselves."""
    return any(path == name or path.startswith((f"{name}.", f"{name}[")) for name in known)


def _lost(
    document: Document,
    path: SourcePath,
    reference: str,
    shown: str,
    channels: tuple[str, ...],
    key: bool = False,
) -> SourceError | None:
    """Returns what is wrong with a path over the root; None if it leads somewhere."""
    try:
        head, *tail = parse(reference)
    except ReferenceInvalid as problem:
        return document.error(path, str(problem), key=key)
    if head not in ROOTS:
        return document.error(
            path, f"`{shown}` leads nowhere: there is no `{head}`", word=str(head), known=ROOTS,
            key=key,
        )  # fmt: skip
    known, noun = {
        "state": (channels, "no channel is named"),
        "run": (RUN_FIELDS, "a run has no"),
        "handoff": (HANDOFF_FIELDS, "a handoff has no"),
    }.get(str(head), ((), ""))
    if not tail or not known or leads_to(reference[len(str(head)) :].lstrip("."), known):
        return None
    word = str(tail[0])
    if word in known:
        return None
    return document.error(
        path, f"`{shown}` leads nowhere: {noun} `{word}`", word=word, known=known, key=key
    )


def _texts(document: Document, at: SourcePath) -> Iterator[tuple[SourcePath, str]]:
    """Yields the texts below a place with their paths; a mapping's keys stand before its values."""
    value = _at(document.data, at)
    if isinstance(value, str):
        yield at, value
    elif isinstance(value, Mapping):
        for key in value:
            if key == "when" or key.startswith("x-"):
                continue
            if "${" in key:
                yield (*at, key), key
            yield from _texts(document, (*at, key))
    elif isinstance(value, (list, tuple)):
        for place in range(len(value)):
            yield from _texts(document, (*at, place))


def _at(data: Any, path: SourcePath) -> Any:
    for step in path:
        if isinstance(data, Mapping):
            data = data.get(step)
        elif isinstance(data, (list, tuple)) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            return None
    return data
