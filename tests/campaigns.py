"""Prints what a campaign reports and writes as JSON: one seed must come to the same everywhere.

Run as `python -m tests.campaigns` from the top of the tree, with options of `simkit explore`, so
that a test can ask other processes, clusters, hash seeds and other Pythons.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from simkit.cli import main
from tests.cli.projects import without_times
from tests.explore.desks import HEAD, TWICE_BROKEN

FILE: Final = "desk.simulation.yaml"
RUNS: Final = "210"
SIMULATION: Final = (
    TWICE_BROKEN.replace("flow:", "limits: {handoffs_per_turn: 2}\nflow:")
    + HEAD
    + """\
turns: 4
users:
  buyer:
    persona: {order: {$sample: [A-1042, B-7]}}
    states:
      asks: {says: ["Refund ${persona.order}.", Hello.], then: [insists, end]}
      insists: {says: "I said: refund ${persona.order}!", then: {insists: 3, end: 1}}
misbehaves: {malformed_json: 0.05, repeats_itself: 0.1}
faults: {rate_limit: 0.05, duplicate_turn: 0.05}
always:
  state: {refunds: {$len: {$lte: 1}}}
"""
)


@functools.cache
def campaign(*options: str, runs: str = RUNS) -> dict[str, Any]:
    """Return what the command prints, without times, and the files that it writes, by name."""
    with TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path(FILE).write_text(SIMULATION, encoding="utf-8")
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            main(["explore", FILE, "--runs", runs, *options])
        return {"out": without_times(out.getvalue()), "found": files_in("found")}


def files_in(folder: str) -> dict[str, str]:
    """Return the texts of the files of a folder, by name."""
    files = sorted(Path(folder).iterdir()) if os.path.isdir(folder) else ()
    return {file.name: file.read_text(encoding="utf-8") for file in files}


if __name__ == "__main__":
    print(json.dumps(campaign(*sys.argv[1:])))
