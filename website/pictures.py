"""Draw the pictures of the terminal in docs/pictures: `python -m website.pictures`.

Each is a command of a page, run on the page's own files in a terminal of so many columns. A picture
is SVG text, so a test can draw it again and compare.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from website.staging import ROOT
from website.terminal import folded, run_in_terminal, screen, svg

FOLDER: Final = ROOT / "docs" / "pictures"
NAMED: Final = re.compile(r"^```(?!diff)\w+\n# ([\w.]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DIFF: Final = re.compile(r"^```diff\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECONDS: Final = re.compile(r"(?<=\()\d+\.\d\d(?= s\))")


class Picture(NamedTuple):
    """One picture: what a reader sees after a command."""

    name: str
    page: str
    """The page with the files that the commands need."""
    columns: int
    command: str
    before: tuple[str, ...] = ()
    """Commands that come first and are not shown."""
    edit: tuple[str, str, str] = ("", "", "")
    """A file, a text in it and its replacement; after the edit the file runs once."""
    diffs: int = 0
    """How many of the page's `diff` blocks are applied to its files."""


PICTURES: Final = (
    Picture("finding", "README.md", 100, "simkit replay refund.scenario.yaml"),
    Picture("narrow", "README.md", 80, "simkit replay refund.scenario.yaml"),
    Picture("wide", "README.md", 140, "simkit replay refund.scenario.yaml"),
    Picture(
        "context", "README.md", 100,
        "simkit replay refund.scenario.yaml --show context --agent refunds",
    ),
    Picture(
        "diff", "README.md", 100, "simkit diff --base base",
        before=("simkit replay -q refund.scenario.yaml", "mv .simkit base"),
        edit=("refund.scenario.yaml", "history, current", "history, handoff, current"),
    ),
    Picture("tutorial", "docs/tutorial.md", 80, "simkit replay helpdesk.scenario.yaml", diffs=2),
    Picture("explain", "README.md", 100, "simkit explain HND-12"),
)  # fmt: skip


def drawn(picture: Picture) -> str:
    """Return a picture as SVG, with a time that is the same in every run."""
    with TemporaryDirectory() as made:
        folder = Path(made)
        page = (ROOT / picture.page).read_text(encoding="utf-8")
        for name, text in NAMED.findall(page):
            (folder / name).write_text(f"# {name}\n{text}", encoding="utf-8")
        for name, text in DIFF.findall(page)[: picture.diffs]:
            apply_diff(folder / name, text)
        for command in picture.before:
            run_in_terminal(_words(command), folder, picture.columns)
        file, old, new = picture.edit
        if file:
            text = (folder / file).read_text(encoding="utf-8")
            (folder / file).write_text(text.replace(old, new), encoding="utf-8")
            run_in_terminal(_words(f"simkit replay -q {file}"), folder, picture.columns)
        printed = run_in_terminal(_words(picture.command), folder, picture.columns)
    text = f"\x1b[36m$\x1b[0m {picture.command}\r\n{SECONDS.sub('0.05', printed)}"
    lines = folded(screen(text), picture.columns)
    title = " ".join("".join(cell.text for cell in line).strip() for line in lines)
    return svg(lines, picture.columns, " ".join(title.split()))


def apply_diff(file: Path, text: str) -> None:
    """Change a file as the lines of a `diff` block say; what they replace must be there once."""
    lines = text.splitlines(keepends=True)
    old = "".join(line[1:] for line in lines if line[0] in " -")
    new = "".join(line[1:] for line in lines if line[0] in " +")
    before = file.read_text(encoding="utf-8")
    if before.count(old) != 1:
        raise ValueError(f"{file.name} holds this {before.count(old)} times:\n{old}")
    file.write_text(before.replace(old, new), encoding="utf-8")


def _words(command: str) -> list[str]:
    words = command.split()
    if words[0] != "simkit":
        return [shutil.which(words[0]) or words[0], *words[1:]]
    return [sys.executable, "-m", *words]


def files() -> Iterator[tuple[Path, Picture]]:
    """Yield where each picture is kept."""
    for picture in PICTURES:
        yield FOLDER / f"{picture.name}.svg", picture


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, picture in files():
        path.write_text(drawn(picture), encoding="utf-8")
        print(path.relative_to(ROOT))
