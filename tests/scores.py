"""Write the table of scores in docs/how-to/coverage.md: `python -m tests.scores` (some minutes).

It calls the commands as users do, one reference system at a time. With a folder, it keeps
there what they print, and begins where it ended.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from tabulate import tabulate

from simkit.checks.mutants import KINDS as TRACE_KINDS
from simkit.spec.pipeline.mutants import KINDS as PIPELINE_KINDS
from tests.processes import run_python

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "how-to" / "coverage.md"
SYSTEMS: Final = (
    "fitness_coach", "agent_engine", "handoff_pattern", "supervisor_context", "research_assistant",
)  # fmt: skip
BEGIN, END = "<!-- scores: written by `python -m tests.scores` -->\n", "<!-- end of scores -->\n"
ALL: Final = "100000"
"""More mutants than there are."""


def report_of(*arguments: str) -> dict[str, Any]:
    """What a command prints as JSON."""
    name = "_".join(arguments[:2]).replace("/", "_")
    file = Path(sys.argv[1], f"{name}.json") if len(sys.argv) > 1 else None
    if file is None or not file.exists():
        done = run_python("-m", "simkit", *arguments, "--format", "json", folder=ROOT)
        assert done.returncode in (0, 1), done.stderr
        text = done.stdout
        if file is not None:
            file.write_text(text, encoding="utf-8")
    else:
        text = file.read_text(encoding="utf-8")
    report: dict[str, Any] = json.loads(text)
    return report


def cells(part: int, whole: int) -> str:
    """`41 of 50 (82 %)`."""
    return f"{part} of {whole} ({100 * part // whole if whole else 100} %)"


def row_of(system: str) -> list[str]:
    """One system's row."""
    folder = f"scenarios/{system}"
    coverage = report_of("coverage", folder)
    mutants = report_of("mutate", folder, "--max", ALL)["mutants"]
    return [
        system,
        cells(coverage["covered"], coverage["total"]),
        *(
            cells(sum(mutant["killed_by"] is not None for mutant in part), len(part))
            for part in (
                [mutant for mutant in mutants if mutant["kind"] in TRACE_KINDS],
                [mutant for mutant in mutants if mutant["kind"] in PIPELINE_KINDS],
            )
        ),
    ]


def table() -> str:
    """The table of all systems."""
    heads = ("reference system", "covered items", "trace mutants killed", "pipeline mutants killed")
    rows = []
    for system in SYSTEMS:
        started = time.monotonic()
        rows.append(row_of(system))
        print(*rows[-1], f"{time.monotonic() - started:.0f} s", sep="\t", flush=True)
    return tabulate(rows, headers=heads, tablefmt="github", disable_numparse=True) + "\n"


def main() -> None:
    """Write the table into the page."""
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{BEGIN}\n{table()}\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
