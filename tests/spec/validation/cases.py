"""Tables of files: a base, what each case replaces in it, and all that is then found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from simkit.cli.validate import checked
from tests.golden import CaseText

FILE = "t.scenario.yaml"
_FILE = Path(__file__).with_name("findings.yaml")
_READ: dict[str, Any] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))


def problems_of(*paths: str) -> str:
    """Returns the text of all problems, as the command prints it."""
    return "\n".join(problem.text for problem in checked(paths or (FILE,)).problems)


def cases(kind: str, *sections: str) -> Callable[[Any], Any]:
    """Runs a test for each case of some sections that is ``found``, or that is ``passed``."""
    entries = [
        pytest.param(
            _text(_READ["bases"][_READ[section]["base"]], entry),
            _says((section, kind, place, "says"), entry),
            id=entry["name"],
            marks=[pytest.mark.golden] if "says" in entry else [],
        )
        for section in sections
        for place, entry in enumerate(_READ[section][kind])
    ]
    return pytest.mark.parametrize(("text", "says"), entries)


def _says(path: tuple[str | int, ...], entry: dict[str, Any]) -> str:
    text: str = entry.get("says", "").rstrip()
    return CaseText.at(_FILE, path, text) if text else ""


def _text(base: str, entry: dict[str, Any]) -> str:
    for old, new in entry["replace"]:
        assert base.count(old) == 1, f"{entry['name']}: {old!r} is {base.count(old)} times there"
        base = base.replace(old, new)
    return base
