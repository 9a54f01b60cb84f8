"""Execution of a scenario, turn by turn; after every restart in a new process that reads the store.

From the bottom up: ``processes`` (the interface of processes, and this one), ``new_process``,
``running`` (the run, across processes, and the runs that it is compared with).
"""

from simkit.session.execution.running import Execution
