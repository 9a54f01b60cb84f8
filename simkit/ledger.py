"""``.simkit/``: the traces of the last run and what came of it, redacted, written atomically.

::

    .simkit/.gitignore       keeps the folder out of version control
    .simkit/last.json        {version, scenarios: [{id, outcome, digest, trace}], failed: [id]}
    .simkit/traces/*.jsonl   one trace a scenario

``failed`` names what failed when it last ran, also in runs before the last one: whoever repairs one
of three scenarios and runs only that one still has two to come.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from simkit.redact import Redactor

FOLDER: Final = ".simkit"
SLUG_MAX: Final = 80


class Entry(msgspec.Struct, frozen=True):
    """What came of one scenario of the last run."""

    id: str
    outcome: str
    digest: str = ""
    trace: str = ""
    """The file of its trace."""


class Last(msgspec.Struct, frozen=True):
    """``last.json``."""

    version: int
    scenarios: tuple[Entry, ...] = ()
    failed: tuple[str, ...] = ()


class Ledger:
    """Writes and reads ``.simkit/``; every method may raise OSError."""

    def __init__(self, environment: Mapping[str, str], folder: str | Path = FOLDER) -> None:
        self._folder = Path(folder)
        self._environment = environment
        self._redactor = Redactor(environment)
        self._is_ready = False

    def keep(self, identity: str, lines: Iterable[bytes], secrets: Sequence[str] = ()) -> str:
        """Stores a trace, redacted, and returns its file.

        ``secrets`` names further variables of the environment whose values are secret.
        """
        self._make()
        file = self._folder / "traces" / f"{slug(identity)}.jsonl"
        redactor = Redactor(self._environment, secrets) if secrets else self._redactor
        redacted = redactor.line
        _write(file, b"".join(redacted(line) + b"\n" for line in lines))
        return str(file)

    def close(self, entries: Sequence[Entry], failing: Sequence[str]) -> None:
        """Records a run, and forgets the traces of runs before it."""
        self._make()
        ran = {entry.id for entry in entries}
        before = [identity for identity in self.failed() or () if identity not in ran]
        last = Last(1, tuple(entries), tuple(dict.fromkeys([*before, *failing])))
        encoded = msgspec.json.format(msgspec.json.encode(last), indent=1)
        _write(self._folder / "last.json", encoded + b"\n")
        kept = {Path(entry.trace).name for entry in entries}
        for file in (self._folder / "traces").glob("*.jsonl"):
            if file.name not in kept:
                file.unlink(missing_ok=True)

    def failed(self) -> tuple[str, ...] | None:
        """Returns what failed when it last ran; None if nothing was ever recorded."""
        try:
            content = (self._folder / "last.json").read_bytes()
            return msgspec.json.decode(content, type=Last).failed
        except (FileNotFoundError, NotADirectoryError, msgspec.MsgspecError):
            return None

    def _make(self) -> None:
        if self._is_ready:
            return
        (self._folder / "traces").mkdir(parents=True, exist_ok=True)
        ignore = self._folder / ".gitignore"
        if not ignore.exists():
            _write(ignore, b"*\n")
        self._is_ready = True


def slug(identity: str) -> str:
    """Returns a file name for a scenario: readable, and different for different scenarios."""
    words = re.sub(r"\.scenario\.yaml", "", identity)
    plain = re.sub(r"[^a-zA-Z0-9]+", "-", words).strip("-").lower()[:SLUG_MAX].rstrip("-")
    return f"{plain}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


def _write(file: Path, content: bytes) -> None:
    """Writes a file so that a reader sees all of it or what was there before."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)
