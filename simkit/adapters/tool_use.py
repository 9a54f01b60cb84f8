"""Execution of a pipeline's tool calls: by the scenario, by a recording, or for real."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import msgspec

from simkit.adapters.activations import ToolRequest
from simkit.adapters.annotations import current_mark
from simkit.adapters.model_interceptor import Answerer, ModelInterceptor
from simkit.adapters.trace_recorder import TraceRecorder
from simkit.core.errors import ScriptBroken, SimkitError, ToolMissing
from simkit.core.messages import JsonValue
from simkit.core.text import exception_text
from simkit.language.json_schema.coercion import is_same
from simkit.runtime.models.returned import refuse_unwrapped
from simkit.runtime.ports import Tools
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


class _Carried:
    """A call that a framework executes, which also reaches the replaced function."""

    __slots__ = ("has_arrived", "tool")

    def __init__(self, tool: str) -> None:
        self.tool, self.has_arrived = tool, False


_carried: Final = ContextVar[_Carried | None]("simkit_carried_call", default=None)


@contextmanager
def _carrying(call: _Carried) -> Iterator[None]:
    before = _carried.set(call)
    try:
        yield
    finally:
        _carried.reset(before)


class ToolUse:
    """Answers each call of a tool's function, and records it; any thread may call it."""

    def __init__(
        self, recorder: TraceRecorder, gate: ModelInterceptor, tools: Tools, others: Answerer | None
    ) -> None:
        self._recorder, self._gate, self._tools, self._others = recorder, gate, tools, others
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
        """Return the tool's result; raise its failure, and RunHalted if there is no result.

        ``request`` is the model's request, if known; ``returns`` is the tool's declared return
        type: an annotation, or a JSON Schema.
        """
        self._gate.wait_turn()
        with self._gate.lock:
            request, plain = self._begin_call(tool, args, request)
            if self._tools.scripts(tool):
                return self._scripted(request, plain, returns)
        carried = _Carried(tool)
        try:
            with _carrying(carried):
                result = self._carried_out(request, real)
        except Exception as problem:
            self._failed(request, problem)
            raise
        return self._observed(request, result, carried)

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
            request, _ = self._begin_call(tool, args, request)
            self._recorder.tool_answered(request, canonical(result), error)

    def _begin_call(
        self, tool: str, args: Mapping[str, Any], request: ToolRequest | None
    ) -> tuple[ToolRequest, JsonValue]:
        """Record that a tool is executed; return the request, and the arguments."""
        pending = [request] if request is not None else [*self._recorder.pending(tool)]
        plain = canonical(self._received(tool, args, pending))
        request = request or self._request_for(tool, plain, pending)
        if request.is_answered:  # It is executed again: each attempt has its own end.
            request = msgspec.structs.replace(request, is_answered=False)
        self.reached.add(tool)
        self._recorder.tool_called(request, plain)
        return request, plain

    def stand_in(
        self, tool: str, args: Mapping[str, Any], real: Callable[[], Any], *, returns: Any
    ) -> Any:
        """Answer a call of a function in ``app.tools``, as `__call__` does.

        A call that a framework makes to execute the tool's call is the same call.
        """
        outer = _carried.get()
        if outer is not None and outer.tool == tool and not outer.has_arrived:
            outer.has_arrived = True
            return real()

        def arrived() -> Any:
            carried = _carried.get()
            if carried is not None:
                carried.has_arrived = True  # Its own further calls are separate ones.
            return real()

        return self(tool, args, arrived, returns=returns)

    def _received(
        self, tool: str, args: Mapping[str, Any], pending: Sequence[ToolRequest]
    ) -> Mapping[str, Any]:
        """Return the arguments of a call that either a model or the code has made."""
        if not pending:
            return args
        return received(args, pending[0].call.args, self._recorder.offered.get(tool))

    def _request_for(
        self, tool: str, args: JsonValue, pending: Sequence[ToolRequest]
    ) -> ToolRequest:
        """Return the model's request for a call: the one with equal arguments, else the oldest."""
        request = next(
            (candidate for candidate in pending if candidate.call.args == args), None
        ) or next((candidate for candidate in pending if is_same(candidate.call.args, args)), None)
        if request is not None or pending:
            return request or pending[0]
        mark, runs = current_mark(), self._recorder.runs
        run = mark.run if mark is not None else (runs[-1] if runs else None)
        return self._recorder.called_by_code(tool, args, run)

    def _scripted(self, request: ToolRequest, args: JsonValue, returns: Any) -> Any:
        recorder = self._recorder
        try:
            answer = self._tools.call(request.agent, request.call.name, args)
            refuse_unwrapped(request.call.name, answer, returns)
        except (ToolMissing, ScriptBroken) as problem:
            raise self._gate.halt(problem) from problem
        recorder.clock.advance_to(recorder.clock.now + answer.latency_ms)
        if answer.error is not None:
            recorder.tool_answered(request, error=answer.error)
            raise ToolFailure(answer.error)
        recorder.tool_answered(request, answer.result)
        return answer.result

    def _carried_out(self, request: ToolRequest, real: Callable[[], Any]) -> Any:
        """Call a tool, or use its recorded result; raise RunHalted if there is none."""
        others, call = self._others, request.call
        if others is None or not others.records(call.name):
            return real()
        try:
            return others.carried_out(call.name, call.args, request.agent, self._recorder, real)
        except SimkitError as problem:
            raise self._gate.halt(problem) from problem

    def _observed(self, request: ToolRequest, result: Any, carried: _Carried) -> Any:
        """Return a result that is recorded as soon as it is complete."""
        if inspect.isawaitable(result):
            return self._awaited(request, result, carried)
        if inspect.isasyncgen(result):
            return self._async_items(request, result)
        if inspect.isgenerator(result):
            return self._items(request, result)
        self._returned(request, result)
        return result

    async def _awaited(
        self, request: ToolRequest, result: Awaitable[Any], carried: _Carried
    ) -> Any:
        try:
            with _carrying(carried):
                value = await result
        except SimkitError as problem:
            raise self._gate.halt(problem) from problem
        except Exception as problem:
            self._failed(request, problem)
            raise
        self._returned(request, value)
        return value

    def _items(self, request: ToolRequest, items: Iterator[Any]) -> Iterator[Any]:
        results = []
        try:
            for item in items:
                results.append(item)
                yield item
        except GeneratorExit:  # The reader wants no more: the items so far are the result.
            self._returned(request, results)
            raise
        except Exception as problem:
            self._failed(request, problem)
            raise
        self._returned(request, results)

    async def _async_items(
        self, request: ToolRequest, items: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        results = []
        try:
            async for item in items:
                results.append(item)
                yield item
        except GeneratorExit:
            self._returned(request, results)
            raise
        except Exception as problem:
            self._failed(request, problem)
            raise
        self._returned(request, results)

    def _returned(self, request: ToolRequest, result: Any) -> None:
        with self._gate.lock:
            self._recorder.tool_answered(request, canonical(result))

    def _failed(self, request: ToolRequest, problem: Exception) -> None:
        with self._gate.lock:
            self._recorder.tool_answered(request, error=exception_text(problem))
