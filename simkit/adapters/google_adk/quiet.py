"""What is printed of a scenario's run: not what the ADK and asyncio log where nobody listens."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from simkit.core.errors import RunHalted

_LOGGERS: Final = ("google_adk", "google_genai")


class _Halts(logging.Filter):
    """Lets nothing pass that tells of a run that simkit has stopped: its report does."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is of something else."""
        problem = record.exc_info[1] if record.exc_info else None
        if isinstance(problem, BaseExceptionGroup):
            problem = problem.subgroup(RunHalted)
            return problem is None
        return not isinstance(problem, RunHalted)


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps what is logged from being printed where the application logs nothing.

    Python prints warnings and errors of loggers for which nobody has made a handler: here, each
    failure that a scenario provokes, twice, with its whole stack. Agents in parallel that simkit
    stops are tasks whose exception nobody asks for.
    """
    nobody, halts, tasks = logging.NullHandler(), _Halts(), logging.getLogger("asyncio")
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addHandler(nobody)
    tasks.addFilter(halts)
    try:
        yield
    finally:
        tasks.removeFilter(halts)
        for logger in loggers:
            logger.removeHandler(nobody)
