"""``.simkit/``: the traces and results of the last run, written atomically.

::

    .simkit/.gitignore       keeps the folder out of version control
    .simkit/last.json        {version, scenarios: [{id, outcome, digest, trace}], failed, unkept}
    .simkit/traces/*.jsonl   one trace a scenario, of the run that finished last
    .simkit/runs/run-*/      the traces of a run that is not over

A run writes into its own folder, and replaces the last run's when it ends, so that any number of
runs may run at once. Meanwhile it holds its folder's lock; a folder without a lock holder was left
behind, and the next run that ends removes it.

``failed`` lists the scenarios that failed when they last ran, also in earlier runs: after one of
three is repaired and run alone, two remain. ``unkept`` counts the tests of pytest that ran with the
last run or after it and keep no trace.

No link is written through: it may name a folder that is not simkit's.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from simkit.core.files import Lock, exclusive, read_stored, refuse_links, write_whole
from simkit.core.output import current_redactor

FOLDER: Final = ".simkit"
SLUG_MAX: Final = 80
_REPLACED: Final = ("last.json", "traces", "runs")
"""The parts of the folder that a run replaces or deletes."""
KEPT_AS: Final = "simkit_kept"
"""The attribute of pytest's items and reports with a run to be kept; empty if none is kept."""
STORY_AS: Final = "simkit_story"
"""The attribute of a test with its story that has ended: a scenario and its outcome."""


class RunEntry(msgspec.Struct, frozen=True):
    """The result of one scenario in the last run."""

    id: str
    outcome: str
    digest: str = ""
    trace: str = ""
    """The file of its trace."""


class Last(msgspec.Struct, frozen=True):
    """``last.json``."""

    version: int
    scenarios: tuple[RunEntry, ...] = ()
    failed: tuple[str, ...] = ()
    unkept: int = 0


class Ledger:
    """Writer and reader of ``.simkit/``; every method may raise OSError."""

    def __init__(self, folder: str | Path = FOLDER, run: str = "") -> None:
        """``run`` is the result of `begin` in another process, for which this one writes."""
        self._folder = Path(folder)
        self._run = run
        self._lock: Lock | None = None

    def begin(self) -> str:
        """Return the name of this run, for the processes that write for it."""
        if not self._run:
            make_folder(self._folder)
            runs = self._folder / "runs"
            refuse_links(runs, self._folder / "traces", self._folder / "last.json")
            runs.mkdir(exist_ok=True)
            with exclusive(runs):
                # Cleaning up takes the same lock: the folder never exists without its own.
                self._run = Path(tempfile.mkdtemp(prefix="run-", dir=runs)).name
                self._lock = Lock(runs / self._run)
                self._lock.acquire(waits=True)
        return self._run

    def keep(self, identity: str, trace: bytes) -> str:
        """Store a trace that holds no secrets; return the file that it is once the run is over."""
        place = Path(self.place(identity))
        write_whole(self._folder / "runs" / self.begin() / place.name, trace)
        return str(place)

    def place(self, identity: str) -> str:
        """Return the file of a scenario's trace once the run is over."""
        return str(self._folder / "traces" / f"{slug(self.safe(identity))}.jsonl")

    def safe(self, identity: str) -> str:
        """Return a scenario's id without secrets, which a name may contain."""
        return current_redactor().text(identity)

    def close(self, entries: Sequence[RunEntry], failing: Sequence[str], unkept: int = 0) -> None:
        """Record a run as the last one; it may continue, and be recorded again.

        ``unkept`` is the number of its tests that keep no trace.
        """
        self.begin()
        with self.locked():
            safe_entries = [
                msgspec.structs.replace(entry, id=self.safe(entry.id)) for entry in entries
            ]
            ran = {entry.id for entry in safe_entries}
            before = [identity for identity in self.failed() or () if identity not in ran]
            failed = tuple(dict.fromkeys([*before, *map(self.safe, failing)]))
            self._publish({Path(entry.trace).name for entry in entries if entry.trace})
            self._write(Last(1, tuple(safe_entries), failed, unkept))
            self._sweep()

    def note_unkept(self, count: int) -> None:
        """Record that tests ran after the last run and kept no trace."""
        last = self.last()
        if last is not None:
            refuse_links(self._folder, self._folder / "last.json")
            with self.locked():
                self._write(msgspec.structs.replace(last, unkept=count))

    def _write(self, last: Last) -> None:
        encoded = msgspec.json.format(msgspec.json.encode(last), indent=1)
        write_whole(self._folder / "last.json", encoded + b"\n")

    def end(self) -> None:
        """Remove the run's own folder; recorded traces stay."""
        if self._lock is not None:
            shutil.rmtree(self._folder / "runs" / self._run, ignore_errors=True)
            self._lock.release()
            self._lock, self._run = None, ""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs from replacing the last one inside."""
        with exclusive(self._folder):
            yield

    def failed(self) -> tuple[str, ...] | None:
        """Return the scenarios that failed when they last ran; None if nothing was recorded."""
        last = self.last()
        return None if last is None else last.failed

    def last(self) -> Last | None:
        """Return the results of the last run; None if nothing was recorded, or it is damaged."""
        return read_stored(self._folder / "last.json", Last)

    def _publish(self, names: set[str]) -> None:
        """Replace the last run's traces by this run's."""
        current, traces = self._folder / "runs" / self._run, self._folder / "traces"
        fresh = current.with_name(f"{current.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        for name in sorted(names):
            if (current / name).exists():
                _link(current / name, fresh / name)
        old = current.with_name(f"{current.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        if traces.exists():
            os.rename(traces, old)
        os.rename(fresh, traces)
        shutil.rmtree(old, ignore_errors=True)

    def _sweep(self) -> None:
        """Remove the folders of runs whose processes have ended."""
        runs = self._folder / "runs"
        with exclusive(runs):
            for folder in runs.iterdir():
                if folder.name == self._run or not folder.is_dir():
                    continue
                with suppress(OSError), Lock(folder) as lock:
                    if lock.acquire(waits=False):
                        shutil.rmtree(folder, ignore_errors=True)


def make_folder(folder: Path) -> None:
    """Make ``.simkit/`` where there is none, out of version control; raise OSError if it fails."""
    ignore = folder / ".gitignore"
    refuse_links(folder, ignore)
    folder.mkdir(parents=True, exist_ok=True)
    # Another run that begins at the same time writes `.gitignore` first: look at it last.
    foreign = next((name for name in _REPLACED if (folder / name).exists()), "")
    if not ignore.exists():
        if foreign:
            problem = f"is in a folder without simkit's `.gitignore`: move it, or delete {folder}"
            raise OSError(errno.EEXIST, problem, str(folder / foreign))
        write_whole(ignore, b"*\n")


def _link(file: Path, name: Path) -> None:
    """Give a file a second name, or copy it if that is impossible."""
    try:
        os.link(file, name)
    except OSError:
        shutil.copyfile(file, name)


def failure_text(problem: OSError) -> str:
    """Return the failed action and the file, as far as the system names them."""
    why = problem.strerror or str(problem) or type(problem).__name__
    if Path(FOLDER).is_file():
        return f"{FOLDER} is a file, and must be a folder: move it away"
    return f"{problem.filename}: {why}" if problem.filename else why


def slug(identity: str) -> str:
    """Return a file name for a scenario: readable and unique."""
    words = re.sub(r"\.scenario\.yaml", "", identity)
    stem = re.sub(r"[^a-zA-Z0-9]+", "-", words).strip("-").lower()[:SLUG_MAX].rstrip("-")
    return f"{stem}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"
