"""Google's Agent Development Kit: agents, and code that runs agents."""

from simkit.adapters.google_adk.driver import driver as driver
from simkit.adapters.google_adk.driver import instrumentation as instrumentation
