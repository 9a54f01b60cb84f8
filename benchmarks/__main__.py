"""`python -m benchmarks [NAME…]`: prints a table each. Peers: `pip install -e '.[bench]'`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from tabulate import tabulate

from benchmarks import (
    campaigns,
    cassettes,
    collecting,
    exploring,
    framework,
    growth,
    items,
    native,
    planted,
    processes,
    restarts,
    rooms,
    schemas,
    startup,
    states,
    wire,
)

TABLES: dict[str, Callable[[int], Sequence[Sequence[object]]]] = {
    "growth": growth.rows,
    "native": native.rows,
    "collecting": collecting.rows,
    "items": items.rows,
    "cassettes": cassettes.rows,
    "rooms": rooms.rows,
    "schemas": schemas.rows,
    "startup": startup.rows,
    "states": states.rows,
    "wire": wire.rows,
    "framework": framework.rows,
    "exploring": exploring.rows,
    "campaigns": campaigns.rows,
    "planted": planted.rows,
    "processes": processes.rows,
    "restarts": restarts.rows,
}
COUNTS = {"planted", "rooms", "states"}
WALL = {"restarts"}


def main() -> None:
    """Prints the tables asked for, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    for name in options.names or TABLES:
        clock = "wall time" if name in WALL else "CPU time"
        how = "counts" if name in COUNTS else f"{clock}, median of {options.rounds}, interleaved"
        print(f"\n{name} ({how})")
        print(tabulate(TABLES[name](options.rounds), tablefmt="plain"))


if __name__ == "__main__":
    main()
