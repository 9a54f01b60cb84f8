"""The terminal: colours and the progress line."""

from __future__ import annotations

import io
import sys

import pytest

from simkit.cli import console
from simkit.cli.console import Progress, paint_for, table_width, wants_color
from simkit.core.output import clean


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
    progress = Progress(3)

    progress.step("soon")
    now[0] += 0.6
    progress.step("later")
    now[0] += 0.05
    progress.step("too soon again")
    progress.clear()
    progress.clear()

    assert stream.getvalue() == "\r\x1b[2K2 of 3: later\r\x1b[2K"


def test_nothing_is_shown_where_nobody_looks_or_for_a_single_scenario(
    monkeypatch: pytest.MonkeyPatch, now: list[float]
) -> None:
    pipe, terminal = io.StringIO(), Terminal()
    for stream, total in ((pipe, 3), (terminal, 1)):
        monkeypatch.setattr(sys, "stderr", stream)
        progress = Progress(total)
        now[0] += 1
        progress.step("x")
        progress.clear()

    assert (pipe.getvalue(), terminal.getvalue()) == ("", "")


@pytest.mark.parametrize(("columns", "width"), [(200, 120), (110, 106), (80, 76), (20, 36)])
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
