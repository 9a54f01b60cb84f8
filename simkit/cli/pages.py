"""Pages: written completely or not at all, and opened, for `view`, `graph` and `replay --html`."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from simkit import __version__
from simkit.core.errors import SimkitError
from simkit.core.files import check_place, write_whole
from simkit.core.output import current_redactor, without_secrets
from simkit.report.last_run import FOLDER, make_folder
from simkit.update.files import is_ci
from simkit.viewer import Graph, Page, RunPage, RunsCoverage, coverage_data, page_html

LARGE: Final = 1_000_000
"""In bytes: pages from here on are said to be so large."""


def write_page(
    file: str, title: str, scenarios: Sequence[RunPage], sides: tuple[str, str] = ("", "")
) -> str:
    """Write a page, and return its file for the user, with its size if it is large.

    Raise SimkitError if it cannot be written.
    """
    return _write(file, Page(title, __version__, scenarios, sides))


def make_default_folder() -> None:
    """Make the folder for a page that no option names; raise SimkitError."""
    try:
        make_folder(Path(FOLDER))
    except OSError as problem:
        if Path(FOLDER).is_dir() and not Path(FOLDER).is_symlink():
            return  # Its .gitignore is missing, which keeps no page from being written.
        raise SimkitError(
            f"the page: the folder {FOLDER} cannot be made: {problem.strerror}\n"
            "  Name a file somewhere else with -o."
        ) from None


def write_coverage_page(
    file: str, title: str, collected: RunsCoverage, measured: str, notes: Sequence[str] = ()
) -> str:
    """Write a page of coverage, and return its file for the user; raise SimkitError.

    ``measured`` says what was run, such as ``5 scenarios``.
    """
    redactor = current_redactor()
    data = without_secrets(coverage_data(collected, measured, notes), redactor)
    page = Page(redactor.text(title), __version__, (), coverage=data)
    return _write(file, page)


def write_graph_page(file: str, title: str, graphs: Sequence[Graph]) -> str:
    """Write a page of pipelines, and return its file for the user; raise SimkitError."""
    redactor = current_redactor()
    clean = [without_secrets(graph, redactor) for graph in graphs]
    return _write(file, Page(redactor.text(title), __version__, (), graphs=clean))


def open_page(file: str, opens: bool) -> None:
    """Open a page in the browser if the user sits at a terminal; ``opens`` is the option."""
    if opens and sys.stdout.isatty() and not is_ci(os.environ):
        webbrowser.open(Path(file).resolve().as_uri())


def _write(file: str, page: Page) -> str:
    content = page_html(page).encode()
    write_file(file, content, "the page")
    size = f" ({len(content) / 1e6:.1f} MB)" if len(content) >= LARGE else ""
    return f"{file}{size}"


def write_file(file: str, content: bytes, option: str) -> None:
    """Write a file completely or not at all; raise SimkitError if that is impossible."""
    check_place(file, option)
    try:
        write_whole(Path(file), content)
    except OSError as problem:
        raise SimkitError(f"{option}: {file} cannot be written: {problem.strerror}") from None
