"""Execution of a pipeline's tool calls: by the scenario, by a recording, or for real."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from simkit.adapters.model_calls import Answerer
from simkit.adapters.model_interceptor import ModelInterceptor
from simkit.adapters.recorder.sessions import ToolRequest
from simkit.adapters.recorder.trace import TraceRecorder
from simkit.adapters.server_questions import ServerQuestions
from simkit.capture.http.places import carried_call
from simkit.capture.http.request_router import Pauses
from simkit.core.context_values import Inside
from simkit.core.errors import ScriptBroken, SimkitError, ToolMissing
from simkit.core.messages import JsonValue
from simkit.core.stopping import halting_at
from simkit.core.text import exception_text, short
from simkit.language.json_schema.coercion import is_same
from simkit.language.paths import as_text
from simkit.runtime.models.faults import ToolStart
from simkit.runtime.ports import ToolReply, Tools
from simkit.runtime.tool_use import as_returned, refuse_unwrapped
from simkit.spec.scenario.moments import AT_END, AT_START
from simkit.trace.store import canonical


def received(
    args: Mapping[str, Any], request_args: JsonValue, schema: JsonValue
) -> Mapping[str, Any]:
    """Return a call's arguments without those that a framework injects: state, a context object.

    An argument is injected if it is neither in the tool's schema nor in the model's call. A
    function that takes the model's arguments under other names, or whole, has no such schema: all
    of its arguments count.
    """
    values = request_args if isinstance(request_args, Mapping) else {}
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or not {*values} <= {*args}:
        return args
    return {name: value for name, value in args.items() if name in properties or name in values}


def is_named(name: str, tool: str) -> bool:
    """Return whether a tool's name is that of a server's tool, or has a prefix before it.

    Frameworks put the server's name before: ``files_read_file``, ``mcp__files__read_file``.
    """
    before = name.removesuffix(tool)
    return before != name and (not before or not before[-1].isalnum())


def _no_result(server: str, tool: str, args: JsonValue, turn: int) -> ToolMissing:
    return ToolMissing(
        f"server `{server}` has no result for tool `{tool}` in turn {turn}.\n"
        f"It was called with {short(as_text(args), 200)}.\n"
        f"Write one in that turn: `tool_results: {{{tool}: …}}`."
    )


class ToolFailure(Exception):
    """A failure that the scenario gives for a tool."""


@dataclass(slots=True)
class _Carried:
    """A call that a framework executes, which also reaches the replaced function."""

    request: ToolRequest
    has_arrived: bool = False


class ServedCall(NamedTuple):
    """A call of a server's tool."""

    tool: str
    args: JsonValue
    request: ToolRequest
    is_recorded: bool
    """Whether a framework records its end."""
    result_name: str
    """The name under which the scenario has a result; empty if it has none."""


class _Execution(NamedTuple):
    """A call of a tool that is executed."""

    request: ToolRequest
    start: ToolStart | None
    """Its numbers, in a turn that is to end at a tool."""
    in_loop: bool
    """Whether a task makes it, which can wait for an awaitable."""


def _is_within(outer: _Carried | None, tool: str) -> bool:
    """Return whether a call of a tool's function is the one that a framework executes."""
    return outer is not None and outer.request.call.name == tool and not outer.has_arrived


def request_here() -> ToolRequest | None:
    """Return the request of the tool's call that this code executes; None outside of one."""
    carried: _Carried | None = carried_call.get()
    return carried.request if carried is not None else None


async def _awaited(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result


class ToolUse:
    """Answers each call of a tool's function, and records it; any thread may call it."""

    def __init__(
        self, recorder: TraceRecorder, gate: ModelInterceptor, tools: Tools,
        others: Answerer | None, waits_as: Callable[[str], Pauses | None] = lambda tool: None,
    ) -> None:  # fmt: skip
        """``waits_as`` returns the way in which a call of a tool waits until it is chosen.

        It returns None if the call begins at once.
        """
        self.recorder, self._gate, self._tools, self._others = recorder, gate, tools, others
        self._waits_as = waits_as
        self.reached: set[str] = set()
        """The called tools."""
        self.served: dict[str, dict[str, None]] = {}
        """Tool to the servers that have it, as far as known; they answer at the wire."""
        recorder.servers_of = self._servers_of
        self.serves_others = False
        """Whether a server may list further tools."""
        self.questions = ServerQuestions(recorder, gate, tools)
        self.halt = gate.halt
        self.end_overdue: Callable[[str, str], None] = lambda server, how: None
        """Ends the timers of clients that do not wait as long as a server took, and says so."""
        self.outlast: Callable[..., None] = lambda *facts: None
        """Lets a server never answer: `ThreadTurns.outlast`."""

    def __call__(
        self, tool: str, args: Mapping[str, Any], real: Callable[[], Any],
        request: ToolRequest | None = None, returns: Any = None,
    ) -> Any:  # fmt: skip
        """Return the result, or an awaitable of it.

        Raise the tool's failure, and RunHalted if there is no result. ``request`` is the model's
        request, if known; ``returns`` is the tool's declared return type, if it has one: an
        annotation (``returned_by(function)``), or a JSON Schema. Where a schedule orders tools,
        the call stops its thread until it is chosen.
        """
        pauses = self.waits_as(tool)
        if pauses is not None:
            pauses.sleep(0.0)
        return self._used(tool, args, real, request, returns, in_loop=False)

    async def in_loop(
        self,
        tool: str,
        args: Mapping[str, Any],
        real: Callable[[], Any],
        request: ToolRequest | None = None,
        returns: Any = None,
    ) -> Any:
        """Execute a call from a coroutine; return the result, of which nothing is to be awaited.

        Where a schedule orders tools, only the coroutine's task waits.
        """
        pauses = self.waits_as(tool)
        if pauses is not None:
            await pauses.sleep_in_loop(0.0)
        return await _awaited(self._used(tool, args, real, request, returns, in_loop=True))

    def waits_as(self, tool: str) -> Pauses | None:
        """Return the way in which a call of a tool waits until it is chosen, if it does.

        A call that a framework makes has waited already when it reaches the tool's function.
        """
        return None if _is_within(carried_call.get(), tool) else self._waits_as(tool)

    def _used(
        self, tool: str, args: Mapping[str, Any], real: Callable[[], Any],
        request: ToolRequest | None, returns: Any, *, in_loop: bool, is_stand_in: bool = False,
    ) -> Any:  # fmt: skip
        """Return the result, or only if ``in_loop`` an awaitable of one that was none."""
        self._gate.wait_turn()
        with self._gate.lock:
            self._gate.refuse_crashed()
            request, arguments = self._request_of(tool, args, request)
            call = _Execution(request, self._gate.begin_tool(request), in_loop)
            # A call at which the turn ends was never made.
            is_cancelled = self._gate.end_turn_if_due(call.start, AT_START)

        def go_on() -> Any:
            with self._gate.lock:
                self.recorder.tool_called(request, arguments)
                if is_scripted := self.is_scripted(tool):
                    scripted = self._scripted(call, arguments, returns, is_stand_in=is_stand_in)
            if is_scripted:
                return self._after_latency(call, *scripted)
            return self._observed(call, real)

        return self._settled(go_on) if is_cancelled and in_loop else go_on()

    async def _settled(self, go_on: Callable[[], Any]) -> Any:
        """Go on with a call that its cancellation does not reach."""
        await self._gate.settle()
        return await _awaited(go_on())

    def _end(self, call: _Execution, finish: Callable[[], Any]) -> Any:
        """Finish a call, unless the turn ends here; a task that is cancelled waits for that."""
        is_cancelled = self._gate.end_turn_if_due(call.start, AT_END)
        return self._settled(finish) if is_cancelled and call.in_loop else finish()

    def is_scripted(self, tool: str) -> bool:
        """Return whether the scenario answers a tool here, not at a server."""
        is_served = any(is_named(tool, each) for each in self.served)
        return not is_served and self._tools.has_result_for(tool)

    def serve(self, tool: str, server: str) -> None:
        """Note that a server has a tool."""
        self.served.setdefault(tool, {})[server] = None

    def _servers_of(self, tool: str) -> tuple[str, ...]:
        """Return the servers that have an offered tool: one, if its name says which."""
        if tool in self.served:
            return tuple(self.served[tool])
        lists = (servers for each, servers in self.served.items() if is_named(tool, each))
        named = {*chain.from_iterable(lists)}
        prefixed = [server for server in named if server in tool]
        return tuple(named if len(named) == 1 else prefixed[:1])

    def begin_for_server(self, server: str, tool: str, args: JsonValue) -> ServedCall:
        """Begin a call that has reached a server.

        A call that a framework executes is recorded already; that of plain code is recorded here.
        """
        recorder, arguments = self.recorder, canonical(args)
        with self._gate.lock:
            executing = recorder.executing(lambda name: is_named(name, tool), arguments)
            request = next((each for each in executing if not each.server), None)
            is_recorded = request is not None
            if request is None:
                request = self._request_for(tool, arguments, [*recorder.pending(tool)])
                recorder.tool_called(request, arguments)
            request.server = server
            names = (f"{server}/{tool}", request.call.name, tool)
            self.reached.update(names)
            name = next((name for name in names if self._tools.has_result_for(name)), "")
            return ServedCall(tool, arguments, request, is_recorded, name)

    def end_for_server(self, call: ServedCall, result: JsonValue, error: str) -> None:
        """End a call that a server has answered."""
        if not call.is_recorded:
            with self._gate.lock:
                self.recorder.tool_answered(call.request, result, error)

    def scripted_for_server(self, call: ServedCall) -> ToolReply:
        """Return the scripted answer of a server's tool, and end its call."""
        recorder = self.recorder
        with self._gate.lock:
            with halting_at(self.halt, (ToolMissing, ScriptBroken)):
                if not call.result_name:
                    server = call.request.server
                    prefix = f"{server}/" if len(self.served[call.tool]) > 1 else ""
                    raise _no_result(server, prefix + call.tool, call.args, recorder.turn)
                answer = self._tools.call(call.request.agent, call.result_name, call.args)
            recorder.clock.advance_to(recorder.clock.now + answer.latency_ms)
            how = f"took {answer.latency_ms / 1_000:g} s to answer {call.tool}"
            self.end_overdue(call.request.server, how)
            self.end_for_server(call, answer.result, answer.error or "")
            return answer

    def record_call(
        self, tool: str, args: Mapping[str, Any], request: ToolRequest | None, result: Any,
        error: str,
    ) -> None:  # fmt: skip
        """Record a call that was executed elsewhere, whatever the scenario scripts."""
        with self._gate.lock:
            request, arguments = self._request_of(tool, args, request)
            self.recorder.tool_called(request, arguments)
            self.recorder.tool_answered(request, canonical(result), error)

    def _request_of(
        self, tool: str, args: Mapping[str, Any], request: ToolRequest | None
    ) -> tuple[ToolRequest, JsonValue]:
        """Return the request that a call executes, and its arguments."""
        pending = [request] if request is not None else [*self.recorder.pending(tool)]
        if pending:
            args = received(args, pending[0].call.args, self.recorder.schema_of(tool))
        arguments = canonical(args)
        request = request or self._request_for(tool, arguments, pending)
        if request.is_answered:  # It is executed again: each attempt has its own end.
            request = msgspec.structs.replace(request, is_answered=False)
        self.reached.add(tool)
        return request, arguments

    def stand_in(
        self, tool: str, args: Mapping[str, Any], real: Callable[[], Any], *, returns: Any,
        in_loop: bool,
    ) -> Any:  # fmt: skip
        """Answer a call of a function in ``app.tools`` that has waited until it was chosen.

        A call that a framework makes to execute the tool's call is the same call.
        """
        outer = carried_call.get()
        if outer is not None and _is_within(outer, tool):
            outer.has_arrived = True
            return real()

        def arrived() -> Any:
            carried = carried_call.get()
            if carried is not None:
                carried.has_arrived = True  # Its own further calls are separate ones.
            return real()

        return self._used(tool, args, arrived, None, returns, in_loop=in_loop, is_stand_in=True)

    def _request_for(
        self, tool: str, args: JsonValue, pending: Sequence[ToolRequest]
    ) -> ToolRequest:
        """Return the model's request for a call: its run's own, by arguments, else the oldest."""
        run = self._gate.run_here()
        pending = [candidate for candidate in pending if candidate.run is run] or pending
        request = next(
            (candidate for candidate in pending if candidate.call.args == args), None
        ) or next((candidate for candidate in pending if is_same(candidate.call.args, args)), None)
        if request is not None or pending:
            return request or pending[0]
        return self.recorder.called_by_code(tool, args, run)

    def _scripted(
        self, call: _Execution, args: JsonValue, returns: Any, *, is_stand_in: bool
    ) -> tuple[ToolReply, Any]:
        """Return the scenario's answer, and its result as the code expects it."""
        request = call.request
        with self._gate.lock, halting_at(self.halt, (ToolMissing, ScriptBroken)):
            answer = self._tools.call(request.agent, request.call.name, args)
            refuse_unwrapped(request.call.name, answer, returns)
            result = answer.result
            if is_stand_in:  # Frameworks take plain results, code what its function returns.
                result = as_returned(request.call.name, answer, returns)
        return answer, result

    def _after_latency(self, call: _Execution, answer: ToolReply, result: Any) -> Any:
        """Return a scripted result, or an awaitable of it, once its latency has passed.

        The thread or task sleeps meanwhile, so that a timeout around the tool can end it.
        """

        def finish() -> Any:
            with self._gate.lock:
                self.recorder.tool_answered(call.request, answer.result, answer.error or "")
            if answer.error is not None:
                raise ToolFailure(answer.error)
            return result

        pauses, seconds = self._gate.pauses, answer.latency_ms / 1_000

        async def finish_later() -> Any:
            await pauses.sleep_in_loop(seconds)
            return await _awaited(self._end(call, finish))

        if seconds and call.in_loop:
            return finish_later()
        if seconds:
            pauses.sleep(seconds)
        return self._end(call, finish)

    def _carried_out(self, request: ToolRequest, real: Callable[[], Any]) -> Any:
        """Call a tool, or use its recorded result; raise RunHalted if there is none."""
        others = self._others
        if others is None or not others.records(request.call.name):
            return real()
        with halting_at(self.halt):
            return others.carried_out(request, self.recorder, real)

    def _observed(self, call: _Execution, real: Callable[[], Any]) -> Any:
        """Return a result that is recorded as soon as it is complete."""
        carried = _Carried(call.request)
        try:
            with Inside(carried_call, carried):
                result = self._carried_out(call.request, real)
        except Exception as problem:
            self._failed(call, problem)
            raise
        if inspect.isawaitable(result):
            return self._awaited(call, result, carried)
        if inspect.isasyncgen(result):
            return self._async_items(call, result)
        if inspect.isgenerator(result):
            return self._items(call, result)
        return self._end(call, lambda: self._returned(call, result))

    async def _awaited(self, call: _Execution, result: Awaitable[Any], carried: _Carried) -> Any:
        try:
            with Inside(carried_call, carried):
                value = await result
        except SimkitError as problem:
            raise self._gate.halt(problem) from problem
        except Exception as problem:
            self._failed(call, problem)
            raise
        if self._gate.end_turn_if_due(call.start, AT_END):
            await self._gate.settle()
        return self._returned(call, value)

    @contextmanager
    def _collecting(self, call: _Execution, items: list[Any]) -> Iterator[None]:
        """Record the items of a generator as its result, or its failure."""
        try:
            yield
        except GeneratorExit:  # The reader wants no more: the items so far are the result.
            self._returned(call, items)
            raise
        except Exception as problem:
            self._failed(call, problem)
            raise

    def _items(self, call: _Execution, items: Iterator[Any]) -> Iterator[Any]:
        results = list[Any]()
        with self._collecting(call, results):
            for item in items:
                results.append(item)
                yield item
        self._gate.end_turn_if_due(call.start, AT_END)
        self._returned(call, results)

    async def _async_items(self, call: _Execution, items: AsyncIterator[Any]) -> AsyncIterator[Any]:
        results = list[Any]()
        with self._collecting(call, results):
            async for item in items:
                results.append(item)
                yield item
        if self._gate.end_turn_if_due(call.start, AT_END):
            await self._gate.settle()
        self._returned(call, results)

    def _returned(self, call: _Execution, result: Any) -> Any:
        with self._gate.lock:
            self.recorder.tool_answered(call.request, canonical(result))
        return result

    def _failed(self, call: _Execution, problem: Exception) -> None:
        self._gate.end_turn_if_due(call.start, AT_END)
        with self._gate.lock:
            self.recorder.tool_answered(call.request, error=exception_text(problem))
