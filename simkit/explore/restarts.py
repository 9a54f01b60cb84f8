"""Restarts that a simulation asks for and the pipeline's code cannot make."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Final

from simkit.core.errors import SimkitError
from simkit.explore.choices import ChoiceLog, TurnLog
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.files import Prepared
from simkit.spec.scenario.simulations import CRASH, RESTART, Simulation
from simkit.trace.events import Event, RunFinished

_TRIALS: Final = {
    RESTART: ChoiceLog((TurnLog(), TurnLog(fate=RESTART))),
    CRASH: ChoiceLog((TurnLog(fate=CRASH), TurnLog())),
}
"""Fault to the simplest conversation whose second turn a new process takes."""
_RESTARTABLE: Final = (
    "simkit restarts declared pipelines, LangGraph graphs, Google ADK agents, and programs that "
    "read the user's messages."
)


def restart_trials(prepared: Prepared, simulation: Simulation, turns: int) -> Iterator[ChoiceLog]:
    """Yield the conversations that show whether code can be restarted, if it may have to be."""
    if isinstance(prepared.pipeline, App) and turns > 1:
        yield from (_TRIALS[fault] for fault in _TRIALS if simulation.faults.get(fault))


def check_restarts(
    prepared: Prepared,
    simulation: Simulation,
    of_profile: Container[str],
    events: Sequence[Event],
) -> None:
    """Raise SourceError if a conversation's process ended, and its code could not go on.

    ``of_profile`` are the faults that a profile asks for, and no file.
    """
    ended = events[-1]
    if type(ended) is not RunFinished:
        return
    for misfit in ended.misfits:
        if misfit.path[-1:] != ("restart",):
            continue
        says_more = "\n" in misfit.what
        all_faults = [fault for fault in _TRIALS if simulation.faults.get(fault)]
        faults = [fault for fault in all_faults if fault not in of_profile]
        if not faults:
            advice = _advice("Explore it with another `--profile`.", says_more)
            raise SimkitError(f"{misfit.what}\n  {advice}")
        advice = f"Leave {' and '.join(f'`{fault}`' for fault in faults)} out of `faults:`."
        raise prepared.document.error(
            ("faults", faults[0]), misfit.what, advice=_advice(advice, says_more), key=True
        )


def _advice(advice: str, says_more: bool) -> str:
    """Return the advice to do without restarts, behind what the error says itself."""
    if says_more:
        return f"Or {advice[0].lower()}{advice[1:]}"
    return f"{advice} {_RESTARTABLE}"
