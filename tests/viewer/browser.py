"""A real Chromium for tests of the page, and pages to open in it."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from simkit.report.results import result_of
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in
from simkit.trace.events import AnyEvent
from simkit.trace.views import View, view_of
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
RESTS: Final = """async () => {
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const isReading = () => document.querySelector("#app:empty, .loading, [aria-busy=true]");
  do { await frame(); await frame(); } while (isReading());
}"""
"""Waits two frames, as effects run after the first, and until the page has read its data."""
ACTIONS: Final = {
    "Page": ("evaluate", "goto", "emulate_media", "set_viewport_size"),
    "Keyboard": ("press", "type"),
    "Mouse": ("click", "up"),
    "Locator": ("click", "evaluate", "fill", "focus"),
}
"""What changes a page. Tests read it at once, so each of these waits until the page is at rest."""
MISSING: Final = "needs chromium (Debian: apt-get install chromium), or SIMKIT_CHROMIUM=PATH"


@contextmanager
def browser() -> Iterator[Any]:
    """Start the browser; each action of a test in it ends when the page rests."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright, pytest.MonkeyPatch.context() as patch:
        program = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        _end_actions_at_rest(patch, program)
        try:
            yield program
        finally:
            program.close()


def _end_actions_at_rest(patch: pytest.MonkeyPatch, program: Any) -> None:
    from playwright import sync_api

    evaluate = sync_api.Page.evaluate

    def at_rest(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def act(*arguments: Any, **options: Any) -> Any:
            returned = method(*arguments, **options)
            for page in (page for context in program.contexts for page in context.pages):
                evaluate(page, RESTS)
            return returned

        return act

    for owner, methods in ACTIONS.items():
        for name in methods:
            kind = getattr(sync_api, owner)
            patch.setattr(kind, name, at_rest(getattr(kind, name)))


def pages_of(file: Path, more: Sequence[AnyEvent] = ()) -> list[RunPage]:
    """Run the scenarios of a file, each ready for a page, with ``more`` events at its end."""
    library = Library()
    pages = []
    for item in items_in(str(file), library.cache):
        prepared = library.prepared(item)
        outcome = simulate(prepared)
        redactor = prepared.redactor({})
        result = result_of(prepared, outcome, None)
        view = view_of([*outcome.trace.events, *more])
        pages.append(run_page(result, view, prepared.document, redactor))
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
