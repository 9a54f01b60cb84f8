"""Stores: what is committed is read back in order, by whoever opens the store next."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from simkit.core.errors import StoreInvalid
from simkit.runtime.journal import Checkpoint, Store

ENTRIES = [b'{"kind":"MessageAdded","at":%d}' % at for at in range(6)]


def checkpoint(number: int, place: int) -> Checkpoint:
    return Checkpoint(f"k{number}", "s1", 1, "a", place, {"at": 10 * number})


def fill(store: Store) -> None:
    """Commits all entries, two at a time."""
    for number in (1, 2, 3):
        end = 2 * number
        store.commit(ENTRIES[end - 2 : end], checkpoint(number, end))


FILLED = [checkpoint(1, 2), checkpoint(2, 4), checkpoint(3, 6)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store is, under a name that means something in a URI."""
    return tmp_path / "a store #1?.db"


@pytest.fixture
def filled(path: Path) -> Path:
    """A store that was filled and closed."""
    with closing(Store(path)) as store:
        fill(store)
    return path


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with closing(Store(path)) as result:
        yield result


def content(path: Path) -> tuple[list[bytes], list[Checkpoint]]:
    """Everything that a store gives back."""
    with closing(Store(path)) as store:
        return list(store.journal()), list(store.checkpoints())


def test_what_is_committed_is_read_in_order(store: Store) -> None:
    fill(store)

    assert list(store.journal()) == ENTRIES
    assert list(store.checkpoints()) == FILLED


def test_a_new_store_is_empty(store: Store) -> None:
    with closing(Store()) as in_memory:
        for new in (store, in_memory):
            assert (list(new.journal()), list(new.checkpoints())) == ([], [])


def test_a_checkpoint_may_cover_nothing_new(store: Store) -> None:
    store.commit(ENTRIES[:2], checkpoint(1, 2))
    store.commit([], checkpoint(2, 2))

    assert list(store.journal()) == ENTRIES[:2]
    assert list(store.checkpoints()) == [checkpoint(1, 2), checkpoint(2, 2)]


def test_a_checkpoint_that_does_not_fit_its_entries_is_refused_and_adds_nothing(
    store: Store, path: Path
) -> None:
    with pytest.raises(StoreInvalid) as refused:
        store.commit(ENTRIES[:2], checkpoint(1, 3))

    assert str(refused.value) == (
        f"{path}: checkpoint 'k1' covers 3 entries, but with it the journal has 2. Was another "
        "process writing to it? Nothing was added."
    )
    assert (list(store.journal()), list(store.checkpoints())) == ([], [])


def test_a_checkpoint_keeps_the_counters_it_was_given(store: Store) -> None:
    counters = {"at": 1}
    store.commit([], Checkpoint("k1", "s1", 1, "a", 0, counters))

    counters["at"] = 2

    assert store.checkpoints()[0].counters == {"at": 1}


def test_a_journal_that_is_being_read_does_not_hold_up_a_commit(store: Store) -> None:
    store.commit(ENTRIES[:4], checkpoint(1, 4))
    journal = store.journal()
    first = next(journal)
    store.commit(ENTRIES[4:], checkpoint(2, 6))

    assert [first, *journal] == ENTRIES[:4]
    assert list(store.journal()) == ENTRIES


def test_a_store_is_read_and_continued_by_another(filled: Path) -> None:
    with closing(Store(filled)) as store:
        store.commit([b"more"], checkpoint(4, 7))

    assert content(filled) == ([*ENTRIES, b"more"], [*FILLED, checkpoint(4, 7)])
    assert list(filled.parent.iterdir()) == [filled]


def test_of_two_writers_the_second_is_refused(filled: Path) -> None:
    with closing(Store(filled)) as first, closing(Store(filled)) as second:
        first.commit([b"mine"], checkpoint(4, 7))
        with pytest.raises(StoreInvalid) as refused:
            second.commit([b"yours"], checkpoint(4, 7))

    assert str(refused.value) == (
        f"{filled}: checkpoint 'k4' cannot be saved: UNIQUE constraint failed: journal.place. What "
        "was saved before it stands."
    )
    assert content(filled) == ([*ENTRIES, b"mine"], [*FILLED, checkpoint(4, 7)])


def test_what_cannot_be_opened_is_refused(path: Path, tmp_path: Path) -> None:
    path.write_bytes(b"Dear diary, today I was mistaken for a database of checkpoints." * 9)

    with pytest.raises(StoreInvalid) as refused:
        Store(path)
    with pytest.raises(StoreInvalid) as missing:
        Store(tmp_path / "missing" / "store.db")

    assert str(refused.value) == f"{path}: the store cannot be opened: file is not a database."
    assert str(missing.value).endswith("the store cannot be opened: unable to open database file.")


def test_what_cannot_be_read_any_more_is_an_error(filled: Path) -> None:
    with closing(Store(filled)) as store, closing(sqlite3.connect(filled)) as other:
        other.execute("DROP TABLE journal")
        with pytest.raises(StoreInvalid) as refused:
            list(store.journal())

    assert str(refused.value) == (f"{filled}: the store cannot be read: no such table: journal.")
