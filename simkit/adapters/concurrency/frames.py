"""Rest detection: threads that wait, judged by their frames, and tasks that sleep in virtual time.

A thread that waits (for a lock, a queue, a future, a thread, an event loop's next event) does
nothing until somebody else acts. The innermost frame shows the current call, and its object: so a
thread that was woken and only waits for the interpreter counts as working. *Not certain*: a plain
lock, which may have been handed over a moment ago. There `movement` decides: a thread that waits
for the interpreter wakes up every few milliseconds."""

from __future__ import annotations

import asyncio
import dis
import os
import platform
import queue
import selectors
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import thread as pool_threads
from contextlib import suppress
from functools import lru_cache
from inspect import getattr_static
from multiprocessing import pool as process_pool
from operator import attrgetter
from types import CodeType, FrameType, MemberDescriptorType
from typing import Any, Final, Literal, NamedTuple

from simkit.capture.http import guards

Waiting = Literal["no", "yes", "perhaps"]
"""Whether a call waits; ``perhaps`` if its object is not known."""

_WAITS: Final = frozenset(
    ("__enter__", "acquire", "get", "wait", "join", "accept", "sigwait", "pause", "put")
)
"""The names of calls that wait, on any object."""
_ABSENT: Final = object()


class _CallSite(NamedTuple):
    """The call of an instruction: its name, and the names that lead to its object."""

    name: str
    receiver: tuple[str, ...]


def waiting(frame: FrameType, thread: int, alive: Mapping[int, FrameType]) -> Waiting:
    """Return whether the thread with this innermost frame waits.

    ``alive`` are the innermost frames of all threads, by identifier.
    """
    known = _KNOWN.get(frame.f_code)
    if known is not None:
        waiting = known(frame, alive)
        return "no" if not waiting else "perhaps" if frame.f_code in _TAKERS else "yes"
    call = _call_at(frame.f_code, frame.f_lasti)
    if call is None or call.name not in _WAITS:
        return "no"
    return _of_object(_object(call.receiver, frame), thread, call.name)


def awaits_work(frame: FrameType, alive: Mapping[int, FrameType]) -> bool:
    """Return whether a thread waits for work from anybody, as a server's does.

    A thread that waits for the end of a thread, for a lock, or for some time continues with its own
    work.
    """
    if frame.f_code is _JOIN:
        return False
    if frame.f_code is _IN_CONDITION:
        outer = frame.f_back
        if outer is not None and outer.f_code.co_filename == guards.__file__:
            outer = outer.f_back  # The wait that replaces Python's.
        is_queue = outer is not None and outer.f_code.co_filename == queue.__file__
        return is_queue or frame.f_locals.get("timeout") is None
    known = _KNOWN.get(frame.f_code)
    if known is not None:
        return known(frame, alive)
    call = _call_at(frame.f_code, frame.f_lasti)
    if call is None or call.name != "get":
        return False
    return isinstance(_object(call.receiver, frame), queue.SimpleQueue)


def _of_object(thing: Any, thread: int, name: str) -> Waiting:
    """Return whether a call on an object waits."""
    if isinstance(thing, threading.Condition):  # Its methods are its lock's.
        thing = thing._lock  # type: ignore[attr-defined]
    if isinstance(thing, queue.SimpleQueue):
        # It may have taken the last item, and not continued yet.
        return "perhaps" if thing.qsize() == 0 else "no"
    if isinstance(thing, type(threading.RLock())):
        # Its text shows the holder; if this thread holds it, it was handed over.
        text = repr(thing)
        return "yes" if "<locked" in text and f"owner={thread} " not in text else "no"
    if isinstance(thing, type(threading.Lock())):
        return "perhaps" if thing.locked() else "no"
    is_short = name in ("get", "put", "join") and thing is not _ABSENT
    return "no" if is_short else "perhaps"


# Functions of the standard library in which threads wait


def _in_condition(frame: FrameType, alive: Mapping[int, FrameType]) -> bool:
    names = frame.f_locals
    has_released = "saved_state" in names
    return has_released and names.get("waiter") in names["self"]._waiters


def _in_join(frame: FrameType, alive: Mapping[int, FrameType]) -> bool:
    # The system reuses the identifiers of ended threads.
    other = frame.f_locals["self"]
    active: dict[int, threading.Thread] = threading._active  # type: ignore[attr-defined]
    return other.ident in alive and active.get(other.ident) is other


def _in_pool(frame: FrameType, alive: Mapping[int, FrameType]) -> bool:
    return idle_worker(frame) is not None and frame.f_locals["work_queue"].qsize() == 0


def idle_worker(frame: FrameType) -> object:
    """Return the queue from which a pool's worker takes its next work, or None."""
    if frame.f_code is not _WORKER:
        return None
    call = _call_at(frame.f_code, frame.f_lasti)
    is_getting = call is not None and call.name.startswith("get")
    return frame.f_locals["work_queue"] if is_getting else None


def _in_tasks(frame: FrameType, alive: Mapping[int, FrameType]) -> bool:
    """Handle a thread pool's task handler, which iterates over its queue."""
    return _opname(frame) == "FOR_ITER" and _is_empty(frame.f_locals.get("taskqueue"))


def _in_results(frame: FrameType, alive: Mapping[int, FrameType]) -> bool:
    get = frame.f_locals.get("get")
    call = _call_at(frame.f_code, frame.f_lasti)
    return call is not None and call.name == "get" and _is_empty(getattr(get, "__self__", None))


def _is_empty(thing: Any) -> bool:
    return isinstance(thing, queue.SimpleQueue) and thing.qsize() == 0


def _in_select(frame: FrameType, alive: Mapping[int, FrameType]) -> bool:
    call, outer = _call_at(frame.f_code, frame.f_lasti), frame.f_back
    if call is None or call.name not in ("poll", "select", "control", "_select") or outer is None:
        return False
    loop = loop_at(frame)
    if loop is None:
        # A thread that waits for a child process waits for no thread.
        return not outer.f_code.co_filename.endswith("subprocess.py")
    due = loop._scheduled[0].when() if loop._scheduled else None
    return not loop._ready and (due is None or due > loop.time())


def loop_at(frame: FrameType) -> Any:
    """Return the event loop that looks here for what is next; None if it is none of asyncio's."""
    outer = frame.f_back if frame.f_code in _SELECTS else None
    return outer.f_locals["self"] if outer is not None and outer.f_code is _RUN_ONCE else None


def _in_waitpid(frame: FrameType, alive: Mapping[int, FrameType]) -> bool:
    """Handle the thread in which asyncio waits for the end of a child process.

    Python 3.11 has one for each child; later ones only where there is no `pidfd` (bpo-38591).
    """
    call = _call_at(frame.f_code, frame.f_lasti)
    if call is None or call.name != "waitpid":
        return False
    try:  # A thread whose process has ended is about to tell so.
        process = os.waitid(
            os.P_PID, frame.f_locals["expected_pid"], os.WEXITED | os.WNOHANG | os.WNOWAIT
        )
    except ChildProcessError:
        return False
    return process is None


_CHILD_WATCHERS: Final = [
    watcher._do_waitpid.__code__
    for name in ("ThreadedChildWatcher", "_ThreadedChildWatcher")
    if (watcher := getattr(getattr(asyncio, "unix_events", None), name, None)) is not None
]

# Python 3.13 has no `_wait_for_tstate_lock`: `join` waits itself (python/cpython#114271).
_JOIN: Final = getattr(threading.Thread, "_wait_for_tstate_lock", threading.Thread.join).__code__
# Python's own code, which is read here: while a scenario runs, simkit's may stand in its place.
_IN_CONDITION: Final = threading.Condition.wait.__code__
_WORKER: Final = pool_threads._worker.__code__
_RUN_ONCE: Final = asyncio.BaseEventLoop._run_once.__code__  # type: ignore[attr-defined]

BY_THREADS: Final = (_IN_CONDITION, _JOIN, _WORKER)
"""Functions in which only another thread wakes one."""
_SELECTS: Final = {
    each.select.__code__ for name, each in vars(selectors).items() if name.endswith("Selector")
}
_TAKERS: Final = (
    process_pool.Pool._handle_tasks.__code__,  # type: ignore[attr-defined]
    process_pool.Pool._handle_results.__code__,  # type: ignore[attr-defined]
)
"""They may have taken the last item of their queue, and not continued yet."""
_KNOWN: Final[dict[CodeType, Callable[[FrameType, Mapping[int, FrameType]], bool]]] = {
    _IN_CONDITION: _in_condition,
    _JOIN: _in_join,
    _WORKER: _in_pool,
    **dict(zip(_TAKERS, (_in_tasks, _in_results), strict=True)),
    **dict.fromkeys(_CHILD_WATCHERS, _in_waitpid),
    **dict.fromkeys(_SELECTS, _in_select),
}


# The call of a frame


def _opname(frame: FrameType) -> str:
    index = _index_at(frame.f_code, frame.f_lasti)
    return _instructions(frame.f_code)[index].opname if index is not None else ""


@lru_cache(maxsize=512)
def _instructions(code: CodeType) -> tuple[dis.Instruction, ...]:
    return tuple(dis.get_instructions(code))


def _index_at(code: CodeType, offset: int) -> int | None:
    """Return the index of the instruction at an offset."""
    return next((k for k, step in enumerate(_instructions(code)) if step.offset == offset), None)


@lru_cache(maxsize=4096)
def _call_at(code: CodeType, offset: int) -> _CallSite | None:
    """Return the call of the instruction at an offset; None if it makes none."""
    index = _index_at(code, offset)
    if index is None:
        return None
    steps = _instructions(code)
    # Python 3.14 has CALL in place of BEFORE_WITH (python/cpython#120507).
    if steps[index].opname == "BEFORE_WITH":
        return _CallSite("acquire", _path_to(steps, index - 1))
    # PRECALL is in Python 3.11 alone (python/cpython#92925).
    if not steps[index].opname.startswith(("CALL", "PRECALL")):
        return None
    start = (steps[index].positions or ())[::2]  # Line and column.
    for before in range(index - 1, -1, -1):
        step = steps[before]
        if (step.positions or ())[::2] == start and step.opname in (*_ATTRIBUTES, *_NAMES):
            name = str(step.argval)
            is_method = step.opname in _ATTRIBUTES
            return _CallSite(name, _path_to(steps, before - 1) if is_method else (name,))
    return None


# Python 3.12 has LOAD_ATTR in place of LOAD_METHOD (python/cpython#93429).
_ATTRIBUTES: Final = ("LOAD_METHOD", "LOAD_ATTR")
_NAMES: Final = ("LOAD_FAST", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME", "LOAD_CLOSURE")


def _path_to(steps: tuple[dis.Instruction, ...], index: int) -> tuple[str, ...]:
    """Return the names ``a``, ``b``, ``c`` of ``a.b.c``, which is loaded at a place; else none."""
    names: list[str] = []
    while index >= 0 and steps[index].opname in _ATTRIBUTES:
        names.append(str(steps[index].argval))
        index -= 1
    if index < 0 or steps[index].opname not in _NAMES:
        return ()
    return (str(steps[index].argval), *reversed(names))


def _object(names: tuple[str, ...], frame: FrameType) -> Any:
    """Return the object that names lead to, without running any code."""
    if not names:
        return _ABSENT
    thing = frame.f_locals.get(names[0], frame.f_globals.get(names[0], _ABSENT))
    for name in names[1:]:
        owner = thing
        thing = getattr_static(owner, name, _ABSENT)
        if isinstance(thing, MemberDescriptorType):
            thing = thing.__get__(owner) if hasattr(type(owner), name) else _ABSENT
    return thing


def movement(native: int | None) -> str | None:
    """Return a text that changes when a thread runs; None if it runs or is about to.

    It is always the same text if the system does not show this. ``native`` is the system's
    identifier.
    """
    try:
        with open(f"/proc/self/task/{native}/schedstat", "rb", buffering=0) as file:
            ran = file.read(128)
        # Read last: a thread woken before that has this state, or has run. The state follows the
        # name, which is in parentheses: R means running, or ready.
        with open(f"/proc/self/task/{native}/stat", "rb", buffering=0) as file:
            state = file.read(512).rpartition(b")")[2].split()[:1]
    except OSError:
        return ""
    return None if state == [b"R"] else ran.decode()


def descriptor(native: int | None) -> int | None:
    """Return the descriptor at which a thread waits in a call of the system, which shows it."""
    call = _system_call(native)
    return int(call[1], 16) if len(call) > 2 else None


_FUTEX: Final = {"x86_64": "202", "aarch64": "98"}.get(platform.machine())
"""The number of the system's call in which a thread waits for another one of its process."""


def awaits_thread(native: int | None) -> bool:
    """Return whether only another thread of this process ends what a thread waits for.

    Native code's idle threads wait so, such as those of OpenBLAS, which an import of numpy starts.
    """
    call = _system_call(native)
    # Number, address, operation, value, limit: `FUTEX_PRIVATE_FLAG` is 128.
    return call[:1] == [_FUTEX] and int(call[2], 16) & 128 > 0 and call[4] == "0x0"


def _system_call(native: int | None) -> list[str]:
    """Return the call of the system in which a thread waits; short if it runs, or is not shown."""
    with suppress(OSError), open(f"/proc/self/task/{native}/syscall", encoding="ascii") as file:
        return file.read().split()
    return []


# Threads of a run


def thread_of(ident: int) -> threading.Thread | None:
    """Return a thread known to `threading`; None for one with a placeholder only.

    `threading.current_thread` would make a placeholder, which stays after the thread has ended.
    """
    active: dict[int, threading.Thread] = threading._active  # type: ignore[attr-defined]
    thread = active.get(ident)
    return None if isinstance(thread, threading._DummyThread) else thread


def instructions_of(frames: dict[int, FrameType]) -> dict[int, int]:
    """Return the positions of frames; no thread runs meanwhile, because this is one C call."""
    return dict(zip(frames, map(attrgetter("f_lasti"), frames.values()), strict=True))
