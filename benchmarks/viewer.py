"""What the page of runs costs in a browser: its size, how fast it opens, how smoothly it scrolls.

In Chromium as the tests of the page drive it. Frames are those of ``requestAnimationFrame`` while a
list scrolls by `STEP` pixels a frame: a frame is late if it comes more than half a frame after its
time. Other load makes frames late, too; the CPU time of the page's process says what is its part.
"""

from __future__ import annotations

import gzip
import statistics
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.conversations import conversation
from simkit.report.outcomes import result_of
from simkit.session.simulate import simulate
from simkit.viewer import Page, page_html, run_page
from tests.viewer.browser import CHROMIUM, MISSING, browser, pages_of

ROOT: Final = Path(__file__).resolve().parents[1]
TEMPLATE: Final = ROOT / "simkit" / "viewer" / "report.html"
SYSTEMS: Final = ("agent_engine", "fitness_coach", "handoff_pattern", "supervisor_context")
TURNS: Final = 10_000
SCENARIOS: Final = 1_000
FRAMES: Final = 300
STEP: Final = 90
FRAME_MS: Final = 1000 / 60

SCROLL: Final = """async ([selector, frames, step, axis]) => {
  const box = document.querySelector(selector);
  const times = [];
  let long = 0;
  const observer = new PerformanceObserver((list) => { long += list.getEntries().length; });
  observer.observe({ type: 'longtask' });
  await new Promise((done) => {
    const next = (now) => {
      times.push(now);
      if (times.length > frames) { done(); return; }
      box[axis] += step;
      requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
  });
  await new Promise((done) => setTimeout(done, 100));
  observer.disconnect();
  return { gaps: times.slice(1).map((time, place) => time - times[place]), long };
}"""
"""Scrolls an element, and returns the milliseconds between frames, and the number of long tasks."""


def rows(rounds: int) -> list[list[object]]:
    """Returns the sizes of pages, the times until something is there, and the frames."""
    if not CHROMIUM:
        raise SystemExit(MISSING)
    table: list[list[object]] = [["what", "", ""]]
    table.append(
        ["the page without data", f"{len(gzip.compress(TEMPLATE.read_bytes()))} bytes", "gzip"]
    )
    with TemporaryDirectory() as scratch, browser() as program:
        many, large = Path(scratch, "many.html"), Path(scratch, "large.html")
        many.write_text(_many(), encoding="utf-8")
        large.write_text(_large(), encoding="utf-8")
        for name, file in ((f"{SCENARIOS:,} scenarios", many), (f"{TURNS:,} turns", large)):
            table.append([name, f"{file.stat().st_size / 1e6:.1f} MB", ""])
        tab = program.new_page(viewport={"width": 1280, "height": 900})
        table += _opened(program, tab, many.as_uri(), large.as_uri(), rounds)
        table += _scrolled(program, tab, many.as_uri(), large.as_uri())
    return table


def _many() -> str:
    """Returns a page of the reference systems' scenarios, over and over."""
    files = [
        file
        for system in SYSTEMS
        for file in sorted((ROOT / "scenarios" / system).glob("*.scenario.yaml"))
    ]
    pages = [page for file in files for page in pages_of(file)]
    return page_html(Page("many", "0", list(islice(cycle(pages), SCENARIOS))))


def _large() -> str:
    """Returns a page with one long conversation of three agents."""
    prepared = conversation(TURNS)
    outcome = simulate(prepared)
    page = run_page(result_of(prepared, outcome, None), outcome.view, prepared.document)
    return page_html(Page("large", "0", [page]))


def _opened(program: Any, tab: Any, many: str, large: str, rounds: int) -> list[list[object]]:
    last = f"{TURNS}"
    subjects: dict[str, tuple[Callable[[], object], str]] = {
        f"open: list of {SCENARIOS:,} scenarios": (lambda: _fresh(tab, many), ".scenario"),
        f"open: list with one run of {TURNS:,} turns": (lambda: _fresh(tab, large), ".scenario"),
        f"from there to the run of {TURNS:,} turns": (
            lambda: tab.locator(".scenario a").first.click(), ".timeline .mark",
        ),
        "from there to the last call": (
            lambda: tab.evaluate(f"location.hash += '/turn-{last}/call-3'"),
            f".context:has-text('turn {last}, call 3') .row",
        ),
        "from there to who saw what": (
            lambda: tab.get_by_role("link", name="Who saw what").click(), ".matrix .matrix-row",
        ),
        "from there to the state": (
            lambda: tab.evaluate(f"location.hash = '#generated/state/turn-{last}'"),
            ".channel",
        ),
        f"open: a link to the last call of {TURNS:,} turns": (
            lambda: _fresh(tab, f"{large}#generated/turn-{last}/call-3"), ".context .row",
        ),
    }  # fmt: skip
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in subjects}
    for _ in range(rounds):
        for name, (act, selector) in subjects.items():
            before = _cpu_seconds(program)
            wall = _until(tab, act, selector)
            times[name].append((wall, 1000 * (_cpu_seconds(program) - before)))
    table: list[list[object]] = []
    for name, found in times.items():
        wall, cpu = (statistics.median(column) for column in zip(*found, strict=True))
        table.append([name, f"{wall:.0f} ms", f"{cpu:.0f} ms of CPU"])
    return table


def _fresh(tab: Any, address: str) -> None:
    tab.goto("about:blank")
    tab.goto(address)


def _until(tab: Any, act: Callable[[], object], selector: str) -> float:
    """Returns the milliseconds until an element is there and drawn."""
    started = tab.evaluate("Date.now()")
    act()
    tab.locator(selector).first.wait_for()
    ended = tab.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame("
        "() => done(Date.now()))))"
    )
    return float(ended - started)


def _scrolled(program: Any, tab: Any, many: str, large: str) -> list[list[object]]:
    subjects = (
        (f"scroll: list of {SCENARIOS:,} scenarios", many, ".scenarios", "scrollTop"),
        (
            f"scroll: timeline of {TURNS:,} turns",
            f"{large}#generated/turn-1",
            ".timeline",
            "scrollLeft",
        ),
        (
            f"scroll: who saw what of {TURNS:,} turns",
            f"{large}#generated/who",
            ".matrix",
            "scrollTop",
        ),
    )
    found: list[list[object]] = []
    for name, address, selector, axis in subjects:
        _fresh(tab, address)
        tab.locator(selector).first.wait_for()
        tab.wait_for_timeout(500)
        before = _cpu_seconds(program)
        seen = tab.evaluate(SCROLL, [selector, FRAMES, STEP, axis])
        took = (_cpu_seconds(program) - before) / FRAMES
        cpu = f"{took * 1000:.1f} ms of CPU a frame, {seen['long']} long tasks"
        found.append([name, _frames(seen["gaps"]), cpu])
    return found


def _frames(gaps: Sequence[float]) -> str:
    late = sum(gap > 1.5 * FRAME_MS for gap in gaps)
    return f"{100 * late / len(gaps):.1f} % of frames late"


def _cpu_seconds(program: Any) -> float:
    """Returns the CPU seconds that all pages have taken so far, in all their threads."""
    session = program.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    return float(sum(one["cpuTime"] for one in processes if one["type"] == "renderer"))
