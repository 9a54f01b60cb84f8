"""A store whose process is killed at any moment holds whole commits, and all it acknowledged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Final

import pytest

from simkit.runtime.journal import Checkpoint, Store

ROOT: Final = Path(__file__).resolve().parents[2]
SEEDS: Final = range(100 if os.environ.get("SIMKIT_NIGHTLY") == "1" else 8)
BATCHES: Final = 150
CHILD: Final = """
import json, os, signal, sqlite3, sys, time

from simkit.runtime.journal import Checkpoint, Store

path, fatal = sys.argv[1], int(sys.argv[2])
connect, executed = sqlite3.connect, 0

def count(statement):
    global executed
    executed += 1
    if executed == fatal:
        os.kill(os.getpid(), signal.SIGKILL)

def counted(*args, **options):
    connection = connect(*args, **options)
    connection.set_trace_callback(count)
    return connection

sqlite3.connect = counted
store = Store(path)
for line in sys.stdin:
    texts, place, number = json.loads(line)
    checkpoint = Checkpoint(f"k{number}", "s1", number, "a", place, {"at": number})
    store.commit([text.encode() for text in texts], checkpoint)
    os.write(1, b"%d\\n" % number)
time.sleep(60)
"""
"""Commits what it is given, acknowledges each commit, and waits; or kills itself before a statement
that is fatal, counted from 1."""


class Series:
    """The seeded batches that a store is to hold in the end."""

    def __init__(self, chance: Random) -> None:
        self.entries: list[bytes] = []
        self.checkpoints: list[Checkpoint] = []
        self.lines: list[str] = []
        for number in range(1, BATCHES + 1):
            # Some batches are empty, and some entries need pages of their own.
            texts = [
                f"{number}.{each} " + "x" * chance.choice((0, 30, 300, 300, 9_000))
                for each in range(chance.randrange(9))
            ]
            self.entries.extend(text.encode() for text in texts)
            place = len(self.entries)
            self.checkpoints.append(
                Checkpoint(f"k{number}", "s1", number, "a", place, {"at": number})
            )
            self.lines.append(json.dumps([texts, place, number]))


def killed(path: Path, lines: list[str], chance: Random, by_statement: bool) -> list[int]:
    """Runs a child that commits until it is killed; returns what it acknowledged."""
    given = path.with_name("given.jsonl")
    given.write_text("\n".join(lines), encoding="utf-8")
    # BEGIN, an INSERT for each entry and one for the checkpoint, COMMIT.
    statements = sum(len(json.loads(line)[0]) + 3 for line in lines)
    fatal = chance.randrange(1, statements) if by_statement else 0
    with (
        given.open("rb") as batches,
        subprocess.Popen(
            [sys.executable, "-c", CHILD, str(path), str(fatal)],
            stdin=batches,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        ) as child,
    ):
        assert child.stdout is not None
        if by_statement:
            acknowledged = child.stdout.readlines()
        else:
            acknowledged = [child.stdout.readline() for _ in range(chance.randrange(len(lines)))]
            time.sleep(chance.random() / 2_000)
            child.kill()
            acknowledged += child.stdout.readlines()
    assert child.returncode == -signal.SIGKILL
    return [int(line) for line in acknowledged]


def committed(store: Store, series: Series) -> int:
    """How many whole batches a store holds, of those of the series, and nothing else."""
    checkpoints = list(store.checkpoints())
    assert checkpoints == series.checkpoints[: len(checkpoints)]
    end = checkpoints[-1].place if checkpoints else 0
    assert list(store.journal()) == series.entries[:end]
    return len(checkpoints)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_killed_process_leaves_what_it_acknowledged_and_whole_commits(
    tmp_path: Path, seed: int
) -> None:
    chance = Random(seed)
    series = Series(chance)
    path = tmp_path / "store.db"
    done = 0
    # Twice, so that the second process goes on with what a killed one left.
    for each in (0, 1):
        acknowledged = killed(
            path, series.lines[done:][: BATCHES // 2], chance, (seed + each) % 2 == 0
        )
        with closing(Store(path)) as store:
            count = committed(store, series)
        # One commit may have been made and not been acknowledged any more.
        assert count - (acknowledged[-1] if acknowledged else done) in (0, 1)
        done = count

    with closing(Store(path)) as store:
        for checkpoint in series.checkpoints[done:]:
            start = store.checkpoints()[-1].place if store.checkpoints() else 0
            store.commit(series.entries[start : checkpoint.place], checkpoint)
    with closing(Store(path)) as store:
        assert committed(store, series) == BATCHES
