"""A scenario's run, turn by turn, and after every restart in a new process that reads its store.

From the ground up: ``processes`` (what takes turns, and this process), ``subprocess_worker`` (a
new one), ``running`` (the run, across them), ``comparing`` (the runs that it is held against).
"""

from simkit.session.execution.comparing import alone, unbroken
from simkit.session.execution.running import Execution

__all__ = ["Execution", "alone", "unbroken"]
