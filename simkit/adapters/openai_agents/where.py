"""Which scenario, and which call of ``Runner.run``, a piece of code belongs to."""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from simkit.adapters.ears import Ears
from simkit.adapters.openai_agents.flights import Flight, FlightLog
from simkit.transports.installing import Installation

_flight: Final = contextvars.ContextVar[Flight | None]("simkit_flight", default=None)
_ears: Final = Ears[FlightLog]("simkit_flight_log")
current_log, told_to = _ears.current, _ears.lent_to

installation: Final = Installation()
"""What is replaced in the SDK for as long as a turn of some scenario lasts."""


def flight_now() -> Flight | None:
    """Returns the call of ``Runner.run`` inside which this code runs."""
    return _flight.get()


@contextmanager
def inside(flight: Flight) -> Iterator[None]:
    """Makes what is done, and started, in here belong to a flight."""
    before = _flight.set(flight)
    try:
        yield
    finally:
        _flight.reset(before)
