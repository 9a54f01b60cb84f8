"""CrewAI: agents of crews and flows, their tools, and what they delegate to each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from inspect import iscoroutinefunction
from itertools import product
from typing import Any, Final

from crewai import Agent, CrewOutput
from crewai.lite_agent_output import LiteAgentOutput
from crewai.tools.base_tool import BaseTool, Tool
from crewai.tools.structured_tool import CrewStructuredTool
from crewai.utilities.agent_utils import is_inside_event_loop
from crewai.utilities.string_utils import sanitize_tool_name

from simkit.adapters import api

_WORK: Final = ("execute_task", "aexecute_task", "kickoff", "kickoff_async")
_TOOLS: Final = (BaseTool, Tool, CrewStructuredTool)
_USE: Final = tuple(product(_TOOLS, ("run", "arun", "invoke", "ainvoke")))
_listeners: Final = api.ContextListeners["CrewInstrument"]("crewai")
_works: Final = api.ContextScope[tuple[api.Run, Any, Any]]("crewai_work")
"""The run of an agent, the agent, and what it was given: an agent repeats the same in one run."""


class CrewInstrument(api.Instrumentation):
    """Observes agents of one scenario, and lets it answer for their tools."""

    observes = ("tools",)

    def __init__(self, adapter_context: api.AdapterContext) -> None:
        self._recorder, self._tools = adapter_context.recorder, adapter_context.use_tool
        self._groups = api.ParallelGroups[object](self._recorder)

    def at_work(self) -> AbstractContextManager[None]:
        """Observe while a turn lasts."""
        return _listeners.activate(self, _installation)

    def run_now(self) -> api.Run | None:
        """Return the run of the agent that this code works for."""
        work = _works.now()
        return work[0] if work is not None else None

    def reply(self, returned: Any) -> Any:
        """Return what a crew or an agent has said."""
        return returned.raw if isinstance(returned, (CrewOutput, LiteAgentOutput)) else returned

    def work(self, before: api.Replacement, agent: Any, *args: Any, **options: Any) -> Any:
        """Run an agent, with a task or a message; a repeated attempt stays in its run."""
        given = args[0] if args else options.get("task", options.get("messages"))
        at, is_async = _works.now(), iscoroutinefunction(before)
        is_same = at is not None and at[1] is agent and at[2] is given and not at[0].is_over
        if is_same or (not is_async and before.__name__ == "kickoff" and is_inside_event_loop()):
            return before(agent, *args, **options)
        go_on = partial(before, agent, *args, **options)
        if is_async:
            return self._awaited(agent, given, go_on)
        with self._running(agent, given, go_on) as run:
            return self._end(run, go_on())

    async def _awaited(self, agent: Any, given: Any, go_on: Callable[[], Any]) -> Any:
        api.keep_in_step()
        self._groups.begin(go_on, _works.now())
        await api.let_others_begin()
        with self._running(agent, given, go_on) as run:
            return self._end(run, await go_on())

    @contextmanager
    def _running(self, agent: Any, given: Any, key: object) -> Iterator[api.Run]:
        outer, request = self.run_now(), api.request_here()
        parent = outer.id if outer is not None else ""
        call = request.call.id if request and request.run is outer else ""
        name, text = agent.role.strip(), api.plain_or_text(getattr(given, "description", given))
        with self._recorder.lock:
            group = self._groups.starts(key)
            run = self._recorder.begin_run(name, text, group=group, parent=parent, call_id=call)
        with self._recorder.end_on_error(run), _works.inside((run, agent, given)):
            yield run

    def _end(self, run: api.Run, result: Any) -> Any:
        with self._recorder.lock:
            self._recorder.end_run(run, output=api.plain_or_text(self.reply(result)))
        return result

    def use(self, before: api.Replacement, tool: Any, *args: Any, **values: Any) -> Any:
        """Answer a tool's call, from the scenario or for real."""
        real, name = partial(before, tool, *args, **values), sanitize_tool_name(tool.name)
        given = args[0] if args and isinstance(args[0], dict) else values
        return self._tools(name, given, real)


instrumentation = CrewInstrument
_installation: Final = api.Installation(
    lambda: [
        *(_listeners.wrap(Agent, name, "work") for name in _WORK),
        *(_listeners.wrap(kind, name, "use") for kind, name in _USE if name in vars(kind)),
    ]
)
