"""The timeline as a table of fixed width: text wraps, long cells are cut."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final

from simkit.core.text import short
from simkit.report.timeline import Row
from simkit.report.wording import Paint, moment, plain

TABLE_WIDTH: Final = 120
SAID_LEAST: Final = 20
"""The width that the first wrapped column gets, if it needs it, before others get more than
their longest word."""
CELL_LINES_MAX: Final = 3
ANSWER_LEAST: Final = 32
"""On a narrow terminal, rows are stacked if answers would get fewer columns than this."""
NAME_MAX: Final = 20
"""The most characters of an agent's name beside a stacked row."""


def table(
    rows: Sequence[Row], width: int = TABLE_WIDTH, actor: str = "agent", paint: Paint = plain
) -> list[str]:
    """Return the rows as lines of a table; handoffs and inputs only if there are any.

    ``actor`` is the header of the column of agents. If lines are too narrow for a table, the cells
    of a row are below each other.
    """
    if not rows:
        return []
    columns = _columns(rows)
    heads = ["turn", "time", actor, "sent", "tokens", "dropped"]
    fixed = [_fixed_cells(rows, index) for index in range(len(rows))]
    free = width - sum(
        _widest([head, *cells]) + 2 for head, *cells in zip(heads, *fixed, strict=True)
    )
    widths = _shared_out(free, list(columns.values()), list(columns))
    if width < TABLE_WIDTH and _is_squeezed(columns, widths, free):
        return list(_stacked(rows, width, paint))
    flexible = zip(*columns.values(), strict=True)
    cells = [[*fixed[index], *map(_cell, texts, widths)] for index, texts in enumerate(flexible)]
    return _laid_out([*heads, *columns], cells)


def _is_squeezed(columns: Mapping[str, Sequence[str]], widths: Sequence[int], free: int) -> bool:
    """Return whether these widths break words, squeeze answers, or take more than is free."""
    words = [_widest([head, *" ".join(cells).split()]) for head, cells in columns.items()]
    answers = next(iter(columns.values()))
    least = min(max(map(len, answers)), ANSWER_LEAST)
    if sum(widths) + 2 * (len(widths) - 1) > free:
        return True
    return widths[0] < least or any(map(int.__gt__, words, widths))


def _columns(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Return the columns that may wrap, by their headers."""
    inputs, answers = [row.input for row in rows], [row.answered for row in rows]
    handoffs, wrote = [row.handoff for row in rows], [", ".join(row.wrote) for row in rows]
    columns = {"input": inputs, "output": answers} if any(inputs) else {"answered": answers}
    if any(handoffs):
        columns["handoff"] = handoffs
    return {**columns, "state written": wrote}


def _stacked(rows: Sequence[Row], width: int, paint: Paint) -> Iterator[str]:
    """Yield each turn, and in it each row: the text beside its agent, the numbers below."""
    lead = max(min(max(len(row.agent) for row in rows), NAME_MAX), 4) + 4
    turn = 0
    for row in rows:
        if row.turn != turn:
            turn = row.turn
            yield paint(f"turn {turn}", "strong")
        texts = [row.answered, row.handoff]
        if row.input:
            texts = [f"input: {row.input}", *texts]
        lines = [
            line for text in texts if text for line in _cell(text, width - lead).split("\n")
        ]  # fmt: skip
        first, *rest = lines or [""]
        yield f"  {short(row.agent, lead - 4):<{lead - 2}}{first}".rstrip()
        yield from (" " * lead + line for line in rest)
        for line in textwrap.wrap(_counts(row), width - lead):
            yield " " * lead + paint(line, "quiet")


def _counts(row: Row) -> str:
    """Return ``sent 4, tokens 35, dropped 1, wrote messages, at 1500 ms``, as far as known."""
    counts = {"sent": row.messages, "tokens": row.tokens, "dropped": row.dropped}
    parts = [f"{name} {count}" for name, count in counts.items() if count is not None]
    parts += [f"wrote {', '.join(row.wrote)}"] if row.wrote else []
    parts += [f"at {moment(row.at)}"] if row.at else []
    return ", ".join(parts)


_RIGHT: Final = (0, 1, 3, 4, 5)
"""The columns of numbers, which are aligned to the right."""


def _laid_out(headers: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table. Its plain form needs no library, which takes long to import."""
    columns = zip(headers, *cells, strict=True)
    widths = [_widest(line for cell in column for line in cell.split("\n")) for column in columns]
    rows = [headers, ["-" * width for width in widths], *cells]
    return [line for row in rows for line in _lines_of(row, widths)]


def _lines_of(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    """Yield the lines of a row, of which each cell may have several."""
    for parts in zip_longest(*(cell.split("\n") for cell in row), fillvalue=""):
        padded = [
            part.rjust(width) if index in _RIGHT else part.ljust(width)
            for index, (part, width) in enumerate(zip(parts, widths, strict=True))
        ]
        yield "  ".join(padded).rstrip()


def _widest(texts: Iterable[str]) -> int:
    return max(map(len, texts))


def _fixed_cells(rows: Sequence[Row], index: int) -> list[str]:
    row = rows[index]
    is_first = index == 0 or rows[index - 1].turn != row.turn
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
    for index in range(1, len(widths)):
        spare = max(free - sum(widths), 0)
        share = spare if index < len(widths) - 1 else spare // 3
        widths[index] = min(needed[index], widths[index] + share)
    widths[0] = min(needed[0], max(widths[0], free - sum(widths[1:])))
    return widths


def _cell(text: str, width: int) -> str:
    lines = textwrap.wrap(text, width, break_on_hyphens=False)
    if len(lines) > CELL_LINES_MAX:
        last = lines[CELL_LINES_MAX - 1]
        lines[CELL_LINES_MAX - 1 :] = [last[: width - 1].rstrip() + "…"]
    return "\n".join(lines)
