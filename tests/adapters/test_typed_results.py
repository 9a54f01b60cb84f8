"""A scripted result is what a function's annotation says: its caller reads fields, not keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.core.errors import SourceError
from tests.adapters.running import run_app
from tests.building import Ran

CODE = """
from __future__ import annotations
from dataclasses import dataclass
from datetime import date
from typing import Iterator, Optional
from pydantic import BaseModel

class Page(BaseModel):
    url: str
    title: Optional[str] = None

class Found(BaseModel):
    pages: list[Page]

@dataclass
class Order:
    number: str
    due: date

class Shop:
    async def order(self, number: str) -> Order | None:
        raise ConnectionError

def search(words: str) -> Found: raise ConnectionError
def pages(words: str) -> list[Page]: raise ConnectionError
def by_name(words: str) -> dict[str, Page]: raise ConnectionError
def note(words: str) -> dict: raise ConnectionError
def text(words: str) -> Page: raise ConnectionError

USES = {
    "search": lambda: search("tea").pages[0].url,
    "pages": lambda: pages("tea")[0].url,
    "by_name": lambda: by_name("tea")["tea"].url,
    "note": lambda: note("tea")["url"],
    "text": lambda: text("tea"),
}

async def run(name: str) -> str:
    if name == "order":
        found = await Shop().order("A-1")
        return f"{found.number} {found.due.year}" if found else "none"
    return USES[name]()
"""
NAMES = ("search", "pages", "by_name", "note", "text")
TOOLS = ", ".join(f"{name}: 'shop:{name}'" for name in NAMES) + ", order: 'shop:Shop.order'"


def used(folder: Path, tool: str, result: str) -> Ran:
    (folder / "shop.py").write_text(CODE, encoding="utf-8")
    return run_app(
        "shop:run",
        f"""
        app: {{path: [.], tools: {{{TOOLS}}}}}
        turns:
          - user: {tool}
            tool_results: {{{tool}: {result}}}
        """,
        folder,
    )


@pytest.mark.parametrize(
    ("tool", "result", "reply"),
    [
        ("search", "{pages: [{url: a}]}", "a"),
        ("search", "[{pages: [{url: a}]}]", "a"),
        ("pages", "{returns: [{url: a}]}", "a"),
        ("by_name", "{tea: {url: a}}", "a"),
        ("order", "{number: A-1, due: '2026-02-01'}", "A-1 2026"),
        ("order", "{returns: null}", "none"),
        ("note", "{url: a}", "a"),
        ("text", "no page", "no page"),
    ],
)
def test_a_result_is_of_the_type_that_the_function_returns(
    tmp_path: Path, tool: str, result: str, reply: str
) -> None:
    assert used(tmp_path, tool, result).turn().reply == reply


def test_a_mapping_that_is_no_such_value_is_told_at_its_place(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        used(tmp_path, "search", "{pages: [{title: Tea}]}")

    problem = "tool 'search' returns a `Found`, and its result is none: pages.0.url: Field required"
    assert str(caught.value).endswith(f":7:28: {problem}")
