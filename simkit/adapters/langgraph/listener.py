"""The listener of one scenario: nodes, tools, stores, and models without HTTP.

The methods with the names of LangChain's callbacks are called by the managers that call a run's
handlers. A handler among those of the users would be visible to them, and LangChain does more for
each run that has one. The facts of a run are stored in the run itself: LangChain may copy it.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.errors import GraphBubbleUp
from langgraph.pregel import Pregel

from simkit.adapters import api
from simkit.adapters.langgraph import compat
from simkit.adapters.langgraph.calling import reply_of
from simkit.adapters.langgraph.filters import NAMES
from simkit.adapters.langgraph.graphs import agents_in, graphs_in, handoff_tools_in, tools_in
from simkit.adapters.langgraph.messages import as_message, text_of
from simkit.adapters.langgraph.observer import GraphObserver
from simkit.adapters.langgraph.stream_observers import (
    End,
    Hear,
    heard_by,
    installation,
    namespace_now,
)
from simkit.adapters.langgraph.tools import calling, store_rows, tool_rows

ModelCallStart: TypeAlias = tuple[api.Run, int] | None
"""The agent run of a model call, with the number of its calls before; None for no agent's call."""


class GraphListener(GraphObserver, api.Instrumentation):
    """Observes every call of a graph, and LangChain's callbacks; any thread may call it."""

    observes = ("filters",)

    def __init__(self, adapter_context: api.AdapterContext) -> None:
        super().__init__(adapter_context)
        self.use = adapter_context.use_tool
        self._looked_at: list[Pregel] = []
        self._rows: dict[int, list[api.Row]] = {}
        """The replacements for the tools and stores of each graph, by its identity."""
        self.graphs: Callable[[], Iterable[Pregel]] = tuple
        """Returns the graphs in the pipeline's module, if the pipeline is a function."""

    def at_work(self) -> AbstractContextManager[None]:
        """Observe the framework in this context."""
        self.forget()
        return heard_by(self)

    def reply(self, returned: Any) -> Any:
        """Return the reply in a graph's state that the pipeline returns as it is."""
        if type(returned) is str:
            return returned
        is_state = isinstance(returned, Mapping) and isinstance(returned.get("messages"), list)
        if is_state or isinstance(returned, BaseMessage):
            return reply_of(returned, None)
        return returned

    def failure(self, problem: Exception) -> api.PipelineError | None:
        """Return the framework's exceptions under their own names."""
        if type(problem).__module__.partition(".")[0] == "langgraph":
            return api.FrameworkFailed(str(problem), type(problem).__name__)
        return None

    def run_began(self, graph: Pregel, within: tuple[str, ...]) -> tuple[Hear, End]:
        """Handle the call of a graph; observe its tools and stores too."""
        with self._writing():
            self.look_at(graph)
            installation.replace(self._rows[id(graph)])
        return super().run_began(graph, within)

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
                *tool_rows(tools_in(graph)),
                *(row for store in stores for row in store_rows(store)),
            ]

    def set_agent_rules(self, rules: Mapping[str, api.AgentRule]) -> None:
        """Learn rules: agents of nodes, agents whose commands are routes, paths of inputs."""
        self.named = {node: agent for agent, rule in rules.items() for node in rule.node}
        self.routers = frozenset(agent for agent, rule in rules.items() if rule.routes)
        self.inputs = {agent: rule.input for agent, rule in rules.items() if rule.input}
        self.outputs = {agent: rule.output for agent, rule in rules.items() if rule.output}

    def nodes(self) -> Collection[str]:
        """Return the names of the nodes of seen graphs, and of those that have run."""
        graphs = (
            inner for graph in (*self.graphs(), *self._looked_at) for inner in graphs_in(graph)
        )
        named = (node for graph in graphs for node in graph.nodes if not node.startswith("__"))
        return dict.fromkeys((*named, *self.agents_met))

    def run_now(self) -> api.Run | None:
        """Return the agent run of this code."""
        namespace = namespace_now()
        return self.run_at(namespace) if namespace else None

    # Tools and stores

    def passes_control(self, tool: Any) -> bool:
        """Return whether a tool's call is a handoff, which is recorded as one."""
        return self._recorder.handoff_tools.target_of(tool.name) is not None

    def request_for(self, tool: Any, args: dict[str, Any]) -> api.ToolRequest | None:
        """Return the model's request that a tool's call executes; None if there is none."""
        foreign = args.get("tool_call_id") or calling.get()
        request = self._recorder.call_request(foreign) if isinstance(foreign, str) else None
        return None if request is not None and request.call.name != tool.name else request

    def tool_ended(self, call_id: str, result: Any, problem: str) -> None:
        """Record a tool's result, if its function was never called."""
        if isinstance(result, ToolMessage) and result.status == "error":
            problem = problem or text_of(result)
        with self._writing():
            request = self._recorder.call_request(call_id)
            if problem and request is not None and not request.call.is_handoff:
                self._recorder.tool_answered(request, None, problem)

    def used_store(self, store: Any, operations: list[Any]) -> None:
        """Handle operations on a long-term store."""
        with self._writing():
            run = self.run_now()
            for operation in operations:
                self.stored.tell(operation, run)

    # Callbacks

    def on_chain_start(
        self, run: Any, serialized: Any, inputs: Any, *, name: str | None = None, **options: Any
    ) -> None:
        """Handle the start of a node's code."""
        metadata = run.metadata
        if name and compat.NODE in metadata and metadata[compat.NODE] == name:
            namespace = metadata.get(compat.NAMESPACE, "")
            run.simkit_node = namespace, name, inputs
            self.began_work(namespace)
        elif name is not None and name in NAMES:
            run.simkit_filter = name, inputs

    def on_chain_end(self, run: Any, outputs: Any, **options: Any) -> None:
        """Handle the result of a node's code."""
        attributes = run.__dict__
        if "simkit_node" in attributes:
            namespace, name, input = run.simkit_node
            self.wrote(namespace, name, input, outputs)
            self.returned(namespace, outputs)
        elif "simkit_filter" in attributes:
            name, input = run.simkit_filter
            self.narrowed(input, outputs, name)

    def on_chain_error(self, run: Any, error: BaseException, **options: Any) -> None:
        """Handle its exception."""
        if "simkit_node" in run.__dict__:
            self.raised(run.simkit_node[0], error)

    def on_tool_start(
        self, run: Any, serialized: Any, *args: Any, tool_call_id: str | None = None,
        inputs: Any = None, **options: Any,
    ) -> None:  # fmt: skip
        """Handle the start of a tool that a model called, or that a person put in its place."""
        if tool_call_id:
            with self._writing():
                request = self._recorder.call_request(tool_call_id)
                if request is not None and serialized and isinstance(inputs, dict):
                    self._recorder.note_edit_by_user(
                        request, serialized["name"], self._plain(inputs)
                    )
            run.simkit_call = tool_call_id
            calling.set(tool_call_id)

    def on_tool_end(self, run: Any, output: Any, **options: Any) -> None:
        """Handle its result."""
        if "simkit_call" in run.__dict__:
            self.tool_ended(run.simkit_call, output, "")

    def on_tool_error(self, run: Any, error: BaseException, **options: Any) -> None:
        """Handle its exception; an interrupt, a handoff, or the end of the turn is no failure."""
        is_end = isinstance(error, api.RunHalted) or (
            isinstance(error, CancelledError) and self._recorder.is_cut
        )
        if "simkit_call" in run.__dict__ and not is_end and not isinstance(error, GraphBubbleUp):
            # LangGraph cancels its tasks with an object, whose text is an address.
            is_cancelled = isinstance(error, CancelledError)
            problem = ("" if is_cancelled else str(error)) or type(error).__name__
            self.tool_ended(run.simkit_call, None, problem)

    def on_chat_model_start(
        self,
        runs: Sequence[Any],
        serialized: Any,
        messages: Sequence[Sequence[BaseMessage]],
        *args: Any,
        invocation_params: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Record the messages to a model, which may be asked about several lists at once."""
        tools = (invocation_params or {}).get("tools") or ()
        for run, request in zip(runs, messages, strict=True):
            start = self.model_began(run.metadata.get(compat.NAMESPACE, ""), request)
            run.simkit_request = request, tools, start

    def on_llm_end(self, run: Any, response: Any, **options: Any) -> None:
        """Handle its response."""
        if "simkit_request" in run.__dict__:
            answer = response.generations[0][0].__dict__
            if "message" in answer:
                reply = answer["message"]
                messages, tools, start = run.simkit_request
                self.model_answered(messages, tools, start, reply)

    # Models

    def model_began(self, namespace: str, messages: Sequence[BaseMessage]) -> ModelCallStart:
        """Handle a model call; HTTP, or its answer, shows the messages."""
        with self._writing():
            run = self.run_at(namespace)
            if run is None:
                return None
            self.filters.asks(run, messages)
            return run, run.model_calls

    def model_answered(
        self,
        messages: Sequence[BaseMessage],
        tools: Sequence[Any],
        start: ModelCallStart,
        reply: BaseMessage,
    ) -> None:
        """Report a model call and its answer that did not use HTTP."""
        if start is None or start[0].model_calls != start[1]:
            return
        with self._writing():
            run = start[0]
            ours = self.states.conversions.of(("agent", run.agent), messages)
            call = self._recorder.record_request(run, ours, [*map(_offer, tools)], {})
            counted = reply.__dict__.get("usage_metadata")
            usage = (
                api.Usage(counted["input_tokens"], counted["output_tokens"]) if counted else None
            )
            message = as_message(reply)
            kind = "calls" if message.calls else "text"
            self._recorder.replied(run, call, message, kind, usage)


def _offer(tool: Any) -> api.Offer:
    """Return what a model that uses no HTTP was given of a tool, in whatever form."""
    inner = tool.get("function", tool) if isinstance(tool, dict) else tool
    name = inner.get("name") if isinstance(inner, dict) else getattr(inner, "name", "")
    try:
        function = convert_to_openai_tool(tool).get("function", {})
    except (TypeError, ValueError):
        function = {}  # A form that LangChain does not know: its name is all that is known.
    return api.Offer(
        str(name or function.get("name", "")),
        function.get("parameters"),
        function.get("description", ""),
        bool(function.get("strict")),
    )
