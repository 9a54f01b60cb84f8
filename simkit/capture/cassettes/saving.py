"""Saving a cassette: completely or not at all, without secrets, never over an unreadable file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

from simkit.capture.cassettes.format import encoded, played
from simkit.capture.cassettes.keys import Keying
from simkit.capture.cassettes.reading import absent, load, loads
from simkit.capture.cassettes.redacting import redacted
from simkit.capture.cassettes.values import Cassette, Interaction, place
from simkit.core.errors import CassetteInvalid
from simkit.core.locks import exclusive
from simkit.core.redact import Redactor
from simkit.core.whole_files import write_whole

Placed: TypeAlias = Callable[[Cassette], Sequence[Interaction]]
"""Returns the new content of a file, given its current content."""


def save(
    path: str | Path,
    interactions: Sequence[Interaction],
    keying: Keying,
    *,
    replace: bool = False,
    placed: Placed | None = None,
) -> Cassette:
    """Append interactions to a file, or replace its own, and return the cassette.

    ``placed`` arranges them among those that the file has now. Processes that write to one folder
    wait for each other, so that none loses what another wrote.

    Raise CassetteInvalid, and leave the file as it is, if it cannot be read or written, or if the
    result would contain a secret.
    """
    path = Path(path)
    if not interactions and not replace:
        return _before(path)
    folder = Path(os.path.realpath(path)).parent
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(exclusive(folder))
        except OSError as error:
            why = error.strerror or str(error)
            raise CassetteInvalid(f"{path}: the file cannot be written: {why}") from None
        before = _before(path)
        if placed is not None:
            placed_file = placed(before)
        else:
            placed_file = (*(() if replace else before.interactions), *interactions)
        return _saved(path, placed_file, keying)


def _before(path: Path) -> Cassette:
    return load(path) if os.path.lexists(path) else absent(path)


def _saved(path: Path, interactions: Sequence[Interaction], keying: Keying) -> Cassette:
    whole = tuple(redacted(item, keying.redactor) for item in interactions)
    cassette = Cassette(path, whole)
    keys = {
        number: keying.question(item.request).key(item.agent) for number, item in enumerate(whole)
    }
    content = encoded(cassette, keys)
    _check(content, cassette, keying.redactor)
    _write(path, content)
    return cassette


def _check(content: bytes, cassette: Cassette, redactor: Redactor) -> None:
    """Raise CassetteInvalid if the bytes contain a secret, or are not read back as written."""
    for where, rule in _secrets(content, cassette, redactor):
        raise CassetteInvalid(
            f"{cassette.path}: not written: it would hold a secret, known by the rule "
            f"`{rule}`\n  at {where}\n  remove it from the request, or declare it volatile under "
            "`record`"
        )
    interactions_read = loads(content, cassette.path).interactions
    expected = [
        (request.method, request.url, request.body, item.response.body)
        for item in cassette.interactions
        for request in [item.request]
    ]
    plays = played(content.decode(), cassette.path.suffix == ".json")
    pairs = zip(cassette.interactions, interactions_read, expected, plays, strict=True)
    for number, (left, right, parts, its) in enumerate(pairs):
        if left != right or parts != its:
            problem = "not written: it would not be read as it was recorded"
            raise CassetteInvalid(f"{cassette.path}: {problem}\n  at {place(number)}")


def _secrets(content: bytes, cassette: Cassette, redactor: Redactor) -> Iterator[tuple[str, str]]:
    """Yield the place of each secret, and the rule that found it; never the secret."""
    text = content.decode()
    for offset, rule in redactor.spans_in(text, by_name=False):
        yield f"line {text.count(chr(10), 0, offset) + 1}", rule
    for number, item in enumerate(cassette.interactions):
        if redacted(item, redactor) != item:
            yield place(number), "secret key"


def _write(path: Path, content: bytes) -> None:
    try:
        write_whole(path, content, is_kept=True)
    except OSError as error:
        why = error.strerror or str(error)
        raise CassetteInvalid(f"{path}: the file cannot be written: {why}") from None
