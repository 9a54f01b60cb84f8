"""Which scenario, and which call of ``Runner.run``, a piece of code belongs to."""

from __future__ import annotations

from typing import Final

from simkit.adapters.ears import Ears
from simkit.adapters.here import Here
from simkit.adapters.openai_agents.flights import Flight, FlightLog
from simkit.transports.installing import Installation

_here: Final = Here[Flight]("simkit_flight")
flight_now, inside = _here.now, _here.inside
_ears: Final = Ears[FlightLog]("simkit_flight_log")
current_log, told_to = _ears.current, _ears.lent_to

installation: Final = Installation()
"""What is replaced in the SDK for as long as a turn of some scenario lasts."""
