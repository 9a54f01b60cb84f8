"""Large runs on the page: what is in sight is in the document, and no more."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.viewer.browser import pages_of, write_page
from tests.viewer.scenes import SHOP, long_scenario
from tests.viewer.test_page import opened

pytestmark = pytest.mark.slow

ELEMENTS_MAX = 2_500
TURNS = 400
SIZE_A_TURN_MAX = 1_200
"""Bytes of a page for one turn of a conversation."""


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with a conversation of many turns."""
    folder = tmp_path_factory.mktemp("long")
    file = folder / "long.scenario.yaml"
    file.write_text(long_scenario(TURNS), encoding="utf-8")
    write_page(folder / "report.html", pages_of(file))
    return folder / "report.html"


@pytest.mark.parametrize("place", ["", f"/turn-{TURNS}/call-1", "/who", f"/state/turn-{TURNS}"])
def test_a_long_run_has_few_elements(tab: Any, long: Path, place: str) -> None:
    opened(tab, long.as_uri(), f"#long{place}")
    tab.get_by_role("main").get_by_role("heading", level=2).first.wait_for()

    assert tab.evaluate("document.querySelectorAll('*').length") < ELEMENTS_MAX


def test_a_folded_history_opens_piece_by_piece(tab: Any, long: Path) -> None:
    opened(tab, long.as_uri(), f"#long/turn-{TURNS}/call-1")

    more = tab.get_by_role("button", name=re.compile("show the next 200"))
    before = tab.locator(".rows > li").count()
    more.click()

    assert tab.locator(".rows > li").count() == before + 200


def test_the_list_of_who_saw_what_shows_what_is_scrolled_to(tab: Any, long: Path) -> None:
    opened(tab, long.as_uri(), "#long/who")
    grid = tab.get_by_role("grid")
    grid.wait_for()
    assert grid.get_by_text(f"Question {TURNS} of many", exact=True).count() == 0

    grid.evaluate("element => { element.scrollTop = element.scrollHeight }")

    grid.get_by_text(re.compile(f"Answer {TURNS}$")).wait_for()


def test_a_page_is_linear_in_the_turns(long: Path, tmp_path: Path) -> None:
    sizes = []
    for turns in (TURNS // 4, TURNS // 2):
        file = tmp_path / "part.scenario.yaml"
        file.write_text(long_scenario(turns), encoding="utf-8")
        (page,) = pages_of(file)
        sizes.append(len(page.run))

    assert sizes[1] < 2.2 * sizes[0]
    assert sizes[1] / (TURNS // 2) < SIZE_A_TURN_MAX


def test_a_message_of_a_megabyte_is_shown_in_part(tab: Any, tmp_path: Path) -> None:
    file = tmp_path / "shop.scenario.yaml"
    file.write_text(SHOP.replace("Good morning", "x" * 1_000_000), encoding="utf-8")

    opened(tab, write_page(tmp_path / "report.html", pages_of(file)))
    tab.get_by_role("link", name="the refund agent knows the order").click()

    button = tab.get_by_role("button", name=re.compile("998,500 more characters")).first
    button.wait_for()
    assert len(tab.get_by_role("main").inner_text()) < 20_000
