"""A command that user code ends with ``os._exit`` does not look as if it had come to its end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

BROKEN: Final = 2


@contextmanager
def sudden_end_told(before: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Make ``os._exit`` in this process say where it was called, and end with the exit code 2.

    No exception leaves that function and no ``finally`` runs, so with the code 0 the command would
    end as if every scenario had held. Copies of this process end as they want. ``before`` is called
    first: what captures the output of this process must let the text through.
    """
    original: Any = os._exit
    # `os` has the function of a module that is named after the system.
    owners: list[Any] = [os, sys.modules.get(os.name, os)]
    owner = os.getpid()

    def end(status: int) -> None:
        if os.getpid() != owner:
            original(status)
        caller = sys._getframe(1)
        place = f"{caller.f_code.co_filename}:{caller.f_lineno}"
        text = (
            f"{place}: the code under test called os._exit({status}), which ends this process at "
            "once: nothing after it was run or judged. Let it raise an error or return instead"
        )
        # Imported here because hardly any code does this, and help must be there at once.
        from simkit.core.output import clean

        with suppress(Exception):
            before()
        # Streams are not flushed by this end, and what was printed so far helps.
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                continue
        os.write(2, f"{clean(text)}\n".encode(errors="backslashreplace"))
        original(BROKEN)

    for module in owners:
        module._exit = end
    try:
        yield
    finally:
        for module in owners:
            module._exit = original
