"""Prints the digest of every scenario's trace as JSON: one process, one environment, one answer.

Run as `python tests/digests.py` from the top of the tree, so that a test can ask other processes,
other hash seeds and other Pythons for theirs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent


def digests() -> dict[str, str]:
    """Returns scenario to digest, for all under `scenarios/`."""
    from simkit.scenario.files import Library, items_in, scenario_files
    from simkit.session import run

    library = Library()
    return {
        str(Path(item.file).relative_to(ROOT)) + "::" + item.name: run(
            library.prepared(item)
        ).digest()
        for file in scenario_files(ROOT / "scenarios")
        for item in items_in(file)
    }


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    print(json.dumps({"hash": hash("simkit"), "digests": digests()}))
