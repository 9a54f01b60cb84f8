"""Writing a cassette: all of it or nothing, without secrets, and never over what cannot be read."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from simkit.cassettes.format import encoded
from simkit.cassettes.keys import Keying
from simkit.cassettes.loading import absent, load, loads
from simkit.cassettes.redacting import redacted
from simkit.cassettes.values import Cassette, Interaction, place
from simkit.errors import CassetteInvalid
from simkit.redact import Redactor


def save(
    path: str | Path,
    interactions: Sequence[Interaction],
    keying: Keying,
    *,
    replace: bool = False,
) -> Cassette:
    """Writes interactions behind those of the file, or in their place, and returns the cassette.

    Raises CassetteInvalid, and leaves the file as it is, if it cannot be read, if what would be
    written holds a secret, or if it cannot be written.
    """
    path = Path(path)
    before = load(path) if os.path.lexists(path) else absent(path)
    if not interactions and not replace:
        return before
    kept = () if replace else before.interactions
    whole = tuple(redacted(item, keying.redactor) for item in (*kept, *interactions))
    cassette = Cassette(path, whole)
    keys = {
        number: keying.question(item.request).key(item.agent) for number, item in enumerate(whole)
    }
    content = encoded(cassette, keys)
    _check(content, cassette, keying.redactor)
    _write(path, content)
    return cassette


def _check(content: bytes, cassette: Cassette, redactor: Redactor) -> None:
    """Raises CassetteInvalid if the bytes hold a secret, or are not read as what was meant."""
    for where, rule in _secrets(content, cassette, redactor):
        raise CassetteInvalid(
            f"{cassette.path}: not written: it would hold a secret, known by the rule `{rule}`\n"
            f"  at {where}\n"
            "  take it out of what is sent, or declare it volatile under `record`"
        )
    written = loads(content, cassette.path).interactions
    for number, (one, other) in enumerate(zip(cassette.interactions, written, strict=True)):
        if one != other:
            what = "not written: it would not be read as it was recorded"
            raise CassetteInvalid(f"{cassette.path}: {what}\n  at {place(number)}")


def _secrets(content: bytes, cassette: Cassette, redactor: Redactor) -> Iterator[tuple[str, str]]:
    """Yields where a secret would stand, and the rule that knows it; never the secret."""
    text = content.decode()
    for offset, rule in redactor.found(text, by_name=False):
        yield f"line {text.count(chr(10), 0, offset) + 1}", rule
    for number, item in enumerate(cassette.interactions):
        if redacted(item, redactor) != item:
            yield place(number), "secret key"


def _write(path: Path, content: bytes) -> None:
    """Writes a file so that a reader, and a machine that fails, has all of it or what was there."""
    # A link stays a link: the file that it names is replaced.
    file = Path(os.path.realpath(path))
    temporary = file.with_name(f".{file.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as stream:
            if file.exists():
                temporary.chmod(file.stat().st_mode)
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, file)
        _settle(file.parent)
    except OSError as error:
        raise CassetteInvalid(f"{path}: the file cannot be written: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)


def _settle(folder: Path) -> None:
    """Makes the new name of a file durable where folders can be opened: not on Windows."""
    with suppress(PermissionError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
