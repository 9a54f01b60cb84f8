"""Texts of others on the page: they are text, whatever they hold."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from simkit.viewer.page import in_script
from tests.viewer.browser import pages_of, write_page
from tests.viewer.scenes import ATTACK, SHOP
from tests.viewer.test_page import opened

TEXTS = """() => {
  document.querySelectorAll('details').forEach((part) => { part.open = true; });
  const parts = [...document.querySelectorAll('#app *')];
  return [document.title, document.getElementById('app').textContent,
    ...parts.flatMap((part) => [part.title, part.getAttribute('aria-label')])].join(' ');
}"""
LATER = """() => new Promise((done) => {
  const image = new Image();
  image.onerror = done;
  image.src = 'none';
})"""
"""Ends when what the page tried to load before has failed."""
UNSEEN = re.compile("[\u202e\u2066\u200b\x1b\x07\x9b]")
ENDS = re.compile(r"</script", re.IGNORECASE)


def test_json_in_the_page_ends_no_element() -> None:
    text = in_script({"a": "</script><!-- \u2028 &amp;"})

    assert not set(text) & set("<>&\u2028")
    assert text == '{"a":"\\u003c/script\\u003e\\u003c!-- \\u2028 \\u0026amp;"}'


@pytest.mark.slow
def test_the_page_has_a_policy_that_allows_its_own_script_alone(tmp_path: Path) -> None:
    file = tmp_path / "shop.scenario.yaml"
    file.write_text(SHOP, encoding="utf-8")
    write_page(tmp_path / "report.html", pages_of(file))
    html = (tmp_path / "report.html").read_text(encoding="utf-8")

    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', html)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert "unsafe" not in policy[1]
    assert len(re.findall(r"sha256-", policy[1])) == 2
    assert len(ENDS.findall(html)) == 2
    assert not re.findall(r"(?:src|href)=[\"']?https?:", html)


@pytest.mark.slow
@pytest.mark.parametrize("view", ["", "/who", "/state/turn-1", "/pipeline", "/file"])
def test_nothing_of_a_hostile_text_runs(tab: Any, hostile: str, view: str) -> None:
    opened(tab, hostile)
    name = tab.locator(".scenario a").first.get_attribute("href")

    opened(tab, hostile, name + view)

    assert tab.evaluate("window.hacked") is None
    assert tab.locator("#app img, #app script, #app b b").count() == 0
    assert ATTACK in tab.get_by_role("heading", level=1).inner_text()


@pytest.mark.slow
def test_what_is_invisible_is_shown_and_right_to_left_stays_in_its_line(
    tab: Any, hostile: str
) -> None:
    opened(tab, hostile)
    tab.locator(".scenario a").first.click()

    context = tab.get_by_role("region", name="What desk was sent")
    context.wait_for()
    assert "\\u202e" in context.inner_text()
    assert "\u202e" not in tab.get_by_role("main").inner_text()
    assert context.locator(".text").first.get_attribute("dir") == "auto"


@pytest.mark.slow
@pytest.mark.parametrize("view", ["", "/who", "/state/turn-1", "/pipeline", "/file"])
def test_no_name_holds_what_is_invisible(tab: Any, hostile_names: str, view: str) -> None:
    opened(tab, hostile_names)
    link = tab.locator(".scenario a").first
    assert "\\u202e" in link.inner_text()

    opened(tab, hostile_names, link.get_attribute("href") + view)

    texts = tab.evaluate(TEXTS)
    assert "\\u202e" in texts
    assert not UNSEEN.findall(texts)


@pytest.mark.slow
def test_a_long_word_pushes_no_column_out_of_a_narrow_window(tab: Any, long_words: str) -> None:
    tab.set_viewport_size({"width": 390, "height": 844})

    opened(tab, long_words, "#long-words")
    tab.locator(".payload").wait_for()

    ends = "(cells) => Math.max(...cells.map((cell) => cell.getBoundingClientRect().right))"
    for table in (".payload", ".differences"):
        assert tab.locator(f"{table} td, {table} th").evaluate_all(ends) <= 390, table


@pytest.mark.slow
@pytest.mark.parametrize("link", ["#%", "#%E0%A4%A/who", "#__proto__", "#" + "a" * 5000])
def test_a_link_that_names_nothing_says_so(tab: Any, shop: str, link: str) -> None:
    opened(tab, shop, link)

    assert "No scenario of this page is named" in tab.get_by_role("alert").inner_text()
    assert tab.locator(".scenario").count() == 2
    assert tab.evaluate("document.documentElement.scrollWidth") == 1280


@pytest.mark.slow
def test_the_policy_stops_a_script_that_got_in_all_the_same(chromium: Any, shop: str) -> None:
    page = chromium.new_page()
    page.goto(shop)
    page.get_by_role("main").wait_for()

    page.evaluate(
        "() => { const one = document.createElement('script');"
        " one.textContent = 'window.hacked = 1'; document.body.append(one);"
        " const other = document.createElement('div');"
        " other.innerHTML = '<img src=x onerror=\"window.hacked = 1\">';"
        " document.body.append(other); }"
    )
    page.evaluate(LATER)

    assert page.evaluate("window.hacked") is None
    assert page.evaluate("fetch('https://example.com').then(() => 'sent', () => 'stopped')") == (
        "stopped"
    )
    page.close()
