"""Search a built site for whatever a browser would fetch from another host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

FETCHING_LINKS: Final = {
    "dns-prefetch", "icon", "manifest", "modulepreload", "preconnect", "prefetch", "preload",
    "stylesheet",
}  # fmt: skip
FETCHING_ATTRIBUTES: Final = ("src", "srcset", "poster", "data")
OUTSIDE: Final = re.compile(r"^\s*(?:https?:)?//")
IN_STYLE: Final = re.compile(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')\s]+)")
LOADS_LATER: Final = re.compile(r"class=\"[^\"]*\b(?:mermaid|md-source)\b")
"""The theme's script asks other hosts for these: a library of diagrams, a repository's stars."""


class _Fetches(HTMLParser):
    """Collects the addresses that a page fetches when it is opened; links to follow are none."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        for name in FETCHING_ATTRIBUTES:
            self.addresses += [values[name]] if name in values else []
        if tag == "link" and FETCHING_LINKS & set(values.get("rel", "").split()):
            self.addresses.append(values.get("href", ""))
        self.addresses += IN_STYLE.findall(values.get("style", ""))


def outside_requests(site: Path) -> Iterator[tuple[Path, str]]:
    """Yield the file and the address of everything that the site fetches from elsewhere."""
    for file in sorted(site.rglob("*")):
        if file.suffix not in (".html", ".css"):
            continue
        text = file.read_text(encoding="utf-8")
        addresses = IN_STYLE.findall(text)
        if file.suffix == ".html":
            page = _Fetches()
            page.feed(text)
            addresses += page.addresses
            addresses += [f"what `{match[0]}` asks for" for match in LOADS_LATER.finditer(text)]
        for address in dict.fromkeys(addresses):
            if OUTSIDE.match(address) or address.startswith("what "):
                yield file.relative_to(site), address
