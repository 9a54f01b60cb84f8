"""The pictures of the browser are drawn by one command, and each is on a page."""

from __future__ import annotations

import re

from website.images import FOLDER, IMAGES
from website.staging import ROOT


def test_every_image_is_drawn_by_the_command_and_shown_on_a_page() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    texts = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    names = {f"{image.name}.png" for image in IMAGES}

    assert set(re.findall(r"images/([\w-]+\.png)", texts)) == names
    assert {path.name for path in FOLDER.iterdir()} == names
    assert all(path.read_bytes()[:4] == b"\x89PNG" for path in FOLDER.iterdir())
