"""Effects: the functions by which code starts threads and processes.

Clocks and random numbers are no effects: `simkit.core.determinism` answers them.
"""

from __future__ import annotations

import _thread
import os
import subprocess
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any, Final

Condition = Callable[[Mapping[str, Any]], bool]
"""Returns whether a call with these arguments is an effect."""


def _builtins() -> dict[Any, str]:
    """Return the effects of functions written in C."""
    names: dict[Any, str] = {os.system: "process"}
    for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp"):
        if hasattr(os, name):
            names[getattr(os, name)] = "process"
    for name in ("start_new_thread", "start_joinable_thread"):
        if hasattr(_thread, name):
            names[getattr(_thread, name)] = "thread"
    return names


def _functions() -> dict[int, tuple[str, Condition | None]]:
    """Return the effects of Python functions, by code object, with a condition on the arguments."""
    effects: dict[CodeType, tuple[str, Condition | None]] = {
        subprocess.Popen.__init__.__code__: ("process", None),
    }
    # By identity, because the hash of a code object covers all of its contents.
    return {id(code): effect for code, effect in effects.items()}


BUILTINS: Final = _builtins()
FUNCTIONS: Final = _functions()
WHOEVER_CALLS: Final = frozenset({"process", "sleep", "thread"})
"""Effects that count even if a library causes them on behalf of user code."""
