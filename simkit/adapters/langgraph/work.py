"""Observers of one scenario: nodes, tools, stores, and models without HTTP."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.pregel import Pregel

from simkit.adapters.api import (
    AdapterContext,
    AgentRule,
    Offer,
    Row,
    Run,
    SimkitError,
    ToolRequest,
    Usage,
)
from simkit.adapters.langgraph.callbacks import Callbacks, ModelCallStart
from simkit.adapters.langgraph.messages import as_message, text_of
from simkit.adapters.langgraph.names import agents_in, graphs_in, handoff_tools_in, tools_in
from simkit.adapters.langgraph.stores import rows_for as rows_for_store
from simkit.adapters.langgraph.stream_observers import End, Hear, installation, namespace_now
from simkit.adapters.langgraph.tools import calling, used, used_in_loop
from simkit.adapters.langgraph.tools import rows_for as rows_for_tools
from simkit.adapters.langgraph.watch import Watch


class Work:
    """The listener for graphs and callbacks; `Watch` handles nodes."""

    def __init__(self, adapter_context: AdapterContext) -> None:
        self._recorder, self._writing = adapter_context.recorder, adapter_context.writing()
        self._use, self._halt = adapter_context.use_tool, adapter_context.halt
        self.watch = watch = Watch(adapter_context)
        self.callbacks = Callbacks(self)
        self.began_work, self.returned, self.raised = watch.began_work, watch.returned, watch.raised
        self.wrote, self.narrowed = watch.wrote, watch.narrowed
        self.place_of, self.routed = watch.place_of, watch.routed
        self.looked_up, self.known, self.stopped = watch.looked_up, watch.known, watch.stopped
        self._looked_at: list[Pregel] = []
        self._rows: dict[int, list[Row]] = {}
        """The replacements for the tools and stores of each graph, by its identity."""
        self.graphs: Callable[[], Iterable[Pregel]] = tuple
        """Returns the graphs in the pipeline's module, if the pipeline is a function."""

    def run_began(self, graph: Pregel, within: tuple[str, ...]) -> tuple[Hear, End]:
        """Handle the call of a graph; observe its tools and stores too."""
        with self._writing:
            self.look_at(graph)
            installation.replace(self._rows[id(graph)])
        return self.watch.run_began(graph, within)

    def look_at(self, graph: Pregel) -> None:
        """Learn the handoff tools of a graph."""
        if id(graph) not in self._rows:
            self._looked_at.append(graph)
            tools = self._recorder.handoff_tools
            tools.know(agents_in(graph).values())
            tools.see(tool.name for tool in tools_in(graph))
            tools.learn_new(handoff_tools_in(graph))
            stores = [inner.store for inner in graphs_in(graph) if inner.store is not None]
            self._rows[id(graph)] = [
                *rows_for_tools(tools_in(graph)),
                *(row for store in stores for row in rows_for_store(store)),
            ]

    def heed(self, rules: Mapping[str, AgentRule]) -> None:
        """Learn rules: agents of nodes, agents whose commands are routes, paths of inputs."""
        self.watch.named = {node: agent for agent, rule in rules.items() for node in rule.node}
        self.watch.routers = frozenset(agent for agent, rule in rules.items() if rule.routes)
        self.watch.inputs = {agent: rule.input for agent, rule in rules.items() if rule.input}
        self.watch.outputs = {agent: rule.output for agent, rule in rules.items() if rule.output}

    def nodes(self) -> Collection[str]:
        """Return the names of the nodes of seen graphs, and of those that have run."""
        known = (
            inner for graph in (*self.graphs(), *self._looked_at) for inner in graphs_in(graph)
        )
        named = (node for graph in known for node in graph.nodes if not node.startswith("__"))
        return dict.fromkeys((*named, *self.watch.agents_met))

    def run_now(self) -> Run | None:
        """Return the agent run of this code."""
        namespace = namespace_now()
        return self.watch.run_at(namespace) if namespace else None

    # Tools and stores

    def used(self, tool: Any, args: dict[str, Any], real: Callable[[], Any]) -> Any:
        """Return the result of a tool's call, or an awaitable."""
        if self._recorder.handoff_tools.target_of(tool.name) is not None:
            return real()
        return used(self._use, tool, args, self._request_for(tool, args), real)

    async def used_in_loop(self, tool: Any, args: dict[str, Any], real: Callable[[], Any]) -> Any:
        """Return the result of a tool's call that a task makes."""
        if self._recorder.handoff_tools.target_of(tool.name) is not None:
            return await real()
        request = self._request_for(tool, args)
        return await used_in_loop(self._use, tool, args, request, real)

    def _request_for(self, tool: Any, args: dict[str, Any]) -> ToolRequest | None:
        foreign = args.get("tool_call_id") or calling.get()
        request = self._recorder.call_request(foreign) if isinstance(foreign, str) else None
        return None if request is not None and request.call.name != tool.name else request

    def tool_began(self, call_id: str) -> None:
        """Handle that a tool of a model's call is about to run."""
        calling.set(call_id)

    def tool_ended(self, call_id: str, result: Any, problem: str) -> None:
        """Record a tool's result, if its function was never called."""
        if isinstance(result, ToolMessage) and result.status == "error":
            problem = problem or text_of(result)
        with self._writing:
            request = self._recorder.call_request(call_id)
            if problem and request is not None and not request.call.is_handoff:
                self._recorder.tool_answered(request, None, problem)

    def is_turn_cut(self) -> bool:
        """Return whether the scenario has ended the turn before its reply."""
        return self._recorder.is_cut

    def stored(self, store: Any, operations: list[Any]) -> None:
        """Handle operations on a long-term store."""
        with self._writing:
            run = self.run_now()
            for operation in operations:
                self.watch.stored.tell(operation, run)

    # Models

    def model_began(self, namespace: str, messages: Sequence[BaseMessage]) -> ModelCallStart:
        """Handle a model call; HTTP, or its answer, shows the messages."""
        try:
            with self._recorder.lock:
                run = self.watch.run_at(namespace)
                if run is None:
                    return None
                self.watch.filters.asks(run, messages)
                return run, run.model_calls
        except SimkitError as problem:
            raise self._halt(problem) from problem

    def model_answered(
        self,
        messages: Sequence[BaseMessage],
        tools: Sequence[str],
        start: ModelCallStart,
        reply: BaseMessage,
    ) -> None:
        """Report a model call and its answer that did not use HTTP."""
        if start is None or start[0].model_calls != start[1]:
            return
        try:
            with self._recorder.lock:
                run = start[0]
                ours = self.watch.states.conversions.of(("agent", run.agent), messages)
                call = self._recorder.record_request(run, ours, [*map(Offer, tools)], {})
                fields = reply.__dict__
                counted = fields.get("usage_metadata")
                usage = None
                if counted:
                    usage = Usage(counted["input_tokens"], counted["output_tokens"])
                message = as_message(reply)
                kind = "calls" if message.calls else "text"
                self._recorder.replied(run, call, message, kind, usage)
        except SimkitError as problem:
            raise self._halt(problem) from problem
