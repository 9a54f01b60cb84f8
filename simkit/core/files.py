"""Files: written completely or not at all, locked by folder, and noted as they are read."""

from __future__ import annotations

import errno
import glob
import importlib.util
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from threading import get_ident
from typing import Any, Final, TypeVar

import msgspec

from simkit.core.audit import add_listener, remove_listener
from simkit.core.errors import SimkitError
from simkit.core.output import echo

T = TypeVar("T")

SOURCES: Final = (".yaml", ".yml", ".py", ".feature", ".ipynb", ".toml", ".jsonl")
"""How names of files end that people write, or that hold traces: no report is one of them."""


def write_whole(file: Path, content: bytes, *, is_kept: bool = False) -> None:
    """Write a file atomically, so that a reader gets the old or the new content; raise OSError.

    A file that people keep (``is_kept``) has the same mode afterwards, and is on the disk.

    A link stays, and the file that it names is written. A device or a pipe is written to: to rename
    a file over `/dev/null` would take it away from the whole machine.
    """
    if file.exists() and not file.is_file():
        file.write_bytes(content)
        return
    if file.is_symlink():
        file = Path(os.path.realpath(file))  # Of links in a circle it is one of them.
    temporary = file.with_name(f".{file.name}.{os.getpid()}.{get_ident()}.tmp")
    if is_kept:
        _sweep(file)
    try:
        with temporary.open("wb") as stream:
            if is_kept and file.exists():
                temporary.chmod(file.stat().st_mode & 0o7777)
            stream.write(content)
            if is_kept:
                stream.flush()
                os.fsync(stream.fileno())
        os.replace(temporary, file)
        if is_kept:
            _settle(file.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _sweep(file: Path) -> None:
    """Remove what killed processes left of a file that they were writing."""
    for path in file.parent.glob(f".{glob.escape(file.name)}.*.tmp"):
        owner = path.name.removeprefix(f".{file.name}.").partition(".")[0]
        if owner.isdecimal() and not _runs(int(owner)):
            path.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    """Return whether a process may still run; on Windows its files cannot be removed anyway."""
    if os.name == "nt":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _settle(folder: Path) -> None:
    """Make the new name of a file durable, where folders can be opened: not on Windows."""
    with suppress(PermissionError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def refuse_links(*paths: Path) -> None:
    """Raise OSError for the first place that is a link, which could name a stranger's file."""
    for path in paths:
        if path.is_symlink():
            problem = "is a link, and simkit writes through none; remove it"
            raise OSError(errno.ELOOP, problem, str(path))


DAMAGE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The errors of decoding a damaged file."""
_DAMAGED: Final[set[Path]] = set()
"""Damaged files that were reported."""


def read_stored(file: Path, kind: type[T]) -> T | None:
    """Return what simkit stored in a file of JSON; None if there is none, or it is damaged.

    Damage is reported once. Raise OSError if the file cannot be read.
    """
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except DAMAGE:
        if file not in _DAMAGED:
            _DAMAGED.add(file)
            echo(f"{file} is damaged and not used; the next run writes it anew", err=True)
        return None


def check_place(file: str, option: str) -> None:
    """Raise SimkitError if no report can be written there, before anything runs for it.

    An existing report is replaced. A file of sources is not: `--html refund.scenario.yaml` is
    written by somebody who takes the option for a switch.
    """
    path = Path(file)
    folder = path.parent
    if path.is_dir():
        raise SimkitError(f"{option}: {file} is a folder\n  Name a file in it: {file}/report.html")
    if file.endswith(os.sep):  # The name of a folder, although Path forgets it.
        raise SimkitError(f"{option}: there is no folder {file}")
    if not folder.is_dir():
        raise SimkitError(f"{option}: there is no folder {folder}")
    if path.exists() and not path.is_file():
        return  # A device or a pipe, which needs no room in its folder.
    if path.exists() and path.name.lower().endswith(SOURCES):
        raise SimkitError(
            f"{option}: {file} is there, is no report, and is not overwritten\n"
            f"  Behind {option} stands the file that is to be written."
        )
    if not os.access(folder, os.W_OK):
        raise SimkitError(f"{option}: the folder {folder} cannot be written to")


# Locks between processes: only the holder of a folder's lock changes the files in it
#
# The operating system drops a lock when its process ends, however it ends, so that no lock is
# ever stale. On POSIX the folder itself is locked; where folders cannot be opened (Windows), a
# file in it.


_FILE: Final = ".lock"
_NOT_CARRIED: Final = frozenset(
    (errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP)
)
"""Errors of file systems without locks of folders, such as NFS."""


class Lock(AbstractContextManager["Lock"]):
    """The lock of one folder, held until it is released or the process ends."""

    def __init__(self, folder: Path) -> None:
        """Open the folder. Raise OSError if it cannot be opened."""
        self._handle = _opened(folder)

    def acquire(self, *, waits: bool) -> bool:
        """Return whether the lock is held now; with ``waits``, wait until it is.

        If the file system has no locks, a waiting caller continues without one: a paid recording is
        worth more than the order of two recordings that are written at once.
        """
        try:
            _lock(self._handle, waits)
        except OSError as error:
            if waits and error.errno not in _NOT_CARRIED:
                raise
            return waits
        return True

    def release(self) -> None:
        """Release the lock."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __exit__(self, *_: object) -> None:
        self.release()


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold a folder's lock; wait until it is free. Raise OSError if the folder cannot be opened."""
    with Lock(folder) as lock:
        lock.acquire(waits=True)
        yield


if os.name == "nt":  # pragma: no cover
    import msvcrt
    import time

    _windows: Any = msvcrt

    def _opened(folder: Path) -> int:
        return os.open(folder / _FILE, os.O_RDWR | os.O_CREAT)

    def _lock(handle: int, waits: bool) -> None:
        while True:
            try:
                _windows.locking(handle, _windows.LK_NBLCK, 1)
                return
            except OSError:
                if not waits:
                    raise
                time.sleep(0.02)

else:
    import fcntl

    def _opened(folder: Path) -> int:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    def _lock(handle: int, waits: bool) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))


# The files that this process reads, as Python's audit events name them


YAML: Final = (".yaml", ".yml")


class FileReads:
    """Records every file of a project that is opened."""

    def __init__(self) -> None:
        self._folder = Path.cwd()
        self._files_read: dict[str, None] = {}
        self._files_written: set[str] = set()

    def begin(self) -> FileReads:
        """Record what is opened from now on."""
        add_listener(self.note)
        return self

    def end(self) -> None:
        """Record nothing more."""
        remove_listener(self.note)

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Handle Python's audit event for an opened file."""
        if event != "open" or not isinstance(arguments[0], str):
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
