"""Pages of runs: written completely or not at all, by `view`, `replay --html` and pytest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from simkit import __version__
from simkit.core.errors import SimkitError
from simkit.core.output import current_redactor, without_secrets
from simkit.core.whole_files import check_place, write_whole
from simkit.report.last_run import FOLDER, make_folder
from simkit.viewer import Page, RunPage, RunsCoverage, coverage_data, page_html

LARGE: Final = 1_000_000
"""In bytes: pages from here on are said to be so large."""


def write_page(
    file: str, title: str, scenarios: Sequence[RunPage], sides: tuple[str, str] = ("", "")
) -> str:
    """Write a page, and return its file for the user, with its size if it is large.

    Raise SimkitError if it cannot be written.
    """
    return _write(file, Page(title, __version__, scenarios, sides), "the page")


def make_default_folder() -> None:
    """Make the folder for a page that no option names; raise SimkitError."""
    try:
        make_folder(Path(FOLDER))
    except OSError as problem:
        if Path(FOLDER).is_dir():
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
    return _write(file, page, "the page")


def _write(file: str, page: Page, option: str) -> str:
    content = page_html(page).encode()
    write_file(file, content, option)
    size = f" ({len(content) / 1e6:.1f} MB)" if len(content) >= LARGE else ""
    return f"{file}{size}"


def write_file(file: str, content: bytes, option: str) -> None:
    """Write a file completely or not at all; raise SimkitError if that is impossible."""
    check_place(file, option)
    try:
        write_whole(Path(file), content)
    except OSError as problem:
        raise SimkitError(f"{option}: {file} cannot be written: {problem.strerror}") from None
