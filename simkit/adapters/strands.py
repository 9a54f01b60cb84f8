"""Strands Agents: tools and state. Spans show which agent runs, and each handoff."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final

from strands.agent.agent_result import AgentResult
from strands.hooks import (
    AfterInvocationEvent,
    AfterToolCallEvent,
    BeforeInvocationEvent,
    BeforeToolCallEvent,
    HookRegistry,
)

from simkit.adapters import api

_listeners: Final = api.ContextListeners["StrandsInstrument"]("strands")
_WRITING: Final = (BeforeInvocationEvent, AfterToolCallEvent, AfterInvocationEvent)


class _Interrupted(BaseException):
    """A tool asks the user: its call has no answer and has not failed."""


class StrandsInstrument(api.Instrumentation):
    """Lets the scenario answer for agents' tools, and records what they write."""

    observes = ("tools", "state")

    def __init__(self, adapter_context: api.AdapterContext) -> None:
        self._recorder, self._tools = adapter_context.recorder, adapter_context.use_tool
        self._state = api.HeldState(self._recorder)

    def at_work(self) -> AbstractContextManager[None]:
        """Observe while a turn lasts."""
        return _listeners.activate(self, _installation)

    def run_now(self) -> None:
        """Return None: spans show it."""

    def reply(self, returned: Any) -> Any:
        """Return what an agent has said."""
        return str(returned).removesuffix("\n") if isinstance(returned, AgentResult) else returned

    async def hook(self, before: api.Replacement, registry: Any, event: Any) -> Any:
        """Look at an agent's state, and put the scenario before its tool."""
        if isinstance(event, _WRITING):
            with self._recorder.lock:
                run = self._recorder.open_run(event.agent.name)
                self._state.look_into(event.agent.name, event.agent.state.get(), run)
        result = await before(registry, event)
        tool = event.selected_tool if isinstance(event, BeforeToolCallEvent) else None
        if tool is not None and self._recorder.handoff_tools.target_of(tool.tool_name) is None:
            event.selected_tool = copy.copy(tool)
            event.selected_tool.stream = partial(self._stream, tool.stream)
        return result

    async def _stream(
        self, stream: Any, tool_use: Mapping[str, Any], *args: Any, **more: Any
    ) -> AsyncIterator[Any]:
        events: list[Any] = []

        async def real() -> Any:
            async for event in stream(tool_use, *args, **more):
                events.append(event)
            if "tool_interrupt_event" in events[-1]:
                raise _Interrupted
            result = getattr(events[-1], "tool_result", events[-1])
            texts = [block.get("text", block.get("json")) for block in result["content"]]
            value = texts[0] if len(texts) == 1 else texts
            if result["status"] == "error":
                raise api.ToolFailure(str(value))
            return api.plain_or_text(value)

        name, call_id, status = tool_use["name"], tool_use["toolUseId"], "success"
        with self._recorder.lock:
            request = self._recorder.call_request(call_id)
        try:
            answer = await self._tools.in_loop(name, tool_use["input"], real, request)
        except _Interrupted:
            answer = None
        except api.ToolFailure as failure:
            status, answer = "error", f"Error: {failure}"
        block = {"text": answer} if isinstance(answer, str) else {"json": answer}
        events = events or [{"toolUseId": call_id, "status": status, "content": [block]}]
        for event in events:
            yield event


instrumentation = StrandsInstrument


_installation: Final = api.Installation(
    lambda: [_listeners.wrap(HookRegistry, "invoke_callbacks_async", "hook")]
)
