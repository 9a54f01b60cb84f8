"""Which scenario, and which call of ``Runner.run``, a piece of code belongs to."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from simkit.adapters.openai_agents_flights import Flight, FlightLog
from simkit.transports.installing import Installation

_flight: Final = contextvars.ContextVar[Flight | None]("simkit_flight", default=None)
_log: Final = contextvars.ContextVar[FlightLog | None]("simkit_flight_log", default=None)
_working: Final[list[FlightLog]] = []
_lock: Final = threading.Lock()

installation: Final = Installation()
"""What is replaced in the SDK for as long as a turn of some scenario lasts."""


def current_log() -> FlightLog | None:
    """Returns who writes down what this code does; in a thread without a context, the only one."""
    found = _log.get()
    if found is not None or not _working:
        return found
    with _lock:
        return _working[0] if len(_working) == 1 else None


@contextmanager
def told_to(log: FlightLog) -> Iterator[None]:
    """Lets a log hear what is done in this context, and in what that starts."""
    with _lock:
        _working.append(log)
    before = _log.set(log)
    try:
        yield
    finally:
        _log.reset(before)
        with _lock:
            _working.remove(log)


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
