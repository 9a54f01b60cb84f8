"""Storage that outlives a process: one append-only journal of events, in SQLite.

The processes of a run share a file, so that commits survive a killed one. It is made for a run and
removed after it (`simkit.session.execution.running`). A run in one process has a store in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from simkit.core.errors import StoreInvalid
from simkit.core.files import DAMAGE

# NORMAL does not wait for the disk at each commit: written data then belongs to the operating
# system, and a killed process cannot lose it.
_SCHEMA: Final = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS journal (place INTEGER PRIMARY KEY, body BLOB);
CREATE TABLE IF NOT EXISTS checkpoints (number INTEGER PRIMARY KEY, body BLOB);
"""


class Checkpoint(msgspec.Struct, frozen=True, gc=False):
    """A point up to which everything is saved."""

    id: str
    """``k1``, ``k2``, … counted over the whole run."""
    session: str
    turn: int
    agent: str
    """The agent whose run had ended; empty at the end of a turn."""
    place: int
    """The number of journal entries that it covers."""
    counters: Mapping[str, int]
    """The virtual time, and the counters of ids."""


_CHECKPOINT: Final = msgspec.json.Decoder(Checkpoint)


class Store:
    """A store in one file, for one writing process at a time."""

    def __init__(self, path: str | Path = ":memory:") -> None:
        """Open the store, or create one; raise StoreInvalid if the file is no store."""
        # Imported late, which takes 8 ms: most runs have no store.
        import sqlite3

        self._error = sqlite3.Error
        self._name = str(path)
        try:
            self._connection = sqlite3.connect(path, isolation_level=None)
            self._connection.executescript(_SCHEMA)
            rows = self._connection.execute("SELECT body FROM checkpoints ORDER BY number")
            self._checkpoints = [_CHECKPOINT.decode(body) for (body,) in rows]
        except (self._error, *DAMAGE) as problem:
            raise StoreInvalid(f"{self._name}: the store cannot be opened: {problem}.") from problem

    def commit(self, entries: Sequence[bytes], checkpoint: Checkpoint) -> None:
        """Append entries and the checkpoint that covers them, all or nothing."""
        end = self._checkpoints[-1].place if self._checkpoints else 0
        if checkpoint.place != end + len(entries):
            raise StoreInvalid(
                f"{self._name}: checkpoint {checkpoint.id!r} covers {checkpoint.place} entries, "
                f"but with it the journal has {end + len(entries)}. Was another process writing to "
                "it? Nothing was added."
            )
        number, body = len(self._checkpoints) + 1, msgspec.json.encode(checkpoint)
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                # Places are unique, so that another writer's entry collides with ours.
                connection.executemany(
                    "INSERT INTO journal VALUES (?, ?)", enumerate(entries, end + 1)
                )
                connection.execute("INSERT INTO checkpoints VALUES (?, ?)", (number, body))
        except self._error as problem:
            raise StoreInvalid(
                f"{self._name}: checkpoint {checkpoint.id!r} cannot be saved: {problem}. What was "
                "saved before it stands."
            ) from problem
        self._checkpoints.append(_CHECKPOINT.decode(body))

    def journal(self) -> Iterator[bytes]:
        """Yield every committed entry, in order; raise StoreInvalid if it cannot be read."""
        try:
            rows = self._connection.execute("SELECT body FROM journal ORDER BY place").fetchall()
        except self._error as problem:
            raise StoreInvalid(f"{self._name}: the store cannot be read: {problem}.") from problem
        for (body,) in rows:
            yield body

    def checkpoints(self) -> Sequence[Checkpoint]:
        """Return every checkpoint, oldest first."""
        return tuple(self._checkpoints)

    def close(self) -> None:
        """Close the file; it is then the whole store, with no log beside it."""
        self._connection.close()
