"""The driver for pipelines that are programs: started beside simkit, and answered over HTTP.

The program asks for each turn (`NEXT`), calls its models at the address in its environment, reports
what no model call shows (`simkit.adapters.programs.reports`), and sends its reply (`REPLY`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from simkit.adapters.environment import DUMMY_KEY
from simkit.adapters.model_calls import Answerer
from simkit.adapters.programs.reports import (
    NEXT,
    REPLY,
    as_json,
    open_endpoint,
    reply_in,
    turn_response,
)
from simkit.adapters.programs.served import addressed
from simkit.adapters.refusals import refuse_unreached
from simkit.adapters.script import Script, error_facts, facts_of, sectioned
from simkit.capture.http.programs import PATIENCE_S, Program, Request
from simkit.core.errors import (
    FunctionFailed,
    ModelError,
    PipelineError,
    ProgramFailed,
    ReportInvalid,
    RunHalted,
    SimkitError,
)
from simkit.core.messages import JsonValue
from simkit.providers.http import HttpResponse, path_of
from simkit.providers.protocols import PROTOCOLS
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
        session = open_endpoint(
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
        place = recorder.turn
        script.begin_turn(turn, recorder)
        self._gate.halted = self._gate.last_failure = None
        reply, error = None, None
        try:
            reply = self._answered(turn)
            refuse_unreached(script.stubs(place), self._app, recorder, self._use.reached)
        except PipelineError as problem:
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
            if is_post and path != NEXT and not is_given:
                raise self._out_of_turn(request)
            if is_post and path == NEXT:
                if is_given:  # It had no reply, and asks for the next turn.
                    self._waiting = request
                    return None
                is_given, self._given_turn = True, self._recorder.turn
                request.answer(turn_response(turn, self._recorder.turn, self._state_of(turn)))
            elif is_post and path == REPLY:
                return self._replied(request)
            else:
                request.answer(self._decided(request))
                if self._gate.halted is not None:
                    self._let_read()
                    raise self._gate.halted

    def _out_of_turn(self, request: Request) -> ReportInvalid:
        """Return the error of a request between two turns, for the program."""
        over = self._given_turn
        why = f"turn {over} is over: its reply was told" if over else "no turn has begun"
        problem = f"POST {path_of(request.http.url)}: {why}. A turn begins with POST {NEXT}."
        request.answer(refused(problem))
        self._let_read()
        return ReportInvalid(problem)

    def _let_read(self) -> None:
        """Wait until the program can have read the error: it makes a request, or has ended."""
        assert self._program is not None
        with suppress(ProgramFailed):
            self._program.request(PATIENCE_S).answer(refused("the turn has ended"))

    def _decided(self, report_request: Request) -> Any:
        """Return the decision about a request; the interceptor knows why a run cannot continue."""
        request = report_request.http
        try:
            try:
                report = self._reports.take(request)
            except SimkitError as problem:
                raise self._gate.halt(problem) from problem
            return report or self._gate.take(addressed(request))
        except RunHalted as halted:
            return refused(str(halted.args[0]))

    def _state_of(self, turn: UserTurn) -> Mapping[str, JsonValue]:
        """Return the initial state of a session; empty if it has begun."""
        is_new = turn.session not in self._known
        self._known.add(turn.session)
        return self._script.initial_state if is_new else {}

    def _replied(self, request: Request) -> JsonValue:
        try:
            reply = reply_in(request.http)
        except ReportInvalid as problem:
            request.answer(refused(str(problem)))
            self._let_read()
            raise
        request.answer(as_json(200, {}))
        failure, failed = reply.failure(" ".join(self._app.program)), self._gate.last_failure
        if failure is None:
            return reply.reply
        if isinstance(failure, FunctionFailed) and failed is not None:
            raise ModelError(failed.message, failed.kind, failed.status)
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
            with suppress(ProgramFailed):
                request = self._program.request(PATIENCE_S)
                if request.http.method == "POST" and path_of(request.http.url) != NEXT:
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
        except ProgramFailed:  # It has ended, as intended.
            pass
        finally:
            program.stop(by_itself=True)


def refused(why: str) -> HttpResponse:
    """Return the response that tells a program that the run cannot continue."""
    return as_json(400, {"error": {"type": "simkit", "message": f"simkit: {why}"}})
