"""Draw docs/images: the page of docs/how-to/view.md in a browser. `python -m website.images`.

Unlike the pictures of the terminal they are pixels, which other fonts change: a test holds that
each is drawn here and shown on a page, and not its bytes.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from tests.viewer.browser import CHROMIUM, MISSING, browser
from website.pictures import NAMED
from website.staging import ROOT

FOLDER: Final = ROOT / "docs" / "images"
PAGE: Final = "docs/how-to/view.md"
SCENARIO: Final = "the-refund-agent-knows-which-order-it-is-about"


class Image(NamedTuple):
    """A place of the page as it looks in a window."""

    name: str
    place: str
    height: int
    fill: str = ""
    """A text that is searched for."""
    top: str = ""
    """A selector of what stands at the top of the picture; the page's top without one."""
    width: int = 1280


IMAGES: Final = (
    Image("run", f"#{SCENARIO}", 1240),
    Image("prefix", f"#{SCENARIO}/turn-3/call-1", 620, top=".columns"),
    Image("who", f"#{SCENARIO}/who", 760, fill="A-1042"),
    Image("state", f"#{SCENARIO}/state/turn-2", 900),
)


def draw(tab: Any, address: str, image: Image) -> None:
    """Write one picture."""
    tab.set_viewport_size({"width": image.width, "height": image.height})
    tab.goto("about:blank")
    tab.goto(address + image.place)
    tab.locator("main section").first.wait_for()
    if image.fill:
        tab.locator("#search").fill(image.fill)
    if image.top:
        tab.locator(image.top).evaluate("place => place.scrollIntoView()")
    tab.wait_for_timeout(200)
    tab.screenshot(path=str(FOLDER / f"{image.name}.png"))


def main() -> None:
    """Write all pictures."""
    if not CHROMIUM:
        raise SystemExit(MISSING)
    FOLDER.mkdir(exist_ok=True)
    with TemporaryDirectory() as scratch, browser() as program:
        for name, text in NAMED.findall((ROOT / PAGE).read_text(encoding="utf-8")):
            Path(scratch, name).write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "simkit", "replay", "-q", "--html", "report.html"]
        subprocess.run([*command, "returns.scenario.yaml"], cwd=scratch, check=False)
        tab = program.new_page()
        for image in IMAGES:
            draw(tab, Path(scratch, "report.html").resolve().as_uri(), image)
            print(f"docs/images/{image.name}.png")


if __name__ == "__main__":
    main()
