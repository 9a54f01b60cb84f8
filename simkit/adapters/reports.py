"""What a program in another process tells of itself: ``POST`` requests below ``/simkit``.

A model call shows what an agent was sent. What no request shows, the program says in one request
each: that an agent goes to work and with what, its output, state, handoffs, tools.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from simkit.adapters.activations import Run
from simkit.adapters.scribe import Scribe
from simkit.adapters.tool_use import ToolFailure, ToolUse
from simkit.errors import ReportInvalid
from simkit.messages import JsonValue
from simkit.ports import UserTurn
from simkit.source import near
from simkit.wire.http import HttpRequest, HttpResponse, path_of

ROOT: Final = "/simkit/"
NEXT: Final = f"{ROOT}next"
"""A POST to this path begins the next turn, and is told it; 204 says that there is none."""
REPLY: Final = f"{ROOT}reply"
"""A POST to this path says the turn's ``reply``, or the ``error`` with which it ends."""


class Started(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An agent goes to work."""

    agent: str
    input: JsonValue = None
    """What it is given."""
    goal: str = ""
    """What it works for, where there are goals."""


class Finished(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An agent is done."""

    agent: str
    output: JsonValue = None
    """What it puts out, where that is not what its model said last."""
    failed: bool = False


class ToolCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool is about to be carried out: the answer says its result, where the scenario has one."""

    tool: str
    args: dict[str, Any] = {}
    call_id: str = ""
    """The id under which the model asked for it, where it did."""


class ToolResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool was carried out by the program."""

    tool: str
    args: dict[str, Any] = {}
    call_id: str = ""
    result: JsonValue = None
    error: str = ""


class State(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Channels are written."""

    update: dict[str, Any]
    agent: str = ""


class Handoff(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Control is to pass to another agent; it has when that agent goes to work."""

    from_: str = msgspec.field(name="from")
    to: str
    payload: JsonValue = None
    type: str | None = None
    query: str | None = None
    refused: str = ""
    """Why it is not made after all."""


class Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a turn ends."""

    reply: JsonValue = None
    error: str = ""


class Reports:
    """Takes what the program tells down as events."""

    def __init__(self, scribe: Scribe, use: ToolUse, has_result: Callable[[str], bool]) -> None:
        """``has_result`` says whether the scenario answers a tool in this turn."""
        self._scribe, self._use, self._has_result = scribe, use, has_result
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
            raise self._unknown(f"{request.method} {path}", said)
        kind, take = self._kinds[said]
        return as_json(200, take(_read(request, kind)))

    def tells_end_of(self, run: Run) -> bool:
        """Whether the program says itself when a run is over."""
        return run.id in self._told

    def _unknown(self, asked: str, said: str) -> ReportInvalid:
        known = [*self._kinds, "next", "reply"]
        nearest = near(said, known)
        hint = f" Did you mean POST {ROOT}{nearest}?" if nearest else ""
        listed = ", ".join(f"POST {ROOT}{one}" for one in known)
        return ReportInvalid(f"{asked} is nothing that a program can tell.{hint} Known: {listed}.")

    def _run_of(self, agent: str) -> Run | None:
        return self._scribe.open_run(agent) if agent else None

    def _started(self, told: Started) -> Mapping[str, Any]:
        run = self._scribe.begin_run(told.agent, task=told.input, goal=told.goal)
        self._told.add(run.id)
        return {"run": run.id}

    def _finished(self, told: Finished) -> Mapping[str, Any]:
        run = self._run_of(told.agent)
        if run is None:
            raise ReportInvalid(
                f"POST {ROOT}finished: agent {told.agent!r} is not at work in this turn"
            )
        self._scribe.end_run(run, "failed" if told.failed else "done", told.output)
        return {}

    def _tool(self, told: ToolCall) -> Mapping[str, Any]:
        self.asks_tools = True
        if not self._has_result(told.tool):
            return {"scripted": False}
        asked = self._scribe.asked(told.call_id) if told.call_id else None
        try:
            result = self._use(told.tool, told.args, lambda: None, asked)
        except ToolFailure as problem:
            return {"scripted": True, "error": str(problem)}
        return {"scripted": True, "result": result}

    def _tool_result(self, told: ToolResult) -> Mapping[str, Any]:
        asked = self._scribe.asked(told.call_id) if told.call_id else None

        def real() -> JsonValue:
            if told.error:
                raise ToolFailure(told.error)
            return told.result

        try:
            self._use(told.tool, told.args, real, asked)
        except ToolFailure:
            return {}
        return {}

    def _state(self, told: State) -> Mapping[str, Any]:
        # What an agent leaves may be written down when its work is over.
        runs = reversed(self._scribe.runs)
        run = next((one for one in runs if told.agent and one.agent == told.agent), None)
        self._scribe.wrote(told.update, told.agent, run)
        return {}

    def _handoff(self, told: Handoff) -> Mapping[str, Any]:
        scribe, run = self._scribe, self._run_of(told.from_)
        asked = next(
            (one for one in scribe.requested
             if one.from_agent == told.from_ and one.to_agent == told.to), None,
        )  # fmt: skip
        if asked is None:
            scribe.hand_over(
                told.from_, told.to, told.payload, type=told.type, query=told.query, run=run
            )
            asked = scribe.requested[-1]
        if told.refused:
            scribe.refused(asked, told.refused)
        return {}


def reply_in(request: HttpRequest) -> Reply:
    """Returns what a program says to `REPLY`; raises ReportInvalid."""
    return _read(request, Reply)


def turn_told(turn: UserTurn, number: int, given: Mapping[str, JsonValue]) -> HttpResponse:
    """Returns what tells a program its turn; ``given`` is what the session's state begins as."""
    told: dict[str, Any] = {
        "turn": number, "session": turn.session, "project": turn.project,
        "user": turn.text if turn.value is None else turn.value, "resumes": turn.resumes,
        "state": given,
    }  # fmt: skip
    return as_json(200, told)


_Report = TypeVar("_Report", bound=msgspec.Struct)


def _read(request: HttpRequest, kind: type[_Report]) -> _Report:
    try:
        return msgspec.json.decode(request.body or b"{}", type=kind)
    except msgspec.MsgspecError as problem:
        path, keys = path_of(request.url), ", ".join(kind.__struct_encode_fields__)
        raise ReportInvalid(f"POST {path}: {problem}. Its keys: {keys}.") from None


def as_json(status: int, value: object, more: tuple[tuple[str, str], ...] = ()) -> HttpResponse:
    """Returns an answer in JSON that no client repeats."""
    headers = (("content-type", "application/json"), ("x-should-retry", "false"), *more)
    return HttpResponse(status, headers, (msgspec.json.encode(value),))
