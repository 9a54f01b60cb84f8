"""The driver for pipelines that are programs: started beside simkit, and answered over HTTP.

The program asks for each turn (`NEXT`), calls its models at the address in its environment, reports
what no model call shows (`simkit.adapters.programs.reports`), and sends its reply (`REPLY`).
"""

from __future__ import annotations

import ast
import inspect
import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from simkit.adapters.concurrency.pools import wait_for_rest
from simkit.adapters.entry import Caller, check_called_alone, home_of, made_by, method_of
from simkit.adapters.environment import DUMMY_KEY, forget_modules
from simkit.adapters.framework_driver import AdapterContext, FrameworkDriver
from simkit.adapters.model_calls import Answerer
from simkit.adapters.modules import entry_of, module_missing
from simkit.adapters.programs import reports
from simkit.adapters.programs.served import addressed
from simkit.adapters.programs.terminal import Terminal, terminals, use_terminal
from simkit.adapters.refusals import refuse_unreached
from simkit.adapters.script import Script, error_facts, facts_of, sectioned
from simkit.capture.http.loopback import PATIENCE_S, Program, Request
from simkit.core import errors
from simkit.core.errors import FunctionFailed, FunctionMissing
from simkit.core.messages import JsonValue
from simkit.core.stopping import halting_at
from simkit.providers.http import HttpResponse, path_of
from simkit.providers.protocols import PROTOCOLS
from simkit.runtime.functions import work_folder_on_path
from simkit.runtime.ports import UserTurn
from simkit.runtime.scheduler import VirtualClock
from simkit.spec.scenario.apps import App
from simkit.trace import events as e
from simkit.trace.recorder import Sink

QUIET: Final = {"OPENAI_AGENTS_DISABLE_TRACING": "1"}
"""Variables that keep clients from reporting telemetry to their provider."""
_PROXIES: Final = frozenset(("http_proxy", "https_proxy", "all_proxy"))


def variables_for(url: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment that points every known client at an address."""
    variables: dict[str, str] = {}
    for protocol in PROTOCOLS.values():
        for name, value in protocol.variables.items():
            variables[name] = value.format(url=url)
        variables.update(dict.fromkeys(protocol.keys, DUMMY_KEY))
    if any(name.lower() in _PROXIES for name in environment):
        for name in ("NO_PROXY", "no_proxy"):
            variables[name] = ",".join(filter(None, (environment.get(name), "127.0.0.1")))
    return {**variables, **QUIET}


URL: Final = "SIMKIT_URL"
"""The environment variable with the server's address."""


class ProgramDriver:
    """Runs a program through a scenario's turns, and records its requests and reports."""

    name = "program"

    def __init__(self, app: App, script: Script, others: Answerer | None = None) -> None:
        """``others`` answers agents without lines in a turn: a cassette."""
        self._app, self._script, self._others = app, script, others
        self._folder = str(Path(app.folder).resolve())
        self._clock = VirtualClock(script.start)
        self._program: Program | None = None
        self._waiting: Request | None = None
        """The program's request for the next turn, which has not begun; None if there is none."""
        self._given_turn = 0
        """The number of the last turn that this process was given."""
        self._known: set[str] = set()
        """The sessions that have begun."""

    def start(self, sink: Sink) -> None:
        """Begin a run; the program itself starts with the first turn."""
        app, script = self._app, self._script
        facts = sectioned(facts_of(app, script.limits), app)
        session = reports.open_endpoint(
            app,
            script,
            facts,
            sink,
            self._clock,
            driver=self.name,
            has_given_state=True,
            models=self._others,
            tools=self._others,
        )
        self._recorder, self._gate = session.recorder, session.gate
        self._use, self._reports = session.use, session.reports

    def take(self, turn: UserTurn) -> e.ErrorFacts | None:
        """Give the program the user's message, and answer its requests until it replies."""
        script, recorder = self._script, self._recorder
        index = recorder.turn
        script.begin_turn(turn, recorder)
        self._gate.halted = self._gate.last_failure = None
        reply, error = None, None
        try:
            reply = self._answered(turn)
            refuse_unreached(script.stubs(index), self._app, recorder, self._use.reached)
        except errors.PipelineError as problem:
            error = error_facts(problem)
            self._leave()
        script.end_turn(reply, error, recorder)
        return error

    def _answered(self, turn: UserTurn) -> JsonValue:
        """Return the program's reply; raise PipelineError, or an error that ends the run."""
        if self._program is None:
            self._program = self._started()
        is_given = False
        while True:
            request, self._waiting = self._waiting or self._program.request(), None
            path = path_of(request.http.url)
            is_post = request.http.method == "POST"
            if is_post and path != reports.NEXT and not is_given:
                raise self._out_of_turn(request)
            if is_post and path == reports.NEXT:
                if is_given:  # It had no reply, and asks for the next turn.
                    self._waiting = request
                    return None
                is_given, self._given_turn = True, self._recorder.turn
                request.answer(
                    reports.turn_response(turn, self._recorder.turn, self._state_of(turn))
                )
            elif is_post and path == reports.REPLY:
                return self._replied(request)
            else:
                request.answer(self._decided(request))
                if self._gate.halted is not None:
                    self._let_read()
                    raise self._gate.halted

    def _out_of_turn(self, request: Request) -> errors.ReportInvalid:
        """Return the error of a request between two turns, for the program."""
        over = self._given_turn
        why = f"turn {over} is over: its reply was told" if over else "no turn has begun"
        problem = (
            f"POST {path_of(request.http.url)}: {why}. A turn begins with POST {reports.NEXT}."
        )
        request.answer(refused(problem))
        self._let_read()
        return errors.ReportInvalid(problem)

    def _let_read(self) -> None:
        """Wait until the program can have read the error: it makes a request, or has ended."""
        assert self._program is not None
        with suppress(errors.ProgramFailed):
            self._program.request(PATIENCE_S).answer(refused("the turn has ended"))

    def _decided(self, report_request: Request) -> Any:
        """Return the decision about a request; the interceptor knows why a run cannot continue."""
        request = report_request.http
        try:
            with halting_at(self._gate.halt):
                report = self._reports.take(request)
            return report or self._gate.take(addressed(request))
        except errors.RunHalted as halted:
            return refused(str(halted.args[0]))

    def _state_of(self, turn: UserTurn) -> Mapping[str, JsonValue]:
        """Return the initial state of a session; empty if it has begun."""
        is_new = turn.session not in self._known
        self._known.add(turn.session)
        return self._script.initial_state if is_new else {}

    def _replied(self, request: Request) -> JsonValue:
        try:
            reply = reports.reply_in(request.http)
        except errors.ReportInvalid as problem:
            request.answer(refused(str(problem)))
            self._let_read()
            raise
        request.answer(reports.as_json(200, {}))
        failure, failed = reply.failure(" ".join(self._app.program)), self._gate.last_failure
        if failure is None:
            return reply.reply
        if isinstance(failure, errors.FunctionFailed) and failed is not None:
            raise errors.ModelError(failed.message, failed.kind, failed.status)
        raise failure

    def _started(self) -> Program:
        app = self._app

        def environment(url: str) -> dict[str, str]:
            pointed = variables_for(url, os.environ)
            return {**os.environ, **pointed, URL: url, **app.options.env}

        return Program(app.program, self._folder, environment)

    def check_rules(self) -> None:
        """Do nothing: a program has no parts that a rule could name in vain."""

    def restart(self) -> None:
        """Stop the program as if it had crashed; the next turn starts it again."""
        self._leave()

    def _leave(self) -> None:
        if self._program is not None:
            self._program.stop(by_itself=False)
            self._program = self._waiting = None
            self._given_turn = 0

    def finish(self, error: e.ErrorFacts | None = None) -> None:
        """End the run; further reports about the last turn come too late."""
        if error is None and self._program is not None and self._waiting is None:
            with suppress(errors.ProgramFailed):
                request = self._program.request(PATIENCE_S)
                if request.http.method == "POST" and path_of(request.http.url) != reports.NEXT:
                    late = self._out_of_turn(request)
                    error = error_facts(late)
                    self._leave()
                else:
                    self._waiting = request
        self._gate.ended(error)

    def close(self) -> None:
        """End the program: report that there are no more turns, and let it end by itself."""
        program, self._program = self._program, None
        if program is None:
            return
        try:
            request = self._waiting or program.request(PATIENCE_S)
            request.answer(HttpResponse(204, (), (b"",)))
        except errors.ProgramFailed:  # It has ended, as intended.
            pass
        finally:
            program.stop(by_itself=True)


def refused(why: str) -> HttpResponse:
    """Return the response that tells a program that the run cannot continue."""
    return reports.as_error(400, f"simkit: {why}")


# Programs that read the user's messages themselves, by `input()`: each turn's text is typed in.
#
# A program runs in a thread of its own, one for each session. In a turn the driver types the user's
# text, line by line, and waits until the program asks for more, or ends: what was printed meanwhile
# is the reply. A program that waits for more after the last turn is ended there.


_END_S: Final = 1.0
"""How long a program that is ended may take to end. One whose threads wait for each other never
does, as it would not at the end of input."""


class InputLoopDriver(FrameworkDriver):
    """Runs a program that is a loop around `input()`."""

    name = "python"
    app_options = ("call", "input")

    def __init__(self, app: App, adapter_context: AdapterContext) -> None:
        """Raises FunctionMissing where there is no such program."""
        self._app, self._adapter_context = app, adapter_context
        self._start = _program_of(app)
        self._programs: dict[str, _Program] = {}

    def run_turn(self, turn: UserTurn) -> str | None:
        """Type the user's text; return what the program prints until it asks for more."""
        if turn.resumes:
            raise self._adapter_context.asks_nothing(
                f"which `{self._app.entry}` cannot make: the next turn's text answers a program "
                "that asks for more input."
            )
        with terminals:
            program = self._programs.get(turn.session)
            if program is None:
                program = _Program(
                    self._app.entry, self._start, self._adapter_context.caller.caller_for_thread()
                )
                self._programs[turn.session] = program
                program.start()
            return program.reply_to(turn.text, self._adapter_context.recorder.turn)

    def restart(self) -> None:
        """End all programs; each starts again, with new modules, in its session's next turn."""
        self.close()
        self._programs.clear()
        self._start = _program_of(self._app, is_anew=True)

    def close(self) -> None:
        """End the programs that wait for more input."""
        with terminals:
            for program in self._programs.values():
                program.close()


class _Program:
    """One run of a program, in a thread of its own."""

    def __init__(self, entry: str, start: Callable[[], Any], caller: Caller) -> None:
        self._entry, self._start, self._caller = entry, start, caller
        self._terminal = Terminal()
        self._problem: BaseException | None = None
        self._last_turn = 0
        """The turn in which it ended."""
        # One that does not end must not keep the process.
        self._thread = threading.Thread(target=self._run, name=f"program {entry}", daemon=True)

    def start(self) -> None:
        """Start it."""
        self._thread.start()

    def reply_to(self, text: str, turn: int) -> str | None:
        """Type a text; return what is printed until the program asks for more, or ends.

        Raises what it raised, or FunctionFailed if it does not read the text at all.
        """
        if self._last_turn:
            raise FunctionFailed(
                f"`{self._entry}` ended in turn {self._last_turn}, and reads no more messages"
            )
        self._terminal.enter(text)
        is_running = self._terminal.wait()
        wait_for_rest()  # Another thread than the one that reads may answer.
        if not is_running:
            self._last_turn = turn
            if self._problem is not None:
                raise self._problem
            if self._terminal.is_unread and text:
                raise FunctionFailed(
                    f"`{self._entry}` ended without reading a message.\n"
                    'If its question is in its code, let the user say nothing: `user: ""`.'
                )
        return self._terminal.printed() or None

    def close(self) -> None:
        """End it, if it waits for input."""
        self._terminal.close()
        if self._thread.ident is not None:
            self._thread.join(_END_S)

    def _run(self) -> None:
        use_terminal(self._terminal)
        try:
            self._caller.call(self._start)
        except SystemExit as problem:
            if problem.code not in (None, 0):
                self._problem = problem
        except BaseException as problem:
            self._problem = problem
        finally:
            with suppress(BaseException):
                self._caller.close()
            self._terminal.end()


def _program_of(app: App, *, is_anew: bool = False) -> Callable[[], Any]:
    """Return what starts a program; raise FunctionMissing where nothing of the name does.

    ``is_anew`` imports its modules again.
    """
    module, _, name = app.entry.partition(":")
    if is_anew:
        forget_modules(home_of(app.entry))
    if not name:
        return partial(_run_as_program, _prepared_module(app, module))
    subject = entry_of(app)
    if not inspect.isclass(subject):
        start = method_of(app.entry, subject, app.options.call)
        check_called_alone(app.entry, start)
        return start

    def make_and_start() -> Any:
        program = made_by(app.entry, subject, lambda factory: factory())
        return method_of(app.entry, program, app.options.call)()

    return make_and_start


def _prepared_module(app: App, module: str) -> ModuleSpec:
    """Return where the module of a program is; make it known by its name, though it did not run."""
    work_folder_on_path()
    try:
        spec = find_spec(module)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = find_spec(f"{module}.__main__")
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None or not spec.has_location:
        raise FunctionMissing(module_missing(app), app.entry)
    # Its imports show which frameworks it uses.
    sys.modules[spec.name] = module_from_spec(spec)
    return spec


def _run_as_program(spec: ModuleSpec) -> None:
    """Run a module as `python -m` does, but under its own name, by which its classes are found."""
    module: ModuleType = module_from_spec(spec)
    sys.modules[spec.name] = module
    file = str(spec.origin)
    tree = _AsMain().visit(ast.parse(Path(file).read_bytes(), file))
    exec(compile(ast.fix_missing_locations(tree), file, "exec"), vars(module))


class _AsMain(ast.NodeTransformer):
    """Answers `__name__ == "__main__"` with yes."""

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        operands = [node.left, *node.comparators]
        named = any(isinstance(o, ast.Name) and o.id == "__name__" for o in operands)
        main = any(isinstance(o, ast.Constant) and o.value == "__main__" for o in operands)
        if not (named and main and len(operands) == 2):
            return node
        return ast.copy_location(ast.Constant(isinstance(node.ops[0], ast.Eq)), node)
