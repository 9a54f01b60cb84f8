"""The pictures of the terminal show what the terminal shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.golden import assert_file_is
from website.pictures import FOLDER, Picture, drawn, files
from website.staging import ROOT
from website.terminal import folded, screen, svg


@pytest.mark.golden
@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "picture"), list(files()), ids=lambda value: getattr(value, "name", "")
)
def test_a_picture_shows_what_the_terminal_shows(path: Path, picture: Picture) -> None:
    assert_file_is(path, drawn(picture))


def test_every_picture_is_drawn_by_the_command_and_shown_on_a_page() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    texts = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    names = set(re.findall(r"pictures/([\w-]+\.svg)", texts))

    assert {path.name for path in FOLDER.iterdir()} == {path.name for path, _ in files()}
    assert names == {path.name for path, _ in files()}


def text_of(printed: str, columns: int = 20) -> list[str]:
    """What a terminal shows, without colours."""
    return ["".join(cell.text for cell in line) for line in folded(screen(printed), columns)]


def test_a_line_that_is_taken_away_is_not_in_the_picture() -> None:
    assert text_of("\r\x1b[2K1 of 2: x\r\x1b[2Kdone\r\n") == ["done"]


def test_a_long_line_goes_on_in_the_next() -> None:
    assert text_of("abcdef\r\n\r\ngh", columns=4) == ["abcd", "ef", "", "gh"]


def test_colours_are_those_of_the_terminal() -> None:
    (line,) = screen("\x1b[31mred\x1b[0m \x1b[1mbold\x1b[0m")

    assert [cell.colour for cell in line[:4]] == ["#ff7b72", "#ff7b72", "#ff7b72", ""]
    assert line[4].is_bold


def test_text_of_others_is_text_in_the_picture() -> None:
    picture = svg(screen('<script> & "x"'), 20, "a < b")

    assert "<script>" not in picture
    assert "&lt;script&gt; &amp;" in picture
    assert "<title>a &lt; b</title>" in picture
