"""Hooks into runs of agents and graphs, wherever a pipeline makes them.

The replacements are for the whole process; the context decides which scenario's log gets a run. To
each run simkit adds a capability that observes it, its tools and its filters.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import anyio
from pydantic_ai import Agent, ToolDefinition, ToolReturn
from pydantic_ai.capabilities import (
    AbstractCapability,
    CapabilityOrdering,
    CombinedCapability,
    Hooks,
    ProcessHistory,
    WrapperCapability,
)
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolFailed
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.toolsets import WrapperToolset

from simkit.adapters import api
from simkit.adapters.pydantic_ai import compat
from simkit.adapters.pydantic_ai.agent_runs import (
    AgentRun,
    AgentRunLog,
    Leaving,
    current_log,
    flight_now,
    inside,
    installation,
    leaving,
    leaving_now,
    listeners,
)
from simkit.adapters.pydantic_ai.messages import args_of, as_messages, sent_by, text_of

_RAISED: Final[dict[str, Callable[[str], Exception]]] = {
    "ModelRetry": ModelRetry,
    "ToolFailed": ToolFailed,
    "ToolRetryError": ModelRetry,  # Its name in traces.
}
"""Exceptions of a tool for its model, by the beginning of a failure's text."""


@dataclass
class HeardToolset(WrapperToolset[Any]):
    """An agent's tools, except those for output, answered by the scenario."""

    async def get_tools(self, ctx: Any) -> dict[str, Any]:
        """Return the tools by their names."""
        tools, log = await super().get_tools(ctx), current_log()
        if log is not None:
            log.recorder.handoff_tools.see(tools)
        return tools

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        """Execute a call, by the scenario or for real."""
        log, agent_run = current_log(), flight_now()
        real = super().call_tool
        if log is None or agent_run is None:
            return await real(name, tool_args, ctx, tool)
        if ctx.tool_call_approved:
            log.note_edit(name, tool_args, ctx.tool_call_id or "")
        try:
            if log.recorder.handoff_tools.target_of(name) is not None:
                return await real(name, tool_args, ctx, tool)
            with _patience(log, tool):
                return await _carried_out(
                    log, tool.tool_def, tool_args, ctx, lambda: real(name, tool_args, ctx, tool)
                )
        finally:
            with log.writing():
                log.look(agent_run)


@contextmanager
def _patience(log: AgentRunLog, tool: Any) -> Iterator[None]:
    """Give a scripted result the time that the tool has, as its toolset does with its function."""
    inner = tool
    while (source := getattr(inner, "source_tool", None)) is not None:
        inner = source
    limit_s = getattr(tool.tool_def, "timeout", None) or getattr(inner.toolset, "timeout", None)
    if limit_s is None or not log.is_scripted(tool.tool_def.name):
        yield
        return
    try:
        with anyio.fail_after(limit_s):
            yield
    except TimeoutError:
        raise ModelRetry(f"Timed out after {limit_s} seconds.") from None


class _Put(BaseException):
    """A call was deferred: it has no answer and has not failed."""

    def __init__(self, problem: Exception) -> None:
        self.problem = problem


async def _carried_out(
    log: AgentRunLog, tool: ToolDefinition, args: dict[str, Any], ctx: Any, real: Callable[[], Any]
) -> Any:
    returned: list[Any] = []

    async def work() -> Any:
        try:
            returned.append(await real())
        except (ApprovalRequired, CallDeferred) as problem:
            raise _Put(problem) from None
        value = returned[0]
        return api.plain_or_text(value.return_value if isinstance(value, ToolReturn) else value)

    try:
        result = await log.use_tool(tool, args, ctx.tool_call_id or "", work)
        return returned[0] if returned else result
    except _Put as put:
        raise put.problem from None
    except api.ToolFailure as failure:
        kind, _, text = str(failure).partition(": ")
        if kind in _RAISED:
            raise _RAISED[kind](text) from None
        raise


def rows_for(capabilities: Iterable[Any]) -> Iterator[api.Row]:
    """Yield replacements that observe their changes to a history."""
    for capability in capabilities:
        if isinstance(capability, (CombinedCapability, WrapperCapability)):
            continue
        for way in compat.FILTER_METHODS:
            owner = next((kind for kind in type(capability).__mro__ if way in vars(kind)), None)
            if owner in (None, AbstractCapability) or owner.__module__.startswith(
                compat.OWN_CAPABILITIES
            ):
                continue
            yield owner, way, _wrap(way)


def _wrap(way: str) -> Callable[[api.Replacement], api.Replacement]:
    @listeners.around
    async def change(
        log: AgentRunLog, before: api.Replacement, self: Any, ctx: Any, request_context: Any
    ) -> Any:
        agent_run = flight_now()
        if agent_run is None:
            return await before(self, ctx, request_context)
        before_messages = list(ctx.messages)
        sent_messages = _sendable(request_context.messages)
        result = await before(self, ctx, request_context)
        # Messages removed from the run's own history stay away from its later calls.
        is_lasting = [*map(id, before_messages)] != [*map(id, ctx.messages)]
        after = _sendable(result.messages)
        if after != sent_messages:
            log.filtered(agent_run, sent_messages, after, _filter_name(self, way), is_lasting)
        return result

    return change


def _sendable(history: Sequence[Any]) -> list[api.Message]:
    """Return a history without results of missing calls, which PydanticAI itself removes."""
    messages, called = list[api.Message](), set[str]()
    for message in as_messages(history):
        called.update(call.id for call in message.calls)
        if message.role != "tool" or message.call_id in called:
            messages.append(message)
    return messages


def _filter_name(capability: Any, way: str) -> str:
    """Return the name of a capability's function, or of the capability."""
    functions: list[Any] = []
    if isinstance(capability, ProcessHistory):
        functions = [capability.processor]
    elif isinstance(capability, Hooks):
        functions = compat.hooks_of(capability, way)
    return ", ".join(map(api.function_name, functions)) or type(capability).__name__


class ObservingCapability(compat.SafeCapability):
    """A capability that reports one run to a log and changes nothing.

    It is the innermost capability, so that it sees the results of the application's own ones.
    """

    def __init__(self, log: AgentRunLog, agent_run: AgentRun) -> None:
        self._log, self._agent_run = log, agent_run

    def get_ordering(self) -> CapabilityOrdering:
        """Return the innermost place."""
        return CapabilityOrdering(position="innermost")

    def get_wrapper_toolset(self, toolset: Any) -> Any:
        """Let the scenario answer for the agent's tools."""
        return HeardToolset(toolset)

    async def wrap_run(self, ctx: Any, *, handler: Any) -> Any:
        """Record the run."""
        api.keep_in_step()
        await api.let_others_begin()
        installation.replace(rows_for(ctx.capabilities.values()))
        self._log.started(self._agent_run)
        return await handler()

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        """Handle a model call, with the offered tools for output."""
        parameters = request_context.model_request_parameters
        tools = tuple(tool.name for tool in parameters.output_tools)
        self._log.asks(self._agent_run, request_context.messages, tools)
        return request_context

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> Any:
        """Handle its answer, which is reported here if it did not use HTTP."""
        if _is_off_the_wire(request_context.model):
            parameters = request_context.model_request_parameters
            offers = [
                api.Offer(
                    tool.name,
                    tool.parameters_json_schema,
                    tool.description or "",
                    bool(tool.strict),
                )
                for tool in (*parameters.function_tools, *parameters.output_tools)
            ]
            name = request_context.model.model_name
            self._log.answered(self._agent_run, sent_by(request_context), offers, name, response)
        return response

    async def wrap_output_process(
        self, ctx: Any, *, output_context: Any, output: Any, handler: Any
    ) -> Any:
        """Record that agents inside an output function take over."""
        if not output_context.has_function:
            return await handler(output)
        call = output_context.tool_call
        payload = args_of(call.args) if call is not None else api.plain_or_text(output)
        call_id = call.tool_call_id if call is not None else ""
        with leaving(Leaving(self._agent_run, payload, call_id)):
            return await handler(output)


def _is_off_the_wire(model: Any) -> bool:
    while hasattr(model, "wrapped"):
        model = model.wrapped
    is_users = not type(model).__module__.startswith("pydantic_ai.")
    return is_users or isinstance(model, (TestModel, FunctionModel))


@contextmanager
def listening(log: AgentRunLog) -> Iterator[None]:
    """Report agents and graphs in this context, and in what it starts, to a log."""
    with (
        listeners.activate(log, installation, _functions),
        Agent.using_thread_executor(log.threads),
    ):
        yield


@listeners.around
@asynccontextmanager
async def _iterate(
    log: AgentRunLog, before: api.Replacement, self: Any, user_prompt: Any = None, **kwargs: Any
) -> AsyncIterator[Any]:
    """Wrap ``Agent.iter``, which runs, streams and iterations all use."""
    text = None if user_prompt is None else text_of(user_prompt)
    holders = ((kwargs.get("deps"), DEPS),)
    agent_run = log.begin(flight_now(), log.names.of(self), text, holders, leaving_now())
    kwargs["capabilities"] = [
        *(kwargs.get("capabilities") or ()),
        ObservingCapability(log, agent_run),
    ]
    with inside(agent_run):
        try:
            async with before(self, user_prompt, **kwargs) as run:
                yield run
        except BaseException as problem:
            cause = api.halt_in(problem) or problem
            log.failed(agent_run, cause)
            if cause is not problem:
                raise cause from None
            raise
        _end(log, agent_run, run)


def _named(before: api.Replacement) -> api.Replacement:
    """Record the holder of an agent at its call: its coroutine may run in a task."""

    @functools.wraps(before)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        log = current_log()
        if log is not None:
            log.names.hold(self)
        return before(self, *args, **kwargs)

    return run


def _end(log: AgentRunLog, agent_run: AgentRun, run: Any) -> None:
    result = run.result
    if result is None:  # The reader has left the iteration, or the stream.
        log.failed(agent_run, GeneratorExit())
        return
    log.settled(agent_run, result.all_messages())
    log.ended(agent_run, result.output)


@listeners.around
def _lent(log: AgentRunLog, before: api.Replacement) -> Any:
    """Wrap ``run_sync`` with an event loop that ends with the scenario."""
    log.loops.lend()
    return before()


def _allowed(before: Any) -> Any:
    """Wrap the ban on real requests: the scenario answers them here."""
    return True


def _rows() -> Iterator[api.Row]:
    yield *compat.ITER, _iterate
    yield *compat.RUN, _named
    yield *compat.STEP_CALL, wrap_step
    yield *compat.MODEL_REQUESTS, _allowed
    yield from ((*slot, _lent) for slot in compat.EVENT_LOOPS)


_functions: Final = api.Installation(_rows)
"""The replacements that do not depend on the pipeline."""


STATE: Final = "state"
"""The channel of a graph's state without fields."""
DEPS: Final = "deps"
"""The channel of dependencies without fields."""


def wrap_step(before: Any) -> Any:
    """Replace the property that gives a graph the function of a step."""

    def call(self: Any) -> Any:
        function = before.fget(self)
        log = current_log()
        return function if log is None else _with_step(log, self, function)

    return property(call)


def _with_step(log: AgentRunLog, step: Any, function: api.Replacement) -> api.Replacement:
    # A graph that is built meanwhile reads the function's annotations.
    @functools.wraps(function)
    async def run(ctx: Any) -> Any:
        if type(ctx.state).__module__.startswith("pydantic_ai."):
            return await function(ctx)
        holders = ((ctx.state, STATE), (ctx.deps, DEPS))
        inputs = api.plain_or_text(getattr(ctx, "inputs", None))  # Of a node, its fields.
        agent_run = log.begin(flight_now(), str(step.label or step.id), inputs, holders)
        with inside(agent_run):
            try:
                await asyncio.sleep(0)
                log.started(agent_run)
                result = await function(ctx)
            except BaseException as problem:
                log.failed(agent_run, api.halt_in(problem) or problem)
                raise
            # The value of an end, or the next node.
            log.ended(agent_run, result.data if type(result).__name__ == "End" else result)
            return result

    return run
