"""Which scenario, and which run of an agent or step of a graph, a piece of code belongs to."""

from __future__ import annotations

from typing import Final

from simkit.adapters.ears import Ears
from simkit.adapters.here import Here
from simkit.adapters.pydantic_ai.flights import Flight, FlightLog, Leaving
from simkit.transports.installing import Installation

_flight: Final = Here[Flight]("simkit_pydantic_ai_flight")
inside = _flight.inside
_output: Final = Here[Leaving]("simkit_pydantic_ai_output")
leaving_now, leaving = _output.now, _output.inside
"""What is handed to an output function: the first agent that is run inside takes over from it."""
_ears: Final = Ears[FlightLog]("simkit_pydantic_ai_log")
current_log, told_to = _ears.current, _ears.lent_to

installation: Final = Installation()
"""What is replaced in the framework for as long as a turn of some scenario lasts."""


def flight_now() -> Flight | None:
    """Returns the flight inside which this code runs.

    One that was left open, by a stream that nobody closed, may be over by then.
    """
    found = _flight.now()
    while found is not None and found.is_over:
        found = found.parent
    return found
