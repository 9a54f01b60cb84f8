"""A command that user code ends with ``os._exit`` does not look as if it had come to its end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

BROKEN: Final = 2
_OWNERS: Final[tuple[Any, ...]] = (os, sys.modules.get(os.name, os))
"""`os` has the function of a module that is named after the system."""


class _Telling:
    """Makes ``os._exit`` say where it was called, as long as it is entered."""

    __slots__ = ("_before", "_original", "_owner")

    def __init__(self, before: Callable[[], object]) -> None:
        self._before = before

    def __enter__(self) -> None:
        self._original: Any = os._exit
        self._owner = os.getpid()
        for module in _OWNERS:
            module._exit = self._end

    def __exit__(self, *problem: object) -> None:
        for module in _OWNERS:
            module._exit = self._original

    def _end(self, status: int) -> None:
        if os.getpid() != self._owner:
            self._original(status)
        caller = sys._getframe(1)
        place = f"{caller.f_code.co_filename}:{caller.f_lineno}"
        text = (
            f"{place}: the code under test called os._exit({status}), which ends this process at "
            "once: nothing after it was run or judged. Let it raise an error or return instead"
        )
        # Imported here because hardly any code does this, and help must be there at once.
        from simkit.core.output import clean

        with suppress(Exception):
            self._before()
        # Streams are not flushed by this end, and what was printed so far helps.
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                continue
        os.write(2, f"{clean(text)}\n".encode(errors="backslashreplace"))
        self._original(BROKEN)


def sudden_end_told(before: Callable[[], object] = lambda: None) -> _Telling:
    """Make ``os._exit`` in this process say where it was called, and end with the exit code 2.

    No exception leaves that function and no ``finally`` runs, so with the code 0 the command would
    end as if every scenario had held. Copies of this process end as they want. ``before`` is called
    first: what captures the output of this process must let the text through.
    """
    return _Telling(before)
