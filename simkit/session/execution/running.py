"""The run of one scenario, turn by turn, the runs to compare it with, and where its errors lie."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec

from simkit.core import errors
from simkit.core.errors import LimitExceeded, ProcessFailed, ScriptMisfit
from simkit.core.messages import ABSENT
from simkit.language.paths import follow
from simkit.language.yaml import Document, SourcePath
from simkit.runtime.compiled import compile_pipeline
from simkit.session.execution.own_process import (
    call_in_another,
    end_turn,
    is_own_process,
    note_turn,
    tell_events,
    wants_own_process,
)
from simkit.session.execution.processes import (
    InProcessWorker,
    Process,
    ProcessSetup,
    Simulate,
    is_code,
    kept_in,
)
from simkit.session.execution.recorded import REPLAY, Recording, traffic_of
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.files import Prepared
from simkit.spec.scenario.model import CRASHED, CUTS, Turn
from simkit.trace.events import ErrorFacts, Misfit, RunFinished
from simkit.trace.store import Trace

if TYPE_CHECKING:
    from simkit.adapters.model_calls import GatedTraffic
    from simkit.session.execution.judging import Answering


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


class Execution(AbstractContextManager["Execution"]):
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
        tell_events(self.trace)
        self.turns: list[Turn] = []
        """The turns taken so far."""
        self.error: ErrorFacts | None = None
        """The error that ended the last turn, or that ends the run; else None."""
        self.is_over = False
        """Whether no further turn is possible, whatever is claimed."""
        self.has_died = False
        """Whether the process that took the last turn ended within it."""
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
        from simkit.session.execution.judging import Answering

        answering = Answering(self.traffic)
        resources.callback(answering.close)
        return None, answering

    def __exit__(self, *_: object) -> None:
        self.close()

    def follow(self, turns: Sequence[Turn], starts: Sequence[int] = ()) -> None:
        """Take a scenario's next turns, up to an error without a claim.

        ``starts`` are virtual times before which its turns do not begin.
        """
        for index in range(len(self.turns), len(turns)):
            if self.stops(turns):
                break
            self.take(turns[index], starts[index] if starts else 0)

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
        except ProcessFailed:
            end = self.trace.events[-1] if self.trace.events else None
            if not isinstance(end, RunFinished):  # It has not begun.
                raise
            self.turns.append(turn)
            self.error, self.is_over, self.has_died = end.error, True, True
        except LimitExceeded as problem:
            self.error, self.is_over = ErrorFacts(problem.type, str(problem)), True
        except ScriptMisfit as problem:
            self._misfit(problem)
            self.turns.append(turn)
            self.error, self.is_over = ErrorFacts(type(problem).__name__, problem.what), True
            end_turn(self.trace, self.error)  # A stopped driver does not.

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
        if self.has_died:
            self.close()
            return self.trace
        self._process.finish(self.error)
        unused = self._left_of_recording()
        if self.misfits or unused:
            ended = self.trace.events.pop()
            assert isinstance(ended, RunFinished)
            self.trace.emit(msgspec.structs.replace(ended, misfits=self.misfits, **unused))
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


# Comparison runs of a scenario: without its restarts, and with one session only


def unbroken(prepared: Prepared) -> Trace:
    """Return the trace of a scenario without its restarts."""
    return _apart(prepared, [_without_place(turn) for turn in prepared.scenario.turns])


def alone(prepared: Prepared, session: str, starts: Sequence[int]) -> Trace:
    """Return the trace of one session of a scenario alone.

    ``starts`` are the virtual times at which the scenario's turns began; its turns begin then, too.
    """
    turns = prepared.scenario.turns
    indices = [index for index, turn in enumerate(turns) if turn.session == session]
    indices = [index for index in indices if index < len(starts)]
    return _apart(
        prepared,
        [_without_place(turns[index]) for index in indices],
        [starts[index] for index in indices],
        given_project=turns[0].project,
        numbers=[index + 1 for index in indices],
    )


def _without_place(turn: Turn) -> Turn:
    return turn.model_copy(update={"restart": False})


def _apart(
    prepared: Prepared,
    turns: Sequence[Turn],
    starts: Sequence[int] = (),
    given_project: str | None = None,
    numbers: Sequence[int] = (),
) -> Trace:
    """Run turns without influence of module state from another run."""
    pipeline, is_apart = prepared.pipeline, False
    run: Callable[..., Any] = _run
    if not isinstance(pipeline, App):
        is_apart = compile_pipeline(pipeline).functions.were_called
    elif wants_own_process(prepared):
        is_apart = True
    elif is_own_process():
        run = partial(call_in_another, _run)
    else:
        apart = msgspec.structs.replace(pipeline, is_apart=True)
        prepared = msgspec.structs.replace(prepared, pipeline=apart)
    options = {"is_apart": is_apart, "given_project": given_project, "numbers": numbers}
    trace: Trace = run(prepared, turns, starts, options)
    return trace


def _run(
    prepared: Prepared, turns: Sequence[Turn], starts: Sequence[int], options: Mapping[str, Any]
) -> Trace:
    with Execution(prepared, **options, outlives_crashes=True) as execution:
        execution.follow(turns, starts)
        return execution.finish()


def run_again(prepared: Prepared, without: str) -> Trace:
    """Return the trace of a scenario without what earlier ones left in a variable.

    This process is a copy of the one in which the scenario ran last.
    """
    from simkit.adapters.recorder.left_values import restore

    restore(without)
    return _run(prepared, prepared.scenario.turns, (), {})


# Errors of a run that lie in its scenario: each is reported at its place in the file


def _document_of(prepared: Prepared, path: SourcePath) -> Document:
    """Return the document of a path; for code, it may be the pipeline's file."""
    is_here = path[:1] not in (("app",), ("agents",), ("program",)) or (
        follow(prepared.document.data, path[:2]) is not ABSENT
    )
    return prepared.document if is_here else prepared.pipeline_document


class _Placing:
    """Turns an unusable script into an error at its place in the scenario."""

    __slots__ = ("_prepared",)

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: object
    ) -> None:
        if problem is not None:
            located = _located(self._prepared, problem)
            if located is not None:
                raise located from problem


def placed(prepared: Prepared) -> _Placing:
    """Report an unusable script at its place in the scenario."""
    return _Placing(prepared)


def _located(prepared: Prepared, problem: BaseException) -> errors.SourceError | None:
    """Return the error with its place; None for an error that stays as it is."""
    if isinstance(problem, (errors.ProcessFailed, errors.ScriptBroken)):
        where = _document_of(prepared, problem.path).position(problem.path)
        return errors.SourceError(where, problem.what)
    if isinstance(problem, errors.CallUnattributed):
        return errors.SourceError(prepared.document.position(("pipeline",)), str(problem))
    if isinstance(problem, errors.PatternTooSlow):
        for document in (prepared.document, prepared.pipeline_document):
            path = document.path_of(problem.pattern) or document.path_of(f"/{problem.pattern}/")
            if path is not None:
                return errors.SourceError(document.position(path), problem.what)
    if isinstance(problem, errors.FunctionMissing):
        for document in (prepared.pipeline_document, prepared.document):
            path = document.path_of(problem.name)
            if path is not None:
                return errors.SourceError(document.position(path), problem.what)
    return None
