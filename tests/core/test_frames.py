"""The frames of threads are read while nobody collects garbage: old Pythons would hang."""

from __future__ import annotations

import gc
from pathlib import Path

import simkit
from simkit.core.gc_pause import current_frames
from tests.processes import run_python

# At one of these numbers of lists the collector is due just when the frames are read. It finds a
# thread's local value to take away, which waits for the lock that is held.
COLLECTED = """
import gc
import threading

from simkit.core.gc_pause import current_frames


class Held(threading.local):
    pass


def read(number):
    gc.collect()
    held = Held()
    held.itself = held
    del held
    kept = [[] for _ in range(number)]
    return current_frames(), kept


gc.set_threshold(60)
for number in range(70):
    read(number)
print("ended")
"""


def test_reading_frames_never_waits_for_the_collector() -> None:
    done = run_python("-c", COLLECTED)

    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr


def test_the_collector_is_as_it_was() -> None:
    current_frames()
    assert gc.isenabled()

    gc.disable()
    try:
        current_frames()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_nobody_reads_frames_in_another_way() -> None:
    room = Path(simkit.__file__).parent
    files = [file for file in room.rglob("*.py") if "sys._current_" in file.read_text("utf-8")]

    assert [str(file.relative_to(room)) for file in files] == ["core/gc_pause.py"]
