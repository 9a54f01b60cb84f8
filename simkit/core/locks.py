"""Locks between processes: only the holder of a folder's lock changes the files in it.

The operating system drops a lock when its process ends, however it ends, so that no lock is ever
stale. On POSIX the folder itself is locked; where folders cannot be opened (Windows), a file in it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final

_FILE: Final = ".lock"
_NOT_CARRIED: Final = frozenset(
    (errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP)
)
"""Errors of file systems without locks of folders, such as NFS."""


class Lock:
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

    def __enter__(self) -> Lock:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
