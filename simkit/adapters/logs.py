"""Log records of a pipeline's own code, taken down while it runs.

Taken are records that user code makes, of every level, whatever the loggers' levels say; those of
libraries never are. Loggers, their levels and handlers stay as they are: what was printed is still
printed, and what was not is not. A record that a logger's own filter or ``disabled`` stops is no
record.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Final, NamedTuple, TypeAlias

from simkit.capture.http.installing import Installation, Replacement
from simkit.capture.http.places import user_frame
from simkit.core.text import exception_text

LogListener: TypeAlias = Callable[["LogEntry"], None]

_LOGGING: Final = logging.info.__code__.co_filename
_WRAPPERS: Final = ("structlog",)
"""Packages that call ``logging`` on behalf of user code."""


class LogEntry(NamedTuple):
    """What a log record says."""

    level: str
    logger: str
    message: str
    error: str
    """The exception that it was made with, as ``Type: message``."""


class _Capture(NamedTuple):
    listener: LogListener
    home: str


_current: Final[ContextVar[_Capture | None]] = ContextVar("simkit_logs", default=None)


@contextmanager
def log_records(listener: LogListener, home: str) -> Iterator[None]:
    """Call ``listener`` with each log record that user code makes in this context.

    Code of the top-level package ``home`` is user code wherever it is installed.
    """
    with _installation:
        before = _current.set(_Capture(listener, home))
        try:
            yield
        finally:
            _current.reset(before)


def _enabled(before: Replacement) -> Replacement:
    """Let a record be made that user code asks ``logging`` for; else answer as the logger would."""

    def isEnabledFor(self: logging.Logger, level: int) -> bool:
        if before(self, level):
            return True
        capture = _current.get()
        if capture is None or self.disabled:
            return False
        frame = sys._getframe(1)
        # Code that asks the logger itself, to spare itself some work, is told the truth.
        return frame.f_code.co_filename == _LOGGING and _is_users(frame, capture.home)

    return isEnabledFor


def _handled(before: Replacement) -> Replacement:
    """Take a record down, and pass it on if it would have been made without simkit."""

    def callHandlers(self: logging.Logger, record: logging.LogRecord) -> None:
        capture = _current.get()
        if capture is not None and _is_users(sys._getframe(1), capture.home):
            capture.listener(entry_of(record))
        if self.isEnabledFor(record.levelno):
            before(self, record)

    return callHandlers


_installation: Final = Installation(
    lambda: (
        (logging.Logger, "isEnabledFor", _enabled),
        (logging.Logger, "callHandlers", _handled),
    )
)


def _is_users(frame: FrameType | None, home: str) -> bool:
    """Say whether user code called ``logging``, directly or through a wrapper of it."""
    while frame is not None:
        name: str = frame.f_globals.get("__name__") or ""
        if frame.f_code.co_filename != _LOGGING and name.partition(".")[0] not in _WRAPPERS:
            return user_frame(frame, home, nearest=False) is not None
        frame = frame.f_back
    return False


def entry_of(record: logging.LogRecord) -> LogEntry:
    """Return what a record says; its own words where its arguments do not fit them."""
    try:
        message = record.getMessage()
    except Exception:
        message = str(record.msg)
    problem = record.exc_info[1] if record.exc_info else None
    error = exception_text(problem) if problem is not None else ""
    return LogEntry(record.levelname, record.name, message, error)
