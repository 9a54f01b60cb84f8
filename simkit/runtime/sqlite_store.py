"""A store in one SQLite file: commits survive the process, however it ends.

The journal is an append-only table. ``chain`` is a crc32 over all its entries, so that a damaged,
missing or misplaced row is noticed; a checkpoint's ``mark`` is the chain at its place, and
checkpoints have their own chain. Until the first commit the file is only read, so that a damaged
one stays as it is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn
from zlib import crc32

import msgspec

from simkit.core.errors import StoreInvalid
from simkit.runtime.ports import Checkpoint
from simkit.runtime.sqlite_file import (
    PUT_BACK,
    create,
    fault_in,
    is_new,
    log_of,
    open_to_read,
    open_to_write,
)
from simkit.runtime.stores import check_cover, detached

LOG_BYTES = 4_000_000
"""The size from which the write-ahead log is moved into the database."""

_ROWS_AT_ONCE: Final = 1_000

_CHECKPOINTS: Final = "SELECT number, body, mark, chain FROM checkpoints ORDER BY number"

_CHECKPOINT_DECODER: Final = msgspec.json.Decoder(Checkpoint)


class SqliteStore:
    """A store in one file, for one writing process at a time."""

    def __init__(self, path: str | Path) -> None:
        """Open the store, or create one; raise StoreInvalid if the file is no store."""
        self._name = str(path)
        self._path = Path(path).resolve()
        self._connection: sqlite3.Connection | None = None
        self._is_writing = False
        self._end = self._chain = self._checkpoints_chain = 0
        self._checkpoints: list[Checkpoint] = []
        self._marks: dict[int, int] = {}
        try:
            if is_new(self._path):
                create(self._path)
            elif fault := fault_in(self._path):
                raise StoreInvalid(f"{self._name}: {fault}")
            self._connection = open_to_read(self._path)
            self._read_checkpoints()
        except (OSError, sqlite3.Error) as problem:
            problem_text = problem.strerror if isinstance(problem, OSError) else problem
            raise StoreInvalid(
                f"{self._name}: the store cannot be opened: {problem_text}."
            ) from problem
        except BaseException:
            self.close()
            raise

    def commit(self, entries: Sequence[bytes], checkpoint: Checkpoint) -> None:
        """Append entries and the checkpoint that covers them, all or nothing.

        After an error the store is closed; earlier commits stay.
        """
        check_cover(self._name, self._end + len(entries), checkpoint)
        chain, rows = self._chain, []
        for place, entry in enumerate(entries, self._end + 1):
            chain = crc32(entry, chain)
            rows.append((place, entry, chain))
        body = msgspec.json.encode(checkpoint)
        checkpoints_chain = _checkpoint_chain(body, chain, self._checkpoints_chain)
        number = len(self._checkpoints) + 1
        try:
            connection = self._writing()
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO journal VALUES (?, ?, ?)", rows)
            connection.execute(
                "INSERT INTO checkpoints VALUES (?, ?, ?, ?)",
                (number, body, chain, checkpoints_chain),
            )
            connection.execute("COMMIT")
        except BaseException as problem:
            self.close()
            if isinstance(problem, sqlite3.Error):
                # Places are unique, so that another writer's entry collides with ours.
                is_shared = isinstance(problem, sqlite3.IntegrityError)
                problem_text = "another process has added to the store" if is_shared else problem
                raise StoreInvalid(
                    f"{self._name}: checkpoint {checkpoint.id!r} cannot be saved: "
                    f"{problem_text}. What was saved before it stands."
                ) from problem
            raise
        self._end, self._chain, self._checkpoints_chain = checkpoint.place, chain, checkpoints_chain
        self._marks[checkpoint.place] = chain
        self._checkpoints.append(detached(checkpoint))
        self._shorten_log(connection)

    def journal(self) -> Iterator[bytes]:
        """Yield every committed entry, in order; raise StoreInvalid if it is damaged."""
        place, chain, end = 0, 0, self._end
        while place < end:
            # Read in pieces that are fetched completely, so that no open query blocks a commit.
            rows = self._rows(
                "SELECT place, body, chain FROM journal WHERE place > ? AND place <= ? "
                "ORDER BY place LIMIT ?",
                (place, end, _ROWS_AT_ONCE),
            )
            if not rows:
                self._report(f"entry {place + 1} of its journal is missing")
            for mark, body, sum in rows:
                place += 1
                if mark != place:
                    self._report(f"entry {place} of its journal is missing")
                if not isinstance(body, bytes) or (chain := crc32(body, chain)) != sum:
                    self._report(f"entry {place} of its journal is not what was saved")
                if self._marks.get(place, chain) != chain:
                    self._report(f"entry {place} of its journal is not the one its checkpoint saw")
                yield body

    def checkpoints(self) -> Sequence[Checkpoint]:
        """Return every checkpoint, oldest first."""
        return tuple(self._checkpoints)

    def close(self) -> None:
        """Close the file; it is then the whole store, with no log beside it."""
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _read_checkpoints(self) -> None:
        """Read where the store ends; entries are checked when they are read."""
        chain = 0
        for number, row in enumerate(self._rows(_CHECKPOINTS), 1):
            mark_read, body, mark, sum = row
            if mark_read != number:
                self._report(f"checkpoint {number} is missing")
            if (
                not (isinstance(body, bytes) and isinstance(mark, int))
                or (chain := _checkpoint_chain(body, mark, chain)) != sum
            ):
                self._report(f"checkpoint {number} is not what was saved")
            try:
                checkpoint = _CHECKPOINT_DECODER.decode(body)
            except msgspec.MsgspecError as problem:
                self._report(f"checkpoint {number} cannot be read: {problem}")
            self._checkpoints.append(checkpoint)
            self._marks[checkpoint.place] = mark
            self._end, self._chain = checkpoint.place, mark
        self._checkpoints_chain = chain
        ((last,),) = self._rows("SELECT coalesce(max(place), 0) FROM journal")
        if last < self._end:
            self._report(
                f"checkpoint {self._checkpoints[-1].id!r} covers {self._end} entries, but its "
                f"journal ends with entry {last}"
            )
        if last > self._end:
            self._report(f"no checkpoint covers entry {last} of its journal")

    def _rows(self, statement: str, values: tuple[int, ...] = ()) -> list[Any]:
        if self._connection is None:
            raise StoreInvalid(f"{self._name}: the store is closed.")
        try:
            return self._connection.execute(statement, values).fetchall()
        except (sqlite3.Error, UnicodeDecodeError) as problem:  # the latter: in SQLite's message
            self._report(f"SQLite says: {problem}")

    def _writing(self) -> sqlite3.Connection:
        """Return the connection for commits, opened on first use."""
        if self._connection is None:
            raise StoreInvalid(f"{self._name}: the store is closed.")
        if not self._is_writing:
            self._connection.close()
            self._connection = open_to_write(self._path)
            self._is_writing = True
        return self._connection

    def _shorten_log(self, connection: sqlite3.Connection) -> None:
        # The commit is done whatever happens here; this is tried again after the next one.
        with suppress(OSError, sqlite3.Error):
            if log_of(self._path).stat().st_size > LOG_BYTES:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _report(self, problem: str) -> NoReturn:
        raise StoreInvalid(f"{self._name}: the store is damaged: {problem}. {PUT_BACK}")


def _checkpoint_chain(body: bytes, mark: int, chain: int) -> int:
    return crc32(body, crc32(b"%d" % mark, chain))
