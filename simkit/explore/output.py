"""Output of explored code: it goes nowhere."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from functools import lru_cache
from typing import TextIO


@contextmanager
def unheard() -> Iterator[None]:
    """Drop what the user's code prints: of thousands of conversations nobody could read it."""
    with redirect_stdout(_nowhere()), redirect_stderr(_nowhere()):
        yield


@lru_cache(maxsize=1)
def _nowhere() -> TextIO:
    # It stays open to the end: handlers of logging that are made now keep it.
    until_exit = ExitStack()
    atexit.register(until_exit.close)
    return until_exit.enter_context(open(os.devnull, "w", encoding="utf-8", errors="replace"))
