"""Quiet logs: no output of the ADK and asyncio if the application has no handlers."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from google.oauth2.credentials import Credentials

from simkit.adapters.api import DUMMY_KEY, Replacement, Row, RunHalted
from simkit.adapters.google_adk import compat


class _Halts(logging.Filter):
    """A filter for records about runs that simkit has stopped: simkit reports those."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record has another subject."""
        problem = record.exc_info[1] if record.exc_info else None
        if isinstance(problem, BaseExceptionGroup):
            problem = problem.subgroup(RunHalted)
            return problem is None
        return not isinstance(problem, RunHalted)


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress log output if the application configures no logging.

    Python prints warnings and errors of loggers without a handler: here each failure that a
    scenario plans, twice, with its stack. Parallel agents that simkit stops are tasks with
    exceptions that nobody retrieves.
    """
    nobody, halts, tasks = logging.NullHandler(), _Halts(), logging.getLogger("asyncio")
    loggers = [logging.getLogger(name) for name in compat.LOGGERS]
    for logger in loggers:
        logger.addHandler(nobody)
    tasks.addFilter(halts)
    try:
        yield
    finally:
        tasks.removeFilter(halts)
        for logger in loggers:
            logger.removeHandler(nobody)


_credentials: Final[Any] = Credentials
_KEY: Final = "GOOGLE_API_KEY"
_PROJECT: Final = "GOOGLE_CLOUD_PROJECT"


def nobodys(is_heard: Callable[[], bool]) -> Iterator[Row]:
    """Yield replacements for the machine's credentials, which must not be used with fake keys."""

    def wrapper(before: Replacement) -> Replacement:
        @functools.wraps(before)
        def default(*args: Any, **kwargs: Any) -> Any:
            if not is_heard() or os.environ.get(_KEY) != DUMMY_KEY:
                return before(*args, **kwargs)
            return _credentials(DUMMY_KEY), os.environ.get(_PROJECT) or DUMMY_KEY

        return default

    yield *compat.CREDENTIALS, wrapper
