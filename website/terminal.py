"""A terminal for pictures: run a command as if somebody looked, and draw what the screen shows."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

CHAR_W: Final = 8.4
"""The width of a character at FONT_SIZE, in pixels."""
LINE_H: Final = 19
FONT_SIZE: Final = 14
MARGIN: Final = 16
BACKGROUND, TEXT = "#1b1f24", "#d7dce2"
COLOURS: Final = {
    "31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "34": "#79c0ff", "36": "#76d9e6",
}  # fmt: skip
TOKEN: Final = re.compile(r"\x1b\[([\d;]*)([A-Za-z])|(\r\n|\r|\n)|([^\x1b\r\n]+)")


class Cell(NamedTuple):
    """A character with how it is drawn."""

    text: str
    colour: str = ""
    is_bold: bool = False
    is_faint: bool = False


def run_in_terminal(command: Sequence[str], folder: Path, columns: int) -> str:
    """Return what a command writes on a terminal of so many columns, with its sequences."""
    mine, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 60, columns, 0, 0))
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "CI")
    }
    process = subprocess.Popen(
        command, cwd=folder, stdin=its, stdout=its, stderr=its, close_fds=True,
        env={**environment, "TERM": "xterm-256color"},
    )  # fmt: skip
    os.close(its)
    chunks = []
    while True:
        ready, _, _ = select.select([mine], [], [], 0.1)
        try:
            chunk = os.read(mine, 65536) if ready else b""
        except OSError:  # The other side is closed.
            break
        chunks.append(chunk)
        if not chunk and process.poll() is not None:
            break
    os.close(mine)
    process.wait()
    return b"".join(chunks).decode("utf-8", "replace")


def screen(text: str) -> list[list[Cell]]:
    """Return the lines that a terminal shows after it was sent a text."""
    lines: list[list[Cell]] = [[]]
    colour, is_bold, is_faint, column = "", False, False, 0
    for codes, letter, line_end, words in TOKEN.findall(text):
        if line_end == "\r":
            column = 0
        elif line_end:
            lines.append([])
            column = 0
        elif letter == "K":
            lines[-1], column = [], 0
        elif letter == "m":
            for code in codes.split(";") or ["0"]:
                if code in ("", "0"):
                    colour, is_bold, is_faint = "", False, False
                is_bold, is_faint = is_bold or code == "1", is_faint or code == "2"
                colour = COLOURS.get(code, colour)
        else:
            cells = [Cell(character, colour, is_bold, is_faint) for character in words]
            lines[-1][column : column + len(cells)] = cells
            column += len(cells)
    while lines and not lines[-1]:
        lines.pop()
    return lines


def folded(lines: Sequence[list[Cell]], columns: int) -> list[list[Cell]]:
    """Return the lines as the terminal breaks them: after so many columns."""
    return [
        line[start : start + columns]
        for line in lines
        for start in range(0, max(len(line), 1), columns)
    ]


def svg(lines: Sequence[list[Cell]], columns: int, title: str) -> str:
    """Return a picture of a terminal's lines; ``title`` is for those who cannot see it."""
    width = round(columns * CHAR_W + 2 * MARGIN)
    height = len(lines) * LINE_H + 2 * MARGIN
    rows = []
    for number, line in enumerate(lines):
        y = MARGIN + number * LINE_H + FONT_SIZE
        rows += [_run_svg(start, y, run) for start, run in _runs(line)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" role="img">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{height}" rx="8" fill="{BACKGROUND}"/>',
            f"<g font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" "
            f'font-size="{FONT_SIZE}" fill="{TEXT}" xml:space="preserve">',
            *rows,
            "</g>",
            "</svg>",
            "",
        ]
    )


def _runs(line: Sequence[Cell]) -> list[tuple[int, list[Cell]]]:
    """Return the stretches of a line that are drawn alike, with the columns they begin at."""
    runs: list[tuple[int, list[Cell]]] = []
    for place, cell in enumerate(line):
        if cell.text == " ":
            continue
        end = runs[-1][0] + len(runs[-1][1]) if runs else 0
        if runs and place - end <= 1 and runs[-1][1][-1][1:] == cell[1:]:
            # One space is a part of the text; more of them would be folded into one.
            runs[-1][1].extend(line[end : place + 1])
        else:
            runs.append((place, [cell]))
    return runs


def _run_svg(start: int, y: float, run: Sequence[Cell]) -> str:
    style = run[0]
    marks = [
        f' fill="{style.colour}"' * bool(style.colour),
        ' font-weight="bold"' * style.is_bold,
        ' opacity="0.6"' * style.is_faint,
    ]
    # Each font has its own width: the length makes columns stand below each other in all of them.
    return (
        f'<text x="{MARGIN + start * CHAR_W:.1f}" y="{y}" textLength="{len(run) * CHAR_W:.1f}"'
        f"{''.join(marks)}>{escape(''.join(cell.text for cell in run))}</text>"
    )
