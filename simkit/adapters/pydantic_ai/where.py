"""Which scenario, and which run of an agent or step of a graph, a piece of code belongs to."""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from simkit.adapters.ears import Ears
from simkit.adapters.pydantic_ai.flights import Flight, FlightLog, Leaving
from simkit.transports.installing import Installation

_flight: Final = contextvars.ContextVar[Flight | None]("simkit_pydantic_ai_flight", default=None)
_leaving: Final = contextvars.ContextVar[Leaving | None]("simkit_pydantic_ai_leaving", default=None)
_ears: Final = Ears[FlightLog]("simkit_pydantic_ai_log")
current_log, told_to = _ears.current, _ears.lent_to

installation: Final = Installation()
"""What is replaced in the framework for as long as a turn of some scenario lasts."""


def flight_now() -> Flight | None:
    """Returns the flight inside which this code runs.

    One that was left open, by a stream that nobody closed, may be over by then.
    """
    found = _flight.get()
    while found is not None and found.is_over:
        found = found.parent
    return found


def leaving_now() -> Leaving | None:
    """Returns the output that is processed here, if what is called here takes over from it."""
    return _leaving.get()


@contextmanager
def inside(flight: Flight) -> Iterator[None]:
    """Makes what is done, and started, in here belong to a flight.

    It may be left in another context than it was entered in, as streams are.
    """
    before = _flight.get()
    _flight.set(flight)
    try:
        yield
    finally:
        if _flight.get() is flight:
            _flight.set(before)


@contextmanager
def leaving(one: Leaving) -> Iterator[None]:
    """Makes the first agent that is run in here the one to which control passes."""
    before = _leaving.set(one)
    try:
        yield
    finally:
        _leaving.reset(before)
