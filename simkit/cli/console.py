"""The terminal: colours, and a progress line on long runs; neither in pipes and files."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, redirect_stdout, suppress
from traceback import walk_stack
from typing import TYPE_CHECKING, Final, TextIO

from simkit.core.answers import current_answer
from simkit.core.gc_pause import current_frames
from simkit.core.output import clean, mark, styled
from simkit.core.text import short
from simkit.report.table import TABLE_WIDTH
from simkit.report.wording import WIDTH, Paint, plain, set_columns, wrapped

if TYPE_CHECKING:
    from simkit.spec.lint_catalogue import Explanation

COLUMNS_LEAST: Final = 40
"""A narrower terminal wraps lines."""
WIDEST: Final = 156
"""A wider terminal does not make tables wider: eyes lose the line."""
INDENT: Final = 4
"""Columns before a table."""
PROGRESS_AFTER_S: Final = 0.5
PROGRESS_EVERY_S: Final = 0.2


def paint_for(color: bool) -> Paint:
    """Return the function that applies tones to texts: colours, or none."""
    return styled if color else plain


def wants_color() -> bool:
    """Return whether stdout is a terminal, or FORCE_COLOR is set; NO_COLOR turns colours off."""
    if os.environ.get("NO_COLOR") or current_answer() is not None:
        return False
    forced = os.environ.get("FORCE_COLOR", "")
    if forced:
        return forced not in ("0", "false")
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def table_width() -> int:
    """Return the width of a table: the terminal's, within limits, if stdout is one."""
    if not sys.stdout.isatty():
        return TABLE_WIDTH
    return min(WIDEST, max(COLUMNS_LEAST, shutil.get_terminal_size().columns)) - INDENT


def fit_terminal() -> None:
    """Let later output be as wide as the terminal, if stdout is one."""
    set_columns(table_width() + INDENT)


def output_to_stderr() -> redirect_stdout[TextIO]:
    """Let user code print to stderr: its output must not be inside a report."""
    return redirect_stdout(sys.stderr)


class Progress(AbstractContextManager["Progress"]):
    """One line on stderr with the progress of a long run, if stderr is a terminal.

    A thread draws it, so that it changes while one long scenario runs. Call `clear` before other
    output, and `begin` for the next step.
    """

    def __init__(self, total: int = 1) -> None:
        self._total, self._place = total, 0
        self._label = ""
        self._started = self._label_start = time.monotonic()
        self._drawn = ""
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._worker = threading.get_ident()
        self._thread: threading.Thread | None = None
        # While the user's code runs, `sys.stderr` may be another one.
        self._stream = sys.stderr
        self.is_shown = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        """Whether there is a terminal for the line."""

    def begin(self, label: str, *, is_counted: bool = True) -> None:
        """Show ``label`` from now on; the next of the total if it is counted."""
        if not self.is_shown:
            return
        with self._lock:
            self._place += is_counted
            counts = f"{self._place} of {self._total}: " if is_counted and self._total > 1 else ""
            self._label, self._label_start = f"{counts}{label}", time.monotonic()
        if self._thread is None:
            self._thread = threading.Thread(target=self._draw_until_end, daemon=True)
            self._thread.start()

    def clear(self) -> None:
        """Remove the line, before other output."""
        with self._lock:
            self._label = ""
            if self._drawn:
                self._write(mark("clear"))
                self._drawn = ""

    def end(self) -> None:
        """Remove the line for good."""
        self.clear()
        self._over.set()
        if self._thread is not None:
            self._thread.join()  # A process with a thread is not copied.

    def __exit__(self, *_: object) -> None:
        self.end()

    def draw(self) -> None:
        """Draw the line, if the run is long and no debugger uses the terminal."""
        with self._lock:
            now = time.monotonic()
            if not self._label or now - self._started < PROGRESS_AFTER_S or is_debugging():
                return
            parts = [f"{now - self._label_start:.0f} s" if now - self._label_start >= 1 else ""]
            if module := module_in_import(self._worker):
                parts.append(f"importing {module}")
            rest = "".join(f", {part}" for part in parts if part)
            width = min(shutil.get_terminal_size().columns - 1, WIDTH - 21)
            line = short(self._label, max(width - len(rest), 10)) + rest
            line = short(line, width)
            if line != self._drawn:
                self._write(mark("clear") + line)
                self._drawn = line

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(clean(text))
            self._stream.flush()

    def _draw_until_end(self) -> None:
        while not self._over.wait(PROGRESS_EVERY_S):
            self.draw()


def module_in_import(thread: int) -> str:
    """Return the module that a thread is importing; empty for none, and for simkit's own."""
    stack = [frame for frame, _ in walk_stack(current_frames().get(thread))]
    imports = [frame.f_locals for frame in stack if frame.f_code.co_name == "_find_and_load"]
    name = str(imports[-1].get("name", "")) if imports else ""
    return "" if name.partition(".")[0] == "simkit" else name


def is_debugging() -> bool:
    """Return whether a debugger stopped some thread: it needs the terminal for itself."""
    return any(
        step.f_globals.get("__name__") in ("bdb", "pdb")
        for frame in current_frames().values()
        for step, _ in walk_stack(frame)
    )


def explanation_lines(explanation: Explanation) -> Iterator[str]:
    """Yield an explanation as the terminal shows it."""
    fit_terminal()
    paint = paint_for(wants_color())
    kinds = {"claim": "a claim does not hold", "lint": "fails a scenario", "error": "an error"}
    about = "warning" if explanation.severity == "warning" else kinds.get(explanation.kind, "error")
    yield f"{paint(explanation.title, 'warning' if about == 'warning' else 'bad')} ({about})"
    for head, text in (
        ("message", explanation.message),
        ("rule", explanation.rule),
        ("cause", explanation.cause),
        ("fix", explanation.fix),
        ("in code", explanation.fix_in_code),
    ):
        if text:
            first, *rest = wrapped(text, f"  {head:<9}")
            yield first.replace(head, paint(head, "quiet"), 1)
            yield from rest
    if explanation.can_be_turned_off:
        yield from wrapped(
            f"to keep it as it is, give a reason: `lints: {{{explanation.id}: the reason}}`",
            " " * 11,
        )
