"""The timeline: time, runs side by side, handoffs with their payload, zoom and pan."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest

from tests.viewer.browser import pages_of, write_page
from tests.viewer.scenes import long_scenario
from tests.viewer.test_page import SCENARIOS, opened

pytestmark = pytest.mark.slow


def page(folder: Path, text: str) -> str:
    """Return the address of a page with the scenarios of a text."""
    file = folder / "test.scenario.yaml"
    file.write_text(text, encoding="utf-8")
    return write_page(folder / "report.html", pages_of(file))


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a page with a long run."""
    return page(tmp_path_factory.mktemp("long"), long_scenario(200))


def timeline(tab: Any) -> Any:
    """The timeline, once it is drawn."""
    region = tab.get_by_role("region", name="Timeline")
    region.locator(".mark").first.wait_for()
    return region


def box_of(region: Any, title: str) -> dict[str, float]:
    """The place of the part with a title."""
    part = region.locator(f"xpath=.//*[name()='title'][contains(., '{title}')]/..")
    place: dict[str, float] = part.locator("rect").first.bounding_box()
    return place


def test_a_pause_is_named_and_takes_little_room(tab: Any, late: str) -> None:
    opened(tab, late, "#two-at-once/turn-1")

    region = timeline(tab)
    pause = region.locator(".pause").filter(has_text="3 d")
    assert region.locator(".pause-words").all_text_contents() == ["3 d"]
    assert pause.locator("rect").bounding_box()["width"] < 120
    assert "+1,000 ms" in region.locator(".tick text").all_text_contents()


def test_branches_that_overlap_in_time_overlap_in_the_picture(tab: Any, late: str) -> None:
    opened(tab, late, "#two-at-once/turn-1")
    region = timeline(tab)

    left, right = box_of(region, "of left: handed off"), box_of(region, "of right: done")
    clerk = box_of(region, "of clerk: done")

    assert left["x"] < right["x"] < left["x"] + left["width"]
    assert left["y"] != right["y"]
    assert clerk["x"] > left["x"]
    titles = region.locator(".way title").all_text_contents()
    assert titles[:2] == ["desk → left", "desk → right"]


CROSSED: Final = """() => {
  const boxes = [...document.querySelectorAll(".span > rect")].map((rect) => rect.getBBox());
  const crossed = [];
  for (const way of document.querySelectorAll(".way")) {
    const path = way.querySelector("path");
    for (let at = 3; at < path.getTotalLength() - 1; at++) {
      const { x, y } = path.getPointAtLength(at);
      for (const box of boxes) {
        const inX = x > box.x && x < box.x + box.width;
        if (inX && y > box.y && y < box.y + box.height) crossed.push(way.textContent);
      }
    }
  }
  return [boxes.length, document.querySelectorAll(".way").length, crossed];
}"""
"""The boxes of runs, the ways between them, and the ways that cross a box."""


def test_no_way_runs_behind_the_box_of_a_run(tab: Any, tmp_path: Path) -> None:
    file = SCENARIOS / "fitness_coach/accumulation.scenario.yaml"
    address = write_page(tmp_path / "report.html", pages_of(file))

    opened(tab, address, "#the-outputs-of-the-agents-of-one-turn-accumulate")
    timeline(tab)

    assert tab.evaluate(CROSSED) == [4, 3, []]


def test_a_handoff_says_what_it_passes_on(tab: Any, late: str) -> None:
    opened(tab, late, "#two-at-once/turn-1")
    region = timeline(tab)

    words = "handoff left → clerk, turn 1: made, refund: order_id, reason"
    assert region.get_by_role("button", name=words).count() == 1
    assert region.locator(".passed").first.text_content().startswith("refund")


def test_the_keyboard_zooms_and_keeps_what_is_in_sight(tab: Any, long: str) -> None:
    opened(tab, long, "#long/turn-100/call-1")
    region = timeline(tab)
    picture = region.get_by_role("group", name="Events")
    selected = region.get_by_role("button", pressed=True)
    selected.wait_for()
    width = picture.bounding_box()["width"]

    tab.keyboard.press("+")
    tab.wait_for_function(
        "w => document.querySelector('.timeline .events').clientWidth > w", arg=width
    )
    assert selected.is_visible()
    tab.keyboard.press("0")
    tab.wait_for_function(
        "w => document.querySelector('.timeline .events').clientWidth < w", arg=width / 2
    )

    assert tab.evaluate("document.querySelectorAll('.timeline .mark').length") < 1200


def test_nobody_zooms_out_further_than_the_whole_run(tab: Any, late: str) -> None:
    opened(tab, late, "#two-at-once/turn-1")
    marks = timeline(tab).locator(".mark")
    tab.keyboard.press("0")
    place = marks.last.bounding_box()["x"]

    tab.keyboard.press("+")
    assert marks.last.bounding_box()["x"] > place
    for _ in range(10):
        tab.keyboard.press("-")

    assert marks.last.bounding_box()["x"] == pytest.approx(place, abs=1)


def test_the_strip_shows_the_whole_run_and_goes_to_any_place(tab: Any, long: str) -> None:
    opened(tab, long, "#long/turn-1/call-1")
    region = timeline(tab)
    strip = region.locator(".strip")
    place = strip.bounding_box()

    tab.mouse.click(place["x"] + place["width"] * 0.75, place["y"] + 10)

    region.get_by_role("button", name=re.compile("model call of desk, turn 150:")).wait_for()
    frame = region.locator(".strip .frame").bounding_box()
    assert frame["x"] + frame["width"] / 2 == pytest.approx(
        place["x"] + place["width"] * 0.75, abs=8
    )


def test_a_mouse_pulls_the_timeline(tab: Any, long: str) -> None:
    opened(tab, long, "#long/turn-100/call-1")
    timeline(tab)
    box = tab.locator(".timeline")
    before, place = box.evaluate("box => box.scrollLeft"), box.bounding_box()

    tab.mouse.move(place["x"] + 700, place["y"] + 40)
    tab.mouse.down()
    tab.mouse.move(place["x"] + 400, place["y"] + 40)
    tab.mouse.up()

    assert box.evaluate("box => box.scrollLeft") - before == pytest.approx(300, abs=2)
