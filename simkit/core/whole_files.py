"""Files that are written completely or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from threading import get_ident


def write_whole(file: Path, content: bytes) -> None:
    """Write a file atomically, so that a reader gets the old or the new content; raise OSError."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}.{get_ident()}.tmp")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)
