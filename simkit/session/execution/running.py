"""The run of one scenario, turn by turn."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgspec

from simkit.core.errors import LimitExceeded, ScriptMisfit
from simkit.session.execution.own_process import note_turn, wants_own_process
from simkit.session.execution.processes import (
    InProcessWorker,
    Process,
    ProcessSetup,
    Simulate,
    is_code,
    kept_in,
)
from simkit.session.execution.recorded import REPLAY, Recording, traffic_of
from simkit.spec.scenario.files import Prepared
from simkit.spec.scenario.model import CRASHED, CUTS, Turn
from simkit.trace.events import ErrorFacts, Misfit, RunFinished, TurnFinished, TurnStarted
from simkit.trace.recorder import EventRecorder, Moment, Position
from simkit.trace.store import Trace

if TYPE_CHECKING:
    from simkit.adapters.model_calls import GatedTraffic
    from simkit.session.execution.answering import Answering


class _Last:
    """The process that takes the turns now; it is closed once."""

    __slots__ = ("process",)

    def __init__(self) -> None:
        self.process: Process | None = None

    def close(self) -> None:
        """Release what the process holds."""
        process, self.process = self.process, None
        if process is not None:
            process.close()


class Execution:
    """The run of one scenario, across restarts; it may be left at any turn.

    Its methods raise ScriptBroken, FunctionMissing, ProcessFailed or StoreInvalid; after that it
    can only be closed. As a context manager it is closed at the end.
    """

    def __init__(
        self,
        prepared: Prepared,
        *,
        is_durable: bool = False,
        is_apart: bool = False,
        given_project: str | None = None,
        recording: Recording = REPLAY,
        numbers: Sequence[int] = (),
        simulate: Simulate | None = None,
        outlives_crashes: bool = False,
    ) -> None:
        """``prepared`` has everything except the turns. A run must be durable for restarts.

        A run with ``is_apart`` has its own process, free of module state from other runs.
        ``given_project`` gets given project channels; None means the first turn's project.
        ``numbers`` are the numbers of its turns in the scenario, if they are only a part.
        ``simulate`` makes what answers in place of the script. With ``outlives_crashes`` a crash
        ends its turn, and the process goes on.
        """
        self.trace = Trace()
        """The trace so far."""
        self.turns: list[Turn] = []
        """The turns taken so far."""
        self.error: ErrorFacts | None = None
        """The error that ended the last turn, or that ends the run; else None."""
        self.is_over = False
        """Whether no further turn is possible, whatever is claimed."""
        self.misfits: tuple[Misfit, ...] = ()
        """Parts of the scenario that the pipeline did not do."""
        self._numbers, self._outlives_crashes = numbers, outlives_crashes
        self.is_durable = is_durable or kept_in(prepared) == "sqlite"
        self.traffic = traffic_of(prepared, recording)
        """The scenario's cassette; None if it has none."""
        if self.traffic is not None:
            self.traffic.turns = numbers
        self._last = _Last()
        resources, file = ExitStack(), ""
        # The caller may drop a conversation without closing it, and the process may end.
        self._leave = weakref.finalize(self, resources.close)
        if self.is_durable:
            folder = resources.enter_context(TemporaryDirectory(prefix="simkit-"))
            file = str(Path(folder) / "store.sqlite")
        resources.callback(self._last.close)
        doors = self._doors(prepared, resources)
        self._task = ProcessSetup(prepared, file, (), given_project, *doors, simulate)
        self._process: Process = (
            self._new_process()
            if is_apart or wants_own_process(prepared)
            else InProcessWorker(self._task, self.trace)
        )
        self._last.process = self._process

    def __del__(self) -> None:
        # Nothing is emitted any more about turns that wait in a conversation that is dropped.
        leave = vars(self).get("_leave")
        if leave is not None:
            leave()

    def _doors(
        self, prepared: Prepared, resources: ExitStack
    ) -> tuple[GatedTraffic | None, Answering | None]:
        """Return the answerers beside the script, for code and for declared models."""
        if self.traffic is None:
            return None, None
        # Only a scenario with a cassette needs these modules.
        if is_code(prepared):
            from simkit.adapters.model_calls import GatedTraffic

            return GatedTraffic(self.traffic), None
        from simkit.session.execution.answering import Answering

        answering = Answering(self.traffic)
        resources.callback(answering.close)
        return None, answering

    def __enter__(self) -> Execution:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def follow(self, turns: Sequence[Turn], starts: Sequence[int] = ()) -> None:
        """Take a scenario's next turns, up to an error without a claim.

        ``starts`` are virtual times before which its turns do not begin.
        """
        for place in range(len(self.turns), len(turns)):
            if self.stops(turns):
                break
            self.take(turns[place], starts[place] if starts else 0)

    def stops(self, turns: Sequence[Turn]) -> bool:
        """Return whether a scenario with these turns ends with those taken so far."""
        if self.is_over or self.error is None:
            return self.is_over
        last = turns[len(self.turns) - 1]
        is_meant = last.is_cut and self.error.type in CUTS
        return not is_meant and not last.expect.has("error")

    def take(self, turn: Turn, not_before: int = 0) -> None:
        """Take one turn, in a new process if it has ``restart``, or follows a crash.

        A pipeline that is code is built again in this process: its module state is gone too.
        """
        try:
            has_crashed = self.error is not None and self.error.type == CRASHED
            if turn.restart or (has_crashed and not self._outlives_crashes):
                self._begin_anew()
            if turn.pause is not None:
                now = self.trace.events[-1].at if self.trace.events else 0
                not_before = max(not_before, now + turn.pause_ms)
            before = self._numbers[len(self.turns)] - 1 if self._numbers else None
            note_turn(len(self.turns) + 1)
            self.error = self._process.take(turn, not_before, before)
            self.turns.append(turn)
        except LimitExceeded as problem:
            self.error, self.is_over = ErrorFacts(problem.type, str(problem)), True
        except ScriptMisfit as problem:
            self._misfit(problem)
            self.turns.append(turn)
            self.error, self.is_over = ErrorFacts(type(problem).__name__, problem.what), True
            self._end_turn(self.error)

    def _begin_anew(self) -> None:
        if isinstance(self._process, InProcessWorker) and is_code(self._task.prepared):
            self._process.restart()
        else:
            self._last.close()
            self._task = msgspec.structs.replace(self._task, before=tuple(self.turns))
            self._process = self._last.process = self._new_process()

    def _new_process(self) -> Process:
        if self._task.simulate is not None:
            # The answering functions live in this process; a new driver reads the store.
            return InProcessWorker(self._task, self.trace)
        # Most runs stay in their process.
        from simkit.session.execution.new_process import NewProcess

        return NewProcess(self._task, self.trace)

    def _misfit(self, problem: ScriptMisfit) -> None:
        self.misfits = (*self.misfits, Misfit(problem.what, problem.path))

    def _end_turn(self, error: ErrorFacts) -> None:
        """End the turn after a misfit, since a stopped driver does not."""
        for event in reversed(self.trace.events):
            if isinstance(event, TurnFinished):
                return
            if isinstance(event, TurnStarted):
                recorder = EventRecorder(self.trace, Moment(self.trace.events[-1].at))
                recorder.record_turn_end(Position(event.session, event.turn), error=error)
                return

    def check_rules(self) -> None:
        """Record the rules that do not fit the code.

        An error that ended the run takes precedence, unless it is a missing reply: an agent whose
        node is misspelt misses its replies.
        """
        is_whole = self.error is None or self.error.type == "ReplyMissing"
        if is_whole:
            try:
                self._process.check_rules()
            except ScriptMisfit as problem:
                self._misfit(problem)

    def finish(self) -> Trace:
        """End the run; return its trace."""
        self._process.finish(self.error)
        left = self._left_of_recording()
        if self.misfits or left:
            ended = self.trace.events.pop()
            assert isinstance(ended, RunFinished)
            self.trace.emit(msgspec.structs.replace(ended, misfits=self.misfits, **left))
        self.is_over = True
        self.close()
        return self.trace

    def _left_of_recording(self) -> dict[str, tuple[str, ...]]:
        """Return a declared pipeline's unused and drifted recordings."""
        if self._task.provider is None or self.traffic is None or self.error is not None:
            return {}
        return {
            "unplayed": tuple(self.traffic.unplayed()),
            "drifted": tuple(self.traffic.drifted()),
        }

    def close(self) -> None:
        """Release everything except the trace."""
        self._leave()
