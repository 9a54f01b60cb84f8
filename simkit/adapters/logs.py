"""Log records of a pipeline's own code.

simkit records every record that user code makes, of every level, whatever the loggers' levels;
never those of libraries. Loggers, their levels and handlers stay as they are, so that the printed
output stays the same. A record that a logger's own filter or ``disabled`` stops is not recorded.
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
from simkit.core.context_values import set_until_reset
from simkit.core.text import exception_text

LogListener: TypeAlias = Callable[["LogEntry"], None]

_LOGGING: Final = logging.info.__code__.co_filename
_WRAPPERS: Final = ("structlog",)
"""Packages that call ``logging`` on behalf of user code."""


class LogEntry(NamedTuple):
    """The content of a log record."""

    level: str
    logger: str
    message: str
    error: str
    """The logged exception, as ``Type: message``; empty if none."""


class _Capture(NamedTuple):
    listener: LogListener
    home: str


_current: Final[ContextVar[_Capture | None]] = ContextVar("simkit_logs", default=None)


@contextmanager
def log_records(listener: LogListener, home: str) -> Iterator[None]:
    """Call ``listener`` with each log record of user code in this context.

    Code of the top-level package ``home`` is user code wherever it is installed.
    """
    with _installation:
        before = set_until_reset(_current, _Capture(listener, home), None)
        try:
            yield
        finally:
            _current.reset(before)


def _enabled(before: Replacement) -> Replacement:
    """Let user code make every record; otherwise answer as the logger would."""

    def isEnabledFor(self: logging.Logger, level: int) -> bool:
        if before(self, level):
            return True
        capture = _current.get()
        if capture is None or self.disabled:
            return False
        frame = sys._getframe(1)
        # Code that checks the level itself, to save work, gets the true answer.
        return frame.f_code.co_filename == _LOGGING and _is_users(frame, capture.home)

    return isEnabledFor


def _handled(before: Replacement) -> Replacement:
    """Record a log record, and pass it on if it would have been made without simkit."""

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
    """Return whether user code called ``logging``, directly or through a wrapper."""
    while frame is not None:
        name: str = frame.f_globals.get("__name__") or ""
        if frame.f_code.co_filename != _LOGGING and name.partition(".")[0] not in _WRAPPERS:
            return user_frame(frame, home, nearest=False) is not None
        frame = frame.f_back
    return False


def entry_of(record: logging.LogRecord) -> LogEntry:
    """Return a record's content; its bare message if the arguments do not fit."""
    try:
        message = record.getMessage()
    except Exception:
        message = str(record.msg)
    problem = record.exc_info[1] if record.exc_info else None
    error = exception_text(problem) if problem is not None else ""
    return LogEntry(record.levelname, record.name, message, error)
