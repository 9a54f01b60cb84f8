"""The scenario that a piece of code belongs to, from the scenario's start to its end.

Code without its own context (a worker of a pool that is older than the run) counts as code of the
only running scenario. Code of a scenario that has not ended never counts as another's, neither
between its turns nor while it is built or closed. After a scenario has ended, its threads that wait
for work serve any scenario; its threads that were busy belong to none.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final


class Owner:
    """A scenario that has begun, and may have ended."""

    __slots__ = ("is_over", "unfinished")

    def __init__(self) -> None:
        self.is_over = False
        self.unfinished: Collection[int] = ()
        """The identifiers of threads that were busy when it ended."""


_owner: Final = contextvars.ContextVar[Owner | None]("simkit_owner", default=None)


@contextmanager
def owned_by(owner: Owner) -> Iterator[None]:
    """Let code in here, and code that it starts, belong to a scenario."""
    before = _owner.set(owner)
    try:
        yield
    finally:
        _owner.reset(before)


def current_owner() -> Owner | None:
    """Return the scenario of this code; None if there is none."""
    return _owner.get()


def may_belong_to(owner: Owner | None) -> bool:
    """Return whether this code may belong to a scenario: it is not known to be another's."""
    mine = _owner.get()
    if mine is None or owner is None or mine is owner:
        return True
    return mine.is_over and threading.get_ident() not in mine.unfinished
