"""Files that are written completely or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from threading import get_ident
from typing import Final

from simkit.core.errors import SimkitError

SOURCES: Final = (".yaml", ".yml", ".py", ".feature", ".ipynb", ".toml", ".jsonl")
"""How names of files end that people write, or that hold traces: no report is one of them."""


def write_whole(file: Path, content: bytes, *, is_kept: bool = False) -> None:
    """Write a file atomically, so that a reader gets the old or the new content; raise OSError.

    A file that people keep (``is_kept``) has the same mode afterwards, and is on the disk.

    A link stays, and the file that it names is written. A device or a pipe is written to: to rename
    a file over `/dev/null` would take it away from the whole machine.
    """
    if file.exists() and not file.is_file():
        file.write_bytes(content)
        return
    if file.is_symlink():
        file = Path(os.path.realpath(file))  # Of links in a circle it is one of them.
    temporary = file.with_name(f".{file.name}.{os.getpid()}.{get_ident()}.tmp")
    try:
        with temporary.open("wb") as stream:
            if is_kept and file.exists():
                temporary.chmod(file.stat().st_mode & 0o7777)
            stream.write(content)
            if is_kept:
                stream.flush()
                os.fsync(stream.fileno())
        os.replace(temporary, file)
        if is_kept:
            _settle(file.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _settle(folder: Path) -> None:
    """Make the new name of a file durable, where folders can be opened: not on Windows."""
    with suppress(PermissionError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def check_place(file: str, option: str) -> None:
    """Raise SimkitError if no report can be written there, before anything runs for it.

    An existing report is replaced. A file of sources is not: `--html refund.scenario.yaml` is
    written by somebody who takes the option for a switch.
    """
    place = Path(file)
    folder = place.parent
    if place.is_dir():
        raise SimkitError(f"{option}: {file} is a folder\n  Name a file in it: {file}/report.html")
    if file.endswith(os.sep):  # The name of a folder, although Path forgets it.
        raise SimkitError(f"{option}: there is no folder {file}")
    if not folder.is_dir():
        raise SimkitError(f"{option}: there is no folder {folder}")
    if place.exists() and not place.is_file():
        return  # A device or a pipe, which needs no room in its folder.
    if place.exists() and place.name.lower().endswith(SOURCES):
        raise SimkitError(
            f"{option}: {file} is there, is no report, and is not overwritten\n"
            f"  Behind {option} stands the file that is to be written."
        )
    if not os.access(folder, os.W_OK):
        raise SimkitError(f"{option}: the folder {folder} cannot be written to")
