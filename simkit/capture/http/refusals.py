"""Refusals that no exception takes to the run: in child processes, after its end, to libraries.

A process has one file for them, which its children inherit: each refusal is one line, which the
system appends as a whole. A run reads it at the end of each turn. Of a scenario's own process, the
process that waits for it reads the rest when it has ended.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import FrameType
from typing import Final

import msgspec

from simkit.core.errors import NetworkRefused
from simkit.core.stopping import is_copy_of_run


class Refusal(msgspec.Struct, frozen=True):
    """A refused effect."""

    text: str
    """The refused effect, and the reason."""
    is_late: bool = False
    """Whether the run was over."""
    read_to: int = 0
    """Not a refusal: the run has read the file up to here."""


class LibraryRequest(msgspec.Struct, frozen=True):
    """A request that a library made by itself, and that failed as without a network."""

    library: str
    host: str
    refusal: NetworkRefused
    """The error that ends the run if the library does not survive."""
    errors: list[BaseException] = msgspec.field(default_factory=list)
    """The errors that its client raised."""
    entry: FrameType | None = None
    """The frame by which other code entered the library."""


class _Log:
    """The file of this process and of its children."""

    def __init__(self) -> None:
        self._file = -1
        self._read = 0
        self.is_over = False
        """Whether this process did its only run, and ends."""
        self.late: list[str] = []
        """The refusals to code of runs that were over."""
        self.to_libraries: list[LibraryRequest] = []
        """Those of the turn, of which nobody knows yet whether the library survives them."""
        self.survived: dict[tuple[str, str], None] = {}
        """Libraries of this scenario with the hosts that they did not reach."""

    def begin(self, path: str = "") -> None:
        """Keep refusals from now on: in the file of a path, or in one without a name."""
        if path:
            flags = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0)
            self._file, self._read = os.open(path, flags), 0
        elif self._file >= 0:
            self.late += [refusal.text for refusal in self.read_new()]  # Those of earlier runs.
        else:
            with tempfile.TemporaryFile() as file:
                self._file = os.dup(file.fileno())

    def add(self, refusal: Refusal) -> None:
        if self._file >= 0:
            os.lseek(self._file, 0, os.SEEK_END)
            os.write(self._file, msgspec.json.encode(refusal) + b"\n")

    def read_new(self) -> list[Refusal]:
        """Return the refusals since the last call."""
        if self._file < 0 or os.fstat(self._file).st_size <= self._read:
            return []
        os.lseek(self._file, self._read, os.SEEK_SET)
        content = os.read(self._file, os.fstat(self._file).st_size)
        self.add(Refusal("", read_to=self._read + len(content)))
        self._read = os.fstat(self._file).st_size
        return _parsed(content)


log: Final = _Log()
"""That of this process."""


def begin_refusals(path: str = "") -> None:
    """Keep the refusals of this process; ``path`` is a file that another process reads."""
    log.begin(path)


def note_refusal(text: str, is_late: bool = False) -> None:
    """Tell the run, or the process that waits for this one, what was refused."""
    log.add(Refusal(text, is_late and not is_copy_of_run()))


def taken_refusals() -> list[str]:
    """Return what was refused to this process's runs and their children since the last call."""
    refusals = log.read_new()
    log.late += [refusal.text for refusal in refusals if refusal.is_late]
    return [refusal.text for refusal in refusals if not refusal.is_late]


def late_refusals() -> list[str]:
    """Return what was refused in this process to code of runs that were over, each once."""
    log.late += taken_refusals()
    late, log.late = [*dict.fromkeys(log.late)], []
    return late


def taken_library_requests() -> list[LibraryRequest]:
    """Return what libraries were refused since the last call."""
    pairs, log.to_libraries = log.to_libraries, []
    return pairs


def taken_survived() -> list[tuple[str, str]]:
    """Return the libraries that went on without a network, each with a host that it asked."""
    pairs, log.survived = [*log.survived], {}
    return pairs


def refusals_in(path: str) -> list[str]:
    """Return what was refused in a process that has ended, without what its runs have read."""
    content = Path(path).read_bytes()
    lines = [msgspec.json.decode(line, type=Refusal) for line in content.splitlines()]
    rest = _parsed(content[max((line.read_to for line in lines), default=0) :])
    return [*dict.fromkeys(refusal.text for refusal in rest)]


def _parsed(content: bytes) -> list[Refusal]:
    lines = [msgspec.json.decode(line, type=Refusal) for line in content.splitlines()]
    return [line for line in lines if not line.read_to]
