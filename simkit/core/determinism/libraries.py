"""Libraries: which files are installed packages', the standard library's, or simkit's own."""

from __future__ import annotations

import sysconfig
from functools import lru_cache
from pathlib import Path
from typing import Final

OURS: Final = str(Path(__file__).parent.parent.parent)
_STANDARD: Final = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))


@lru_cache(maxsize=4096)
def is_library(file: str) -> bool:
    """Whether a file is the standard library's, an installed package's or simkit's own."""
    if file.startswith("<frozen "):
        return True
    folders = Path(file).parts
    return (
        "site-packages" in folders
        or "dist-packages" in folders
        or any(Path(file).is_relative_to(folder) for folder in (OURS, *_STANDARD))
    )
