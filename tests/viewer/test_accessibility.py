"""The page for everybody: axe-core, both schemes, a phone's width, and reduced motion."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.viewer.test_page import CALL, FAILING, opened

# Not among the first: a browser keeps its event loop in the thread of all tests after it.
pytestmark = pytest.mark.slow

VIEWS: Final = (
    "", CALL, f"#{FAILING}/turn-3/call-1", f"#{FAILING}/turn-3", f"#{FAILING}/who",
    f"#{FAILING}/state/turn-2", f"#{FAILING}/pipeline", f"#{FAILING}/file",
)  # fmt: skip
SERIOUS: Final = ("serious", "critical")


def axe_script() -> str:
    """Return axe-core's own text."""
    axe = pytest.importorskip("axe_playwright_python", reason="needs axe-playwright-python")
    return (Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture
def scheme_tab(chromium: Any, scheme: str) -> Iterator[Any]:
    """A tab in a colour scheme, in which a test may run its own scripts."""
    context = chromium.new_context(
        viewport={"width": 1280, "height": 900}, color_scheme=scheme, bypass_csp=True
    )
    yield context.new_page()
    context.close()


# Schemes differ in colours alone.
@pytest.mark.parametrize(("scheme", "rules"), [("light", ""), ("dark", "'color-contrast'")])
def test_axe_finds_nothing_serious(
    scheme_tab: Any, rules: str, shop: str, late: str, two: str
) -> None:
    options = f"resultTypes: ['violations']{rules and f', runOnly: [{rules}]'}"
    script = axe_script()
    problems = []
    places = [
        *((shop, view) for view in VIEWS),
        *((two, view) for view in ("", f"#{FAILING}/base/turn-2/call-3", f"#{FAILING}/diff")),
        *((late, view) for view in ("#two-at-once/turn-1", "#two-at-once/turn-2")),
    ]
    for address, view in places:
        opened(scheme_tab, address, view)
        scheme_tab.evaluate(script)
        report = scheme_tab.evaluate(f"axe.run(document, {{{options}}})")
        problems += [
            (view, violation["id"], node["html"][:200], node["failureSummary"][:300])
            for violation in report["violations"]
            if violation["impact"] in SERIOUS
            for node in violation["nodes"][:3]
        ]

    assert problems == []


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_screen(
    tab: Any, shop: str, late: str, two: str, long_words: str, width: int
) -> None:
    tab.set_viewport_size({"width": width, "height": 800})
    widths = {}
    places = [(shop, view) for view in VIEWS]
    places += [(late, "#two-at-once"), (two, f"#{FAILING}/diff"), (two, f"#{FAILING}/base")]
    tabs = ("", "/turn-1/call-1", "/turn-1", "/who", "/state", "/pipeline", "/file")
    places += [(long_words, f"#long-words{view}") for view in tabs]
    for address, view in places:
        opened(tab, address, view)
        widths[address, view] = tab.evaluate("document.documentElement.scrollWidth")

    assert widths == dict.fromkeys(places, width)


def test_nothing_moves_by_itself(tab: Any, shop: str) -> None:
    tab.emulate_media(reduced_motion="reduce")
    opened(tab, shop, CALL)

    assert tab.evaluate("document.getAnimations().length") == 0
