"""The driver for pipelines that are code: environment, router, and a framework's driver."""

from __future__ import annotations

import os
import sys
from asyncio import CancelledError
from collections import Counter
from contextlib import ExitStack, nullcontext
from typing import Any, Final
from urllib.parse import urlsplit
from weakref import WeakSet

import msgspec

from simkit.adapters import refusals
from simkit.adapters.annotations import current_mark, heard_by
from simkit.adapters.asgi import driver as asgi_driver
from simkit.adapters.attribution import Attribution
from simkit.adapters.concurrency import pools, watched_threads
from simkit.adapters.concurrency.thread_turns import ThreadTurns
from simkit.adapters.concurrency.waits import Waits
from simkit.adapters.entry import Caller, found_as, home_of, is_factory, made_by, reads_itself
from simkit.adapters.environment import LogEntry, log_records, surroundings
from simkit.adapters.framework_driver import (
    DRIVER_OPTIONS,
    AdapterContext,
    FrameworkDriver,
    FunctionDriver,
    driver_for,
    gifts_of,
    refuse_options,
)
from simkit.adapters.importing import ImportWatch
from simkit.adapters.instrumentation import Instrumented
from simkit.adapters.model_calls import Answerer
from simkit.adapters.model_interceptor import ModelInterceptor
from simkit.adapters.modules import OwnModules, check_folders, check_imported, entry_of
from simkit.adapters.programs.program import InputLoopDriver
from simkit.adapters.programs.terminal import Unmanned, at_terminal
from simkit.adapters.recorder.carried_over import ScenarioTexts
from simkit.adapters.recorder.sessions import RenamingSink, Run
from simkit.adapters.recorder.trace import TraceRecorder
from simkit.adapters.script import (
    COUNTER,
    Script,
    ScriptedAnswers,
    error_facts,
    facts_of,
    record_run_start,
    sectioned,
)
from simkit.adapters.servers import ScriptedServers
from simkit.adapters.tool_use import ToolUse
from simkit.adapters.toolbox import Toolbox
from simkit.capture.http import processes
from simkit.capture.http.guards import Guard
from simkit.capture.http.installing import Keeper
from simkit.capture.http.interception import intercepting
from simkit.capture.http.polls import Looks
from simkit.capture.http.refusals import begin_refusals, note_refusal, taken_refusals
from simkit.capture.http.request_router import (
    AllowedHosts,
    Owner,
    child_asked,
    owned_by,
    passing_through,
)
from simkit.core import errors
from simkit.core.branches import Branch, in_branch
from simkit.core.context_values import Together
from simkit.core.determinism import World
from simkit.core.gc_pause import collected_meanwhile
from simkit.core.rng import Chance
from simkit.providers.http import HttpRequest
from simkit.providers.protocols import protocol_of
from simkit.runtime.context.rendering import counter_named
from simkit.runtime.ports import UserTurn
from simkit.runtime.scheduler import VirtualClock
from simkit.spec.scenario.apps import TURNS, App
from simkit.spec.scenario.replies import asking_server
from simkit.trace import events as e
from simkit.trace.recorder import Sink

_NOTHING: Final = nullcontext()


class CodeDriver:
    """Runs a pipeline that is code in its environment, turn by turn, and records it."""

    name = "python"

    def __init__(self, app: App, script: Script, others: Answerer | None = None) -> None:
        """``others`` answers calls without reply lines: a cassette, or the provider itself."""
        # Resolved once, because setups and pipelines may change the working directory.
        try:
            app = msgspec.structs.replace(app, folder=os.path.realpath(app.folder))
        except OSError as problem:
            raise errors.DirectoryGone(problem.strerror) from None
        self._app, self._script, self._others = app, script, others
        self._stack, self._zone, self._keeper = ExitStack(), ExitStack(), Keeper()
        self._caller, self._home = Caller(), home_of(app.entry)
        self._allowed = AllowedHosts(app.allow_hosts)
        self._place = 0
        self._agents_met: dict[str, None] = {}
        """The agents that have run."""
        self._clock = VirtualClock(script.start)
        self._world = World(
            self._clock,
            Chance(script.seed).child(f"code/{script.scenario}"),
            zone=app.options.env.get("TZ", ""),
            real=app.options.real,
        )
        self._turns = ThreadTurns(
            lambda: self._clock.now, self._clock.advance_to, self._home, script.schedule
        )
        self._imports = ImportWatch(app)
        self._losses = pools.Losses(self._lost)
        self._lost_errors: list[tuple[pools.Ended, e.ErrorFacts, Run | None]] = []
        """Errors that ended threads and tasks of this turn, and that no code took."""
        self._owner = Owner(self._home)
        self._turns_of: Counter[str] = Counter()
        """Session to the number of its turns."""

    def start(self, sink: Sink) -> None:
        """Import the pipeline in its environment, and begin."""
        try:
            self._zone.enter_context(self._world.in_its_zone())
            with owned_by(self._owner), collected_meanwhile, self._world.at_work():
                self._start(sink)
        except BaseException:
            self.close()
            raise

    def _start(self, sink: Sink) -> None:
        app, script = self._app, self._script
        attribution = Attribution(
            app.agents, app.fallback, lambda: [left.agent for left in script.model.unused()]
        )
        sink = self._names = RenamingSink(sink, attribution.has_matchers)
        self._recorder = recorder = TraceRecorder(
            sink, self._clock, counter_named(COUNTER), script.limits
        )
        recorder.handoff_tools = refusals.handoff_tools_of(app)
        if script.remembers and not app.is_apart:
            recorder.texts = ScenarioTexts(script.scenario)
            recorder.texts.add_value(script.initial_state)
            recorder.modules = OwnModules(app)
            self._stack.callback(recorder.texts.end)
        enter = self._stack.enter_context
        keeps_keys = self._others is not None and self._others.is_live
        check_folders(app)
        begin_refusals()
        enter(intercepting())
        enter(pools.carrying_contexts)
        enter(pools.hearing_loops)
        enter(processes.watching_processes)
        self._looks = Looks(WeakSet())
        self._children = None if keeps_keys else processes.Children(self._child_asked)
        if self._children is not None:
            self._stack.callback(self._children.close)
        enter(surroundings(app, found_as, keeps_keys))
        self._answers = answers = ScriptedAnswers(
            recorder, script.model, self._has_lines, self._is_marked
        )
        waits = self._waits = Waits(
            self._turns, self._clock, script.schedule, lambda problem: self._gate.halt(problem)
        )
        self._gate = ModelInterceptor(
            recorder, attribution, answers, self._others, self._is_allowed,
            script.plan, lambda: self._driver.run_now(), self._caller.give_up, waits.wait_turn,
            self._names.rename, lambda: self._driver.run_around(), waits, waits.as_agent,
            self._caller.cancels,
        )  # fmt: skip
        self._use = use = ToolUse(recorder, self._gate, script.tools, self._others, waits.as_tool)
        self._servers = ScriptedServers(app.servers, use, waits, self._others, app.folder)
        self._gate.other_requests.home = self._home
        enter(self._servers.serving(self._gate.other_requests, self._turns))
        self._driver = self._built(AdapterContext(recorder, self._caller, use, self._gate.halt))
        self._stack.callback(self._driver.close)
        self.name = self._driver.name
        facts = sectioned(self._driver.facts(facts_of(app, script.limits)), app)
        self._takes_logs = script.logs or app.options.logs
        if self._takes_logs:
            facts = msgspec.structs.replace(facts, observes=(*facts.observes, "logs"))
        if app.agents and self._driver.nodes() is None:
            refusals.refuse_nodes(app)
        recorder.conversation = facts.conversation
        if app.options.given is not None:
            recorder.gifts = gifts_of(script.initial_state, facts, script.given_project)
        recorder.handoff_tools.know(facts.agents)
        record_run_start(recorder, script, self.name, facts)
        for where in self._imports.effects:
            recorder.events.record_uncontrolled_effect(recorder.at(), effect="process", where=where)
        tools = {name: found_as(entry) for name, entry in app.options.tools.items()}
        try:
            self._toolbox = Toolbox(tools, use.stand_in, use.waits_as)
        except (
            errors.FunctionMissing
        ) as problem:  # The place is the entry, not the name of the tool.
            raise errors.FunctionMissing(problem.what, app.options.tools[problem.name]) from None
        enter(self._toolbox.standing_by())
        recorder.look_at_variables(app.options.env)
        # They are the same in every turn.
        self._values = (
            owned_by(self._owner),
            heard_by(self._gate),
            self._toolbox.at_work(),
            in_branch(Branch()),
            processes.children_of_run(self._children),
            self._servers.started_here(),
        )

    def _built(self, adapter_context: AdapterContext) -> Instrumented:
        """Import and build the pipeline, which must not send requests yet."""
        entry = self._app.entry
        unmanned = Unmanned(lambda: reads_itself(entry))
        try:
            with (
                passing_through(self._gate, self._app.allow_hosts),
                self._imports,
                at_terminal(unmanned),
                refusals.libraries_heeded(self._home),
            ):
                driver, home = self._pilot_of(adapter_context), home_of(entry)
                app_options = getattr(driver, "app_options", DRIVER_OPTIONS)
                refuse_options(self._app, driver.name, app_options)
                return Instrumented(driver, adapter_context, home, self._app.agents)
        except errors.RunHalted as halted:
            raise refusals.refused_at_import(halted.cause, entry) from None
        except errors.FunctionMissing:
            if unmanned.was_read:  # It caught what stopped it, and then was no pipeline.
                raise reads_itself(entry) from None
            raise

    def _pilot_of(self, adapter_context: AdapterContext) -> FrameworkDriver:
        """Return the driver for the pipeline's object, or for its factory's."""
        app = self._app
        if app.options.input == TURNS:
            return InputLoopDriver(app, adapter_context)
        entry = entry_of(app)
        driver = driver_for(entry, app, adapter_context) or asgi_driver(entry, app, adapter_context)
        if driver is not None or not is_factory(entry):
            return driver or FunctionDriver(entry, app, adapter_context)
        subject_value = made_by(app.entry, entry, self._caller.call)
        return (
            driver_for(subject_value, app, adapter_context)
            or asgi_driver(subject_value, app, adapter_context)
            or FunctionDriver(entry, app, adapter_context, subject_value)
        )

    def _has_lines(self, agent: str) -> bool:
        return self._script.has_lines(self._place, agent)

    def _is_allowed(self, url: str) -> bool:
        parts = urlsplit(url)
        return self._allowed.allow(parts.hostname or "", parts.port)

    def _is_marked(self, run: Run) -> bool:
        mark = current_mark()
        if run.is_remote:
            return False
        return self._driver.ends_runs() or (mark is not None and mark.run is run)

    def take(self, turn: UserTurn) -> e.ErrorFacts | None:
        """Call the pipeline with the user's message."""
        try:
            return self._take(turn)
        finally:
            self._names.flush(self._driver.observed())

    def _take(self, turn: UserTurn) -> e.ErrorFacts | None:
        script, recorder = self._script, self._recorder
        index = self._place = recorder.turn
        self._turns_of[turn.session] += 1
        self._world.begin_turn(
            f"{turn.session}/{self._turns_of[turn.session]}",
            index if turn.turns_before is None else turn.turns_before,
            of_session=turn.session,
        )
        script.begin_turn(turn, recorder)
        # An error of an earlier turn was claimed, or there is none now.
        self._gate.halted = self._gate.last_failure = self._gate.cut = None
        reply, error = None, None
        stubs = [tool for tool in script.stubs(index) if not self._is_answered(tool)]
        if stubs and not self._driver.stands_in():
            refusals.refuse_unreachable(stubs, self._app, recorder.turn)
        try:
            with collected_meanwhile:
                try:
                    reply = self._called(turn)
                finally:
                    self._tell_left_threads()
                    self._tell_losses()
            script.schedule.end_turn()
            refusals.refuse_unreached(stubs, self._app, recorder, self._use.reached)
        except errors.PipelineError as problem:
            error = error_facts(problem, self._problem_text(problem))
        script.end_turn(reply, error, recorder)
        self._agents_met.update((run.agent, None) for run in recorder.runs)
        return error

    def _is_answered(self, tool: str) -> bool:
        """Return whether a tool needs no adapter for its results: a function, or a server's."""
        use = self._use
        return (
            tool in self._app.options.tools
            or use.serves_others
            or bool(asking_server(tool))
            or tool.rpartition("/")[2] in use.served
        )

    def _problem_text(self, problem: errors.PipelineError) -> str:
        """Return an error's message; frameworks do not say what was wrong with a handoff."""
        text = str(problem)
        if not isinstance(problem, (errors.FrameworkFailed, errors.FunctionFailed)):
            return text
        lines = (*self._servers.causes(text), text, self._answers.misfit)
        return "\n".join(filter(None, lines))

    def check_rules(self) -> None:
        """Raise ScriptMisfit for parts of the scenario about the code that the run did not use."""
        app, driver = self._app, self._driver
        check_imported(app)
        if app.pipeline == app.entry:  # Otherwise they are in a file for many scenarios.
            self._servers.check()
        if not app.agents:
            return
        refusals.check_nodes(app, driver.nodes() or (), driver.knows_all_nodes())
        if app.pipeline == app.entry:  # Otherwise the rules are in a file for many scenarios.
            refusals.check_agents(app, driver.agents(), self._agents_met)

    def restart(self) -> None:
        """Build the pipeline again from what outlives a process; raise ScriptMisfit."""
        try:
            with (
                owned_by(self._owner),
                collected_meanwhile,
                self._world.at_work(),
                passing_through(self._gate, self._app.allow_hosts),
                self._turns.led(),  # Building may wait for threads that were there before.
            ):
                self._driver.restart()
        except errors.RunHalted as halted:
            raise halted.cause from None
        except errors.Unsupported as problem:
            raise errors.ScriptMisfit(
                f"`{self._app.pipeline}` cannot be restarted: {problem}",
                ("turns", self._recorder.turn, "restart"),
            ) from problem

    def _called(self, turn: UserTurn) -> Any:
        """Return the pipeline's reply; raise PipelineError, or an error that ends the run."""
        gate, app, home = self._gate, self._app, self._home
        try:
            with (
                Together(*self._values, passing_through(gate, app.allow_hosts, self._owner)),
                self._world.at_work(),
                log_records(self._logged, home) if self._takes_logs else _NOTHING,
                Guard(
                    self._caused,
                    home=home,
                    allow_hosts=app.allow_hosts,
                    slept=self._waits.sleep_alone,
                    slept_in_loop=self._turns.sleep_in_loop,
                    set_timer=self._turns.set_timer,
                    trusts_libraries=True,
                    keeper=self._keeper,
                    looks=self._looks,
                ),
                self._losses.heeding(),
                pools.taking_turns(self._turns),
            ):
                try:
                    reply = self._driver.run_turn(turn)
                finally:
                    self._take_refusals()
        except (
            errors.RunHalted,
            Exception,
            SystemExit,
            CancelledError,
            BaseExceptionGroup,
        ) as problem:
            if (halt := errors.halt_in(problem)) is not None:
                raise self._advised(turn, halt.cause) from None
            if gate.halted is not None:
                raise self._advised(turn, gate.halted) from None
            if gate.cut is not None and isinstance(problem, CancelledError):
                raise gate.cut from None
            named, raised = app.options.errors, refusals.raised_by(problem)
            if isinstance(problem, errors.SimkitError) and not refusals.name_of(raised, named):
                raise
            failure = refusals.failure_of(problem, gate.last_failure, app.entry, named)
            if type(failure) is errors.FunctionFailed:
                advice = self._driver.input_advice(turn, raised)
                failure = errors.FunctionFailed(f"{failure}\n{advice}") if advice else failure
            raise failure from problem
        if gate.halted is not None:
            raise self._advised(turn, gate.halted)
        if gate.cut is not None:
            raise gate.cut
        return reply

    def _advised(self, turn: UserTurn, problem: errors.SimkitError) -> errors.SimkitError:
        """Return an error with its cause, or with how to call the pipeline."""
        if self._servers.ends and isinstance(problem, errors.ScriptBroken):
            text = "\n".join((*self._servers.ends, problem.what))
            problem = type(problem)(text, problem.path)
        if type(problem) is not errors.CallUnattributed or not isinstance(
            problem.__cause__, errors.WireInvalid
        ):
            return problem
        advice = self._driver.input_advice(turn, problem)
        return errors.CallUnattributed(f"{problem}\n{advice}") if advice else problem

    def _tell_left_threads(self) -> None:
        """Report threads that the others no longer waited for: they run in no fixed order."""
        unjoined, self._turns.threads.left = self._turns.threads.left, []
        for where in unjoined:
            self._uncontrolled(
                f"a thread that did not come to rest within {watched_threads.LIMIT_S:g} s", where
            )
        if self._turns.is_endless:
            self._turns.is_endless = False
            self._uncontrolled("threads that go on and on after the turn's reply", "")

    def _lost(self, ended: pools.Ended, problem: BaseException) -> None:
        """Keep an error for the end of the turn: the collector may find it in any place."""
        app = self._app
        failure = refusals.failure_of(
            problem, self._gate.last_failure, app.entry, app.options.errors
        )
        self._lost_errors.append((ended, error_facts(failure), self._driver.run_around()))

    def _tell_losses(self) -> None:
        losses, self._lost_errors = self._lost_errors, []
        for ended, error, run in losses:
            self._recorder.events.record_lost_error(
                self._recorder.at(run), ended=ended, error=error
            )

    def _caused(self, effect: str, where: str) -> None:
        if self._turns.is_led:  # Threads that outlive a turn are not part of any turn.
            self._uncontrolled(effect, where)

    def _uncontrolled(self, effect: str, where: str) -> None:
        with self._gate.lock:
            run = self._driver.run_around()  # The run of the calling code; None if it is not known.
            self._recorder.events.record_uncontrolled_effect(
                self._recorder.at(run), effect=effect, where=where
            )

    def _child_asked(self, method: str, url: str) -> None:
        """Stop the run: a child process of the pipeline uses the network."""
        asks_model = protocol_of(HttpRequest(method, url)) is not None
        problem = errors.CallUnattributed(child_asked(method, url, asks_model))
        if self._owner.is_over:
            note_refusal(str(problem), is_late=True)
        self._gate.halt(problem)

    def _take_refusals(self) -> None:
        """Stop the run if code was refused something from where no exception reaches it."""
        for text in taken_refusals():
            self._gate.halt(errors.NetworkRefused(text, "", None))
        for refusal in refusals.unsurvived(sys.exception(), self._home):
            self._gate.halt(refusal)

    def _logged(self, entry: LogEntry) -> None:
        run = self._driver.run_around()
        with self._recorder.lock:
            self._recorder.events.record_log_entry(self._recorder.at(run), **entry._asdict())

    def finish(self, error: e.ErrorFacts | None = None) -> None:
        """End the run."""
        self._names.flush()
        self._gate.ended(error)
        self._names.flush()

    def close(self) -> None:
        """Close the event loop, and restore the environment."""
        # First of all: a loop that is closed waits for its threads, which may have stopped.
        self._owner.unfinished = processes.leave_threads(self._turns.threads.unfinished())
        self._turns.end()
        self._losses.end()
        with self._zone, owned_by(self._owner), collected_meanwhile, self._world.at_work():
            try:
                self._caller.close()
            finally:
                processes.end_run(self._owner)
                self._keeper.close()
                self._stack.close()
