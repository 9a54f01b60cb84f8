"""The functions by which code reaches clock, chance, threads and processes."""

from __future__ import annotations

import _thread
import asyncio
import datetime
import os
import random
import secrets
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType
from typing import Any, Final

Condition = Callable[[Mapping[str, Any]], bool]
"""Whether a call with these arguments is an effect."""

_CLOCKS: Final = (
    *("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"),
    *("process_time", "process_time_ns", "thread_time", "thread_time_ns"),
    *("clock_gettime", "clock_gettime_ns", "localtime", "ctime"),
)


def _builtins() -> dict[Any, str]:
    """Effects of functions written in C."""
    found: dict[Any, str] = {getattr(time, name): "time" for name in _CLOCKS if hasattr(time, name)}
    for kind in (datetime.datetime, datetime.date):
        found.update(
            {getattr(kind, n): "time" for n in ("now", "utcnow", "today") if hasattr(kind, n)}
        )
    found.update({random.random: "random", random.getrandbits: "random"})
    found.update({os.urandom: "os.urandom", time.sleep: "sleep", os.system: "process"})
    for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp"):
        if hasattr(os, name):
            found[getattr(os, name)] = "process"
    for name in ("start_new_thread", "start_joinable_thread"):
        if hasattr(_thread, name):
            found[getattr(_thread, name)] = "thread"
    return found


def _functions() -> dict[int, tuple[str, Condition | None]]:
    """Effects of functions written in Python: by code object, with a condition on the arguments."""
    found: dict[CodeType, tuple[str, Condition | None]] = {}
    for name, method in vars(random.Random).items():
        if isinstance(method, FunctionType) and not name.startswith("_") and name not in _SEEDING:
            found[method.__code__] = ("random", _is_shared)
    for name in ("random", "getrandbits", "randbytes"):
        found[getattr(random.SystemRandom, name).__code__] = ("random", None)
    found[random.Random.__init__.__code__] = ("random", _is_unseeded)
    for name in ("uuid1", "uuid4", "uuid6", "uuid7"):
        if hasattr(uuid, name):
            found[getattr(uuid, name).__code__] = ("uuid", None)
    for name in ("token_bytes", "token_hex", "token_urlsafe", "randbelow"):
        found[getattr(secrets, name).__code__] = ("secrets", None)
    found[subprocess.Popen.__init__.__code__] = ("process", None)
    found[asyncio.tasks.sleep.__code__] = ("sleep", _is_waiting)
    # By identity: the hash of a code object is that of all it holds.
    return {id(code): seen for code, seen in found.items()}


_SEEDING: Final = ("seed", "getstate", "setstate")
_SHARED: Final[Any] = random.choice.__self__  # type: ignore[attr-defined]
"""What the functions of the module ``random`` are methods of."""


def _is_shared(arguments: Mapping[str, Any]) -> bool:
    it = arguments.get("self")
    return it is _SHARED or isinstance(it, random.SystemRandom)


def _is_unseeded(arguments: Mapping[str, Any]) -> bool:
    it = arguments.get("self")
    return arguments.get("x") is None and not isinstance(it, random.SystemRandom)


def _is_waiting(arguments: Mapping[str, Any]) -> bool:
    return bool(arguments.get("delay"))  # Without a delay it only lets others run.


BUILTINS: Final = _builtins()
FUNCTIONS: Final = _functions()
WHOEVER_CALLS: Final = frozenset({"process", "sleep", "thread"})
"""Effects that count where a library causes them in a user's name."""
