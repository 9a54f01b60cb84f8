"""`python -m benchmarks [NAME…]`: prints a table each. Peers: `pip install -e '.[bench]'`."""

from __future__ import annotations

import argparse

from tabulate import tabulate

from benchmarks import cassettes, collecting, framework, growth, items, native, startup, wire

TABLES = {
    "growth": growth.rows,
    "native": native.rows,
    "collecting": collecting.rows,
    "items": items.rows,
    "cassettes": cassettes.rows,
    "startup": startup.rows,
    "wire": wire.rows,
    "framework": framework.rows,
}


def main() -> None:
    """Prints the tables asked for, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    for name in options.names or TABLES:
        print(f"\n{name} (CPU time, median of {options.rounds}, interleaved)")
        print(tabulate(TABLES[name](options.rounds), tablefmt="plain"))


if __name__ == "__main__":
    main()
