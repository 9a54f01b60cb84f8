"""Files that were not there before: written whole or not at all, and never over another."""

from __future__ import annotations

import os
from pathlib import Path

from simkit.core.errors import SimkitError


def write_new(file: Path, text: str) -> bool:
    """Writes a file where nothing is, and says whether it did; raises SimkitError if it cannot."""
    if os.path.lexists(file):
        return False
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        try:
            draft.write_text(text, encoding="utf-8", newline="\n")
            # Unlike a renaming, a link never takes the place of what appeared meanwhile.
            os.link(draft, file)
        finally:
            draft.unlink(missing_ok=True)
    except FileExistsError:
        return False
    except OSError as problem:
        raise SimkitError(f"{file}: it cannot be written: {problem.strerror}") from None
    return True
