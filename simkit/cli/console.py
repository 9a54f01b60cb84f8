"""The terminal: colours, and a progress line on long runs; neither in pipes and files."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import Final

from simkit.core.output import echo, mark, styled
from simkit.core.text import short
from simkit.report.table import TABLE_WIDTH
from simkit.report.wording import WIDTH, Paint, plain, set_columns

COLUMNS_LEAST: Final = 40
"""A narrower terminal wraps lines."""
INDENT: Final = 4
"""Columns before a table."""
PROGRESS_AFTER_S: Final = 0.5
PROGRESS_EVERY_S: Final = 0.1


def paint_for(color: bool) -> Paint:
    """Return the function that applies tones to texts: colours, or none."""
    return styled if color else plain


def wants_color() -> bool:
    """Return whether stdout is a terminal, or FORCE_COLOR is set; NO_COLOR turns colours off."""
    if os.environ.get("NO_COLOR"):
        return False
    forced = os.environ.get("FORCE_COLOR", "")
    if forced:
        return forced not in ("0", "false")
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def table_width() -> int:
    """Return the width of a table: the terminal's, within limits, if stdout is one."""
    if not sys.stdout.isatty():
        return TABLE_WIDTH
    return min(TABLE_WIDTH, max(COLUMNS_LEAST, shutil.get_terminal_size().columns) - INDENT)


def fit_terminal() -> None:
    """Let later output be as wide as the terminal, if stdout is one."""
    set_columns(table_width() + INDENT)


class Progress:
    """One line on stderr with the progress of a long run, if stderr is a terminal."""

    def __init__(self, total: int) -> None:
        self._total, self._done = total, 0
        self._started = self._drawn = time.monotonic()
        self._is_shown = sys.stderr.isatty() and total > 1
        self._is_drawn = False

    def step(self, name: str) -> None:
        """Count one more, and draw if it is time."""
        self._done += 1
        now = time.monotonic()
        is_early = now - self._started < PROGRESS_AFTER_S or now - self._drawn < PROGRESS_EVERY_S
        if not self._is_shown or is_early:
            return
        self._drawn, self._is_drawn = now, True
        line = short(f"{self._done} of {self._total}: {name}", WIDTH - 21)
        echo(mark("clear") + line, err=True, end="")

    def clear(self) -> None:
        """Remove the line, before other output."""
        if self._is_drawn:
            echo(mark("clear"), err=True, end="")
            self._is_drawn = False
