"""The timeline as a table that keeps its width: words wrap, long cells are cut."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Final

from tabulate import tabulate

from simkit.report.timeline import Row
from simkit.report.wording import moment
from simkit.words import short

TABLE_WIDTH: Final = 120
SAID_LEAST: Final = 20
"""Columns that an answer has, if it needs them, before others get more than their words need."""
CELL_LINES_MAX: Final = 3


def table(rows: Sequence[Row], width: int = TABLE_WIDTH) -> list[str]:
    """Returns the rows as lines of a table; the handoff column only where there are handoffs."""
    if not rows:
        return []
    has_handoffs = any(row.handoff for row in rows)
    headers = [*_FIXED, "answered", *(["handoff"] if has_handoffs else []), "state written"]
    fixed = [_fixed_cells(rows, place) for place in range(len(rows))]
    free = width - sum(
        _widest([head, *cells]) + 2 for head, *cells in zip(_FIXED, *fixed, strict=True)
    )
    flexible = [
        [row.answered, *([row.handoff] if has_handoffs else []), ", ".join(row.wrote)]
        for row in rows
    ]
    widths = _shared_out(
        free, [list(column) for column in zip(*flexible, strict=True)], headers[len(_FIXED) :]
    )
    cells = [
        [*fixed[place], *map(_wrapped_cell, texts, widths)] for place, texts in enumerate(flexible)
    ]
    return _laid_out(headers, cells)


_FIXED: Final = ("turn", "time", "agent", "sent", "tokens", "dropped")
_ALIGNED: Final = ("right", "right", "left", "right", "right", "right")


def _laid_out(headers: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    """Lays the table out; headers go in as a row, because tabulate pads real ones."""
    columns = zip(headers, *cells, strict=True)
    rule = [
        "-" * _widest(line for cell in column for line in cell.split("\n")) for column in columns
    ]
    align = [*_ALIGNED, *["left"] * (len(headers) - len(_ALIGNED))]
    text = tabulate(
        [headers, rule, *cells], tablefmt="plain", disable_numparse=True, colalign=align
    )
    return [line.rstrip() for line in text.split("\n")]


def _widest(texts: Iterable[str]) -> int:
    return max(map(len, texts))


def _fixed_cells(rows: Sequence[Row], place: int) -> list[str]:
    row = rows[place]
    is_first = place == 0 or rows[place - 1].turn != row.turn
    numbers = ["" if n is None else str(n) for n in (row.messages, row.tokens, row.dropped)]
    turn = str(row.turn) if row.turn and is_first else ""
    return [turn, moment(row.at), short(row.agent, 24), *numbers]


def _shared_out(free: int, columns: Sequence[list[str]], headers: Sequence[str]) -> list[int]:
    """Shares what is left of a line out; the answer gets what the others leave."""
    wanted = [_widest([head, *cells]) for head, cells in zip(headers, columns, strict=True)]
    free -= 2 * (len(columns) - 1)
    if sum(wanted) <= free:
        return wanted
    # Words stay whole unless one takes more than a fair share.
    fair = max(free // len(columns), 13)
    least = [
        min(_widest([head, *(word for cell in cells for word in cell.split())]), fair)
        for head, cells in zip(headers, columns, strict=True)
    ]
    widths = [min(wanted[0], max(SAID_LEAST, least[0]), fair), *least[1:]]
    for place in range(1, len(widths)):
        spare = max(free - sum(widths), 0)
        share = spare if place < len(widths) - 1 else spare // 3
        widths[place] = min(wanted[place], widths[place] + share)
    widths[0] = min(wanted[0], max(widths[0], free - sum(widths[1:])))
    return widths


def _wrapped_cell(text: str, width: int) -> str:
    lines = textwrap.wrap(text, width, break_on_hyphens=False)
    if len(lines) > CELL_LINES_MAX:
        last = lines[CELL_LINES_MAX - 1]
        lines[CELL_LINES_MAX - 1 :] = [last[: width - 1].rstrip() + "…"]
    return "\n".join(lines)
