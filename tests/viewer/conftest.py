"""One browser for all tests of the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from simkit.report.diffs import Compared, diff_object
from simkit.trace.diff.traces import trace_diff
from tests.viewer.browser import CHROMIUM, MISSING, browser, pages_of, views_of, write_page
from tests.viewer.scenes import HOSTILE, HOSTILE_NAMES, LATE, LONG_WORDS, SHOP


@pytest.fixture(scope="package")
def chromium() -> Iterator[Any]:
    """A running browser."""
    if not CHROMIUM:
        pytest.skip(MISSING)
    with browser() as program:
        yield program


@pytest.fixture
def tab(chromium: Any) -> Iterator[Any]:
    """An empty tab, in which an error of the page fails the test."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda problem: problems.append(str(problem)))
    page.on("console", lambda line: problems.extend([line.text] * (line.type == "error")))
    yield page
    context.close()
    assert problems == []


def _page_of(text: str, name: str = "shop") -> Any:
    """A fixture: the address of a page with the scenarios of a file."""

    @pytest.fixture(scope="package")
    def address(tmp_path_factory: pytest.TempPathFactory) -> str:
        folder = tmp_path_factory.mktemp("page")
        file = folder / f"{name}.scenario.yaml"
        file.write_text(text, encoding="utf-8")
        return write_page(folder / "report.html", pages_of(file))

    return address


shop = _page_of(SHOP)
"""A failing and a passing scenario."""
hostile = _page_of(HOSTILE)
"""Texts of an attacker."""
hostile_names = _page_of(HOSTILE_NAMES)
"""Names of an attacker."""
long_words = _page_of(LONG_WORDS, "a_name_of_a_file_that_is_wider_than_a_narrow_screen_" * 2)
"""Values, and a file's name, without a place to break."""
late = _page_of(LATE)
"""A run in which time passes."""


@pytest.fixture(scope="package")
def two(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a page with two runs of a scenario; the new one has a filter less."""
    folder = tmp_path_factory.mktemp("two")
    old, new = folder / "old.scenario.yaml", folder / "new.scenario.yaml"
    old.write_text(SHOP, encoding="utf-8")
    new.write_text(SHOP.replace("[tool_messages, ", "["), encoding="utf-8")
    views = [views_of(file)[0] for file in (old, new)]
    page = pages_of(new)[0]
    diff = diff_object(Compared(page.scenario.id, ("old", "new"), trace_diff(*views)))
    page = replace(page, scenario=replace(page.scenario, diff=diff), base=pages_of(old)[0])
    return write_page(folder / "diff.html", [page], ("old", "new"))
