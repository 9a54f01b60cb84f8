"""pytest's configured test folders, for commands without paths."""

from __future__ import annotations

import configparser
import glob
import shlex
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

_FILES: Final = (
    ("pytest.toml", ("pytest",)),
    (".pytest.toml", ("pytest",)),
    ("pytest.ini", ("pytest",)),
    (".pytest.ini", ("pytest",)),
    ("pyproject.toml", ("tool", "pytest", "ini_options")),
    ("pyproject.toml", ("tool", "pytest")),
    ("tox.ini", ("pytest",)),
    ("setup.cfg", ("tool:pytest",)),
)
"""Files in which pytest searches for its configuration, in order, each with the table."""


def configured_paths(folder: str) -> list[str]:
    """Return the existing `testpaths` of a folder's pytest configuration."""
    for name, table in _FILES:
        file = Path(folder, name)
        if file.is_file():
            setting = _setting(file, table)
            if setting:
                return [path for pattern in setting for path in _paths_there(folder, pattern)]
    return []


def _paths_there(folder: str, pattern: str) -> list[str]:
    return sorted(str(Path(path)) for path in glob.glob(str(Path(folder, pattern)), recursive=True))


def _setting(file: Path, table: Sequence[str]) -> list[str]:
    """Return a file's setting; pytest itself reports an unreadable file."""
    try:
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".toml":
            place: Any = tomllib.loads(text)
            for key in table:
                place = place.get(key, {})
            setting = place.get("testpaths", [])
        else:
            parser = configparser.RawConfigParser()
            parser.read_string(text)
            setting = parser.get(table[0], "testpaths", fallback="")
        return shlex.split(setting) if isinstance(setting, str) else [str(path) for path in setting]
    except (OSError, ValueError, TypeError, AttributeError, configparser.Error):
        return []
