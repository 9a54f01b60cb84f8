"""The terminal: colours, progress, and explanations of findings."""

from __future__ import annotations

import contextlib
import io
import sys
import time
from bdb import Bdb
from importlib import import_module
from pathlib import Path

import pytest

from simkit.cli import console
from simkit.cli.console import Progress, paint_for, table_width, wants_color
from simkit.core.output import clean
from simkit.spec.lint_catalogue import explanations
from tests.cli.projects import Call


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that the progress line sees; tests move it."""
    moments = [100.0]
    monkeypatch.setattr(f"{console.__name__}.time.monotonic", lambda: moments[0])
    return moments


def drawn_by_hand(monkeypatch: pytest.MonkeyPatch, total: int) -> Progress:
    """A progress line that no thread draws."""
    monkeypatch.setattr(f"{console.__name__}.threading.Thread.start", lambda thread: None)
    return Progress(total)


def test_a_terminal_gets_colours_unless_its_user_wants_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert wants_color() is False

    monkeypatch.setattr(sys, "stdout", Terminal())
    assert wants_color() is True

    monkeypatch.setenv("NO_COLOR", "1")
    assert wants_color() is False


@pytest.mark.parametrize(
    ("environment", "is_wanted"),
    [
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "0"}, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"FORCE_COLOR": ""}, False),
    ],
)
def test_colours_are_forced_where_nobody_looks(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], is_wanted: bool
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert wants_color() is is_wanted


def test_a_dumb_terminal_gets_no_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("TERM", "dumb")

    assert wants_color() is False


def test_tones_are_colours_where_they_are_wanted() -> None:
    assert paint_for(False)("ok", "good") == "ok"
    assert clean(paint_for(True)("ok", "good")) == "\x1b[32mok\x1b[0m"


def test_a_long_run_in_a_terminal_shows_one_line_that_is_taken_away(
    monkeypatch: pytest.MonkeyPatch, now: list[float]
) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    progress = drawn_by_hand(monkeypatch, 3)

    progress.begin("soon")
    progress.draw()
    now[0] += 0.6
    progress.begin("later")
    progress.draw()
    progress.clear()
    progress.clear()
    progress.draw()

    assert stream.getvalue() == "\r\x1b[2K2 of 3: later\r\x1b[2K"


def test_a_single_long_scenario_shows_how_long_it_has_run(
    monkeypatch: pytest.MonkeyPatch, now: list[float]
) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    progress = drawn_by_hand(monkeypatch, 1)

    progress.begin("a long one")
    for _ in range(2):
        now[0] += 1.2
        progress.draw()
    progress.begin("1 scenario again", is_counted=False)
    progress.draw()

    lines = stream.getvalue().split("\r\x1b[2K")
    assert lines == ["", "a long one, 1 s", "a long one, 2 s", "1 scenario again"]


def test_the_line_is_no_wider_than_the_terminal_and_keeps_its_end(
    monkeypatch: pytest.MonkeyPatch, now: list[float]
) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("COLUMNS", "40")
    progress = drawn_by_hand(monkeypatch, 1)

    progress.begin("a name that is longer than the terminal is wide")
    now[0] += 3
    progress.draw()

    (line,) = stream.getvalue().split("\r\x1b[2K")[1:]
    assert len(line) == 39
    assert line.endswith("…, 3 s")


def test_the_line_names_the_module_that_is_being_imported(
    monkeypatch: pytest.MonkeyPatch, now: list[float], tmp_path: Path
) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    progress = drawn_by_hand(monkeypatch, 1)
    text = "import inside_of_it\n"
    (tmp_path / "slow_to_import.py").write_text(text, encoding="utf-8")
    (tmp_path / "inside_of_it.py").write_text("import sys\nsys.draw()\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "draw", progress.draw, raising=False)

    progress.begin("a scenario")
    now[0] += 0.6
    import_module("slow_to_import")

    assert stream.getvalue() == "\r\x1b[2Ka scenario, importing slow_to_import"


def test_a_debugger_has_the_terminal_for_itself(
    monkeypatch: pytest.MonkeyPatch, now: list[float]
) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    progress = drawn_by_hand(monkeypatch, 1)
    progress.begin("a scenario")
    now[0] += 2

    Bdb().runcall(progress.draw)

    assert stream.getvalue() == ""


def test_nothing_is_shown_where_nobody_looks(
    monkeypatch: pytest.MonkeyPatch, now: list[float]
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    progress = Progress(3)

    progress.begin("x")
    now[0] += 1
    progress.draw()
    progress.end()

    assert stream.getvalue() == ""


def test_the_line_is_drawn_while_the_work_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(console, "PROGRESS_AFTER_S", 0.0)
    monkeypatch.setattr(console, "PROGRESS_EVERY_S", 0.01)
    progress = Progress()

    progress.begin("work")
    ends = time.monotonic() + 60
    while "work" not in stream.getvalue() and time.monotonic() < ends:
        time.sleep(0.01)
    progress.end()

    assert stream.getvalue().startswith("\r\x1b[2Kwork")
    assert stream.getvalue().endswith("\r\x1b[2K")


@pytest.mark.parametrize(
    ("columns", "width"), [(200, 152), (140, 136), (110, 106), (80, 76), (20, 36)]
)
def test_a_table_fits_on_the_terminal_within_limits(
    monkeypatch: pytest.MonkeyPatch, columns: int, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys, "stdout", Terminal())

    assert table_width() == width


def test_a_table_that_nobody_looks_at_has_one_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "stdout", io.StringIO())

    assert table_width() == 120


def test_the_progress_line_is_drawn_while_the_code_that_runs_has_another_stderr(
    monkeypatch: pytest.MonkeyPatch, now: list[float]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    progress = drawn_by_hand(monkeypatch, 1)
    progress.begin("exploring")
    now[0] += 1

    with contextlib.redirect_stderr(io.StringIO()):
        progress.draw()

    assert "exploring" in terminal.getvalue()


def test_every_id_is_listed(simkit: Call) -> None:
    listed = [line.split()[0] for line in simkit("explain").out.splitlines()]

    assert listed == list(explanations())
