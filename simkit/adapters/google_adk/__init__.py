"""Google's Agent Development Kit: agents that answer themselves, and code that runs agents."""

from simkit.adapters.google_adk.pilot import instrument as instrument
from simkit.adapters.google_adk.pilot import pilot as pilot
