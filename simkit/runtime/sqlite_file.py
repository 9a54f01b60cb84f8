"""A store's file outside SQLite: created atomically, checked, and opened.

A damaged or foreign file is left byte for byte as it was; so it is first checked without SQLite,
after https://www.sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from struct import unpack
from typing import Final

APPLICATION_ID: Final = 0x73696D6B
"""``simk``, in SQLite's header: the mark of our files."""
FORMAT: Final = 1
"""The format's version, as SQLite's ``user_version``."""

TAKE_ANOTHER: Final = "It was left as it is: name another file for the store."
PUT_BACK: Final = "It was left as it is: put back a copy of it, or name another file for the store."

_MAGIC: Final = b"SQLite format 3\0"
_HEADER_BYTES: Final = 100
_PAGE_BYTES: Final = 4096
_LOG_HEADER_BYTES: Final = 32
_FRAME_BYTES: Final = 24 + _PAGE_BYTES

_SCHEMA: Final = f"""
PRAGMA page_size = {_PAGE_BYTES};
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
CREATE TABLE journal (place INTEGER PRIMARY KEY, body BLOB, chain INTEGER);
CREATE TABLE checkpoints (number INTEGER PRIMARY KEY, body BLOB, mark INTEGER, chain INTEGER);
"""


def log_of(path: Path) -> Path:
    """Return the path of SQLite's write-ahead log: commits that are not yet in the database."""
    return path.with_name(path.name + "-wal")


def _has_log(path: Path) -> bool:
    log = log_of(path)
    return log.exists() and log.stat().st_size > 0


def is_new(path: Path) -> bool:
    """Return whether there is no store file yet."""
    is_empty = path.is_file() and path.stat().st_size == 0
    return (is_empty or not path.exists()) and not _has_log(path)


def create(path: Path) -> None:
    """Create an empty store, completely or not at all."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(_SCHEMA)
        image = connection.serialize()
    # Bytes 18 and 19 say that the database has a write-ahead log. They are set from the start, so
    # that no process can be killed while SQLite changes them.
    whole = path.with_name(path.name + "-new")
    whole.write_bytes(image[:18] + b"\2\2" + image[20:])
    os.replace(whole, path)


def fault_in(path: Path) -> str:
    """Return what is wrong with a file, read without SQLite; empty if nothing is."""
    size = path.stat().st_size if path.exists() else 0
    if not size and _has_log(path):
        return f"the store is damaged: nothing is left of it but {log_of(path).name}. {PUT_BACK}"
    with path.open("rb") as file:
        head = file.read(_HEADER_BYTES)
    if head[: len(_MAGIC)] != _MAGIC[: len(head)]:
        return f"this is no store of simkit: it is no SQLite database. {TAKE_ANOTHER}"
    if len(head) < _HEADER_BYTES:
        return f"the store is damaged: it is cut off after {size} bytes. {PUT_BACK}"
    if _number_at(68, head) != APPLICATION_ID:
        return f"this is no store of simkit: another program's database. {TAKE_ANOTHER}"
    if (version := _number_at(60, head)) != FORMAT:
        return (
            f"the store has format {version}, this simkit reads format {FORMAT}. It was left as it "
            "is: open it with the simkit that wrote it, or name another file for the store."
        )
    if not _has_log(path):
        if size != (pages_size := _number_at(28, head) * _PAGE_BYTES):
            return f"the store is damaged: it has {size} bytes instead of {pages_size}. {PUT_BACK}"
    elif not _log_is_sound(log_of(path).read_bytes()):
        return f"the store is damaged: {log_of(path).name} is not what was saved. {PUT_BACK}"
    return ""


def _number_at(place: int, data: bytes) -> int:
    return int.from_bytes(data[place : place + 4], "big")


def _log_is_sound(log: bytes) -> bool:
    """Return whether every complete frame of a write-ahead log is valid.

    SQLite takes an invalid frame for the end of the log, and would silently drop the commits after
    it. Only a last frame that is cut off comes from a killed process. Logs of other programs may
    contain old frames; ours never do (`open_to_write`).
    """
    if len(log) < _LOG_HEADER_BYTES:
        return True
    byte_order: Final = ">" if log[3] & 1 else "<"
    sums = _log_sums(byte_order, log[:24], (0, 0))
    if sums != (_number_at(24, log), _number_at(28, log)) or _number_at(8, log) != _PAGE_BYTES:
        return False
    salts = log[16:24]
    for start in range(_LOG_HEADER_BYTES, len(log) - _FRAME_BYTES + 1, _FRAME_BYTES):
        frame = log[start : start + _FRAME_BYTES]
        sums = _log_sums(byte_order, frame[:8] + frame[24:], sums)
        if frame[8:16] != salts or sums != (_number_at(16, frame), _number_at(20, frame)):
            return False
    return True


def _log_sums(byte_order: str, data: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    first, second = sums
    numbers = iter(unpack(f"{byte_order}{len(data) // 4}I", data))
    for even, odd in zip(numbers, numbers, strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second


def open_to_read(path: Path) -> sqlite3.Connection:
    """Open a database so that nothing changes it, not even closing it."""
    # Without a log there is nothing to share with a writer, and SQLite need not make its own files
    # beside the database.
    mode = "mode=ro" if _has_log(path) else "mode=ro&immutable=1"
    return sqlite3.connect(f"{path.as_uri()}?{mode}", uri=True, isolation_level=None)


def open_to_write(path: Path) -> sqlite3.Connection:
    """Open a database so that commits survive a killed process; raise sqlite3.Error."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        # NORMAL does not wait for the disk at each commit: written data then belongs to the
        # operating system, and a killed process cannot lose it. A power cut may lose the last
        # commits, but never tears one apart.
        connection.execute("PRAGMA synchronous = NORMAL")
        # A log that is emptied, never overwritten from its start, and written only by COMMIT
        # contains no old frames: an invalid frame in it is damage (`_log_is_sound`).
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("PRAGMA cache_spill = OFF")
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise sqlite3.OperationalError("another process is using the store")
    except BaseException:
        connection.close()
        raise
    return connection
