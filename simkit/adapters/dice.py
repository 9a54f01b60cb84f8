"""The chance of client libraries: how long they wait before they try again is drawn by it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

from simkit.chance import Chance


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Lets the one `random` that libraries share draw from the scenario's seed.

    Pipelines that draw from it themselves are reported all the same (RUN-02). Runs that go on at
    the same time in threads draw from it together.
    """
    before = random.getstate()
    random.setstate(Chance(seed).child("libraries").random.getstate())
    try:
        yield
    finally:
        random.setstate(before)
