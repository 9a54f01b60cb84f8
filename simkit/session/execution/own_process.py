"""The process of one scenario of code: what it tells the one that waits for it, and asks it."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from simkit.core.errors import SimkitError
from simkit.core.stopping import sudden_end_told
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.files import Prepared


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
    from simkit.capture.http.refusals import begin_own_end, begin_refusals
    from simkit.session.workers import tell_parent

    _ThisProcess.is_own_process = True
    sys.breakpointhook = _refuse_breakpoint
    begin_refusals(refusals)
    add_hook()
    with sudden_end_told(tell=tell_parent):
        try:
            return function(*arguments)
        except KeyboardInterrupt as problem:  # It is the code's: Ctrl-C is the command's alone.
            tell_parent(f"{_place_of(problem)} raised KeyboardInterrupt")
            raise
        finally:
            begin_own_end()


def _place_of(problem: BaseException) -> str:
    last = traceback.extract_tb(problem.__traceback__)[-1]
    return f"{Path(last.filename).name}:{last.lineno}"


def _refuse_breakpoint(*_: object, **__: object) -> None:
    """Say how to stop at a breakpoint: this process has no terminal to ask for commands."""
    caller = sys._getframe(1)
    place = f"{Path(caller.f_code.co_filename).name}:{caller.f_lineno}"
    raise SimkitError(
        f"{place}: `breakpoint()` needs the terminal, and a scenario's own process has none\n"
        "  Run the scenario with `simkit replay --in-process`."
    )


def is_own_process() -> bool:
    """Return whether this process is that of one scenario alone."""
    return _ThisProcess.is_own_process


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


def call_in_another(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function of a module returns in another process of this application."""
    from simkit.session.workers import ask_parent

    kind, value = ask_parent((function, arguments))
    if kind == "raises":
        raise value
    return value
