"""The store in memory, and the check that all stores share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from simkit.core.errors import StoreInvalid
from simkit.runtime.ports import Checkpoint


class MemoryStore:
    """A store that ends with its process."""

    __slots__ = ("_checkpoints", "_entries")

    def __init__(self) -> None:
        self._entries: list[bytes] = []
        self._checkpoints: list[Checkpoint] = []

    def commit(self, entries: Sequence[bytes], checkpoint: Checkpoint) -> None:
        """Append entries and the checkpoint that covers them."""
        check_cover("the store in memory", len(self._entries) + len(entries), checkpoint)
        self._entries.extend(entries)
        # A copy: the caller's counters go on.
        counters = dict(checkpoint.counters)
        self._checkpoints.append(msgspec.structs.replace(checkpoint, counters=counters))

    def journal(self) -> Iterator[bytes]:
        """Yield every entry that was committed before the first call of the iterator, in order."""
        yield from islice(self._entries, len(self._entries))

    def checkpoints(self) -> Sequence[Checkpoint]:
        """Return every checkpoint, oldest first."""
        return tuple(self._checkpoints)

    def close(self) -> None:
        """Do nothing: it has no open resources, and keeps its content."""


def check_cover(name: str, end: int, checkpoint: Checkpoint) -> None:
    """Raise StoreInvalid unless a checkpoint covers exactly the entries up to ``end``."""
    if checkpoint.place != end:
        raise StoreInvalid(
            f"{name}: checkpoint {checkpoint.id!r} covers {checkpoint.place} entries, but with it "
            f"the journal has {end}. Was another process writing to it? Nothing was added."
        )
