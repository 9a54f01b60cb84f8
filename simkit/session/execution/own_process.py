"""The process of one scenario of code: what it tells the one that waits for it, and asks it."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from simkit.core.errors import SimkitError
from simkit.core.stopping import sudden_end_told
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.files import Prepared
from simkit.trace.events import AnyEvent, ErrorFacts, RunStarted, TurnFinished, TurnStarted
from simkit.trace.recorder import WHOLE_RUN, EventRecorder, Moment, Position
from simkit.trace.store import Trace


class _ThisProcess:
    is_own_process = False


def call_in_own_process(
    refusals: str, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> Any:
    """Call a function of a module in this process, which is that of one scenario from now on.

    ``refusals`` is the file that gets what its code is refused after the call.
    """
    # Commands on declared pipelines import this module, and need none of these.
    from simkit.capture.http.guards import add_hook
    from simkit.capture.http.refusals import begin_refusals, log
    from simkit.session.workers import at_end, tell_parent

    _ThisProcess.is_own_process = True
    sys.breakpointhook = _refuse_breakpoint
    begin_refusals(refusals)
    add_hook()
    at_end(_end_what_is_left)
    with sudden_end_told(tell=tell_parent):
        try:
            return function(*arguments)
        except KeyboardInterrupt as problem:  # It is the code's: Ctrl-C is the command's alone.
            tell_parent(f"{_place_of(problem)} raised KeyboardInterrupt")
            raise
        finally:
            log.is_over = True


def _end_what_is_left() -> None:
    """End what code has left, as at the end of an interpreter."""
    if processes := sys.modules.get("simkit.capture.http.processes"):
        processes.end_what_is_left()


def _place_of(problem: BaseException) -> str:
    last = traceback.extract_tb(problem.__traceback__)[-1]
    return f"{Path(last.filename).name}:{last.lineno}"


def _refuse_breakpoint(*_: object, **__: object) -> None:
    """Say how to stop at a breakpoint: this process has no terminal to ask for commands."""
    caller = sys._getframe(1)
    call = f"{Path(caller.f_code.co_filename).name}:{caller.f_lineno}"
    raise SimkitError(
        f"{call}: `breakpoint()` needs the terminal, and a scenario's own process has none\n"
        "  Run the scenario with `simkit replay --in-process`."
    )


def is_own_process() -> bool:
    """Return whether this process is that of one scenario alone."""
    return _ThisProcess.is_own_process


def refused_at_exit() -> list[str]:
    """Return what code of this process is refused at its end, which is now."""
    # It is not imported if no code has run.
    processes = sys.modules.get("simkit.capture.http.processes")
    return [] if processes is None else processes.refused_at_exit()


def app_of(prepared: Prepared | None) -> App | None:
    """Return the application of a scenario that needs a process of its own; None if it needs none.

    A program is a process of its own already.
    """
    pipeline = prepared.pipeline if prepared is not None else None
    return pipeline if isinstance(pipeline, App) and not pipeline.program else None


def wants_own_process(prepared: Prepared) -> bool:
    """Return whether a scenario asks for a process of its own, and this one is not."""
    pipeline = prepared.pipeline
    is_asked = isinstance(pipeline, App) and pipeline.options.process == "own"
    return is_asked and not _ThisProcess.is_own_process


def note_turn(number: int) -> None:
    """Tell the process that waits for the scenario's result which turn begins."""
    if _ThisProcess.is_own_process:
        from simkit.session.workers import tell_parent

        tell_parent(number)


def tell_events(trace: Trace) -> None:
    """Let the process that waits for the scenario's result know each event when it happens.

    It gets the environment, too, where that has changed: code reads secrets into it. In a process
    of several scenarios, and in copies that the code makes of this one, do nothing.
    """
    if _ThisProcess.is_own_process:
        tell_parent_events(trace)


def tell_parent_events(trace: Trace) -> None:
    """Do so in a process that takes turns for one scenario."""
    from simkit.session.workers import tell_parent

    owner = os.getpid()
    last: dict[Any, Any] = {}
    now = vars(os.environ)["_data"]  # Its public methods decode all of it, for each event.

    def tell(message: object) -> None:
        if os.getpid() == owner:
            if last != now:
                last.clear()
                last.update(now)
                tell_parent({**os.environ})
            tell_parent(message)

    trace.tell(tell, lambda event: tell((event,)))


def end_turn(trace: Trace, error: ErrorFacts) -> None:
    """End the last turn of a run that has stopped within it; do nothing after its end."""
    for event in reversed(trace.events):
        if isinstance(event, TurnFinished):
            return
        if isinstance(event, TurnStarted):
            recorder = EventRecorder(trace, Moment(trace.events[-1].at))
            recorder.record_turn_end(Position(event.session, event.turn), error=error)
            return


class ProcessMessages:
    """Collects what a scenario's process says: all that is known if it ends before it answers."""

    def __init__(self) -> None:
        self.turn = 0
        """The last turn that has begun; 0 is before the first."""
        self.how = ""
        """The call that ended it; empty if none is known."""
        self.environment: dict[str, str] = {}
        self.refused: list[str] = []
        """Effects that its code was refused after the run."""
        self._trace = Trace()
        self._waiting: list[AnyEvent] = []
        """Events since then, which the recorder of code holds back until the turn is over."""

    def hear(self, fact: object) -> None:
        """Take what it tells."""
        if isinstance(fact, int):
            self.turn = max(self.turn, fact)
        elif isinstance(fact, LateRefusal):
            self.refused.append(str(fact))
        elif isinstance(fact, str):
            self.how = self.how or fact
        elif isinstance(fact, dict):
            self.environment = fact
        elif isinstance(fact, tuple):
            self._waiting += fact
        else:
            if isinstance(fact, RunStarted):  # A run may begin again, with a store.
                self._trace = Trace()
            self._waiting.clear()
            self._trace.events.append(cast(AnyEvent, fact))

    def trace(self, how: str) -> Trace | None:
        """Return the events until the process has ended so; None if there are none."""
        # Commands on declared pipelines import this module.
        from simkit.adapters.recorder.handoffs import with_handoffs

        trace = (
            Trace() if self._waiting and isinstance(self._waiting[0], RunStarted) else self._trace
        )
        trace.events += with_handoffs(self._waiting)
        if not trace.events:
            return None
        error = ErrorFacts("ProcessEnded", how)
        end_turn(trace, error)
        EventRecorder(trace, Moment(trace.events[-1].at)).record_run_end(WHOLE_RUN, error=error)
        return trace


class LateRefusal(str):
    """A refusal to code after its run."""


def call_in_another(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function of a module returns in another process of this application."""
    from simkit.session.workers import ask_parent

    kind, value = ask_parent((function, arguments))
    if kind == "raises":
        raise value
    return value
