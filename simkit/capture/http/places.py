"""Places in user code: all code except simkit's and libraries'."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from dis import opname
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any, Final

from simkit.core.determinism.installing import OURS, is_library
from simkit.core.gc_pause import current_frames

__all__ = ["is_library", "is_standard", "place", "raised_at", "stack", "user_frame"]


SHOWN_MAX: Final = 5
"""The number of places that an error shows."""
CLIENTS: Final = frozenset(
    ("aiohttp", "anthropic", "google", "httpx", "httpx2", "litellm", "openai", "requests")
)
"""The top-level packages of client libraries."""
_SENDERS: Final = CLIENTS.union(
    ("a2a", "aiohappyeyeballs", "anyio", "backoff", "boto3", "botocore", "curl_cffi", "fastmcp"),
    ("h11", "h2", "httpcore", "httplib2", "httpx_sse", "mcp", "primp", "requests_toolbelt"),
    ("tenacity", "trio", "urllib3", "websocket", "websockets", "yarl"),
)
"""The packages whose code sends a request for its caller, and waits or tries again between."""
carried_call: Final = ContextVar[Any]("simkit_carried_call", default=None)
"""The tool's call that this code executes; whatever it sends is the tool's."""
asked_by: Final = ContextVar[str | None]("simkit_asked_by", default=None)
"""The library that asks, where a client sends its request from a callback of the event loop."""


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
    for each in _stack_of(frame):
        file = each.f_code.co_filename
        if not _is_generated(file):
            name = each.f_globals.get("__name__") or ""
            if not is_library(file) or (home and name.partition(".")[0] == home):
                return each
            if not nearest:
                return None
    return None


def library_asking(frame: FrameType | None, home: str) -> str:
    """Return the package that sends a request by itself; empty if user code or a tool asks.

    It is the nearest code outside the standard library and HTTP clients. Where no other is on the
    stack, as in a task of its own, user code may have asked.
    """
    if carried_call.get() is not None:
        return ""
    for each in _frames_of_run(frame):
        package = (each.f_globals.get("__name__") or "").partition(".")[0]
        if _is_installed(each) and package not in _SENDERS:
            return "" if user_frame(each, home, nearest=False) is each else package
    return asked_by.get() or ""


def library_frame(frame: FrameType | None, home: str) -> FrameType | None:
    """Return the frame by which a library was entered that sends a request; None if not known."""
    entry: FrameType | None = None
    for each in _frames_of_run(frame):
        if user_frame(each, home, nearest=False) is each:
            break
        entry = each if _is_installed(each) else entry
    return entry


def asking_frame(frame: FrameType | None) -> FrameType | None:
    """Return the nearest frame of user code inside the run; None if only libraries are there."""
    frames = _frames_of_run(frame)
    return next((each for each in frames if user_frame(each, "", nearest=False) is each), None)


def has_failed(frame: FrameType) -> bool:
    """Return whether a frame has ended by an exception, whichever it was.

    The last instruction of one that ended well, or waits, says so. CPython 3.11 leaves that of a
    coroutine into which an exception was thrown where it waited: then this is not known, and False.
    """
    if any(frame in _stack_of(top) for top in current_frames().values()):
        return False
    last = opname[frame.f_code.co_code[frame.f_lasti]]
    return not last.startswith(("RETURN", "YIELD", "RESUME"))


def _stack_of(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _frames_of_run(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames from a request outwards, to that of simkit which called the pipeline."""
    is_below = True  # These are simkit's own, which hold the request.
    for each in _stack_of(frame):
        name = each.f_globals.get("__name__") or ""
        if name.partition(".")[0] != "simkit":
            is_below = False
            yield each
        elif not is_below and not name.startswith("simkit.capture."):
            return


def _is_installed(frame: FrameType) -> bool:
    """Return whether code is neither the standard library's nor made at run time."""
    file = frame.f_code.co_filename
    return not _is_generated(file) and not is_standard(file)


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
