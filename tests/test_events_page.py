"""docs/reference/events.md and event-parts.md say what the types say, of every event."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.events_page import PAGES, page
from tests.golden import assert_file_is

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"


@pytest.mark.golden
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_types_say(name: str) -> None:
    assert_file_is(FOLDER / f"{name}.md", page(name))
