"""Stopping from outside: SIGTERM stops a command as Ctrl-C does, and neither is lost."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from simkit.core.errors import RunHalted, SimkitError, Terminated
from simkit.core.raw_threads import start_raw_thread

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

TERMINATED: Final = 128 + signal.SIGTERM
"""The exit code of a command that got SIGTERM, as shells count signals."""
Handler = Callable[[int, FrameType | None], None]
_AGAIN_S: Final = 0.005
"""Seconds after which a signal whose exception was lost comes again."""


class _Stop:
    """The signal that stops the command."""

    kind: type[KeyboardInterrupt] | None = None


def stop_in(problem: BaseException | None = None) -> type[KeyboardInterrupt] | None:
    """Return the exception of the signal that ends the command, whatever error it ends with.

    None means that no signal came.

    While a signal's exception ends processes and threads, another error may take its place.
    """
    return type(problem) if isinstance(problem, KeyboardInterrupt) else _Stop.kind


@contextmanager
def interruptible() -> Iterator[None]:
    """Remember Ctrl-C for `stop_in`, unless there is another handler."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        _Stop.kind = _Stop.kind or KeyboardInterrupt
        raise KeyboardInterrupt

    _Stop.kind = None
    with _handled_by(interrupt, signal.SIGINT, signal.default_int_handler):
        yield


@contextmanager
def terminable() -> Iterator[None]:
    """Raise Terminated on SIGTERM, unless there is another handler; let no Ctrl-C be lost."""

    def end(number: int, frame: FrameType | None) -> None:
        # Some senders signal a process and its group, so twice; the clean-up must finish.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _Stop.kind = Terminated
        raise Terminated

    with (
        _handled_by(end, signal.SIGTERM, signal.SIG_DFL) as is_taken,
        _raised_again(end) if is_taken else nullcontext(),
    ):
        yield


@contextmanager
def _handled_by(handler: Handler, number: signal.Signals, usual: Any) -> Iterator[bool]:
    """Give a signal a handler, unless it has another one than the usual; yield whether it has."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(number) is not usual:
        yield False
        return
    signal.signal(number, handler)
    try:
        yield True
    finally:
        signal.signal(number, usual)


@contextmanager
def _raised_again(end: Handler) -> Iterator[None]:
    """Raise a signal's exception once more where Python has dropped it.

    A handler runs wherever the process is just then. Python drops what is raised in a callback of
    the garbage collector (Hypothesis has one), in ``__del__`` and in a weak reference's callback.
    """
    before = sys.unraisablehook

    def hook(lost: UnraisableHookArgs) -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            before(lost)
            return
        again = send(lost.exc_type)
        while again is not None:
            again = send(again)

    def send(kind: type[BaseException]) -> type[BaseException] | None:
        """Send a signal after a while; return the exception of one that came here meanwhile."""
        try:
            number = signal.SIGINT
            if issubclass(kind, Terminated):
                number = signal.SIGTERM
                signal.signal(signal.SIGTERM, end)
            # From another thread: raised here, it would be dropped here. A `threading.Thread` is
            # waited for until it runs, and meanwhile its signal may come.
            start_raw_thread(_send_late, (number,))
        except KeyboardInterrupt as problem:
            return type(problem)
        return None

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def _send_late(number: signal.Signals) -> None:
    """Send a signal to the main thread, which may wait in a call of the system."""
    time.sleep(_AGAIN_S)
    if sys.platform == "win32":
        signal.raise_signal(number)
        return
    main = threading.main_thread().ident
    if main is not None:
        signal.pthread_kill(main, number)


class _Place:
    is_copy_of_run = False


def mark_copy_of_run() -> None:
    """Note that code of a run has copied the process: this one is the copy."""
    _Place.is_copy_of_run = True


def is_copy_of_run() -> bool:
    """Return whether this process is a copy that code of a run has made."""
    return _Place.is_copy_of_run


@contextmanager
def halting_at(
    halt: Callable[[SimkitError], BaseException],
    kinds: tuple[type[SimkitError], ...] = (SimkitError,),
) -> Iterator[None]:
    """End the run with an error of these kinds; ``halt`` returns what is raised."""
    try:
        yield
    except kinds as problem:
        raise halt(problem) from problem


def halting(problem: SimkitError) -> RunHalted | SimkitError:
    """Return what stops the user's code: in a copy of the process, which has no run, an Exception.

    A worker of `multiprocessing.Pool` ends at a BaseException without an answer, and the pool waits
    for it for ever.
    """
    return problem if is_copy_of_run() else RunHalted(problem)


# Sudden ends: a command that user code ends with `os._exit` does not look complete


BROKEN: Final = 2
_OWNERS: Final[tuple[Any, ...]] = (os, sys.modules.get(os.name, os))
"""`os` has the function of a module that is named after the system."""


@contextmanager
def sudden_end_told(
    before: Callable[[], object] = lambda: None, tell: Callable[[str], object] | None = None
) -> Iterator[None]:
    """Make ``os._exit`` in this process say where it was called, and end with the exit code 2.

    No exception leaves that function and no ``finally`` runs, so with the code 0 the command would
    end as if every scenario had held. Copies of this process end as they want. ``before`` is called
    first: what captures the output of this process must let the text through. ``tell`` gets the
    place and the call instead of stderr, and the exit code stays.
    """
    original: Any = os._exit
    owner = os.getpid()

    def end(status: int) -> None:
        if os.getpid() != owner:
            original(status)
        caller = sys._getframe(1)
        call = f"{caller.f_code.co_filename}:{caller.f_lineno}"
        if tell is not None:
            with suppress(Exception):
                tell(f"{os.path.basename(call)} called os._exit({status})")
            original(status)
        text = (
            f"{call}: the code under test called os._exit({status}), which ends this process at "
            "once: nothing after it was run or judged. Let it raise an error or return instead"
        )
        # Imported here because hardly any code does this, and help must be there at once.
        from simkit.core.output import clean

        with suppress(Exception):
            before()
        # Streams are not flushed by this end, and what was printed so far helps.
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os.write(2, f"{clean(text)}\n".encode(errors="backslashreplace"))
        original(BROKEN)

    for module in _OWNERS:
        module._exit = end
    try:
        yield
    finally:
        for module in _OWNERS:
            module._exit = original
