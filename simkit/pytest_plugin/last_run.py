"""The runs of a session of pytest in `.simkit/`, as of `simkit replay`.

Of a session with at most ``SMALL`` scenarios all traces are kept, of a larger one those of the
scenarios that fail. They travel in pytest's own reports, so that pytest-xdist sends them on.
Stories of features and conversations of ``sim`` are counted alone.
"""

from __future__ import annotations

import sys
import zlib
from base64 import b64decode, b64encode
from typing import Final

import msgspec

from simkit.core.output import clean
from simkit.report.last_run import Ledger, RunEntry, failure_text

SMALL: Final = 50


def text_of_run(entry: RunEntry, has_failed: bool, trace: bytes) -> str:
    """Return a scenario's entry and its trace, which holds no secrets, as a report carries them."""
    encoded_trace = b64encode(zlib.compress(trace, 1)).decode() if trace else ""
    return msgspec.json.encode((entry, has_failed, encoded_trace)).decode()


class KeptSession:
    """Writes the runs of a session as they come."""

    def __init__(self) -> None:
        self._ledger = Ledger()
        self._entries: dict[str, RunEntry] = {}
        self._failed: dict[str, bool] = {}
        self._others = 0
        self._problem = ""

    def take(self, text: str) -> None:
        """Take what a report carried; of several runs of a scenario the last one counts."""
        if not text:
            self._others += 1
            return
        entry, has_failed, encoded_trace = msgspec.json.decode(
            text, type=tuple[RunEntry, bool, str]
        )
        self._entries[entry.id], self._failed[entry.id] = entry, has_failed
        if encoded_trace and not self._problem:
            try:
                self._ledger.keep(entry.id, zlib.decompress(b64decode(encoded_trace)))
            except OSError as problem:
                self._problem = failure_text(problem)

    def close(self) -> None:
        """Write the list of the run; say why it cannot be kept."""
        try:
            if self._entries and not self._problem:
                failing = [identity for identity, is_failing in self._failed.items() if is_failing]
                self._ledger.close([*self._entries.values()], failing, self._others)
            elif not self._entries:
                self._ledger.note_unkept(self._others)
        except OSError as problem:
            self._problem = failure_text(problem)
        self._ledger.end()
        if self._problem:
            text = clean(f"simkit: the traces of this run are not kept: {self._problem}")
            print(text, file=sys.stderr)
