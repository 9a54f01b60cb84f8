"""Workers: this process takes the turns of a run, with a driver and the script."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import msgspec

from simkit.runtime.compiled import CompiledPipeline, compile_pipeline
from simkit.runtime.flows import flow_of
from simkit.runtime.functions import function_named
from simkit.runtime.journal import Store
from simkit.runtime.kernel import NativeDriver
from simkit.runtime.models.faults import CutMoment, FaultPlan, FaultyModel
from simkit.runtime.models.script import ScriptedModel, ScriptedTools, agents_in, call_with
from simkit.runtime.ports import Driver, Schedule, Tools, TurnModel, UserTurn
from simkit.runtime.schedules import CODE_TOOLS, DECLARED_TOOLS, ScenarioSchedule
from simkit.runtime.sessions import Doors
from simkit.session.execution.own_process import is_own_process
from simkit.spec.pipeline.model import Limits, Pipeline
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.files import Prepared
from simkit.spec.scenario.model import Scenario, Turn
from simkit.spec.scenario.moments import Order
from simkit.spec.scenario.replies import Fault, ToolAnswers, TurnScript
from simkit.trace.events import ErrorFacts
from simkit.trace.recorder import Sink
from simkit.trace.store import canonical, copied

if TYPE_CHECKING:
    from simkit.adapters.driver import CodeDriver
    from simkit.adapters.model_calls import Answerer
    from simkit.adapters.programs.program import ProgramDriver
    from simkit.runtime.models.recorded import Provider

_ENCODE: Final = msgspec.json.Encoder().encode

Simulate: TypeAlias = Callable[[CompiledPipeline | None], tuple[TurnModel, Tools, Schedule]]
"""Function that returns the models, the tools and the schedule of a run without a script. Its
argument is the pipeline; None for code."""


class ProcessSetup(msgspec.Struct, frozen=True):
    """The data that a process needs before its first turn."""

    prepared: Prepared
    """The scenario; its turns are not read."""
    file: str = ""
    """The store's file; empty if there is none."""
    before: tuple[Turn, ...] = ()
    """The turns that other processes took."""
    given_project: str | None = None
    """The project that gets given project channels; None means the first turn's."""
    traffic: Answerer | None = None
    """Recorded or real traffic, for a pipeline that is code."""
    provider: Provider | None = None
    """The provider or recording for a declared pipeline's models without reply lines."""
    simulate: Simulate | None = None
    """Makes the models and tools that stand in place of the script; None to use the script."""


class Process(Protocol):
    """A worker that takes turns."""

    def take(
        self, turn: Turn, not_before: int, turns_before: int | None = None
    ) -> ErrorFacts | None:
        """Take a turn; return the error that ended it, or None; raise LimitExceeded."""

    def check_rules(self) -> None:
        """Raise ScriptMisfit for a rule that does not fit the code."""

    def finish(self, error: ErrorFacts | None) -> None:
        """End the run."""

    def close(self) -> None:
        """Release all resources."""


class InProcessWorker:
    """The worker in this process: a driver, and the script.

    The drivers of code, stores and recordings are imported where they are made: the run of a
    declared pipeline needs none of them.
    """

    def __init__(self, task: ProcessSetup, sink: Sink) -> None:
        self._replies: list[TurnScript] = []
        self._results: list[Mapping[str, ToolAnswers]] = []
        self._faults: list[Sequence[Fault]] = []
        self._cuts: dict[int, CutMoment] = {}
        self._paused_ms = 0
        self._read = 0
        """The number of turns whose agents the driver of code knows."""
        self._orders: list[tuple[str, Order]] = []
        for turn in task.before:
            self._add(turn)
        scenario = task.prepared.scenario
        self._plan = FaultPlan(
            self._faults,
            scenario.faults,
            scenario.seed,
            self._cuts,
            is_certain=task.simulate is None,
        )
        self._store = _store_of(task)
        self._code: CodeDriver | ProgramDriver | None = None
        self._driver = self._driver_of(task)
        self._driver.start(sink)

    def take(
        self, turn: Turn, not_before: int, turns_before: int | None = None
    ) -> ErrorFacts | None:
        """Take a turn; return the error that ended it, or None; raise LimitExceeded."""
        self._add(turn)
        begin = user_turn(turn, not_before, turns_before)
        if self._paused_ms:
            begin = msgspec.structs.replace(begin, paused_ms=self._paused_ms)
        error = self._driver.take(begin)
        if error is None and self._plan.cut is not None:
            self._plan.check_cut()
        return error

    def restart(self) -> None:
        """Build a pipeline that is code again; raise ScriptBroken if nothing would be left."""
        assert self._code is not None
        self._code.restart()

    def check_rules(self) -> None:
        """Raise ScriptBroken for a rule that does not fit the code."""
        if self._code is not None:
            self._code.check_rules()

    def finish(self, error: ErrorFacts | None) -> None:
        """End the run."""
        self._driver.finish(error)

    def close(self) -> None:
        """Release all resources."""
        self._driver.close()
        if self._store is not None:
            self._store.close()

    def _add(self, turn: Turn) -> None:
        self._replies.append(turn.script)
        self._results.append(turn.results)
        self._faults.append(turn.faults)
        if turn.cancel is not None or turn.crash is not None:
            self._cuts[len(self._faults) - 1] = cut_moment_of(turn)
        if turn.pause is not None:
            self._paused_ms += turn.pause_ms
        self._orders.append((turn.session, turn.schedule))

    def _driver_of(self, task: ProcessSetup) -> Driver:
        pipeline = task.prepared.pipeline
        if isinstance(pipeline, App):
            return self._code_driver(task, pipeline)
        return self._native(task, pipeline)

    def _code_driver(self, task: ProcessSetup, app: App) -> Driver:
        from simkit.adapters.driver import CodeDriver
        from simkit.adapters.programs.program import ProgramDriver
        from simkit.adapters.script import Script

        scenario = task.prepared.scenario
        shared_results, state = shared_of(task.prepared)
        model: TurnModel = ScriptedModel(self._replies, {}, {}, function_named)
        # A tool without a result runs for real, when the pipeline itself calls it.
        tools: Tools = ScriptedTools(self._results, shared_results, {}, lambda name, args: None)
        schedule = self._schedule(scenario, CODE_TOOLS)
        if task.simulate is not None:
            model, tools, schedule = task.simulate(None)
        script = Script(
            task.prepared.item.name,
            scenario.seed,
            scenario.start,
            model,
            tools,
            self._has_lines if task.simulate is None else lambda place, agent: True,
            self._new_agents,
            limits_of(Limits.model_construct(), scenario),
            self._plan,
            schedule,
            state,
            stubs=lambda place: self._results[place],
            logs=scenario.claims_logs,
            given_project=task.given_project,
            remembers=task.simulate is None and not is_own_process(),
        )
        self._code = (ProgramDriver if app.program else CodeDriver)(app, script, task.traffic)
        return self._code

    def _new_agents(self) -> Iterator[str]:
        """Return the agents in reply lines since the last call."""
        new = self._replies[self._read :]
        self._read = len(self._replies)
        return agents_in(new)

    def _has_lines(self, index: int, agent: str) -> bool:
        """Return whether a turn has lines for an agent; for any, if its name is empty."""
        # Code may send a request before the first turn.
        replies = self._replies[index] if index < len(self._replies) else {}
        return agent in replies if agent else bool(replies)

    def _schedule(self, scenario: Scenario, about_tools: str) -> Schedule:
        return ScenarioSchedule(scenario.schedule, self._orders, scenario.seed, about_tools)

    def _native(self, task: ProcessSetup, pipeline: Pipeline) -> Driver:
        scenario = task.prepared.scenario
        shared_results, state = shared_of(task.prepared)
        ready = compile_pipeline(pipeline)
        functions = ready.functions
        # Their lists grow with every turn.
        model: TurnModel = ScriptedModel(
            self._replies, ready.tool_args, ready.schemas, functions.named
        )
        if task.provider is not None:
            from simkit.runtime.models.recorded import RecordedModel
            from simkit.runtime.speakers import speakers_of

            model = RecordedModel(model, self._has_lines, speakers_of(ready), task.provider)
        tools: Tools = ScriptedTools(
            self._results,
            shared_results,
            {name: t.function for name, t in pipeline.tools.items() if t.function},
            lambda name, args: copied(call_with(functions.named(name), copied(args))),
        )
        schedule = self._schedule(scenario, DECLARED_TOOLS)
        if task.simulate is not None:
            model, tools, schedule = task.simulate(ready)
        doors = Doors(
            ready,
            flow_of(ready),
            state,
            FaultyModel(model, self._plan),
            tools,
            self._plan,
            limits_of(pipeline.limits, scenario),
            schedule,
        )
        return NativeDriver(
            doors,
            scenario=task.prepared.item.name,
            seed=scenario.seed,
            start=scenario.start,
            store=self._store,
            before=[user_turn(turn) for turn in task.before],
            given_project=task.given_project,
        )


def is_code(prepared: Prepared) -> bool:
    """Return whether a scenario's pipeline is code."""
    return isinstance(prepared.pipeline, App)


def kept_in(prepared: Prepared) -> str | None:
    """Return the kind of store that a pipeline declares; None for code, which has its own."""
    return None if isinstance(prepared.pipeline, App) else prepared.pipeline.store


def _store_of(task: ProcessSetup) -> Store | None:
    if task.file:
        return Store(Path(task.file))
    return Store() if kept_in(task.prepared) else None


def limits_of(limits: Limits, scenario: Scenario) -> Limits:
    """Return a pipeline's limits with the scenario's changes."""
    if not scenario.limits.__pydantic_fields_set__:
        return limits
    changed = {k: v for k, v in vars(scenario.limits).items() if v is not None}
    return limits.model_copy(update=changed) if changed else limits


def shared_of(prepared: Prepared) -> tuple[Mapping[str, ToolAnswers], Mapping[str, Any]]:
    """Return tool results and given state, with those of the files under ``use`` as defaults."""
    results: dict[str, ToolAnswers] = {}
    values: dict[str, Any] = {}
    if not prepared.shared and not prepared.scenario.given.state:
        return results, values
    for shared in prepared.shared:
        results.update(shared.tool_results)
        values.update(shared.given.state)
    return results, canonical({**values, **prepared.scenario.given.state})


def cut_moment_of(turn: Turn) -> CutMoment:
    """Return the moment at which a turn is to end before its reply."""
    if turn.cancel is not None:
        return CutMoment("cancel", turn.cancel)
    assert turn.crash is not None
    return CutMoment("crash", turn.crash)


def user_turn(turn: Turn, not_before: int = 0, turns_before: int | None = None) -> UserTurn:
    """Return the beginning of a scenario's turn."""
    user = turn.user
    text, value = "", None
    resumes = "resume" in turn.__pydantic_fields_set__
    if resumes:
        value = canonical(turn.resume)
    elif user is not None and user.text is not None:
        text = user.text
    elif user is not None:
        value = canonical(user.json_)
        text = value if isinstance(value, str) else _ENCODE(value).decode()
    return UserTurn(text, value, resumes, turn.session, turn.project, not_before, turns_before)
