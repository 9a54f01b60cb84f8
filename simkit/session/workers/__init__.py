"""Processes that work for this one: restarts, `-j`, explored conversations, live runs.

``worker`` is one process that does one call after the other; ``application`` is the process of
which workers are copies; ``pool`` hands tasks to several workers.
"""

from simkit.session.workers.application import (
    ApplicationProcess,
    can_fork,
    check_copyable,
    import_modules,
    is_traced,
    is_watched,
)
from simkit.session.workers.pool import Pool
from simkit.session.workers.worker import (
    Worker,
    WorkerDied,
    ask_parent,
    at_end,
    fork_application,
    start_application,
    start_copy,
    start_worker,
    tell_parent,
)
