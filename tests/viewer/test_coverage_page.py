"""The page of coverage in a real browser: shares, filters, keys, texts of others, small screens."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in
from simkit.viewer import CoverageCollector, Page, coverage_data, page_html
from tests.viewer.scenes import HOSTILE_NAMES, SHOP
from tests.viewer.test_accessibility import SERIOUS, axe_script
from tests.viewer.test_accessibility import scheme_tab as scheme_tab
from tests.viewer.test_hostile_texts import TEXTS, UNSEEN
from tests.viewer.test_page import opened

pytestmark = pytest.mark.slow


def page_of(folder: Path, text: str) -> str:
    """Write the page of the coverage of a file's scenarios; return its address."""
    file = folder / "shop.scenario.yaml"
    file.write_text(text, encoding="utf-8")
    library, collector = Library(), CoverageCollector()
    for item in items_in(str(file), library.cache):
        prepared = library.prepared(item)
        collector.add(prepared, simulate(prepared).view)
    data = coverage_data(collector.coverage(), "2 scenarios", ["1 scenario skipped"])
    page = folder / "coverage.html"
    page.write_text(page_html(Page("shop", "0", (), coverage=data)), encoding="utf-8")
    return page.resolve().as_uri()


@pytest.fixture
def shop_coverage(tmp_path: Path) -> str:
    """The address of a page."""
    return page_of(tmp_path, SHOP)


def rows(tab: Any) -> list[list[str]]:
    """The rows of the table of items."""
    lines = tab.locator(".items tbody tr").all()
    return [[cell.strip() for cell in line.locator("td").all_inner_texts()] for line in lines]


def counts(tab: Any) -> dict[str, list[str]]:
    """Kind to the share and the percentage of it."""
    shares = {}
    for line in tab.locator(".kinds tbody tr").all():
        name = line.get_by_role("button").inner_text()
        shares[name] = line.locator(".count").all_inner_texts()
    return shares


def test_shares_by_kind_stand_beside_the_picture(tab: Any, shop_coverage: str) -> None:
    opened(tab, shop_coverage)

    heading = tab.get_by_role("heading", level=1).inner_text()
    assert re.match(r"\d+ of \d+ items covered \(\d\d\.\d %\) by 2 scenarios of shop", heading)
    assert counts(tab)["agents"] == ["2 of 2", "100.0"]
    assert counts(tab)["failures"] == ["0 of 1", "0.0"]
    assert tab.get_by_text("1 scenario skipped").is_visible()
    picture = tab.get_by_role("img", name=re.compile("^Pipeline shop"))
    assert "triage → refunds, refund: 1 times" in picture.get_attribute("aria-label")


def test_what_is_missing_comes_first_with_its_line_and_a_way_to_cover_it(
    tab: Any, shop_coverage: str
) -> None:
    opened(tab, shop_coverage)

    by_name = {row[2]: row for row in rows(tab)}
    place, kind, _, times, way = by_name["find_order failed"]
    assert re.search(r"shop\.scenario\.yaml:21$", place)
    assert (kind, times) == ("tools", "never")
    assert way == "`tool_results: {find_order: {error: it is down}}`"
    assert {row[3] for row in rows(tab)} == {"never"}


def test_the_table_is_filtered_by_text_kind_and_what_happened(tab: Any, shop_coverage: str) -> None:
    opened(tab, shop_coverage)
    missing = len(rows(tab))

    tab.get_by_role("button", name=re.compile("^all")).click()
    whole = len(rows(tab))
    tab.get_by_role("button", name=re.compile("^covered")).click()
    assert len(rows(tab)) == whole - missing > 0
    tab.get_by_role("button", name="tools", exact=True).click()
    assert [row[2] for row in rows(tab)] == ["find_order answered"]
    tab.get_by_role("button", name=re.compile("^missing")).click()
    assert [row[2] for row in rows(tab)] == ["find_order failed"]
    tab.get_by_role("button", name="every kind").click()
    tab.get_by_role("searchbox", name="Filter").fill("no such thing")
    assert tab.get_by_text("No item fits.").is_visible()
    assert tab.get_by_role("status").inner_text() == "0 items shown"
    tab.get_by_role("searchbox", name="Filter").fill("FAILED find_order")
    assert tab.get_by_role("status").inner_text() == "1 item shown"


def test_keys_lead_to_the_filter_and_to_the_help(tab: Any, shop_coverage: str) -> None:
    opened(tab, shop_coverage)

    tab.keyboard.press("/")
    tab.locator("#search:focus").wait_for()
    tab.keyboard.type("failed")
    assert tab.get_by_role("status").inner_text() == "1 item shown"
    tab.keyboard.press("Escape")
    tab.keyboard.press("?")
    assert tab.get_by_role("dialog").get_by_text("filter").is_visible()
    tab.keyboard.press("Escape")
    tab.get_by_role("button", name="tools", exact=True).focus()
    tab.keyboard.press("Enter")
    assert tab.get_by_role("heading", name="Items: tools").is_visible()


def test_the_page_asks_nobody(tab: Any, shop_coverage: str) -> None:
    urls: list[str] = []
    tab.on("request", lambda request: urls.append(request.url))

    opened(tab, shop_coverage)
    tab.get_by_role("button", name=re.compile("^all")).click()

    assert [url for url in urls if url not in ("about:blank", shop_coverage)] == []


def test_names_of_others_are_text_with_what_no_screen_shows(tab: Any, tmp_path: Path) -> None:
    text = HOSTILE_NAMES.replace("Refund.", "<img src=x onerror='window.hacked=1'>")
    text = text.replace("look ", "<img src=x onerror='window.hacked=1'> ")
    opened(tab, page_of(tmp_path, text))
    tab.get_by_role("button", name=re.compile("^all")).click()

    assert tab.evaluate("window.hacked") is None
    assert tab.locator("#app img").count() == 0
    assert any("<img src=x onerror" in row[2] for row in rows(tab))
    assert UNSEEN.findall(tab.evaluate(TEXTS)) == []


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_screen(tab: Any, shop_coverage: str, width: int) -> None:
    tab.set_viewport_size({"width": width, "height": 800})
    opened(tab, shop_coverage)
    tab.get_by_role("button", name=re.compile("^all")).click()

    assert tab.evaluate("document.documentElement.scrollWidth") == width


def test_on_a_small_screen_the_item_is_in_sight_beside_a_long_place(
    tab: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "a_folder_with_a_long_name" / "and_another_one_with_a_long_name"
    folder.mkdir(parents=True)
    tab.set_viewport_size({"width": 390, "height": 800})
    opened(tab, page_of(folder, SHOP))

    item = tab.locator(".items .item").first.bounding_box()

    assert item["x"] + item["width"] <= 390


@pytest.mark.parametrize("scheme", ["light"])
def test_axe_finds_nothing_serious(scheme_tab: Any, shop_coverage: str) -> None:
    opened(scheme_tab, shop_coverage)
    scheme_tab.get_by_role("button", name=re.compile("^all")).click()
    scheme_tab.get_by_role("button", name="tools", exact=True).click()
    scheme_tab.evaluate(axe_script())
    report = scheme_tab.evaluate("axe.run(document, {resultTypes: ['violations']})")

    assert [
        (violation["id"], node["html"][:200], node["failureSummary"][:300])
        for violation in report["violations"]
        if violation["impact"] in SERIOUS
        for node in violation["nodes"][:3]
    ] == []
