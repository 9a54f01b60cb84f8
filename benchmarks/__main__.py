"""`python -m benchmarks [NAME…]`: prints a table each. Peers: `pip install -e '.[bench]'`.

With `--write docs/explanation/performance.md` the tables also replace those of the page.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from tabulate import tabulate

from benchmarks import (
    campaigns,
    exploring,
    framework,
    growth,
    items,
    mutants,
    native,
    planted,
    processes,
    startup,
    wire,
)
from benchmarks.page import machine, places, write

TABLES: dict[str, Callable[[int], Sequence[Sequence[object]]]] = {
    "growth": growth.rows,
    "native": native.rows,
    "items": items.rows,
    "mutants": mutants.rows,
    "startup": startup.rows,
    "processes": processes.rows,
    "wire": wire.rows,
    "framework": framework.rows,
    "exploring": exploring.rows,
    "campaigns": campaigns.rows,
    "planted": planted.rows,
}
COUNTS = {"planted"}


def main() -> None:
    """Prints the tables asked for, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--write",
        type=Path,
        metavar="PAGE",
        help="Write the tables to this page, too; without NAMEs those that it has a place for.",
    )
    options = parser.parse_args()
    names = options.names or TABLES
    if options.write and not options.names:
        names = places(options.write.read_text(encoding="utf-8"))
    for name in names:
        how = "counts" if name in COUNTS else f"CPU time, median of {options.rounds}, interleaved"
        print(f"\n{name} ({how})", flush=True)
        rows = [*TABLES[name](options.rounds)]
        print(tabulate(rows, tablefmt="plain"), flush=True)
        if options.write:
            # At once, so that a long run that is stopped keeps what it has measured.
            write(options.write, {name: rows}, {name: f"{machine()}; {how}."})


if __name__ == "__main__":
    main()
