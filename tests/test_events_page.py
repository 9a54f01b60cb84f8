"""docs/reference/events.md says what the types say, of every event."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.events_page import page
from tests.golden import assert_file_is

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "events.md"


@pytest.mark.golden
def test_the_page_is_what_the_types_say() -> None:
    assert_file_is(PAGE, page())
