"""The files that this process reads, as Python's audit events name them."""

from __future__ import annotations

import importlib.util
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

YAML: Final = (".yaml", ".yml")


class FileReads:
    """Records every file of a project that is opened."""

    def __init__(self) -> None:
        self._folder = Path.cwd()
        self._files_read: dict[str, None] = {}
        self._files_written: set[str] = set()
        self._is_over = False

    def begin(self) -> FileReads:
        """Record what is opened from now on."""
        sys.addaudithook(self.note)
        return self

    def end(self) -> None:
        """Record nothing more: a hook cannot be removed."""
        self._is_over = True

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Handle Python's audit event for an opened file."""
        if event != "open" or self._is_over or not isinstance(arguments[0], str):
            return
        path, mode, flags = arguments
        if path.endswith(".pyc"):
            # A module whose bytecode is read has a source that is only checked for changes.
            with suppress(ValueError):
                path = importlib.util.source_from_cache(path)
        path = self._named(path)
        if path and _writes(mode, flags):
            self._files_written.add(path)
        elif path:
            self._files_read.setdefault(path)

    def _named(self, path: str) -> str:
        """Return a path relative to the working directory; empty for a foreign file."""
        whole = Path(os.path.normpath(self._folder / path))
        is_here = whole.is_relative_to(self._folder)
        near = whole.relative_to(self._folder) if is_here else whole
        if any(part.startswith(".") or part == "site-packages" for part in near.parts):
            return ""
        if is_here:
            return str(near)
        return os.path.relpath(whole) if whole.suffix in YAML else ""

    def files(self) -> list[str]:
        """Return the files that were read and not written; a run's own files change each time."""
        return [path for path in self._files_read if path not in self._files_written]


def _writes(mode: str | None, flags: int) -> bool:
    if mode is None:
        return bool(flags & (os.O_WRONLY | os.O_RDWR))
    return any(letter in mode for letter in "wax+")
