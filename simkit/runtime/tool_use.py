"""One run's tool calls: requests, parallel execution, answers, records."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence, Set
from dataclasses import is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from operator import attrgetter
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import msgspec
from pydantic import BaseModel, PydanticUserError, TypeAdapter, ValidationError

from simkit.core.errors import ScriptBroken, ScriptMisfit
from simkit.core.messages import ABSENT, HANDOFF_PREFIX, Calls, Handoff, JsonValue, ToolCall
from simkit.core.text import guess, short
from simkit.language.json_schema import place_text, schema_errors
from simkit.language.json_schema.schemas import types_in
from simkit.language.paths import as_text, lookup
from simkit.runtime.context.rendering import plain
from simkit.runtime.models.faults import ToolStart
from simkit.runtime.ports import ToolReply, WaitingCall
from simkit.runtime.scheduler import Steps, WaitForAll
from simkit.runtime.turn import Turn
from simkit.spec.scenario.moments import AT_END, AT_START, TOOL_MARK
from simkit.trace.store import canonical

# Approvals: the user's decisions on calls and handoffs that wait for them. Pure.


_ADVICE = (
    "Decide with `true`, `false`, `{message: why not}` or `{override_args: {…}}`; on several calls "
    "with a mapping, tool to decision, or a list in the order of the question."
)


class Decision(msgspec.Struct, frozen=True):
    """The user's decision on one call."""

    is_approved: bool
    args: Any = None
    """The arguments that the user has put in place of the model's; None for the model's own."""
    reason: str = "the user does not approve it"


def decisions_in(answer: Any, calls: Sequence[ToolCall], turn: Turn) -> list[Decision]:
    """Return the decisions on calls, in their order; raise ScriptMisfit if an answer is none."""
    if isinstance(answer, list) and len(answer) == len(calls):
        values = answer
    elif isinstance(answer, Mapping) and not answer.keys() & {"message", "override_args"}:
        unknown = [name for name in answer if all(each.name != name for each in calls)]
        if unknown:
            raise _misfit(turn, f"decides on `{unknown[0]}`, but no call of it waits")
        values = [answer.get(each.name) for each in calls]
    else:
        values = [answer] * len(calls)
    return [_decision(value, call, turn) for value, call in zip(values, calls, strict=True)]


def _decision(value: Any, call: ToolCall, turn: Turn) -> Decision:
    if isinstance(value, bool):
        return Decision(value)
    match value:
        case {"message": str(reason)} if len(value) == 1:
            return Decision(False, reason=reason)
        case {"override_args": dict(args)} if len(value) == 1:
            schema = turn.compiled.tool_args.get(call.name)
            schema = True if schema is None else schema
            for path, problem in schema_errors(schema, args, turn.compiled.schemas):
                raise _misfit(turn, f"changes `{call.name}`{place_text(path)}: {problem}")
            return Decision(True, args)
    raise _misfit(turn, f"decides `{short(as_text(value), 80)}` on `{call.name}`")


def changed_handoff(args: Mapping[str, Any], reply: Handoff, turn: Turn) -> Handoff:
    """Return a handoff with the user's arguments; raise ScriptMisfit for unknown ones."""
    try:
        return Handoff(reply.to, **{"type": reply.type, **args})
    except TypeError:
        raise _misfit(turn, "changes a handoff, which has `type`, `query` and `payload`") from None


def _misfit(turn: Turn, problem: str) -> ScriptMisfit:
    at = ("turns", turn.number - 1, "resume")
    return ScriptMisfit(f"turn {turn.number} {problem}.\n{_ADVICE}", at)


_LISTS: Final = frozenset(("array", "null"))
_SHOWN_MAX: Final = 200
_BUILT: Final = (BaseModel, Enum, date, time, timedelta, Decimal, UUID)
"""Types, beside dataclasses, that code expects where JSON has a mapping, a text or a number."""


def returned_by(function: Callable[..., Any] | None) -> Any:
    """Return the return annotation of a function; None if it has none.

    Other annotations are not evaluated: a parameter may name a type that only type checkers know.
    """
    while isinstance(function, partial):
        function = function.func
    if function is None:
        return None
    called = function if inspect.isroutine(function) else type(function).__call__
    wrapped: Any = inspect.unwrap(called)
    wrapped = getattr(wrapped, "__func__", wrapped)
    declared = getattr(wrapped, "__annotations__", {}).get("return")
    only = SimpleNamespace(__annotations__={"return": declared})
    try:
        return get_type_hints(only, globalns=getattr(wrapped, "__globals__", {})).get("return")
    except Exception:  # The name does not exist, or only for type checkers.
        return None


def refuse_unwrapped(
    tool: str, answer: ToolReply, returns: Any, schemas: Mapping[str, Any] | None = None
) -> None:
    """Raise ScriptBroken for one of several results if the tool always returns a list.

    ``returns`` is the annotation of its function or a JSON Schema; None if neither is known.
    """
    if answer.at is None or answer.error is not None or isinstance(answer.result, list):
        return
    kinds = _kinds_in(returns, schemas or {})
    if "array" not in kinds or not kinds <= _LISTS:
        return
    if answer.result is None and "null" in kinds:
        return
    excerpt = short(msgspec.json.encode(canonical(answer.result)).decode(), _SHOWN_MAX)
    raise ScriptBroken(
        f"tool {tool!r} returns a list, and its results answer one call each: this call would get "
        f"{excerpt} alone.\nWrite `{tool}: {{returns: [{excerpt}]}}` for a list that answers every "
        "call, or a list of lists for one call after the other.",
        answer.at,
    )


def as_returned(tool: str, answer: ToolReply, returns: Any) -> Any:
    """Return a result as the function's annotation says: dataclasses, models, dates; lists of them.

    Anything else is left as it is. Raise ScriptMisfit for a mapping that does not fit the model.
    """
    value = answer.result
    if value is None or answer.error is not None or not any(map(_is_built, _types_in(returns))):
        return value
    try:
        return TypeAdapter(returns).validate_python(value)
    except ValidationError as problem:
        if not answer.path or not isinstance(value, (Mapping, list)):
            return value
        first = problem.errors()[0]
        path = ".".join(map(str, first["loc"]))
        raise ScriptMisfit(
            f"tool {tool!r} returns a `{_name_of(returns)}`, and its result is none: "
            f"{path}: {first['msg']}",
            answer.path,
        ) from problem
    except (PydanticUserError, NameError, TypeError):  # A type that has no schema.
        return value


def _name_of(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _types_in(annotation: Any) -> Iterator[Any]:
    """Yield the types of an annotation: of a union, a list, a mapping those inside."""
    inner = get_args(annotation)
    if not inner:
        yield annotation
    elif _is_plain(get_origin(annotation)):
        for arg in inner:
            yield from _types_in(arg)


def _is_plain(origin: Any) -> bool:
    """Return whether a generic type is a union, a list or a mapping, which JSON has."""
    return origin in (Union, UnionType, Annotated) or (
        isinstance(origin, type) and issubclass(origin, (Sequence, Set, Mapping))
    )


def _is_built(kind: Any) -> bool:
    """Return whether values of a type are made of JSON: a model's, a dataclass's, a date."""
    return isinstance(kind, type) and (is_dataclass(kind) or issubclass(kind, _BUILT))


def _kinds_in(returns: Any, schemas: Mapping[str, Any]) -> frozenset[str]:
    if isinstance(returns, Mapping):
        return types_in(returns, schemas) or frozenset()
    return frozenset(_kinds_of(returns))


def _kinds_of(annotation: Any) -> Iterator[str]:
    """Yield the JSON kinds of an annotated type: lists, null, or something else."""
    origin = get_origin(annotation)
    if isinstance(annotation, UnionType) or origin is Union:
        for arg in get_args(annotation):
            yield from _kinds_of(arg)
        return
    named = getattr(annotation, "__supertype__", None) or getattr(annotation, "__value__", None)
    if named is not None:
        yield from _kinds_of(named)
        return
    kind: Any = origin or annotation
    if annotation is type(None):
        yield "null"
    elif not isinstance(kind, type):
        yield ""
    elif issubclass(kind, Awaitable) and get_args(annotation):
        yield from _kinds_of(get_args(annotation)[-1])
    elif issubclass(kind, (Sequence, Set)) and not issubclass(kind, (str, bytes, bytearray)):
        yield "array"
    else:
        yield ""


# Tool calls


CALL: Final = "call"
"""The prefix of the ids of calls."""
_encode = msgspec.json.Encoder().encode


class Answered(msgspec.Struct, frozen=True, gc=False):
    """A call, its answer, and the virtual times of its start and end."""

    call: ToolCall
    reply: ToolReply
    started: int
    ended: int

    @property
    def number(self) -> int:
        """Return the number of the call, which counts on from call to call."""
        return int(self.call.id.removeprefix(CALL))


class ToolUse(msgspec.Struct, eq=False):
    """The tools that one run has called."""

    _turn: Turn
    _agent: str
    _run: str
    _answered: list[Answered] = []
    """In the order of the answers."""
    _starts: dict[str, ToolStart | None] = {}
    """Call id to its numbers, in a turn that is to end at a tool."""

    def continue_as(self, run: str) -> None:
        """Call tools for another run from now on: one that asked the user continues as that."""
        self._run = run

    def calls_of(self, reply: Calls) -> tuple[ToolCall, ...]:
        """Return the calls of a reply with new ids."""
        numbers = self._turn.numbers
        calls: list[ToolCall] = []
        for line in reply.calls:
            numbers.calls += 1
            # An agent's tool may be named as a handoff is.
            is_ordinary = line.tool.startswith(HANDOFF_PREFIX)
            calls.append(
                ToolCall(f"{CALL}{numbers.calls}", line.tool, line.args, is_ordinary=is_ordinary)
            )
        return tuple(calls)

    # Values for templates and later runs

    @property
    def names(self) -> list[str]:
        """Return the tools in the order of their answers."""
        return [answered.call.name for answered in self._answered]

    @property
    def results(self) -> dict[str, Any]:
        """Return each tool's last result: two calls of one tool collide.

        That is as in reference system 1.
        """
        return {
            answered.call.name: answered.reply.result
            for answered in self._answered
            if answered.reply.error is None
        }

    @property
    def records(self) -> list[dict[str, Any]]:
        """Return every call with its answer and its virtual times, in the order of the calls."""
        iso = self._turn.clock.iso
        return [
            {
                "call_id": answered.call.id,
                "tool": answered.call.name,
                "args": answered.call.args,
                "result": answered.reply.result,
                "error": answered.reply.error,
                "called_at": iso(answered.started),
                "returned_at": iso(answered.ended),
            }
            for answered in sorted(self._answered, key=attrgetter("number"))
        ]

    @property
    def timestamps(self) -> dict[str, dict[str, str]]:
        """Return the virtual times of the start and end of each call, by its id."""
        iso = self._turn.clock.iso
        return {
            answered.call.id: {
                "executedAt": iso(answered.started), "returnedAt": iso(answered.ended)
            }
            for answered in self._answered
        }  # fmt: skip

    # The calls

    def call(self, calls: Sequence[ToolCall], state: Mapping[str, Any]) -> Steps:
        """Call all at once, and return the answers in the order of the calls.

        ``state`` is the state that the run sees.
        """
        turn, schedule = self._turn, self._turn.schedule
        started = turn.clock.now
        if not turn.plan.ends_at_tool:  # A call at which the turn ends was never made.
            for call in calls:
                self._begin(call)
        if not schedule.answers_at_once and schedule.orders_tools and len(calls) > 1:
            answers = [self._answer_in_order(call, state, started) for call in calls]
            return (yield WaitForAll(answers))
        turn.compiled.functions.caller = self._agent
        replies = [self._answer(call, state) for call in calls]
        # Each answer is recorded when it comes.
        for index in sorted(range(len(calls)), key=lambda index: replies[index].latency_ms):
            wait = started + replies[index].latency_ms - turn.clock.now
            if wait > 0:
                yield wait
            self._record(calls[index], replies[index], started)
        return replies

    def _answer_in_order(self, call: ToolCall, state: Mapping[str, Any], started: int) -> Steps:
        """Answer one of several calls when the schedule chooses it; return the reply."""
        yield WaitingCall(f"{call.name}{TOOL_MARK}", call.id)
        self._turn.compiled.functions.caller = self._agent
        reply = self._answer(call, state)
        if reply.latency_ms:
            yield reply.latency_ms
        self._record(call, reply, started)
        return reply

    def _begin(self, call: ToolCall) -> None:
        turn = self._turn
        turn.recorder.record_tool_call(
            turn.position(self._agent, self._run), call_id=call.id, tool=call.name, args=call.args
        )

    def _answer(self, call: ToolCall, state: Mapping[str, Any]) -> ToolReply:
        """Return the reply to a call, or a failure if the tool's schema rejects its result.

        Raise ScriptBroken if the scenario says such a result.
        """
        turn, name = self._turn, call.name
        if turn.plan.ends_at_tool:
            self._starts[call.id] = turn.plan.begin_tool(self._agent, name)
            self._end_turn_if_due(call, AT_START)
            self._begin(call)
        compiled, tools = turn.compiled, turn.tools
        if name not in compiled.tool_names:
            # Only a line with `unchecked` says this: models make such calls, too.
            return ToolReply(None, f"there is no tool {name!r}")
        if name in compiled.tool_reads and not tools.has_result_for(name):
            channel = compiled.tool_reads[name]
            reply = looked_up(channel, state.get(channel), call.args)
        else:
            reply = tools.call(self._agent, name, call.args)
        return self._valid(call, reply) if name in compiled.tool_returns else reply

    def _end_turn_if_due(self, call: ToolCall, at: str) -> None:
        """Raise TurnCut if the turn ends at the start or at the end of a call."""
        cut = self._turn.plan.due_at_tool(self._starts[call.id], at)
        if cut is not None:
            raise cut

    def _valid(self, call: ToolCall, reply: ToolReply) -> ToolReply:
        compiled = self._turn.compiled
        schema = compiled.tool_returns[call.name]
        if reply.error is not None:
            return reply
        refuse_unwrapped(call.name, reply, schema, compiled.schemas)
        for path, text in schema_errors(schema, reply.result, compiled.schemas):
            error = f"the result of tool {call.name!r}{place_text(path)}: {text}"
            if not reply.is_unchecked:
                raise ScriptBroken(
                    f"{error}\nThe pipeline says what the tool `returns`. Write such a result, or "
                    "let the call fail as with a real one: `{returns: …, unchecked: true}`.",
                    reply.path or ("turns", self._turn.number - 1),
                )
            return ToolReply(None, error, reply.latency_ms)
        return reply

    def _record(self, call: ToolCall, reply: ToolReply, started: int) -> None:
        turn, recorder = self._turn, self._turn.recorder
        if turn.plan.ends_at_tool:
            self._end_turn_if_due(call, AT_END)
        self._answered.append(Answered(call, reply, started, recorder.clock.now))
        position = turn.position(self._agent, self._run)
        if reply.error is not None:
            recorder.record_tool_failure(
                position, call_id=call.id, tool=call.name, error=reply.error
            )
        else:
            recorder.record_tool_result(
                position, call_id=call.id, tool=call.name, result=reply.result
            )


def heard_as(reply: ToolReply) -> tuple[str, JsonValue]:
    """Return a tool's answer as the model gets it, and the value that its text was made from.

    The value is None if the answer was a text.
    """
    result = reply.result
    if reply.error is not None:
        return reply.error, None
    if type(result) is not dict and isinstance(result, str):
        return result, None
    return _encode(canonical(result)).decode(), result


# Tools that query a channel: an agent reads the part of the state that it needs


NAMES_MAX: Final = 12
"""The number of keys in an error."""


def looked_up(channel: str, value: Any, args: Any) -> ToolReply:
    """Return the value at ``args["path"]`` of a channel, or an error with the existing keys."""
    path = str(args.get("path", "")) if isinstance(args, Mapping) else ""
    value_there = lookup(value, path) if path else value
    if value_there is not ABSENT:
        return ToolReply(plain(value_there))
    paths = list(_paths(value))
    hint = guess(path, paths)
    names_text = ", ".join(paths[:NAMES_MAX]) or "nothing"
    if len(paths) > NAMES_MAX:
        names_text += f", … {len(paths) - NAMES_MAX} more"
    return ToolReply(error=f"nothing is at `{path}` in `{channel}`.{hint} There is: {names_text}")


def _paths(value: Any, above: str = "", depth: int = 2) -> Iterator[str]:
    """Yield the paths of a value's first levels."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            path = f"{above}.{key}" if above else str(key)
            yield path
            if depth > 1:
                yield from _paths(inner, path, depth - 1)
    elif isinstance(value, Sequence) and not isinstance(value, str) and len(value):
        yield f"{above}[0]"
