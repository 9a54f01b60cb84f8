"""Which scenario a piece of code belongs to, from the scenario's start to its end.

Code without a context of its own (a worker of a pool that is older than the run) is taken to belong
to the only scenario that works. Code of a scenario that has not ended is never: between its turns,
while it is built or closed, it has nothing to do with what another one does at that time. Of one
that has ended, threads that waited for work then serve whoever gives them some; those that were in
the midst of something belong to nobody.
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
        """Threads, by their identifiers, that were in the midst of something when it ended."""


_owner: Final = contextvars.ContextVar[Owner | None]("simkit_owner", default=None)


@contextmanager
def owned_by(owner: Owner) -> Iterator[None]:
    """Let what is done in here, and what that starts, belong to a scenario."""
    before = _owner.set(owner)
    try:
        yield
    finally:
        _owner.reset(before)


def current_owner() -> Owner | None:
    """Return the scenario to which this code belongs, if any."""
    return _owner.get()


def may_belong_to(owner: Owner | None) -> bool:
    """Return whether this code may be that of a scenario, which is not known to be another."""
    mine = _owner.get()
    if mine is None or owner is None or mine is owner:
        return True
    return mine.is_over and threading.get_ident() not in mine.unfinished
