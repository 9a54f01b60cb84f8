"""What a program in another process tells of itself: ``POST`` requests below ``/simkit``.

A model call shows what an agent was sent. What no request shows, the program says in one request
each: that an agent goes to work and with what, its output, state, handoffs, tools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec

from simkit.adapters.activations import Asked, Run
from simkit.adapters.tool_use import ToolFailure, ToolUse
from simkit.adapters.trace_recorder import TraceRecorder
from simkit.core.errors import FrameworkFailed, FunctionFailed, PipelineError, ReportInvalid
from simkit.core.messages import JsonValue
from simkit.core.text import short
from simkit.language.yaml import near
from simkit.providers.http import HttpRequest, HttpResponse, path_of
from simkit.runtime.ports import UserTurn
from simkit.spec.pipeline.model import Channel
from simkit.trace.reducers import problem_of

ROOT: Final = "/simkit/"
NEXT: Final = f"{ROOT}next"
"""A POST to this path begins the next turn, and is told it; 204 says that there is none."""
_SHOWN: Final = 60
"""Characters of a value that an error shows."""
REPLY: Final = f"{ROOT}reply"
"""A POST to this path says the turn's ``reply``, or the ``error`` with which it ends."""


Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]


class Started(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An agent goes to work."""

    agent: Name
    input: JsonValue = None
    """What it is given."""
    goal: str = ""
    """What it works for, where there are goals."""


class Finished(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An agent is done."""

    agent: Name
    output: JsonValue = None
    """What it puts out, where that is not what its model said last."""
    failed: bool = False


class ToolCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool is about to be carried out: the answer says its result, where the scenario has one."""

    tool: Name
    args: dict[str, Any] = {}
    call_id: str = ""
    """The id under which the model asked for it, where it did."""


class ToolResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool was carried out by the program."""

    tool: Name
    args: dict[str, Any] = {}
    call_id: str = ""
    result: JsonValue = None
    error: str = ""
    """Why it failed, in place of a result."""


class State(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Channels are written."""

    update: dict[str, Any]
    agent: str = ""


class Handoff(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Control is to pass to another agent; it has when that agent goes to work."""

    from_: Name = msgspec.field(name="from")
    to: Name
    payload: JsonValue = None
    type: str | None = None
    query: str | None = None
    refused: str = ""
    """Why it is not made after all."""


class Error(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An error by the name that claims know it by."""

    type: Name
    message: str = ""


class Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a turn ends."""

    reply: JsonValue = None
    error: str | Error = ""

    def failure(self, command: str = "") -> PipelineError | None:
        """Returns the error with which the turn ends; ``command`` is the program's."""
        if isinstance(self.error, Error):
            return FrameworkFailed(self.error.message, self.error.type)
        if not self.error:
            return None
        return FunctionFailed(f"`{command}` failed: {self.error}" if command else self.error)


class Reports:
    """Takes what the program tells down as events."""

    def __init__(
        self,
        recorder: TraceRecorder,
        use: ToolUse,
        has_result: Callable[[str], bool],
        channels: Mapping[str, Channel],
    ) -> None:
        """``has_result`` says whether the scenario answers a tool in this turn.

        ``channels`` are those that the pipeline's file declares; without any, all may be told.
        """
        self._recorder, self._use, self._has_result = recorder, use, has_result
        self._channels = channels
        self._told: set[str] = set()
        """The runs whose beginning was told: so is their end."""
        self.asks_tools = False
        """Whether the program asks how its tools are answered."""
        self._kinds: dict[str, tuple[type[msgspec.Struct], Callable[[Any], Mapping[str, Any]]]] = {
            "started": (Started, self._started),
            "finished": (Finished, self._finished),
            "tool": (ToolCall, self._tool),
            "tool_result": (ToolResult, self._tool_result),
            "state": (State, self._state),
            "handoff": (Handoff, self._handoff),
        }

    def take(self, request: HttpRequest) -> HttpResponse | None:
        """Answers a report; None for any other request; raises ReportInvalid.

        Raises PipelineError and ScriptBroken for what a scenario cannot answer.
        """
        path = path_of(request.url)
        if not path.startswith(ROOT):
            return None
        said = path.removeprefix(ROOT)
        if said not in self._kinds or request.method != "POST":
            known = [*self._kinds, "next", "reply"]
            raise ReportInvalid(
                f"{request.method} {path} is nothing that a program can tell."
                f"{_hint(said, known, f'POST {ROOT}')} "
                f"Known: {', '.join(f'POST {ROOT}{one}' for one in known)}."
            )
        kind, take = self._kinds[said]
        told = _read(request, kind)
        try:
            return as_json(200, take(told))
        except _Wrong as problem:
            raise ReportInvalid(f"POST {path}: {problem}") from None

    def tells_end_of(self, run: Run) -> bool:
        """Whether the program says itself when a run is over."""
        return run.id in self._told

    def _started(self, told: Started) -> Mapping[str, Any]:
        run = self._recorder.begin_run(told.agent, task=told.input, goal=told.goal)
        self._told.add(run.id)
        return {"run": run.id}

    def _finished(self, told: Finished) -> Mapping[str, Any]:
        run = self._recorder.open_run(told.agent)
        if run is None:
            at_work = [one.agent for one in self._recorder.runs if not one.is_over]
            raise _Wrong(
                f"`agent`: {told.agent!r} is not at work in this turn.{_hint(told.agent, at_work)} "
                f"At work: {_listed(at_work)}."
            )
        self._recorder.end_run(run, "failed" if told.failed else "done", told.output)
        return {}

    def _tool(self, told: ToolCall) -> Mapping[str, Any]:
        self.asks_tools = True
        asked = self._asked(told)
        if not self._has_result(told.tool):
            return {"scripted": False}
        try:
            result = self._use(told.tool, told.args, lambda: None, asked)
        except ToolFailure as problem:
            return {"scripted": True, "error": str(problem)}
        return {"scripted": True, "result": result}

    def _tool_result(self, told: ToolResult) -> Mapping[str, Any]:
        if told.error and told.result is not None:
            raise _Wrong("a tool has either a `result` or an `error`, and this one has both")
        self._use.told(told.tool, told.args, self._asked(told), told.result, told.error)
        return {}

    def _asked(self, told: ToolCall | ToolResult) -> Asked | None:
        """Returns the model's request under the id that a report names."""
        if not told.call_id:
            return None
        asked = self._recorder.asked(told.call_id)
        if asked is None:
            raise _Wrong(
                f"`call_id`: no model has asked for a tool under {told.call_id!r}. "
                "Leave it out where the program calls the tool by itself."
            )
        if asked.call.name != told.tool:
            raise _Wrong(
                f"`tool`: under {told.call_id!r} a model asked for {asked.call.name!r}, "
                f"not for {told.tool!r}"
            )
        return asked

    def _state(self, told: State) -> Mapping[str, Any]:
        for name, value in told.update.items():
            self._check_channel(name, value)
        # What an agent leaves may be written down when its work is over.
        run = self._run_of("agent", told.agent) if told.agent else None
        self._recorder.wrote(told.update, told.agent, run)
        return {}

    def _check_channel(self, name: str, value: JsonValue) -> None:
        if not self._channels:
            return
        channel = self._channels.get(name)
        if channel is None:
            raise _Wrong(
                f"`update`: the pipeline's file declares no channel {name!r}."
                f"{_hint(name, self._channels)} Channels: {_listed(self._channels)}."
            )
        problem = problem_of(channel.reducer_name, value)
        if problem:
            raise _Wrong(f"`update.{name}`: {problem}")

    def _run_of(self, key: str, agent: str) -> Run:
        """Returns the last run of an agent that is, or was, at work in this turn."""
        runs = self._recorder.runs
        run = self._recorder.open_run(agent) or next(
            (one for one in reversed(runs) if one.agent == agent), None
        )
        if run is None:
            names = [one.agent for one in runs]
            raise _Wrong(
                f"`{key}`: {agent!r} was not at work in this turn.{_hint(agent, names)} "
                f"Those that were: {_listed(names)}."
            )
        return run

    def _handoff(self, told: Handoff) -> Mapping[str, Any]:
        recorder, run = self._recorder, self._run_of("from", told.from_)
        asked = next(
            (
                one
                for one in recorder.requested
                if one.from_agent == told.from_ and one.to_agent == told.to
            ),
            None,
        )
        if asked is None:
            recorder.hand_over(
                told.from_,
                told.to,
                told.payload,
                type=told.type,
                query=told.query,
                run=None if run.is_over else run,
            )
            asked = recorder.requested[-1]
        if told.refused:
            recorder.refused(asked, told.refused)
        return {}


class _Wrong(Exception):
    """What a report says cannot be so; the text names the key."""


def _hint(word: str, known: Iterable[str], before: str = "") -> str:
    nearest = near(word, [*known])
    quoted = f"{before}{nearest}" if before else f"`{nearest}`"
    return f" Did you mean {quoted}?" if nearest else ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names)) or "none"


def reply_in(request: HttpRequest) -> Reply:
    """Returns what a program says to `REPLY`; raises ReportInvalid."""
    said = _read(request, Reply)
    if said.error and said.reply is not None:
        raise ReportInvalid(
            f"POST {REPLY}: a turn ends with a `reply` or an `error`, and this one has both"
        )
    return said


def turn_told(turn: UserTurn, number: int, given: Mapping[str, JsonValue]) -> HttpResponse:
    """Returns what tells a program its turn; ``given`` is what the session's state begins as."""
    told: dict[str, Any] = {
        "turn": number,
        "session": turn.session,
        "project": turn.project,
        "user": turn.text if turn.value is None else turn.value,
        "resumes": turn.resumes,
        "state": given,
    }
    return as_json(200, told)


_Report = TypeVar("_Report", bound=msgspec.Struct)


def _read(request: HttpRequest, kind: type[_Report]) -> _Report:
    path, keys = path_of(request.url), kind.__struct_encode_fields__

    def wrong(what: str) -> ReportInvalid:
        return ReportInvalid(f"POST {path}: {what} Its keys: {', '.join(keys)}.")

    try:
        said = msgspec.json.decode(request.body or b"{}")
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        raise wrong(f"the body is no JSON: {problem}.") from None
    if not isinstance(said, dict):
        raise wrong(f"the body is {_shown(said)}, and must be an object.")
    for key in said:
        if key not in keys:
            raise wrong(f"unknown key `{key}`.{_hint(key, keys)}")
    try:
        return msgspec.convert(said, kind)
    except msgspec.ValidationError as problem:
        what, _, place = str(problem).partition(" - at `$.")
        named = place.rstrip("`")
        found = f"`{named}` is {_shown(said[named])}. " if named in said else ""
        raise wrong(f"{found}{what}.") from None


def _shown(value: JsonValue) -> str:
    return short(msgspec.json.encode(value).decode(), _SHOWN)


def as_json(status: int, value: object, more: tuple[tuple[str, str], ...] = ()) -> HttpResponse:
    """Returns an answer in JSON that no client repeats."""
    headers = (("content-type", "application/json"), ("x-should-retry", "false"), *more)
    return HttpResponse(status, headers, (msgspec.json.encode(value),))
