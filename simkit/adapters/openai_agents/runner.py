"""Hooks into the SDK: its default runner, filters of histories, and its export of traces.

The replacements are for the whole process; the context decides which scenario's log gets a call.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, aclosing, contextmanager
from functools import partial
from typing import Any, Final

import agents.run
import msgspec
from agents import FunctionTool, Handoff, HandoffInputData, RunConfig, RunHooks
from agents.lifecycle import RunHooksBase
from agents.tool_context import ToolContext

from simkit.adapters import api
from simkit.adapters.openai_agents import compat
from simkit.adapters.openai_agents.agent_runs import (
    AgentRun,
    AgentRunLog,
    current_log,
    flight_now,
    inside,
    installation,
    listeners,
)

NESTED: Final = "nest_handoff_history"
"""The SDK's function that puts the history before a handoff into one message."""


def hear_filters(run_config: Any) -> None:
    """Observe the filters of a run's configuration."""
    if isinstance(run_config, RunConfig):
        rows = (
            (run_config, compat.HANDOFF_INPUT_FILTER, _of_a_handoff),
            (run_config, compat.CALL_MODEL_INPUT_FILTER, _of_a_call),
        )
        installation.replace([row for row in rows if getattr(*row[:2], None) is not None])


def hear_handoffs(handoffs: Iterable[Any]) -> None:
    """Observe the filters of handoffs."""
    installation.replace(
        [
            (handoff, compat.INPUT_FILTER, _of_a_handoff)
            for handoff in handoffs
            if isinstance(handoff, Handoff) and handoff.input_filter is not None
        ]
    )


def _of_a_handoff(before: api.Replacement) -> api.Replacement:
    """Observe an application's filter of the history at a handoff."""
    return _observing_filter(api.function_name(before), lambda filtered: filtered)(before)


def hear_nesting(before: api.Replacement) -> api.Replacement:
    """Observe the SDK's own filter, which nests histories."""
    return _observing_filter(NESTED, lambda nested: nested[0])(before)


def _observing_filter(
    name: str, data_in: Callable[[Any], Any]
) -> Callable[[api.Replacement], api.Replacement]:
    """Report the histories before and after a filter; ``data_in`` reads the latter in a result."""

    @listeners.around
    def filtering(
        log: AgentRunLog, before: api.Replacement, data: Any, *args: Any, **kwargs: Any
    ) -> Any:
        agent_run = flight_now()

        def report(result: Any) -> None:
            after = data_in(result)
            if agent_run is not None and isinstance(after, HandoffInputData):
                agent_run.filters.append((history_in(data), history_in(after), name))

        return api.observe_result(before(data, *args, **kwargs), report)

    return filtering


@listeners.around
def _of_a_call(log: AgentRunLog, before: api.Replacement, payload: Any) -> Any:
    """Observe an application's filter of the input of a model call."""
    agent_run = flight_now()
    if agent_run is None:
        return before(payload)
    # The filter may change its input list.
    sent_messages = messages_in(payload.model_data.input)

    def report(updated: Any) -> None:
        after = messages_in(getattr(updated, "input", ()))
        log.model_input(agent_run, payload.agent, sent_messages, after, api.function_name(before))

    return api.observe_result(before(payload), report)


def history_in(data: HandoffInputData) -> list[api.Message]:
    """Return the conversation that the next agent gets."""
    history = data.input_history
    new = data.new_items if data.input_items is None else data.input_items
    items: list[Any] = (
        [{"role": "user", "content": history}] if isinstance(history, str) else [*history]
    )
    inputs = (item.to_input_item() for item in (*data.pre_handoff_items, *new) if _is_said(item))
    return messages_in([*items, *inputs])


def _is_said(item: Any) -> bool:
    """Return whether an item can be sent to a model: a pending approval cannot."""
    return getattr(item, "type", "") != "tool_approval_item"


def messages_in(items: Sequence[Any]) -> list[api.Message]:
    """Return items as messages, as a request would contain them."""
    return api.parse_messages(items, "openai-responses")


def listening(log: AgentRunLog) -> AbstractContextManager[None]:
    """Report the SDK's actions in this context, and in what it starts, to a log."""
    return listeners.activate(log, installation, _functions)


class _Runner(agents.run.AgentRunner):
    """The default runner, with simkit's hooks beside the caller's."""

    def __init__(self, before: Any) -> None:
        self._before = before

    async def run(self, starting_agent: Any, input: Any, **kwargs: Any) -> Any:
        """Run an agent, and those it hands off to."""
        log = current_log()
        if log is None:
            return await self._before.run(starting_agent, input, **kwargs)
        api.keep_in_step()
        with _flying(log, starting_agent, input, kwargs) as agent_run:
            result = await self._before.run(starting_agent, input, **kwargs)
            log.ended(agent_run, result)
            return result

    def run_sync(self, starting_agent: Any, input: Any, **kwargs: Any) -> Any:
        """Run an agent, for synchronous code."""
        log = current_log()
        if log is None:
            return self._before.run_sync(starting_agent, input, **kwargs)
        with _flying(log, starting_agent, input, kwargs) as agent_run:
            log.loops.lend()
            result = self._before.run_sync(starting_agent, input, **kwargs)
            log.ended(agent_run, result)
            return result

    def run_streamed(self, starting_agent: Any, input: Any, **kwargs: Any) -> Any:
        """Run an agent, streamed: it ends when its events are read."""
        log = current_log()
        if log is None:
            return self._before.run_streamed(starting_agent, input, **kwargs)
        with _flying(log, starting_agent, input, kwargs) as agent_run:
            # The task that starts here copies the context.
            result = self._before.run_streamed(starting_agent, input, **kwargs)
        _follow(log, agent_run, result)
        return result


@contextmanager
def _flying(log: AgentRunLog, agent: Any, input: Any, kwargs: dict[str, Any]) -> Iterator[AgentRun]:
    """Make code inside belong to a runner call, and add simkit's hooks to ``kwargs``."""
    agent_run = log.begin(flight_now(), agent, input, kwargs.get("context"))
    _hear_session(kwargs.get("session"))
    hear_filters(kwargs.get("run_config"))
    hooks = kwargs.get("hooks")
    if hooks is None or isinstance(hooks, RunHooksBase):
        kwargs["hooks"] = FlightHooks(log, agent_run, hooks)
    with inside(agent_run):
        try:
            yield agent_run
        except BaseException as problem:
            log.failed(agent_run, problem)
            raise


def _follow(log: AgentRunLog, agent_run: AgentRun, result: Any) -> None:
    events = result.stream_events

    async def stream_events() -> Any:
        try:
            async with aclosing(events()) as stream:
                async for event in stream:
                    yield event
        except GeneratorExit:
            # Unless it was cancelled, the SDK has run it to its end all the same.
            log.ended(agent_run, result)
            raise
        except BaseException as problem:
            log.failed(agent_run, problem)
            raise
        log.ended(agent_run, result)

    setattr(result, compat.STREAM_EVENTS, stream_events)


def _hear_session(session: Any) -> None:
    if session is not None and hasattr(session, "__dict__"):
        names = {
            compat.GET_ITEMS: api.TraceRecorder.read,
            compat.ADD_ITEMS: api.TraceRecorder.stored,
        }
        installation.replace(
            [(session, name, _observing_use(session, record)) for name, record in names.items()]
        )


def _observing_use(session: Any, record: Callable[..., None]) -> Any:
    @listeners.around
    async def called(log: AgentRunLog, before: api.Replacement, *args: Any, **kwargs: Any) -> Any:
        result = await before(*args, **kwargs)
        log.session_used(flight_now(), session, partial(record, log.recorder))
        return result

    return called


def _kept_here(before: api.Replacement) -> api.Replacement:
    """Wrap the export of traces: those of a scenario are not exported."""

    @functools.wraps(before)
    def tell(self: Any, item: Any) -> None:
        if not api.is_intercepted():
            before(self, item)

    return tell


silence: Final = api.Installation(
    lambda: ((*compat.TRACE_STARTS, _kept_here), (*compat.SPAN_ENDS, _kept_here))
)
"""Keeps traces from being exported, also those of tasks that outlive a turn."""


@listeners.around
def _counted(log: AgentRunLog, before: api.Replacement) -> uuid.UUID:
    """Return the key for provider prompt caches, which is part of requests, from a counter."""
    return uuid.UUID(int=log.next_number())


def _default_runner(before: Any) -> Any:
    return _Runner(before)


def _rows() -> Iterator[api.Row]:
    yield *compat.DEFAULT_RUNNER, _default_runner
    yield *compat.RUN_KEYS, _counted
    yield *compat.NESTING, hear_nesting


_functions: Final = api.Installation(_rows)
"""The replacements that do not depend on the pipeline."""


def answered(tools: Iterable[Any]) -> None:
    """Let the scenario answer for tools that are functions.

    A tool made from a function keeps its handling of failures: only the innermost call, of the
    function itself, is replaced.
    """
    installation.replace([_row(tool) for tool in tools if isinstance(tool, FunctionTool)])


def _row(tool: FunctionTool) -> api.Row:
    invoke: Any = tool.on_invoke_tool
    inner = getattr(invoke, "__dict__", {}).get(compat.INVOKE_TOOL)
    if inner is not None:
        returns = api.returned_by(getattr(inner, compat.WRAPPED_CALLABLE, None))
        return invoke, compat.INVOKE_TOOL, _stood_in_for(returns)
    return tool, compat.ON_INVOKE_TOOL, _stood_in_for(api.returned_by(invoke))


def _stood_in_for(returns: Any) -> Callable[[api.Replacement], api.Replacement]:
    @listeners.around
    async def invoke(
        log: AgentRunLog, before: api.Replacement, context: ToolContext[Any], arguments: str
    ) -> Any:
        try:
            args = msgspec.json.decode(arguments) if arguments else {}
        except msgspec.DecodeError:  # The tool itself reports the error.
            return await before(context, arguments)
        return await log.adapter_context.carry_out(
            context.tool_name,
            args,
            context.tool_call_id,
            lambda: before(context, arguments),
            returns,
        )

    return invoke


def tool_began(log: AgentRunLog, agent_run: AgentRun, tool: Any) -> None:
    """Record the start of a tool that is no function: a shell, a computer."""
    with log.writing():
        agent_run.open_tools[id(tool)] = request = log.recorder.called_by_code(
            tool.name, None, agent_run.run
        )
        log.recorder.tool_called(request)


def tool_ended(log: AgentRunLog, agent_run: AgentRun, tool: Any, result: Any) -> None:
    """Record a tool's result."""
    request = agent_run.open_tools.pop(id(tool), None)
    if request is not None:
        with log.writing():
            log.recorder.tool_answered(request, api.plain_or_text(result))


class FlightHooks(RunHooks[Any]):
    """Hooks that the SDK calls, partly by keyword, so that the parameters have the base's names.

    They run in tasks of their own: a context variable that they set would be lost.
    """

    def __init__(self, log: AgentRunLog, agent_run: AgentRun, inner: RunHooks[Any] | None) -> None:
        self._log, self._agent_run = log, agent_run
        self._inner: RunHooks[Any] = inner or RunHooks()

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        """Record an agent's start."""
        self._log.agent_started(self._agent_run, agent)
        await self._inner.on_agent_start(context, agent)

    async def on_llm_start(
        self, context: Any, agent: Any, system_prompt: str | None, input_items: Any
    ) -> None:
        """Record its model call."""
        api.keep_in_step()
        self._log.asks(self._agent_run, agent)
        answered(agent.tools)
        hear_handoffs(agent.handoffs)
        await self._inner.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        """Do nothing: HTTP has shown the answer."""
        await self._inner.on_llm_end(context, agent, response)

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        """Record the agent's final output."""
        self._log.agent_ended(self._agent_run, output)
        await self._inner.on_agent_end(context, agent, output)

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        """Record a handoff, with the changes of its ``on_handoff``."""
        self._log.handed_off(self._agent_run, to_agent)
        await self._inner.on_handoff(context=context, from_agent=from_agent, to_agent=to_agent)

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        """Record the start of a tool that runs here; hosted tools do not."""
        if isinstance(tool, FunctionTool):
            answered([tool])
        else:
            tool_began(self._log, self._agent_run, tool)
        await self._inner.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        """Record a tool's result."""
        if not isinstance(tool, FunctionTool):
            tool_ended(self._log, self._agent_run, tool, result)
        with self._log.writing():
            self._log.look(self._agent_run)
        await self._inner.on_tool_end(context, agent, tool, result)
