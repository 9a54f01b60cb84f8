"""The number of processes that scenarios start, and the seconds that this takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from simkit.core.text import counted


class Starts:
    """The processes that this one has started, with their start times."""

    def __init__(self) -> None:
        self.restarts, self.alone, self.seconds = 0, 0, 0.0

    def note(self, is_restart: bool, seconds: float) -> None:
        """Count a process that continues a run, or begins a comparison run."""
        self.restarts += is_restart
        self.alone += not is_restart
        self.seconds += seconds


STARTS: Final = Starts()
NOTED_S: Final = 1.0
"""The number of seconds from which the start times of a scenario's processes are reported."""


@contextmanager
def noting_starts() -> Iterator[Callable[[], str]]:
    """Yield a function that reports the processes started meanwhile, if they took long."""
    restarts, alone, seconds = STARTS.restarts, STARTS.alone, STARTS.seconds

    def note() -> str:
        took = STARTS.seconds - seconds
        if took < NOTED_S:
            return ""
        again, apart = STARTS.restarts - restarts, STARTS.alone - alone
        notes = [counted(again, "restart")] if again else []
        notes += [counted(apart, "session run alone", "sessions run alone")] if apart else []
        each = "a new process" if again + apart == 1 else "each a new process"
        return f"{' and '.join(notes)}, {each}: {took:.1f} s"

    yield note
