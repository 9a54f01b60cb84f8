"""Prints the digest of every scenario's trace as JSON: one process, one environment, one answer.

Run as `python -m tests.digests` from the top of the tree, so that a test can ask other processes,
other hash seeds and other Pythons for theirs; of the files it is given, if of any.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from simkit.session.simulate import run
from simkit.spec.scenario.files import Library, items_in, scenario_files

ROOT: Final = Path(__file__).resolve().parent.parent


def digests(*files: str) -> dict[str, str]:
    """Returns scenario to digest, for those of files, or all under `scenarios/`."""
    library = Library()
    prepared = [
        library.prepared(item)
        for file in files or scenario_files(ROOT / "scenarios")
        for item in items_in(file)
    ]
    return {
        item.item.id.removeprefix(f"{ROOT}/"): run(item).digest()
        for item in prepared
        if item.skip is None
    }


if __name__ == "__main__":
    print(json.dumps({"hash": hash("simkit"), "digests": digests(*sys.argv[1:])}))
