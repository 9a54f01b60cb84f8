"""The tables on a page: each measured one is written anew, the others stay as they are."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tabulate import tabulate

Table = Sequence[Sequence[object]]

HEADERS: Final[Mapping[str, Sequence[str]]] = {
    "native": ("what", "", "", "times faster"),
    "growth": ("what", "", "", ""),
    "wire": ("what", "", "to the bare client"),
    "framework": ("what", "", "", "to the framework alone"),
    "cassettes": ("what", "", "", ""),
}
"""Table to its headers; the other tables have them in their first row."""
_PLACE: Final = "<!-- measured: {name} -->\n"
_END: Final = "<!-- end -->"


def with_tables(page: str, tables: Mapping[str, Table], how: Mapping[str, str]) -> str:
    """Return a page with these tables; raise LookupError for one that it has no place for.

    ``how`` says of each table how it was measured.
    """
    for name, rows in tables.items():
        start = page.find(_PLACE.format(name=name))
        if start < 0:
            raise LookupError(f"the page has no line {_PLACE.format(name=name).strip()!r}")
        start += len(_PLACE.format(name=name))
        end = page.index(_END, start)
        page = f"{page[:start]}{_markdown(name, rows)}\n\n{how[name]}\n\n{page[end:]}"
    return page


def places(page: str) -> list[str]:
    """Return the names of the tables that a page has a place for."""
    return re.findall(r"^<!-- measured: (\w+) -->$", page, re.MULTILINE)


def write(path: Path, tables: Mapping[str, Table], how: Mapping[str, str]) -> None:
    """Write the tables to a page."""
    text = with_tables(path.read_text(encoding="utf-8"), tables, how)
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def machine() -> str:
    """Return what the reader must know of the machine, and the day."""
    cores = os.cpu_count() or 1
    day = datetime.now(UTC).date().isoformat()
    load = " beside other work" if os.getloadavg()[0] > cores + 1 else ""
    python = platform.python_version()
    return f"{day}, {platform.system()}, {cores} cores{load}, CPython {python}"


def _markdown(name: str, rows: Table) -> str:
    width = max(len(row) for row in rows)
    cells = [[*map(str, row), *[""] * (width - len(row))] for row in rows]
    if name in HEADERS:
        return tabulate(cells, [*HEADERS[name]][:width], tablefmt="github", disable_numparse=True)
    return tabulate(cells, headers="firstrow", tablefmt="github", disable_numparse=True)
