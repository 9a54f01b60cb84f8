"""LlamaIndex: agents, and workflows of agents, wherever a pipeline's code runs them.

A workflow's agent is one run from its first step until another agent steps, or the workflow ends.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import count, product
from typing import Any, Final

from llama_index.core.agent import workflow as w
from llama_index.core.tools import ToolOutput
from workflows.errors import WorkflowCancelledByUser

from simkit.adapters import api

_KINDS = (w.AgentWorkflow, w.BaseWorkflowAgent, w.FunctionAgent, w.ReActAgent, w.CodeActAgent)
_SLOTS: Final = tuple(product(_KINDS, ("run", "get_tools", "take_step")))
_HANDOFF: Final = {"handoff": "to_agent"}
"""The tool by which agents of a workflow pass control, with the argument that names the agent."""


@dataclass(eq=False, slots=True)
class _Flight:
    """One run of a workflow, with the run of the agent that is running."""

    parent: api.Run | None
    call_id: str
    run: api.Run | None = None
    store: Any = None
    watch: asyncio.Future[None] | None = None
    """The task that waits for its end."""


_numbers: Final = count(1)
"""The ids of runs, of which a second one in the process is refused: simkit repeats chance."""
_listeners: Final = api.ContextListeners["WorkflowInstrument"]("llama_index")
_flights: Final = api.ContextScope[_Flight]("llama_index_flight")


class WorkflowInstrument(api.Instrumentation):
    """Observes agents of one scenario, and lets it answer for their tools."""

    observes = ("tools", "state")

    def __init__(self, adapter_context: api.AdapterContext) -> None:
        self._recorder, self._tools = adapter_context.recorder, adapter_context.use_tool
        self._groups = api.ParallelGroups[_Flight](self._recorder)
        self._state = api.HeldState(self._recorder)

    def at_work(self) -> AbstractContextManager[None]:
        """Observe while a turn lasts."""
        return _listeners.activate(self, _installation)

    def run_now(self) -> api.Run | None:
        """Return the agent run of the workflow that this code belongs to."""
        flight = _flights.now()
        return flight.run if flight is not None else None

    def reply(self, returned: Any) -> Any:
        """Return what an agent has said."""
        return str(returned) if isinstance(returned, w.AgentOutput) else returned

    def run(self, before: api.Replacement, workflow: Any, *args: Any, **options: Any) -> Any:
        """Begin a flight, which the workflow's tasks inherit."""
        if isinstance(workflow, w.AgentWorkflow) and len(workflow.agents) > 1:
            self._recorder.handoff_tools.learn({}, _HANDOFF)
        parent, request = self.run_now(), api.request_here()
        flight = _Flight(parent, request.call.id if request and request.run is parent else "")
        self._groups.begin(flight, parent)
        options.setdefault("run_id", f"run{next(_numbers)}")
        with _flights.inside(flight):
            handler = before(workflow, *args, **options)
            flight.watch = asyncio.ensure_future(self._watch(flight, handler))
        return handler

    async def _watch(self, flight: _Flight, handler: Any) -> None:
        """End the last agent's run with its workflow."""
        status = "done"
        try:
            await handler.stop_event_result()
        except BaseException as problem:
            is_ended = isinstance(problem, WorkflowCancelledByUser)
            status = "cancelled" if is_ended else api.status_after(problem)
        await self._look(flight)
        with self._recorder.lock:
            self._groups.ended(flight)
            self._end(flight, status)

    async def take_step(
        self, before: api.Replacement, agent: Any, ctx: Any, llm_input: Sequence[Any], *args: Any
    ) -> Any:
        """Let an agent call its model, in its run."""
        flight = _flights.now()
        if flight is None:
            return await before(agent, ctx, llm_input, *args)
        api.keep_in_step()
        flight.store = ctx.store
        await self._look(flight)
        if flight.run is None or flight.run.is_over or flight.run.agent != agent.name:
            await api.let_others_begin()
            with self._recorder.lock:
                self._end(flight, "done")
                flight.run = self._recorder.begin_run(
                    agent.name, str(llm_input[-1].content), group=self._groups.starts(flight),
                    parent=flight.parent.id if flight.parent else "", call_id=flight.call_id,
                )  # fmt: skip
        return await before(agent, ctx, llm_input, *args)

    def _end(self, flight: _Flight, status: str) -> None:
        if flight.run is not None:
            passes = status == "done" and self._recorder.pending_handoffs(flight.run)
            self._recorder.end_run(flight.run, "handed_off" if passes else status)

    async def _look(self, flight: _Flight) -> None:
        """Record what an agent, or its tools, have changed in the state."""
        state = await flight.store.get("state", default=None) if flight.store else None
        state = api.plain_or_text(state)
        if isinstance(state, dict):
            with self._recorder.lock:
                self._state.look_into("", state, flight.run)

    async def get_tools(self, before: api.Replacement, owner: Any, *args: Any, **more: Any) -> Any:
        """Return an agent's tools, each as a copy that the scenario may answer for."""
        tools = [copy.copy(tool) for tool in await before(owner, *args, **more)]
        for tool in tools if _flights.now() is not None else ():
            tool.acall = partial(self._called, tool, tool.acall)
        return tools

    async def _called(self, tool: Any, acall: api.Replacement, *args: Any, **values: Any) -> Any:
        flight, name = _flights.now(), tool.metadata.name
        if flight is None or flight.run is None or name in _HANDOFF:
            return await acall(*args, **values)
        given = {key: values[key] for key in values if key != getattr(tool, "ctx_param_name", "")}
        outputs: list[ToolOutput] = []

        async def real() -> Any:
            outputs.append(await acall(*args, **values))
            return api.plain_or_text(outputs[0].raw_output)

        result = await self._tools.in_loop(name, given, real)
        await self._look(flight)
        # A tool may name the next agent in the store itself.
        if target := await flight.store.get("next_agent", default=None):
            with self._recorder.lock:
                self._recorder.hand_over(flight.run.agent, target, given, run=flight.run)
        return outputs[0] if outputs else ToolOutput(name, str(result), None, given, result)


instrumentation = WorkflowInstrument
_installation: Final = api.Installation(
    lambda: [_listeners.wrap(kind, name) for kind, name in _SLOTS if name in vars(kind)]
)
