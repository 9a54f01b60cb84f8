"""Execution of a pipeline's tool calls: by the scenario, by a recording, or for real."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from simkit.adapters.model_calls import Answerer
from simkit.adapters.model_interceptor import ModelInterceptor
from simkit.adapters.recorder.sessions import ToolRequest
from simkit.adapters.recorder.trace import TraceRecorder
from simkit.capture.http.request_router import Pauses
from simkit.core.context_values import set_until_reset
from simkit.core.errors import ScriptBroken, SimkitError, ToolMissing
from simkit.core.messages import JsonValue
from simkit.core.text import exception_text
from simkit.language.json_schema.coercion import is_same
from simkit.runtime.models.faults import ToolStart
from simkit.runtime.models.returned import as_returned, refuse_unwrapped
from simkit.runtime.ports import Tools
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


class ToolFailure(Exception):
    """A failure that the scenario gives for a tool."""


@dataclass(slots=True)
class _Carried:
    """A call that a framework executes, which also reaches the replaced function."""

    tool: str
    has_arrived: bool = False


class _Execution(NamedTuple):
    """A call of a tool that is executed."""

    request: ToolRequest
    start: ToolStart | None
    """Its numbers, in a turn that is to end at a tool."""
    in_loop: bool
    """Whether a task makes it, which can wait for an awaitable."""


def _is_within(outer: _Carried | None, tool: str) -> bool:
    """Return whether a call of a tool's function is the one that a framework executes."""
    return outer is not None and outer.tool == tool and not outer.has_arrived


_carried: Final = ContextVar[_Carried | None]("simkit_carried_call", default=None)


@contextmanager
def _carrying(call: _Carried) -> Iterator[None]:
    before = set_until_reset(_carried, call, None)
    try:
        yield
    finally:
        _carried.reset(before)


class ToolUse:
    """Answers each call of a tool's function, and records it; any thread may call it."""

    def __init__(
        self,
        recorder: TraceRecorder,
        gate: ModelInterceptor,
        tools: Tools,
        others: Answerer | None,
        waits_as: Callable[[str], Pauses | None] = lambda tool: None,
    ) -> None:
        """``waits_as`` returns the way in which a call of a tool waits until it is chosen.

        It returns None if the call begins at once.
        """
        self._recorder, self._gate, self._tools, self._others = recorder, gate, tools, others
        self._waits_as = waits_as
        self.reached: set[str] = set()
        """The called tools."""

    def __call__(
        self,
        tool: str,
        args: Mapping[str, Any],
        real: Callable[[], Any],
        request: ToolRequest | None = None,
        returns: Any = None,
    ) -> Any:
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
        result = self._used(tool, args, real, request, returns, in_loop=True)
        return await result if inspect.isawaitable(result) else result

    def waits_as(self, tool: str) -> Pauses | None:
        """Return the way in which a call of a tool waits until it is chosen, if it does.

        A call that a framework makes has waited already when it reaches the tool's function.
        """
        return None if _is_within(_carried.get(), tool) else self._waits_as(tool)

    def _used(
        self,
        tool: str,
        args: Mapping[str, Any],
        real: Callable[[], Any],
        request: ToolRequest | None,
        returns: Any,
        *,
        in_loop: bool,
        is_stand_in: bool = False,
    ) -> Any:
        """Return the result, or only if ``in_loop`` an awaitable of one that was none."""
        self._gate.wait_turn()
        with self._gate.lock:
            self._gate.refuse_crashed()
            request, plain = self._request_of(tool, args, request)
            call = _Execution(request, self._gate.begin_tool(request), in_loop)
            # A call at which the turn ends was never made.
            is_cancelled = self._gate.end_turn_if_due(call.start, AT_START)

        def go_on() -> Any:
            with self._gate.lock:
                self._recorder.tool_called(request, plain)
                if self._tools.has_result_for(tool):
                    return self._scripted(call, plain, returns, is_stand_in=is_stand_in)
            return self._observed(call, real)

        return self._settled(go_on) if is_cancelled and in_loop else go_on()

    async def _settled(self, go_on: Callable[[], Any]) -> Any:
        """Go on with a call that its cancellation does not reach."""
        await self._gate.settle()
        result = go_on()
        return await result if inspect.isawaitable(result) else result

    def _end(self, call: _Execution, finish: Callable[[], Any]) -> Any:
        """Finish a call, unless the turn ends here; a task that is cancelled waits for that."""
        is_cancelled = self._gate.end_turn_if_due(call.start, AT_END)
        return self._settled(finish) if is_cancelled and call.in_loop else finish()

    def record_call(
        self,
        tool: str,
        args: Mapping[str, Any],
        request: ToolRequest | None,
        result: Any,
        error: str,
    ) -> None:
        """Record a call that was executed elsewhere, whatever the scenario scripts."""
        with self._gate.lock:
            request, plain = self._request_of(tool, args, request)
            self._recorder.tool_called(request, plain)
            self._recorder.tool_answered(request, canonical(result), error)

    def _request_of(
        self, tool: str, args: Mapping[str, Any], request: ToolRequest | None
    ) -> tuple[ToolRequest, JsonValue]:
        """Return the request that a call executes, and its arguments."""
        pending = [request] if request is not None else [*self._recorder.pending(tool)]
        if pending:
            args = received(args, pending[0].call.args, self._recorder.schema_of(tool))
        plain = canonical(args)
        request = request or self._request_for(tool, plain, pending)
        if request.is_answered:  # It is executed again: each attempt has its own end.
            request = msgspec.structs.replace(request, is_answered=False)
        self.reached.add(tool)
        return request, plain

    def stand_in(
        self,
        tool: str,
        args: Mapping[str, Any],
        real: Callable[[], Any],
        *,
        returns: Any,
        in_loop: bool,
    ) -> Any:
        """Answer a call of a function in ``app.tools`` that has waited until it was chosen.

        A call that a framework makes to execute the tool's call is the same call.
        """
        outer = _carried.get()
        if outer is not None and _is_within(outer, tool):
            outer.has_arrived = True
            return real()

        def arrived() -> Any:
            carried = _carried.get()
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
        return self._recorder.called_by_code(tool, args, run)

    def _scripted(
        self, call: _Execution, args: JsonValue, returns: Any, *, is_stand_in: bool
    ) -> Any:
        recorder, request = self._recorder, call.request
        with self._gate.lock:
            try:
                answer = self._tools.call(request.agent, request.call.name, args)
                refuse_unwrapped(request.call.name, answer, returns)
                result = answer.result
                if is_stand_in:  # Frameworks take plain results, code what its function returns.
                    result = as_returned(request.call.name, answer, returns)
            except (ToolMissing, ScriptBroken) as problem:
                raise self._gate.halt(problem) from problem
            recorder.clock.advance_to(recorder.clock.now + answer.latency_ms)

        def finish() -> Any:
            with self._gate.lock:
                recorder.tool_answered(request, answer.result, answer.error or "")
            if answer.error is not None:
                raise ToolFailure(answer.error)
            return result

        return self._end(call, finish)

    def _carried_out(self, request: ToolRequest, real: Callable[[], Any]) -> Any:
        """Call a tool, or use its recorded result; raise RunHalted if there is none."""
        others, call = self._others, request.call
        if others is None or not others.records(call.name):
            return real()
        try:
            return others.carried_out(call.name, call.args, request.agent, self._recorder, real)
        except SimkitError as problem:
            raise self._gate.halt(problem) from problem

    def _observed(self, call: _Execution, real: Callable[[], Any]) -> Any:
        """Return a result that is recorded as soon as it is complete."""
        carried = _Carried(call.request.call.name)
        try:
            with _carrying(carried):
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
            with _carrying(carried):
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
            self._recorder.tool_answered(call.request, canonical(result))
        return result

    def _failed(self, call: _Execution, problem: Exception) -> None:
        self._gate.end_turn_if_due(call.start, AT_END)
        with self._gate.lock:
            self._recorder.tool_answered(call.request, error=exception_text(problem))
