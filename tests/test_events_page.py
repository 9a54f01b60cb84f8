"""docs/events.md says what the types say, of every event."""

from __future__ import annotations

import os
from pathlib import Path

from tests.events_page import page

PAGE = Path(__file__).resolve().parent.parent / "docs" / "events.md"


def test_the_page_is_what_the_types_say() -> None:
    wanted = page()

    # SIMKIT_WRITE_GOLDEN=1 writes what the types say now.
    if os.environ.get("SIMKIT_WRITE_GOLDEN") == "1":
        PAGE.write_text(wanted, encoding="utf-8")

    assert PAGE.read_text(encoding="utf-8") == wanted
