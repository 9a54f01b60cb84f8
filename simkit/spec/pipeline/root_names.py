"""Names in ``${…}`` and in ``when``: paths over the root that runs, rules and sections see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from simkit.core.errors import ReferenceInvalid
from simkit.language.matching.operators import OF_VALUE, inner_matchers
from simkit.language.paths import follow, parse, references_in, walk
from simkit.language.yaml import Document, SourcePath
from simkit.spec.fields import ANYTHING

ROOTS: Final[tuple[str, ...]] = (
    "agent", "handoff", "input", "now", "run", "state", "task", "upstream", "user",
)  # fmt: skip
RUN_FIELDS: Final = (
    "agent", "reply", "output", "final_message", "messages", "tools_called", "tool_results",
    "tool_calls", "took_ms", "usage", "timestamps",
)  # fmt: skip
HANDOFF_FIELDS: Final = ("from", "to", "type", "mode", "query", "payload")


def check_references(document: Document, at: SourcePath, channels: tuple[str, ...]) -> None:
    """Raise SourceError for the first reference below ``at`` to an unknown name.

    The operands of a ``when`` are values, not templates, and are skipped.
    """
    for path, text, _ in words_below(document, at):
        try:
            references = references_in(text)
        except ReferenceInvalid as problem:
            raise document.error(path, str(problem)) from None
        for _, reference in references:
            _check_path(document, path, reference, f"${{{reference}}}", channels)


def check_when(document: Document, at: SourcePath, matcher: Any, channels: tuple[str, ...]) -> None:
    """Raise SourceError for the first unknown key of a ``when``."""
    for path, key in keys_in(matcher, at):
        _check_path(document, path, key, key, channels, key=True)
        if key in ("state", "run", "handoff"):
            for inner, name in keys_in(follow(document.data, path), path):
                full = f"{key}.{name}"
                _check_path(document, inner, full, full, channels, key=True)


def keys_in(matcher: Any, at: SourcePath) -> Iterator[tuple[SourcePath, str]]:
    """Yield the plain keys of a matcher, also inside ``$not`` and the like."""
    if not isinstance(matcher, Mapping):
        return
    for key, operand in matcher.items():
        if not key.startswith("$"):
            yield (*at, key), key
        elif key in OF_VALUE:
            for path, inner in inner_matchers(key, operand, (*at, key)):
                yield from keys_in(inner, path)


def leads_to(path: str, known: Iterable[str]) -> bool:
    """Return whether a path begins with one of the known names, which may contain dots."""
    if known is ANYTHING:
        return True
    return any(path == name or path.startswith((f"{name}.", f"{name}[")) for name in known)


def _check_path(
    document: Document,
    at: SourcePath,
    path: str,
    reference: str,
    channels: tuple[str, ...],
    key: bool = False,
) -> None:
    """Reject a path over the root with an unknown name."""
    try:
        head, *tail = (str(part) for part in parse(path))
    except ReferenceInvalid as problem:
        raise document.error(at, str(problem), key=key) from None
    inside = {
        "state": (channels, "no channel is named"),
        "run": (RUN_FIELDS, "a run has no"),
        "handoff": (HANDOFF_FIELDS, "a handoff has no"),
    }
    if head not in ROOTS:
        word, known, noun = head, ROOTS, "there is no"
    elif tail and head in inside:
        word, (known, noun) = tail[0], inside[head]
        if word in known or leads_to(path[len(head) :].lstrip("."), known):
            return
    else:
        return
    label = f"`{reference}` leads nowhere: {noun} `{word}`"
    raise document.error(at, label, word=word, known=known, key=key)


def words_below(document: Document, at: SourcePath) -> Iterator[tuple[SourcePath, str, bool]]:
    """Yield the texts below a place that can contain references, each with its path.

    A mapping's keys come before its values; they have True as the third item.
    """
    for path, inner in walk(follow(document.data, at), at, is_passed_over):
        key = path[-1] if len(path) > len(at) else None
        if isinstance(key, str):
            if is_passed_over(key):
                continue
            yield path, key, True
        if isinstance(inner, str):
            yield path, inner, False


def is_passed_over(key: str) -> bool:
    """Return whether the value under a key cannot contain references."""
    return key == "when" or key.startswith("x-")
