"""File changes: shown as a difference, written completely or not at all."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from simkit.core.answers import note_written
from simkit.core.errors import SimkitError, SourceError
from simkit.core.files import write_whole

CI_VARIABLE: Final = "CI"
_NO: Final = ("", "0", "false")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_CHANGED: Final = "it has changed since it was read, so nothing is written to it"


class FileChange(msgspec.Struct, frozen=True):
    """A file as it was read, and its new content."""

    file: str
    before: bytes
    after: bytes

    def diff(self) -> str:
        """Return the unified diff; empty if nothing changes."""
        lines = difflib.unified_diff(
            _lines(self.before), _lines(self.after), self.file, f"{self.file} (new)"
        )
        diff_lines = [
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in lines
        ]
        return "".join(diff_lines).replace("\r\n", "\n").rstrip("\n")


def _lines(content: bytes) -> list[str]:
    return content.decode().removeprefix("\ufeff").splitlines(keepends=True)


def read_bytes(file: str) -> bytes:
    """Return a file's bytes; raise SourceError."""
    try:
        return Path(file).read_bytes()
    except OSError as problem:
        raise SourceError(file, f"the file cannot be read: {problem.strerror}") from None


def text_of(content: bytes) -> str:
    """Return the text of a file, without a byte order mark."""
    return content.removeprefix(_BYTE_ORDER_MARK).decode()


def with_text(content: bytes, text: str) -> bytes:
    """Return a file with another text, with a byte order mark if it has one."""
    mark = _BYTE_ORDER_MARK if content.startswith(_BYTE_ORDER_MARK) else b""
    return mark + text.encode()


def write(change: FileChange) -> None:
    """Write a change in one step and keep the file's mode; raise SourceError.

    Links are followed. A file that has changed since it was read is not written.
    """
    path = Path(change.file).resolve()
    if read_bytes(str(path)) != change.before:
        raise SourceError(change.file, _CHANGED, advice="Run again.")
    try:
        write_whole(path, change.after, is_kept=True)
    except OSError as problem:
        raise SourceError(change.file, f"it cannot be written: {problem.strerror}") from None
    note_written(change.file)


def is_ci(environment: Mapping[str, str]) -> bool:
    """Return whether this runs in CI, where nobody reviews changes."""
    return environment.get(CI_VARIABLE, "").lower() not in _NO


def refuse_in_ci(option: str, environment: Mapping[str, str]) -> None:
    """Raise SimkitError for an option that changes files in CI."""
    if is_ci(environment):
        raise SimkitError(
            f"{option} changes scenario files, and is refused in CI ({CI_VARIABLE} is set)\n"
            "  Run it where somebody reads the difference, and commit what it writes."
        )
