"""The functions by which code reaches threads and processes.

Clocks and chance are no effects: they are answered (`simkit.core.determinism`).
"""

from __future__ import annotations

import _thread
import os
import subprocess
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any, Final

Condition = Callable[[Mapping[str, Any]], bool]
"""Whether a call with these arguments is an effect."""


def _builtins() -> dict[Any, str]:
    """Effects of functions written in C."""
    names: dict[Any, str] = {os.system: "process"}
    for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp"):
        if hasattr(os, name):
            names[getattr(os, name)] = "process"
    for name in ("start_new_thread", "start_joinable_thread"):
        if hasattr(_thread, name):
            names[getattr(_thread, name)] = "thread"
    return names


def _functions() -> dict[int, tuple[str, Condition | None]]:
    """Effects of functions written in Python: by code object, with a condition on the arguments."""
    effects: dict[CodeType, tuple[str, Condition | None]] = {
        subprocess.Popen.__init__.__code__: ("process", None),
    }
    # By identity: the hash of a code object is that of all it holds.
    return {id(code): effect for code, effect in effects.items()}


BUILTINS: Final = _builtins()
FUNCTIONS: Final = _functions()
WHOEVER_CALLS: Final = frozenset({"process", "sleep", "thread"})
"""Effects that count where a library causes them in a user's name."""
