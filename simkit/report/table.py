"""The timeline as a table of fixed width: text wraps, long cells are cut."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tabulate import tabulate

from simkit.core.text import short
from simkit.report.timeline import Row
from simkit.report.wording import moment

TABLE_WIDTH: Final = 120
SAID_LEAST: Final = 20
"""The width that the first wrapped column gets, if it needs it, before others get more than
their longest word."""
CELL_LINES_MAX: Final = 3
STACKED_BELOW: Final = 96
"""The width below which a table would cut answers, or break words."""


def table(rows: Sequence[Row], width: int = TABLE_WIDTH, actor: str = "agent") -> list[str]:
    """Return the rows as lines of a table; handoffs and inputs only if there are any.

    ``actor`` is the header of the column of agents. If lines are too narrow for a table, the cells
    of a row are below each other.
    """
    if not rows:
        return []
    if width < STACKED_BELOW:
        return [line for place in range(len(rows)) for line in _stacked(rows, place, width)]
    columns = _columns(rows)
    heads = ["turn", "time", actor, "sent", "tokens", "dropped"]
    fixed = [_fixed_cells(rows, place) for place in range(len(rows))]
    free = width - sum(
        _widest([head, *cells]) + 2 for head, *cells in zip(heads, *fixed, strict=True)
    )
    widths = _shared_out(free, list(columns.values()), list(columns))
    flexible = zip(*columns.values(), strict=True)
    cells = [
        [*fixed[place], *map(_wrapped_cell, texts, widths)] for place, texts in enumerate(flexible)
    ]
    return _laid_out([*heads, *columns], cells)


def _columns(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Return the columns that may wrap, by their headers."""
    inputs, answers = [row.input for row in rows], [row.answered for row in rows]
    handoffs, wrote = [row.handoff for row in rows], [", ".join(row.wrote) for row in rows]
    columns = {"input": inputs, "output": answers} if any(inputs) else {"answered": answers}
    if any(handoffs):
        columns["handoff"] = handoffs
    return {**columns, "state written": wrote}


def _stacked(rows: Sequence[Row], place: int, width: int) -> Iterator[str]:
    """Yield a row as a line with agent and turn, and its cells below."""
    row = rows[place]
    is_first = place == 0 or rows[place - 1].turn != row.turn
    turn = f"turn {row.turn}, " if row.turn and is_first else ""
    numbers = [
        f"{name} {count}"
        for name, count in (
            ("sent", row.messages),
            ("tokens", row.tokens),
            ("dropped", row.dropped),
        )
        if count is not None
    ]
    head = f"{turn}{row.agent} at {moment(row.at)}"
    yield short(f"{head}: {', '.join(numbers)}" if numbers else head, width)
    cells = {
        "": row.answered,
        "input: ": row.input,
        "handoff: ": row.handoff,
        "wrote: ": ", ".join(row.wrote),
    }
    for name, text in cells.items():
        if text:
            cell = _wrapped_cell(f"{name}{text}", width - 4)
            yield from (f"    {line}" for line in cell.split("\n"))


_ALIGNED: Final = ("right", "right", "left", "right", "right", "right")


def _laid_out(headers: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    """Lay the table out; headers are passed as a row, because tabulate pads real ones."""
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
    """Divide the remaining width of a line; the first column gets what the others leave."""
    needed = [_widest([head, *cells]) for head, cells in zip(headers, columns, strict=True)]
    free -= 2 * (len(columns) - 1)
    if sum(needed) <= free:
        return needed
    # Words stay whole unless one needs more than a fair share.
    fair = max(free // len(columns), 13)
    least = [
        min(_widest([head, *(word for cell in cells for word in cell.split())]), fair)
        for head, cells in zip(headers, columns, strict=True)
    ]
    widths = [min(needed[0], max(SAID_LEAST, least[0]), fair), *least[1:]]
    for place in range(1, len(widths)):
        spare = max(free - sum(widths), 0)
        share = spare if place < len(widths) - 1 else spare // 3
        widths[place] = min(needed[place], widths[place] + share)
    widths[0] = min(needed[0], max(widths[0], free - sum(widths[1:])))
    return widths


def _wrapped_cell(text: str, width: int) -> str:
    lines = textwrap.wrap(text, width, break_on_hyphens=False)
    if len(lines) > CELL_LINES_MAX:
        last = lines[CELL_LINES_MAX - 1]
        lines[CELL_LINES_MAX - 1 :] = [last[: width - 1].rstrip() + "…"]
    return "\n".join(lines)
