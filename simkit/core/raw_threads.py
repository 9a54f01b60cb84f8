"""Python's own function for threads: during a run `_thread` has another one, whose threads wait.

Its threads begin in an empty context, outside the run. A module that is imported within a run
would get the other one, so all take it from here.
"""

from __future__ import annotations

import _thread
from typing import Final

start_raw_thread: Final = _thread.start_new_thread
