"""The garbage collector, left out of work whose values hold no cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collected_later() -> Iterator[None]:
    """Leaves the garbage collector out of what is done inside.

    For work that makes many values and lets go of most: each collection would walk all that are
    there to find nothing, and then count those that it saw as old.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
