"""LangGraph: compiled graphs, their builders, functions that make one, and code that calls one.

The application is not changed. Observed are: running nodes and prebuilt agents, their writes and
the resulting state, handoffs, interrupts, checkpoints, and the long-term store.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel
from langgraph.store.memory import InMemoryStore

from simkit.adapters import api
from simkit.adapters.langgraph.calling import Calling, asked_nothing, input_advice_of, lost_with
from simkit.adapters.langgraph.graphs import (
    agents_in,
    channels_of,
    edges_of,
    handoff_tools_in,
    is_agent,
    name_of,
    private_of,
    starts_of,
)
from simkit.adapters.langgraph.listener import GraphListener
from simkit.adapters.modules import graphs_of, server_file

Services: TypeAlias = Mapping[str, Any]
"""The server's services for one application's graph during a run, restarts included, by name."""


def with_services(graph: Pregel, services: Services) -> Pregel:
    """Return the graph with the services that it lacks."""
    return graph.copy({n: default for n, default in services.items() if getattr(graph, n) is None})


def context_of(graph: Pregel) -> Mapping[str, Any] | None:
    """Return the empty context that a graph accepts; None if it needs more."""
    schema = graph.context_schema
    if schema is None:
        return None
    try:
        schema()
    except (TypeError, ValueError):
        return None
    return {}


def services_for(subject: Any, entry: str) -> Services | None:
    """Return the services of an application that a `langgraph.json` above its module names."""
    module = sys.modules.get(entry.partition(":")[0])
    file = getattr(module, "__file__", None)
    if file is None:
        return None
    named = server_file(Path(file).parent)
    if named is None:
        return None
    ours = (subject, api.found_as(entry))
    if not any(name in ours for name in _served_by(named)):
        return None
    return {"checkpointer": InMemorySaver(), "store": InMemoryStore()}


def _served_by(file: Path) -> Iterator[Any]:
    """Yield the imported objects that a `langgraph.json` names."""
    names: dict[Path, list[str]] = {}
    endings: set[str] = set()
    for graph in graphs_of(file).values():
        path, _, name = graph.rpartition(":")
        where = (file.parent / path).resolve()
        names.setdefault(where, []).append(name)
        endings |= {where.name, os.path.basename(path)}
    # It looks before each conversation, and thousands of modules are loaded: it resolves the path
    # of a module only if its file may be one of these.
    for module in sys.modules.copy().values():
        attributes = getattr(module, "__dict__", {})
        source = attributes.get("__file__")
        if isinstance(source, str) and os.path.basename(source) in endings:
            for name in names.get(Path(source).resolve(), ()):
                yield attributes.get(name)


_HOMES: Final = ("langgraph", "langgraph_supervisor", "langgraph_swarm", "langchain")


def driver(
    subject: Any, app: api.App, adapter_context: api.AdapterContext
) -> LangGraphPilot | WrappedPilot | None:
    """Return the driver for a graph, or for code whose module uses graphs; else None."""
    graph = _graph_of(subject, app, adapter_context)
    if graph is not None:
        return LangGraphPilot(graph, app, adapter_context, services_for(subject, app.entry))
    if api.is_factory(subject) or not callable(subject) or not _uses_graphs(subject):
        return None
    return WrappedPilot(subject, app, adapter_context)


def _graph_of(subject: Any, app: api.App, adapter_context: api.AdapterContext) -> Pregel | None:
    if isinstance(subject, StateGraph):
        return subject.compile()
    if isinstance(subject, Pregel):
        return subject
    if not inspect.isfunction(subject):
        return None
    parameters = list(inspect.signature(subject).parameters.values())
    if len(parameters) != 1 or parameters[0].name != "config":
        return None
    # LangGraph's own server makes graphs like this.
    graph = adapter_context.caller.call(subject, dict(app.options.config))
    return _graph_of(graph, app, adapter_context)


def _uses_graphs(subject: Any) -> bool:
    """Return whether the module of an object contains LangGraph objects."""
    return any(
        isinstance(value, Pregel)
        or (getattr(value, "__module__", None) or "").partition(".")[0] in _HOMES
        for value in vars(_module_of(subject)).values()
    )


def _module_of(subject: Any) -> Any:
    home = subject if inspect.isfunction(subject) else type(subject)
    return sys.modules[home.__module__]


def instrumentation(adapter_context: api.AdapterContext) -> GraphListener:
    """Return the instrumentation that observes graphs, which the driver shares."""
    shared = adapter_context.recorder.of_framework
    if not isinstance(shared, GraphListener):
        shared = adapter_context.recorder.of_framework = GraphListener(adapter_context)
    return shared


def _facts(graph: Pregel, listener: GraphListener, facts: api.PipelineFacts) -> api.PipelineFacts:
    """Return a graph's own facts, added to those known without it."""
    names = [name_of(graph)] if is_agent(graph) else [*agents_in(graph).values()]
    named = [listener.named.get(name, name) for name in names]
    passes = tuple(dict.fromkeys((*handoff_tools_in(graph).values(), *facts.agents)))
    are_kept = bool(graph.checkpointer)
    channels = listener.states.declared = channels_of(graph.channels, are_kept=are_kept)
    agents = {**agents_in(graph), **listener.named}
    edges = [(agents.get(start, start), agents.get(to, to)) for start, to in edges_of(graph)]
    starts = [agents.get(start, start) for start in starts_of(graph)]
    private = {listener.named.get(name, name): own for name, own in private_of(graph).items()}
    return msgspec.structs.replace(
        facts,
        agents={
            name: api.AgentFacts(handoffs=passes, private=private.get(name, ()))
            for name in (*facts.agents, *named)
        },
        channels={**channels, **listener.stored.facts()},
        observes=(*facts.observes, "state"),
        edges=() if is_agent(graph) else tuple(edges),
        starts=() if is_agent(graph) else tuple(starts),
        conversation="messages" if "messages" in channels else "",
    )


class LangGraphPilot(api.FrameworkDriver):
    """Runs a graph: each session is a thread of it."""

    name = "langgraph"
    app_options = ("call", "config", "input", "output", "store")

    def __init__(
        self,
        graph: Pregel,
        app: api.App,
        adapter_context: api.AdapterContext,
        services: Services | None,
    ) -> None:
        self._services = services
        if services is not None:
            graph = with_services(graph, services)
        self._graph, self._app, self._adapter_context = graph, app, adapter_context
        self._listener = instrumentation(adapter_context)
        self._listener.look_at(graph)
        self._listener.stored.channels = app.options.store
        context = context_of(graph) if services is not None else None
        self._calling = Calling(graph, app, adapter_context.caller, context)
        self._sessions: set[str] = set()
        """The sessions that have begun."""
        self._left: set[str] = set()
        """The sessions from before a restart that have had no turn since."""

    def facts(self, facts: api.PipelineFacts) -> api.PipelineFacts:
        """Return its agents and channels."""
        return _facts(self._graph, self._listener, facts)

    def nodes(self) -> Collection[str]:
        """Return the names of its nodes, and of those that have run."""
        return self._listener.nodes()

    def run_turn(self, turn: api.UserTurn) -> Any:
        """Run the graph with the user's message, or with the answer to its question."""
        listener = self._listener
        if turn.session not in self._sessions:
            with listener.stored.deaf():
                self._calling.prepare(turn.session, self._adapter_context.recorder)
            self._sessions.add(turn.session)
        listener.stored.look(self._graph, self._adapter_context.caller)
        waiting = listener.asks.pop(turn.session, [])
        input = self._calling.input_for(turn, waiting, self._adapter_context.recorder.turn)
        if turn.session in self._left:
            self._left.remove(turn.session)
            self._adapter_context.recorder.restored()
        self._calling.call(input, turn.session)
        if self._adapter_context.recorder.waits_for:
            return None
        return self._calling.reply(listener.states.last)

    def input_advice(self, turn: api.UserTurn, problem: BaseException) -> str:
        """Return how to give the graph the keys that it lacked, if its failure names one."""
        return input_advice_of(self._graph, self._app, turn, problem)

    def restart(self) -> None:
        """Import and build the graph again; raise ScriptMisfit if its state is gone."""
        api.forget_modules(self._app.entry.partition(":")[0].partition(".")[0])
        subject = api.found_as(self._app.entry)
        graph = _graph_of(subject, self._app, self._adapter_context)
        if graph is None:
            graph = _graph_of(
                self._adapter_context.caller.call(subject), self._app, self._adapter_context
            )
        if graph is not None and self._services is not None:
            graph = with_services(graph, self._services)
        lost = lost_with(self._graph.checkpointer, graph.checkpointer if graph else None)
        if graph is None or lost:
            raise api.ScriptMisfit(
                f"`{self._app.pipeline}` cannot be restarted: {lost or 'it is no graph now'}.\n"
                "Compile it with a checkpointer that keeps its state in a file, such as "
                "SqliteSaver, or keep the checkpointer in a module that is not the pipeline's.",
                ("turns", self._adapter_context.recorder.turn, "restart"),
            )
        self._graph = graph
        self._listener.look_at(graph)
        self._calling.take_over(graph)
        self._listener.stored.restart()
        self._left = set(self._sessions)

    def ends_runs(self) -> bool:
        """Return true: nodes report their ends."""
        return True


class WrappedPilot(api.FunctionDriver):
    """Runs code that calls graphs itself, with the graph of its module."""

    name = "langgraph"
    app_options = ("call", "input", "store")

    def __init__(self, subject: Any, app: api.App, adapter_context: api.AdapterContext) -> None:
        super().__init__(subject, app, adapter_context)
        self._listener = instrumentation(adapter_context)
        self._listener.graphs = self._graphs
        self._listener.stored.channels = app.options.store

    def run_turn(self, turn: api.UserTurn) -> Any:
        """Call the function with the user's message, or with the answer to a graph's question.

        The function decides how the graph continues.
        """
        waiting = self._listener.asks.pop(turn.session, [])
        if turn.resumes and not waiting:
            raise asked_nothing(
                turn.session, self._app.pipeline, self._adapter_context.recorder.turn
            )
        for graph in self._graphs():
            self._listener.stored.look(graph, self._adapter_context.caller)
        return self.reply_to(turn)

    def facts(self, facts: api.PipelineFacts) -> api.PipelineFacts:
        """Return the agents and channels of the module's graph, if it has one."""
        graphs = self._graphs()
        if len(graphs) == 1:
            return _facts(graphs[0], self._listener, facts)
        channels = {**facts.channels, **self._listener.stored.facts()}
        observes = (*facts.observes, "state")
        return msgspec.structs.replace(facts, channels=channels, observes=observes)

    def _graphs(self) -> list[Pregel]:
        module = vars(_module_of(self._subject))
        return [value for value in module.values() if isinstance(value, Pregel)]
