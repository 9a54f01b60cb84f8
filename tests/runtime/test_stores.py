"""Stores: what is committed is read back in order; what is no whole store is refused, untouched."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import pytest

from simkit.core.errors import StoreInvalid
from simkit.runtime import sqlite_store
from simkit.runtime.ports import Checkpoint, Store
from simkit.runtime.sqlite_store import SqliteStore
from simkit.runtime.stores import MemoryStore

ENTRIES = [b'{"kind":"MessageAdded","at":%d}' % at for at in range(6)]
LEFT = "It was left as it is"
PUT_BACK = f"{LEFT}: put back a copy of it, or name another file for the store."
TAKE_ANOTHER = f"{LEFT}: name another file for the store."
Spoil: TypeAlias = Callable[[Path], object]
FRAME = 24 + 4096
"""Bytes of one page in the log."""


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
    with closing(SqliteStore(path)) as store:
        fill(store)
    return path


@pytest.fixture
def abandoned(filled: Path, tmp_path: Path) -> Path:
    """A store of nine checkpoints whose process was killed: three in the file, six in its log."""
    copy = tmp_path / "abandoned.db"
    with closing(SqliteStore(filled)) as store:
        for number in range(4, 10):
            store.commit([b"%d" % number * 900], checkpoint(number, 3 + number))
        copy.write_bytes(filled.read_bytes())
        log_of(copy).write_bytes(log_of(filled).read_bytes())
    return copy


@pytest.fixture(params=[MemoryStore, SqliteStore], ids=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, path: Path) -> Iterator[Store]:
    result = MemoryStore() if request.param is MemoryStore else SqliteStore(path)
    with closing(result):
        yield result


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def content(path: Path) -> tuple[list[bytes], list[Checkpoint]]:
    """Everything that a store gives back."""
    with closing(SqliteStore(path)) as store:
        return list(store.journal()), list(store.checkpoints())


def refusal(path: Path) -> str:
    """What is said of a store that cannot be read."""
    with pytest.raises(StoreInvalid) as refused:
        content(path)
    return str(refused.value)


def bytes_of(path: Path) -> tuple[bytes, bytes | None]:
    log = log_of(path)
    return path.read_bytes(), log.read_bytes() if log.exists() else None


def run_sql(path: Path, *statements: str) -> None:
    """What somebody with another tool did to a store."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(";".join(statements))


def test_what_is_committed_is_read_in_order(store: Store) -> None:
    fill(store)

    assert list(store.journal()) == ENTRIES
    assert list(store.checkpoints()) == FILLED


def test_a_new_store_is_empty(store: Store) -> None:
    assert (list(store.journal()), list(store.checkpoints())) == ([], [])


def test_a_checkpoint_may_cover_nothing_new(store: Store) -> None:
    store.commit(ENTRIES[:2], checkpoint(1, 2))
    store.commit([], checkpoint(2, 2))

    assert list(store.journal()) == ENTRIES[:2]
    assert list(store.checkpoints()) == [checkpoint(1, 2), checkpoint(2, 2)]


def test_a_checkpoint_that_does_not_fit_its_entries_is_refused_and_adds_nothing(
    store: Store, path: Path
) -> None:
    name = "the store in memory" if isinstance(store, MemoryStore) else str(path)

    with pytest.raises(StoreInvalid) as refused:
        store.commit(ENTRIES[:2], checkpoint(1, 3))

    assert str(refused.value) == (
        f"{name}: checkpoint 'k1' covers 3 entries, but with it the journal has 2. Was another "
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


def test_a_journal_longer_than_one_reading_is_whole(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "_ROWS_AT_ONCE", 4)
    fill(store)

    assert list(store.journal()) == ENTRIES


def test_a_store_is_read_and_continued_by_another(filled: Path) -> None:
    with closing(SqliteStore(filled)) as store:
        store.commit([b"more"], checkpoint(4, 7))

    assert content(filled) == ([*ENTRIES, b"more"], [*FILLED, checkpoint(4, 7)])


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    with closing(SqliteStore(path)) as store:
        fill(store)

    assert content(path) == (ENTRIES, FILLED)


def test_a_closed_store_is_one_file_and_reading_it_changes_nothing(filled: Path) -> None:
    before = filled.read_bytes()

    assert content(filled) == (ENTRIES, FILLED)
    assert filled.read_bytes() == before
    assert list(filled.parent.iterdir()) == [filled]


def test_reading_what_a_killed_process_left_changes_neither_file_nor_log(abandoned: Path) -> None:
    before = bytes_of(abandoned)

    entries, checkpoints = content(abandoned)

    assert len(entries) == 12
    assert [c.id for c in checkpoints] == [f"k{number}" for number in range(1, 10)]
    assert bytes_of(abandoned) == before


def test_the_log_is_moved_into_the_file_when_it_is_long(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "LOG_BYTES", 5 * FRAME)
    with closing(SqliteStore(path)) as store:
        fill(store)
        moved = log_of(path).stat().st_size < 5 * FRAME, path.stat().st_size

    assert moved == (True, 3 * 4096)
    assert content(path) == (ENTRIES, FILLED)


def test_a_closed_store_says_so_and_may_be_closed_again(filled: Path) -> None:
    store = SqliteStore(filled)
    store.close()
    store.close()

    with pytest.raises(StoreInvalid, match=re.escape(f"{filled}: the store is closed.")):
        list(store.journal())
    with pytest.raises(StoreInvalid, match=re.escape(f"{filled}: the store is closed.")):
        store.commit([], checkpoint(4, 6))


def test_of_two_writers_the_second_is_refused(filled: Path) -> None:
    with closing(SqliteStore(filled)) as first, closing(SqliteStore(filled)) as second:
        first.commit([b"mine"], checkpoint(4, 7))
        with pytest.raises(StoreInvalid) as refused:
            second.commit([b"yours"], checkpoint(4, 7))

    assert str(refused.value) == (
        f"{filled}: checkpoint 'k4' cannot be saved: another process has added to the store. What "
        "was saved before it stands."
    )
    assert content(filled) == ([*ENTRIES, b"mine"], [*FILLED, checkpoint(4, 7)])


def test_a_commit_that_fails_leaves_what_was_committed(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(SqliteStore(filled)) as store, closing(sqlite3.connect(filled)) as other:
        other.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr(
            sqlite_store, "open_to_write", lambda path: sqlite3.connect(path, timeout=0)
        )
        with pytest.raises(StoreInvalid) as refused:
            store.commit([b"more"], checkpoint(4, 7))

    assert str(refused.value) == (
        f"{filled}: checkpoint 'k4' cannot be saved: database is locked. What was saved before it "
        "stands."
    )
    assert content(filled) == (ENTRIES, FILLED)


def write(data: bytes) -> Spoil:
    return lambda path: path.write_bytes(data)


def cut(size: int) -> Spoil:
    return lambda path: path.write_bytes(path.read_bytes()[:size])


def replace(old: bytes, new: bytes) -> Spoil:
    """Flips bytes of a row, in the file itself."""

    def spoil(path: Path) -> None:
        data = path.read_bytes()
        assert data.count(old) == 1
        path.write_bytes(data.replace(old, new))

    return spoil


def sql(*statements: str) -> Spoil:
    return lambda path: run_sql(path, *statements)


def foreign(path: Path) -> None:
    path.unlink()
    run_sql(path, "PRAGMA journal_mode = WAL", "CREATE TABLE users (name TEXT)")


def only_the_log(path: Path) -> None:
    log_of(path).write_bytes(b"something")
    path.write_bytes(b"")


SPOILED: dict[str, tuple[Spoil, str]] = {
    "text": (
        write(b"Dear diary, today I was mistaken for a database of checkpoints by a test." * 9),
        f"this is no store of simkit: it is no SQLite database. {TAKE_ANOTHER}",
    ),
    "one byte": (
        write(b"x"),
        f"this is no store of simkit: it is no SQLite database. {TAKE_ANOTHER}",
    ),
    "another program's database": (
        foreign,
        f"this is no store of simkit: another program's database. {TAKE_ANOTHER}",
    ),
    "a newer format": (
        sql("PRAGMA user_version = 2"),
        "the store has format 2, this simkit reads format 1. It was left as it is: open it with "
        "the simkit that wrote it, or name another file for the store.",
    ),
    "cut in the header": (
        cut(50),
        f"the store is damaged: it is cut off after 50 bytes. {PUT_BACK}",
    ),
    "cut in a page": (
        cut(6000),
        f"the store is damaged: it has 6000 bytes instead of 12288. {PUT_BACK}",
    ),
    "cut between pages": (
        cut(8192),
        f"the store is damaged: it has 8192 bytes instead of 12288. {PUT_BACK}",
    ),
    "only its log is left": (
        only_the_log,
        f"the store is damaged: nothing is left of it but a store #1?.db-wal. {PUT_BACK}",
    ),
    "an entry changed": (
        replace(ENTRIES[2], ENTRIES[2].replace(b"2", b"7")),
        f"the store is damaged: entry 3 of its journal is not what was saved. {PUT_BACK}",
    ),
    "an entry is text": (
        sql("UPDATE journal SET body = CAST(body AS TEXT) WHERE place = 2"),
        f"the store is damaged: entry 2 of its journal is not what was saved. {PUT_BACK}",
    ),
    "two entries swapped": (
        sql(
            "UPDATE journal SET place = 9 WHERE place = 2",
            "UPDATE journal SET place = 2 WHERE place = 3",
            "UPDATE journal SET place = 3 WHERE place = 9",
        ),
        f"the store is damaged: entry 2 of its journal is not what was saved. {PUT_BACK}",
    ),
    "an entry missing": (
        sql("DELETE FROM journal WHERE place = 3"),
        f"the store is damaged: entry 3 of its journal is missing. {PUT_BACK}",
    ),
    "the last entry missing": (
        sql("DELETE FROM journal WHERE place = 6"),
        "the store is damaged: checkpoint 'k3' covers 6 entries, but its journal ends with entry "
        f"5. {PUT_BACK}",
    ),
    "the last checkpoint missing": (
        sql("DELETE FROM checkpoints WHERE number = 3"),
        f"the store is damaged: no checkpoint covers entry 6 of its journal. {PUT_BACK}",
    ),
    "a checkpoint missing": (
        sql("DELETE FROM checkpoints WHERE number = 2"),
        f"the store is damaged: checkpoint 2 is missing. {PUT_BACK}",
    ),
    "a checkpoint changed": (
        replace(b'"place":4', b'"place":9'),
        f"the store is damaged: checkpoint 2 is not what was saved. {PUT_BACK}",
    ),
    "a sum changed": (
        sql("UPDATE journal SET chain = chain + 1 WHERE place = 6"),
        f"the store is damaged: entry 6 of its journal is not what was saved. {PUT_BACK}",
    ),
    "no tables": (
        sql("DROP TABLE checkpoints"),
        f"the store is damaged: SQLite says: no such table: checkpoints. {PUT_BACK}",
    ),
}


@pytest.mark.parametrize("name", SPOILED)
def test_a_spoiled_store_is_one_clear_error_and_is_left_as_it_is(filled: Path, name: str) -> None:
    spoil, reply = SPOILED[name]
    spoil(filled)
    before = bytes_of(filled)

    assert refusal(filled) == f"{filled}: {reply}"
    assert bytes_of(filled) == before


def test_a_journal_of_another_store_is_noticed(filled: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with closing(SqliteStore(other)) as store:
        store.commit([b"other"] * 6, checkpoint(1, 6))
    run_sql(
        filled,
        f"ATTACH '{other}' AS other",
        "DELETE FROM journal",
        "INSERT INTO journal SELECT * FROM other.journal",
    )

    assert refusal(filled) == (
        f"{filled}: the store is damaged: entry 2 of its journal is not the one its checkpoint "
        f"saw. {PUT_BACK}"
    )


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    assert refusal(tmp_path) == f"{tmp_path}: the store cannot be opened: Is a directory."


def test_a_store_in_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "store.db"

    assert refusal(path) == f"{path}: the store cannot be opened: No such file or directory."


def test_whatever_byte_of_the_file_changes_nothing_else_is_read(filled: Path) -> None:
    sound = filled.read_bytes()
    refused = 0
    for place in [*range(100), *range(100, len(sound), 29)]:
        changed = bytearray(sound)
        changed[place] ^= 0xFF
        filled.write_bytes(changed)
        try:
            assert content(filled) == (ENTRIES, FILLED), place
        except StoreInvalid:
            refused += 1
        assert filled.read_bytes() == changed
        assert not log_of(filled).exists()

    # The rest are bytes that nothing is stored in.
    assert refused > 50


def test_wherever_a_log_is_cut_off_whole_commits_before_it_are_read(abandoned: Path) -> None:
    entries, checkpoints = content(abandoned)
    log = log_of(abandoned).read_bytes()
    counts = []
    for size in [*range(0, len(log), 293), len(log)]:
        log_of(abandoned).write_bytes(log[:size])
        result, marks = content(abandoned)
        assert marks == checkpoints[: len(marks)]
        assert result == entries[: marks[-1].place]
        counts.append(len(marks))

    assert (counts[0], counts[-1]) == (3, 9)
    assert all(second - first in (0, 1) for first, second in pairwise(counts))


def test_a_log_that_was_cut_off_can_be_continued(abandoned: Path) -> None:
    cut(log_of(abandoned).stat().st_size - 1)(log_of(abandoned))
    with closing(SqliteStore(abandoned)) as store:
        store.commit([b"again"], checkpoint(9, 12))

    entries, checkpoints = content(abandoned)

    assert entries[11:] == [b"again"]
    assert len(checkpoints) == 9


def test_whatever_byte_of_a_log_changes_is_noticed(abandoned: Path) -> None:
    log = log_of(abandoned).read_bytes()
    for place in [*range(32), *range(32, len(log), 251), len(log) - 1]:
        changed = bytearray(log)
        changed[place] ^= 0x10
        log_of(abandoned).write_bytes(changed)
        before = bytes_of(abandoned)

        assert refusal(abandoned) == (
            f"{abandoned}: the store is damaged: abandoned.db-wal is not what was saved. {PUT_BACK}"
        )
        assert bytes_of(abandoned) == before
