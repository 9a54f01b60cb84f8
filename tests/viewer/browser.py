"""A real Chromium for tests of the page, and pages to open in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from simkit.report.results import result_of
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in
from simkit.trace.views import View
from simkit.viewer import Page, RunPage, page_html, run_page

FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
CHROMIUM: Final = os.environ.get("SIMKIT_CHROMIUM") or shutil.which("chromium") or ""
"""The browser; empty if there is none, and then tests of the page are skipped, loudly."""
MISSING: Final = "needs chromium (Debian: apt-get install chromium), or SIMKIT_CHROMIUM=PATH"


@contextmanager
def browser() -> Iterator[Any]:
    """Start the browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        program = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield program
        finally:
            program.close()


def pages_of(file: Path) -> list[RunPage]:
    """Run the scenarios of a file, each ready for a page."""
    library = Library()
    pages = []
    for item in items_in(str(file), library.cache):
        prepared = library.prepared(item)
        outcome = simulate(prepared)
        redactor = prepared.redactor({})
        result = result_of(prepared, outcome, None)
        pages.append(run_page(result, outcome.view, prepared.document, redactor))
    return pages


def write_page(file: Path, scenarios: Sequence[RunPage], sides: tuple[str, str] = ("", "")) -> str:
    """Write a page; return its address."""
    page = Page("the tests", "0", scenarios, sides)
    file.write_text(page_html(page), encoding="utf-8")
    return file.resolve().as_uri()


def views_of(file: Path) -> list[View]:
    """Run the scenarios of a file; return the views of their traces."""
    library = Library()
    items = items_in(str(file), library.cache)
    return [simulate(library.prepared(item)).view for item in items]
