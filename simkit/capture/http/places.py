"""Places in user code: all code except simkit's and libraries'."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Final

from simkit.core.determinism.imports import OURS, is_library

__all__ = ["is_library", "is_standard", "place", "raised_at", "stack", "user_frame"]


SHOWN_MAX: Final = 5
"""The number of places that an error shows."""


@lru_cache(maxsize=4096)
def is_standard(file: str) -> bool:
    """Return whether a file belongs to the standard library, or to simkit."""
    if file.startswith("<frozen "):
        return True
    if Path(file).is_relative_to(OURS):
        return True
    return is_library(file) and not {"site-packages", "dist-packages"} & set(Path(file).parts)


def _is_generated(file: str) -> bool:
    """Return whether code was made at run time, like a dataclass's ``__init__``."""
    return file.startswith("<") and not file.startswith(("<frozen ", "<stdin", "<ipython"))


def user_frame(frame: FrameType | None, home: str, nearest: bool) -> FrameType | None:
    """Return the frame if it is user code, or None; with ``nearest``, search its callers too.

    Code of the top-level package ``home`` is user code wherever it is installed.
    """
    while frame is not None:
        file = frame.f_code.co_filename
        if not _is_generated(file):
            name = frame.f_globals.get("__name__") or ""
            if not is_library(file) or (home and name.partition(".")[0] == home):
                return frame
            if not nearest:
                return None
        frame = frame.f_back
    return None


def place(frame: FrameType, line: int = 0) -> str:
    """Return ``package/file.py:line in function``, independent of the working directory."""
    file = Path(frame.f_code.co_filename)
    packages = tuple((frame.f_globals.get("__name__") or "").split("."))
    if file.stem != "__init__":
        packages = packages[:-1]
    is_found_there = file.parent.parts[-len(packages) :] == packages
    short_path = "/".join([*packages, file.name]) if is_found_there else file.name
    return f"{short_path}:{line or frame.f_lineno} in {frame.f_code.co_qualname}"


def raised_at(problem: BaseException, home: str = "") -> str:
    """Return the innermost place in user code that an exception passed; empty if none."""
    location, step = "", problem.__traceback__
    while step is not None:
        if user_frame(step.tb_frame, home, nearest=False) is not None:
            # A frame may be past the line by now.
            location = place(step.tb_frame, step.tb_lineno)
        step = step.tb_next
    return location


def stack(frame: FrameType | None) -> list[str]:
    """Return the nearest places in user code, innermost first; of a library if there is none."""
    frames: list[str] = []
    walked = frame
    while len(frames) < SHOWN_MAX and (walked := user_frame(walked, "", nearest=True)) is not None:
        frames.append(place(walked))
        walked = walked.f_back
    while not frames and frame is not None:
        if not Path(frame.f_code.co_filename).is_relative_to(OURS):
            frames.append(place(frame))
        frame = frame.f_back
    return frames
