"""The site: every page is in it, links lead on, and opening a page asks no other host."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from website.privacy import outside_requests
from website.staging import FENCED, ROOT, page_text, source_address, stage, staged


@pytest.fixture(scope="module")
def site_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the generator reads."""
    folder = tmp_path_factory.mktemp("site")
    stage(folder)
    return folder


def places(entries: object) -> list[str]:
    """The pages of a navigation, in order."""
    if isinstance(entries, str):
        return [entries]
    inside = entries.values() if isinstance(entries, dict) else entries
    assert isinstance(inside, (list, type({}.values())))
    return [place for entry in inside for place in places(entry)]


BEGINNINGS = ("After this page you ", "With simkit you ", "In fifteen minutes you ", "Look up ")


@pytest.mark.parametrize(
    "page",
    [
        str(page.relative_to(ROOT))
        for page in sorted((ROOT / "docs").rglob("*.md"))
        if page.parent.name != "decisions"
    ],
)
def test_a_page_begins_with_what_its_reader_can_do(page: str) -> None:
    _, _, text = (ROOT / page).read_text(encoding="utf-8").partition("\n\n")

    assert text.startswith(BEGINNINGS)


def test_every_page_is_in_the_navigation_once(site_source: Path) -> None:
    settings = tomllib.loads((site_source / "zensical.toml").read_text(encoding="utf-8"))
    pages = site_source / "docs"

    text = {file.relative_to(pages).as_posix() for file in pages.rglob("*.md")}
    named = places(settings["project"]["nav"])
    assert sorted(named) == sorted(text)


def test_the_site_uses_no_font_and_no_count_of_another_host(site_source: Path) -> None:
    project = tomllib.loads((site_source / "zensical.toml").read_text(encoding="utf-8"))["project"]

    assert project["theme"]["font"] is False
    assert "repo_url" not in project
    assert "analytics" not in project["extra"]


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("[a](how-to/pytest.md#in-github-actions)", "[a](how-to/pytest.md#in-github-actions)"),
        ("[a](../ARCHITECTURE.md)", "[a](explanation/architecture.md)"),
        ("[a](how-to)", "[a](how-to/README.md)"),
        ("[a](decisions)", "[a](decisions/README.md)"),
        ("[a](https://example.com/x)", "[a](https://example.com/x)"),
        ("[a](#here)", "[a](#here)"),
        ("[a](../scenarios)", f"[a]({source_address()}/scenarios)"),
    ],
)
def test_a_link_leads_to_the_page_of_the_site_or_to_the_source(link: str, expected: str) -> None:
    assert page_text(link, "docs/README.md", "index.md") == expected


def test_what_stands_in_a_block_of_code_is_no_link() -> None:
    text = "```python\nnames[x](../SECURITY.md)\n- one\n```\n"

    assert page_text(text, "docs/README.md", "index.md") == text


def test_a_list_below_a_paragraph_is_a_list_on_the_site_too() -> None:
    assert (
        page_text("Changes:\n- one\n- two\n", "docs/x.md", "x.md") == "Changes:\n\n- one\n- two\n"
    )


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("docs/README.md", "index.md"),
        ("docs/how-to/README.md", "how-to/README.md"),
        ("SECURITY.md", "explanation/security.md"),
        ("noxfile.py", ""),
    ],
)
def test_a_file_has_one_place(name: str, place: str) -> None:
    assert staged(name) == place


@pytest.mark.parametrize(
    ("html", "address"),
    [
        ('<link rel="stylesheet" href="https://fonts.example.com/a.css">', "https://fonts.example.com/a.css"),
        ('<link rel="preconnect" href="//cdn.example.com">', "//cdn.example.com"),
        ('<script async src="https://count.example.com/js"></script>', "https://count.example.com/js"),
        ('<p style="background: url(https://example.com/x.png)">', "https://example.com/x.png"),
        ('<pre class="mermaid">', 'what `class="mermaid` asks for'),
    ],
)  # fmt: skip
def test_a_request_to_another_host_is_found(html: str, address: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(html, encoding="utf-8")

    assert list(outside_requests(tmp_path)) == [(Path("page.html"), address)]


def test_a_font_that_a_style_sheet_imports_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text('@import "https://example.com/f.css";', encoding="utf-8")

    assert list(outside_requests(tmp_path)) == [(Path("a.css"), "https://example.com/f.css")]


def test_links_that_a_reader_may_follow_are_no_requests(tmp_path: Path) -> None:
    html = '<a href="https://example.com">a</a><link rel="canonical" href="https://example.com">'
    (tmp_path / "page.html").write_text(f'{html}<img src="a.svg">', encoding="utf-8")

    assert list(outside_requests(tmp_path)) == []


def test_lists_inside_of_lists_are_indented_as_both_markdowns_want() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]

    flat = [
        f"{page.name}: {line}"
        for page in pages
        for part in FENCED.split(page.read_text(encoding="utf-8"))[::2]
        for line in re.findall(r"^ {1,3}(?:[-*]|\d+\.) .*$", part, re.MULTILINE)
    ]
    assert flat == []
