"""The files of campaigns: finished parts, so that a killed campaign goes on, and findings.

Each subject has a folder below `.simkit/explore/`. A campaign's journal has a line for each chunk
that was run to its end, or of an enumeration for each slice; a line that was being written when the
process was killed is left out. It is removed when the campaign ends. The next campaign of a subject
begins with the conversations that showed something.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from simkit.core.files import DAMAGE, Lock, read_stored, refuse_links, write_whole
from simkit.core.redact import Redactor
from simkit.explore.choices import ChoiceLog
from simkit.explore.chunks import Chunk, Tally
from simkit.explore.enumeration import Slice

KEPT_MAX: Final = 8
"""The number of campaigns of a subject that may go on; older ones are forgotten."""
_FILE: Final = "journal.jsonl"
_KNOWN: Final = "known.json"


class _Head(msgspec.Struct, frozen=True):
    known: tuple[ChoiceLog, ...] = ()
    """The conversations with which the campaign began."""


class _Line(msgspec.Struct, frozen=True, omit_defaults=True):
    chunk: int = -1
    tally: Tally = Tally()
    slice: Slice | None = None
    """A part of an enumeration, in place of a chunk."""


class Parts:
    """The finished parts of a campaign of which nothing is kept."""

    folder = Path()
    known: tuple[ChoiceLog, ...] = ()
    """The conversations with which it began."""
    done: Mapping[int, Tally] = {}
    """Number of a finished chunk to its tally."""
    slices: tuple[Slice, ...] = ()
    """The finished slices of an enumeration, in the order in which they were kept."""
    count = 0
    """The number of parts that are kept."""
    is_over = False
    """Whether the campaign is over, so that nothing is left to go on with."""

    def keep(self, chunk: Chunk, tally: Tally) -> None:
        """Keep the tally of a chunk."""

    def keep_slice(self, part: Slice) -> None:
        """Keep what was run of an interval of an enumeration."""

    def close(self) -> None:
        """Let go of what is kept, if the campaign is over."""


class Journal(Parts):
    """The finished parts of one campaign, in a file; only one process at a time has it."""

    def __init__(
        self, folder: Path, key: str, known: Sequence[ChoiceLog], redactor: Redactor
    ) -> None:
        """Open the journal of a campaign: ``key`` is equal for equal ones.

        ``known`` are the conversations with which a new campaign begins. Raise OSError if it
        cannot be written, BlockingIOError if another process has it.
        """
        self.folder, self._redactor = folder / key, redactor
        refuse_links(*folder.parents[:2], folder, self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        ignore = folder / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
        self._lock = Lock(self.folder)
        if not self._lock.acquire(waits=False):
            self._lock.release()
            raise BlockingIOError
        self.known, lines, end = _read(self.folder / _FILE, tuple(known))
        self.done = {line.chunk: line.tally for line in lines if line.slice is None}
        self.slices = tuple(line.slice for line in lines if line.slice is not None)
        self._stream = open(self.folder / _FILE, "r+b" if end else "wb")  # noqa: SIM115
        self._stream.truncate(end)
        self._stream.seek(end)
        if not end:
            self._write(_Head(self.known))
        self.count = len(lines)
        _forget(folder, self.folder)

    def keep(self, chunk: Chunk, tally: Tally) -> None:
        self._write(_Line(chunk.number, tally))

    def keep_slice(self, part: Slice) -> None:
        self._write(_Line(slice=part))

    def close(self) -> None:
        """Close the journal; remove it if the campaign is over."""
        self._stream.close()
        if self.is_over:
            shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.release()

    def _write(self, value: object) -> None:
        self._stream.write(self._redactor.line(msgspec.json.encode(value)) + b"\n")
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self.count += 1


def _read(
    file: Path, known: tuple[ChoiceLog, ...]
) -> tuple[tuple[ChoiceLog, ...], list[_Line], int]:
    """Return the known conversations, the finished parts, and where the last whole line ends."""
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return known, [], 0
    end = content.rfind(b"\n") + 1
    first, *lines = content[:end].splitlines() or [b""]
    try:
        head = msgspec.json.decode(first, type=_Head)
        entries = [msgspec.json.decode(line, type=_Line) for line in lines]
    except DAMAGE:
        # Another version wrote it: the campaign starts from its first chunk.
        return known, [], 0
    return head.known, entries, end


def _forget(folder: Path, current: Path) -> None:
    """Remove all but the newest journals of other campaigns, unless a process has them."""
    journals = [path.parent for path in folder.glob(f"*/{_FILE}") if path.parent != current]
    with suppress(OSError):
        journals.sort(key=lambda path: (path / _FILE).stat().st_mtime_ns, reverse=True)
    for path in journals[KEPT_MAX:]:
        with suppress(OSError), Lock(path) as lock:
            if lock.acquire(waits=False):
                shutil.rmtree(path, ignore_errors=True)


class Memory:
    """The conversations that showed something, of all campaigns of a subject."""

    def __init__(self, root: Path, name: str) -> None:
        """``root`` has the folders of all subjects, and ``name`` is that of one."""
        words = re.sub(r"[^\w-]+", "_", name)
        self.folder = root / f"{words[-60:]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"

    def known(self) -> tuple[ChoiceLog, ...]:
        """Return the conversations that are known; none if they cannot be read."""
        with suppress(OSError):
            return read_stored(self.folder / _KNOWN, tuple[ChoiceLog, ...]) or ()
        return ()

    def keep(self, tapes: Iterable[ChoiceLog]) -> None:
        """Keep these conversations alone. Raise OSError if they cannot be written."""
        refuse_links(*self.folder.parents[:2], self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        content = msgspec.json.encode(tuple(dict.fromkeys(tapes))) + b"\n"
        write_whole(self.folder / _KNOWN, content)


def key_of(facts: Mapping[str, object]) -> str:
    """Return the key of a campaign from all that it depends on."""
    encoded = msgspec.json.encode(facts, order="sorted")
    return hashlib.sha256(encoded).hexdigest()[:16]


def fingerprints(files: Iterable[str]) -> dict[str, str]:
    """Return a digest of the content of each file; empty for one that is not there."""
    return {file: fingerprint(file) for file in sorted(files)}


def fingerprint(file: str) -> str:
    """Return a digest of a file's content; empty if it is not there."""
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]
    except IsADirectoryError:
        return "folder"
    except OSError:
        return ""
