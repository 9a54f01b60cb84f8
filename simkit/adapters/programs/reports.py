"""Reports of a program in another process: ``POST`` requests below ``/simkit``.

A model call shows an agent's context. For everything else the program sends one report each: an
agent's start and input, its output, state, handoffs, tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec

from simkit.adapters.attribution import Attribution
from simkit.adapters.framework_driver import gifts_of
from simkit.adapters.model_calls import Answerer
from simkit.adapters.model_interceptor import ModelInterceptor
from simkit.adapters.recorder.sessions import Run, ToolRequest
from simkit.adapters.recorder.trace import TraceRecorder
from simkit.adapters.refusals import handoff_tools_of
from simkit.adapters.script import Script, ScriptedAnswers, record_run_start
from simkit.adapters.tool_use import ToolFailure, ToolUse
from simkit.core.errors import FrameworkFailed, FunctionFailed, PipelineError, ReportInvalid
from simkit.core.messages import JsonValue
from simkit.core.text import guess, short
from simkit.providers.http import HttpRequest, HttpResponse, path_of
from simkit.runtime.context.rendering import counter_named
from simkit.runtime.ports import UserTurn
from simkit.runtime.scheduler import VirtualClock
from simkit.spec.pipeline.model import Channel
from simkit.spec.scenario.apps import App
from simkit.trace.events import PipelineFacts
from simkit.trace.recorder import Sink
from simkit.trace.reducers import problem_of

ROOT: Final = "/simkit/"
NEXT: Final = f"{ROOT}next"
"""The path of a POST that begins the next turn and returns it; 204 means that there is none."""
_SHOWN_MAX: Final = 60
"""The length of a value in an error."""
REPLY: Final = f"{ROOT}reply"
"""The path of a POST with the turn's ``reply``, or the ``error`` that ended it."""


Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]


class Started(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A report that an agent starts."""

    agent: Name
    input: JsonValue = None
    """Its input."""
    goal: str = ""
    """The goal that it works for; empty if there is none."""
    received: dict[str, Any] | None = None
    """The channels that it is given, with their values; None if that is not reported."""


class Finished(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A report that an agent has ended."""

    agent: Name
    output: JsonValue = None
    """Its output, if that is not its model's last message."""
    failed: bool = False


class ToolCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A report that a tool is called; the answer has the scenario's result, if there is one."""

    tool: Name
    args: dict[str, Any] = {}
    call_id: str = ""
    """The id under which the model asked for it; empty if none did."""


class ToolResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A report of a tool's result in the program."""

    tool: Name
    args: dict[str, Any] = {}
    call_id: str = ""
    result: JsonValue = None
    error: str = ""
    """Why it failed; empty if it has a result."""


class State(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A report of channel writes."""

    update: dict[str, Any]
    agent: str = ""


class Handoff(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A report of a handoff request; the handoff is made when the target starts."""

    from_: Name = msgspec.field(name="from")
    to: Name
    payload: JsonValue = None
    type: str | None = None
    query: str | None = None
    refused: str = ""
    """Why it is not made; empty if it is."""


class Error(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An error, by its name in claims."""

    type: Name
    message: str = ""


class Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The end of a turn."""

    reply: JsonValue = None
    error: str | Error = ""

    def failure(self, command: str = "") -> PipelineError | None:
        """Return the error that ended the turn; ``command`` is the program's."""
        if isinstance(self.error, Error):
            return FrameworkFailed(self.error.message, self.error.type)
        if not self.error:
            return None
        return FunctionFailed(f"`{command}` failed: {self.error}" if command else self.error)


class Reports:
    """Turns the program's reports into events."""

    def __init__(
        self,
        recorder: TraceRecorder,
        use: ToolUse,
        has_result: Callable[[str], bool],
        channels: Mapping[str, Channel],
    ) -> None:
        """``has_result`` returns whether the scenario answers a tool in this turn.

        ``channels`` are those in the pipeline's file; if there are none, any may be reported.
        """
        self._recorder, self._use, self._has_result = recorder, use, has_result
        self._channels = channels
        self._reported_ids: set[str] = set()
        """The runs with a reported start, whose end is reported too."""
        self.asks_tools = False
        """Whether the program asks for results of its tools."""
        self._kinds: dict[str, tuple[type[msgspec.Struct], Callable[[Any], Mapping[str, Any]]]] = {
            "started": (Started, self._started),
            "finished": (Finished, self._finished),
            "tool": (ToolCall, self._tool),
            "tool_result": (ToolResult, self._tool_result),
            "state": (State, self._state),
            "handoff": (Handoff, self._handoff),
        }

    def take(self, request: HttpRequest) -> HttpResponse | None:
        """Answer a report; None for any other request; raise ReportInvalid.

        Raise PipelineError and ScriptBroken for calls that a scenario cannot answer.
        """
        path = path_of(request.url)
        if not path.startswith(ROOT):
            return None
        kind_name = path.removeprefix(ROOT)
        if kind_name not in self._kinds or request.method != "POST":
            known = [*self._kinds, "next", "reply"]
            raise ReportInvalid(
                f"{request.method} {path}: unknown report."
                f"{guess(kind_name, known, f' Did you mean POST {ROOT}{{}}?')} "
                f"Known: {', '.join(f'POST {ROOT}{name}' for name in known)}."
            )
        kind, take = self._kinds[kind_name]
        report = _read(request, kind)
        try:
            return as_json(200, take(report))
        except _Wrong as problem:
            raise ReportInvalid(f"POST {path}: {problem}") from None

    def tells_end_of(self, run: Run) -> bool:
        """Return whether the program reports the end of a run."""
        return run.id in self._reported_ids

    def _started(self, report: Started) -> Mapping[str, Any]:
        for name in report.received or ():
            self._check_name(name, "received")
        run = self._recorder.begin_run(
            report.agent,
            task=report.input,
            goal=report.goal,
            channels=None if report.received is None else (),
            received=report.received,
        )
        self._reported_ids.add(run.id)
        return {"run": run.id}

    def _finished(self, report: Finished) -> Mapping[str, Any]:
        run = self._recorder.open_run(report.agent)
        if run is None:
            at_work = [
                other_run.agent for other_run in self._recorder.runs if not other_run.is_over
            ]
            raise _Wrong(
                f"`agent`: {report.agent!r} is not at work in this "
                f"turn.{guess(report.agent, at_work)} At work: {_listed(at_work)}."
            )
        self._recorder.end_run(run, "failed" if report.failed else "done", report.output)
        return {}

    def _tool(self, report: ToolCall) -> Mapping[str, Any]:
        self.asks_tools = True
        request = self._request_of(report)
        if not self._has_result(report.tool):
            return {"scripted": False}
        try:
            result = self._use(report.tool, report.args, lambda: None, request)
        except ToolFailure as problem:
            return {"scripted": True, "error": str(problem)}
        return {"scripted": True, "result": result}

    def _tool_result(self, report: ToolResult) -> Mapping[str, Any]:
        if report.error and report.result is not None:
            raise _Wrong("a tool has either a `result` or an `error`, and this one has both")
        self._use.record_call(
            report.tool, report.args, self._request_of(report), report.result, report.error
        )
        return {}

    def _request_of(self, report: ToolCall | ToolResult) -> ToolRequest | None:
        """Return the model's request for the id in a report."""
        if not report.call_id:
            return None
        request = self._recorder.call_request(report.call_id)
        if request is None:
            raise _Wrong(
                f"`call_id`: no model has asked for a tool under {report.call_id!r}. "
                "Leave it out where the program calls the tool by itself."
            )
        if request.call.name != report.tool:
            raise _Wrong(
                f"`tool`: under {report.call_id!r} a model asked for {request.call.name!r}, "
                f"not for {report.tool!r}"
            )
        return request

    def _state(self, report: State) -> Mapping[str, Any]:
        for name, value in report.update.items():
            self._check_channel(name, value)
        # A report of an agent's state may come after its end.
        run = self._run_of("agent", report.agent) if report.agent else None
        self._recorder.wrote(report.update, report.agent, run)
        return {}

    def _check_name(self, name: str, key: str) -> Channel | None:
        """Return a channel of the pipeline's file; None if it declares none at all."""
        if not self._channels:
            return None
        channel = self._channels.get(name)
        if channel is None:
            raise _Wrong(
                f"`{key}`: the pipeline's file declares no channel {name!r}."
                f"{guess(name, self._channels)} Channels: {_listed(self._channels)}."
            )
        return channel

    def _check_channel(self, name: str, value: JsonValue) -> None:
        channel = self._check_name(name, "update")
        if channel is None:
            return
        problem = problem_of(channel.reducer_name, value)
        if problem:
            raise _Wrong(f"`update.{name}`: {problem}")

    def _run_of(self, key: str, agent: str) -> Run:
        """Return the last run of an agent in this turn, ended or not."""
        runs = self._recorder.runs
        run = self._recorder.open_run(agent) or next(
            (candidate for candidate in reversed(runs) if candidate.agent == agent), None
        )
        if run is None:
            names = [candidate.agent for candidate in runs]
            raise _Wrong(
                f"`{key}`: {agent!r} was not at work in this turn.{guess(agent, names)} "
                f"Those that were: {_listed(names)}."
            )
        return run

    def _handoff(self, report: Handoff) -> Mapping[str, Any]:
        recorder, run = self._recorder, self._run_of("from", report.from_)
        request = next(
            (
                handoff
                for handoff in recorder.requested
                if handoff.from_agent == report.from_ and handoff.to_agent == report.to
            ),
            None,
        )
        if request is None:
            recorder.hand_over(
                report.from_,
                report.to,
                report.payload,
                type=report.type,
                query=report.query,
                run=None if run.is_over else run,
            )
            request = recorder.requested[-1]
        if report.refused:
            recorder.refused(request, report.refused)
        return {}


class _Wrong(Exception):
    """A report is invalid; the text names the key."""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names)) or "none"


def reply_in(request: HttpRequest) -> Reply:
    """Return the program's reply to `REPLY`; raise ReportInvalid."""
    reply = _read(request, Reply)
    if reply.error and reply.reply is not None:
        raise ReportInvalid(
            f"POST {REPLY}: a turn ends with a `reply` or an `error`, and this one has both"
        )
    return reply


def turn_response(
    turn: UserTurn, number: int, initial_state: Mapping[str, JsonValue]
) -> HttpResponse:
    """Return the response with a turn; ``initial_state`` is the session's state."""
    fields: dict[str, Any] = {
        "turn": number,
        "session": turn.session,
        "project": turn.project,
        "user": turn.message,
        "resumes": turn.resumes,
        "state": initial_state,
    }
    return as_json(200, fields)


_Report = TypeVar("_Report", bound=msgspec.Struct)


def _read(request: HttpRequest, kind: type[_Report]) -> _Report:
    path, keys = path_of(request.url), kind.__struct_encode_fields__

    def wrong(problem: str) -> ReportInvalid:
        return ReportInvalid(f"POST {path}: {problem} Its keys: {', '.join(keys)}.")

    try:
        data = msgspec.json.decode(request.body or b"{}")
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        raise wrong(f"the body is no JSON: {problem}.") from None
    if not isinstance(data, dict):
        raise wrong(f"the body is {_value_text(data)}, and must be an object.")
    for key in data:
        if key not in keys:
            raise wrong(f"unknown key `{key}`.{guess(key, keys)}")
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as problem:
        complaint, _, key_path = str(problem).partition(" - at `$.")
        named = key_path.rstrip("`")
        detail = f"`{named}` is {_value_text(data[named])}. " if named in data else ""
        raise wrong(f"{detail}{complaint}.") from None


def _value_text(value: JsonValue) -> str:
    return short(msgspec.json.encode(value).decode(), _SHOWN_MAX)


def as_json(status: int, value: object, more: tuple[tuple[str, str], ...] = ()) -> HttpResponse:
    """Return a JSON response that no client retries."""
    headers = (("content-type", "application/json"), ("x-should-retry", "false"), *more)
    return HttpResponse(status, headers, (msgspec.json.encode(value),))


def as_error(status: int, problem: str, more: tuple[tuple[str, str], ...] = ()) -> HttpResponse:
    """Return a refusal; every provider's client finds the message in it."""
    return as_json(status, {"error": {"type": "simkit", "message": problem}}, more)


class ProgramEndpoint(msgspec.Struct, frozen=True):
    """The parts that answer and record a program's model calls, tools and reports."""

    recorder: TraceRecorder
    gate: ModelInterceptor
    use: ToolUse
    reports: Reports


def open_endpoint(
    app: App, script: Script, facts: PipelineFacts, sink: Sink, clock: VirtualClock, *,
    driver: str, has_given_state: bool, models: Answerer | None, tools: Answerer | None,
) -> ProgramEndpoint:  # fmt: skip
    """Return the endpoint of a new run.

    ``has_given_state``: sessions begin with the scenario's given state. Recorded traffic answers,
    as ``models``, agents without lines in a turn, and, as ``tools``, their tools.
    """
    recorder = TraceRecorder(sink, clock, counter_named(facts.tokens), script.limits)
    recorder.sees_inputs = False
    recorder.handoff_tools = handoff_tools_of(app)
    recorder.handoff_tools.know(facts.agents)
    if has_given_state:
        recorder.gifts = gifts_of(script.initial_state, facts, script.given_project)
    record_run_start(recorder, script, driver, facts)
    answers = ScriptedAnswers(
        recorder,
        script.model,
        lambda agent: script.has_lines(recorder.turn - 1, agent),
        lambda run: reports.tells_end_of(run),
    )
    gate = ModelInterceptor(
        recorder, Attribution(app.agents), answers, models, lambda url: False, script.plan
    )
    use = ToolUse(recorder, gate, script.tools, tools)
    reports = Reports(recorder, use, script.tools.has_result_for, app.channels)
    return ProgramEndpoint(recorder, gate, use, reports)
