"""Calls of a graph: the method, the thread, the configuration."""

from __future__ import annotations

import inspect
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any, Final

from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel

from simkit.adapters.api import (
    App,
    Caller,
    FunctionMissing,
    NotPlain,
    ScriptMisfit,
    TraceRecorder,
    UserTurn,
    choose_method,
    compile_references,
    copy_plain,
    nearest_name,
    plain,
    put_given_state,
)
from simkit.adapters.langgraph.input import answer_to, given_to, reply_of
from simkit.adapters.langgraph.names import graphs_in, tools_in

_ASYNC: Final = ("ainvoke", "astream")
_WAYS: Final = ("invoke", "stream", *_ASYNC)


class Calling:
    """Calls one graph, turn by turn."""

    def __init__(
        self, graph: Pregel, app: App, caller: Caller, context: Mapping[str, Any] | None = None
    ) -> None:
        """``context`` is the graph's context if the scenario gives none.

        Raise FunctionMissing for an unknown method of running graphs, or an unknown output channel.
        """
        self._graph, self._app, self._caller = graph, app, caller
        self._context = context
        self._template = compile_references(app.options.config)
        self._threads: dict[str, str] = {}
        """Session to its own thread."""
        self._projects: dict[str, str] = {}
        """Session to its project."""
        way = choose_method(app, _WAYS, "a graph")
        self._method = "ainvoke" if app.options.call is None and needs_a_loop(graph) else way
        _check_output(graph, app.options.output)

    def take_over(self, graph: Pregel) -> None:
        """Use another graph from now on, in the same threads."""
        self._graph = graph

    def input_for(self, turn: UserTurn, waiting: list[Mapping[str, Any]], number: int) -> Any:
        """Return the graph's input; raise ScriptMisfit for an answer without a question."""
        if not turn.resumes:
            return given_to(self._graph, self._app, turn)
        if not waiting:
            raise asked_nothing(turn.session, self._app.pipeline, number)
        return answer_to(waiting, turn.value)

    def prepare(self, session: str, recorder: TraceRecorder) -> None:
        """Prepare the graph's state for a new session."""
        if session not in self._threads:
            self._projects[session] = recorder.project
            config, _ = self._config(session)
            put_given_state(self._app, recorder, self._graph, session=session, config=config)

    def _config(self, session: str) -> tuple[dict[str, Any], Any]:
        """Return the configuration of a call, and the graph's context."""
        root = {"session": session, "project": self._projects[session]}
        config: dict[str, Any] = copy_plain(self._template.resolve(root))
        context = config.pop("context", self._context)
        own = config.get("configurable")
        own = own or {}
        config["configurable"] = {"thread_id": self._thread(session, own), **own}
        return config, context

    def call(self, input: Any, session: str) -> None:
        """Run the graph until it ends or interrupts; its stream is read elsewhere."""
        config, context = self._config(session)
        options = {} if context is None else {"context": context}
        method = getattr(self._graph, self._method)
        if self._method in _ASYNC:
            self._caller.call(_in_a_loop, method, input, config, options)
        else:
            result = method(input, config, **options)
            if type(result) is not dict and isinstance(result, Iterator):
                for _ in result:
                    pass

    def reply(self, state: Any) -> Any:
        """Return the reply in a state; fields of models and dataclasses are keys."""
        reply_value = reply_of(state, self._app.options.output)
        try:
            return plain(reply_value)
        except NotPlain:
            return reply_value

    def _thread(self, session: str, own: Mapping[str, Any]) -> str:
        """Return a session's thread: its name, or the next name without another run's state."""
        if session not in self._threads:
            thread, number = session, 1
            while self._is_taken(thread, own):
                number += 1
                thread = f"{session}-{number}"
            self._threads[session] = thread
        return self._threads[session]

    def _is_taken(self, thread: str, own: Mapping[str, Any]) -> bool:
        saver = self._graph.checkpointer
        if not hasattr(saver, "get_tuple") or "thread_id" in own:
            return False
        config = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
        if _is_async(saver):
            return self._caller.call(saver.aget_tuple, config) is not None
        return saver.get_tuple(config) is not None


def _check_output(graph: Pregel, output: str | None) -> None:
    """Raise FunctionMissing for a channel that the graph's state does not have."""
    if output is None or ":" in output or not isinstance(graph, CompiledStateGraph):
        return
    known = [name for name in graph.channels if name in graph.builder.channels]
    if output not in known:
        nearest = nearest_name(output, known)
        hint = f". Did you mean `{nearest}`?" if nearest else f". It has {', '.join(known)}."
        raise FunctionMissing(f"the graph's state has no `{output}`{hint}", output)


def asked_nothing(session: str, pipeline: str, turn: int) -> ScriptMisfit:
    """Return the error of an answer without a question."""
    return ScriptMisfit(
        f"turn {turn} answers an interrupt, but session {session!r} of `{pipeline}` waits for "
        "nothing.",
        ("turns", turn - 1, "resume"),
    )


async def _in_a_loop(method: Any, input: Any, config: Any, options: Mapping[str, Any]) -> None:
    result = method(input, config, **options)
    if inspect.isawaitable(result):
        await result
        return
    async for _ in result:
        pass


def needs_a_loop(graph: Pregel) -> bool:
    """Return whether a graph needs async calls, for a node, a tool or its checkpointer."""
    if _is_async(graph.checkpointer):
        return True
    return any(
        _is_async_only(node.bound)
        for inner_graph in graphs_in(graph)
        for node in inner_graph.nodes.values()
    ) or any(
        getattr(tool, "coroutine", None) is not None and getattr(tool, "func", None) is None
        for tool in tools_in(graph)
    )


def lost_with(before: Any, saver: Any) -> str:
    """Return why nothing of a graph with this checkpointer outlives its process.

    Empty if something does. ``before`` is the earlier checkpointer.
    """
    if not saver:
        return "it has no checkpointer, so nothing outlives its process"
    is_here = type(saver).__name__ in _IN_MEMORY
    if is_here and saver is not before:
        return f"its {type(saver).__name__} is in memory, and ends with its process"
    connection = getattr(saver, "conn", None)
    if isinstance(connection, sqlite3.Connection) and saver is not before:
        files = [row[2] for row in connection.execute("PRAGMA database_list")]
        if not any(files):
            return "its SQLite database is in memory, and ends with its process"
    return ""


_IN_MEMORY: Final = ("InMemorySaver", "MemorySaver")


def _is_async(saver: Any) -> bool:
    return type(saver).__name__.startswith("Async")


def _is_async_only(runnable: Any) -> bool:
    if getattr(runnable, "afunc", None) is not None and hasattr(runnable, "func"):
        return runnable.func is None
    return any(_is_async_only(step) for step in getattr(runnable, "steps", ()))
