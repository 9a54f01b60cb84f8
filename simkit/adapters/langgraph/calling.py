"""Calls of a graph: its input, the method, the thread, the configuration, the reply."""

from __future__ import annotations

import inspect
import re
import sqlite3
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, get_type_hints

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from langgraph.types import Command

from simkit.adapters import api
from simkit.adapters.langgraph import compat
from simkit.adapters.langgraph.graphs import graphs_in, is_state, tools_in
from simkit.adapters.langgraph.messages import text_of

MESSAGES: Final = "messages"


def given_to(graph: Pregel, app: api.App, turn: api.UserTurn) -> Any:
    """Return the graph's input; raise ScriptBroken if it is not clear.

    `app.input` defines it. Without it, a user's message that is a mapping is the input, and any
    other one joins `messages`, or is the one text that the graph takes.
    """
    text, template = turn.message, app.options.input
    if template is not None:
        if isinstance(template, Mapping):
            _check_keys(template, graph, app)
        return api.given_input(template, turn)
    if isinstance(text, Mapping):
        return dict(text)
    keys = _keys(graph)
    if keys is None:
        return text
    if MESSAGES in keys:
        return {MESSAGES: [HumanMessage(turn.text)]}
    likely = [name for name, kind in keys.items() if kind in (str, str | None)] or list(keys)
    if len(likely) == 1:
        return {likely[0]: text}
    raise _input_unclear(graph, app, keys, likely[:1])


def _input_unclear(
    graph: Pregel, app: api.App, keys: Iterable[str], likely: Iterable[str]
) -> api.ScriptBroken:
    names = ", ".join(f"`{name}`" for name in keys) or "nothing"
    example = api.input_example(_fields(graph) or {key: {} for key in likely})
    return api.ScriptBroken(
        f"`{app.pipeline}` takes {names}, and no `messages`: which is the user's message?\n"
        f"Say it: `app: {{input: {example}}}`, or name a function of the message that "
        "returns the graph's input: `app: {input: module:function}`.",
        ("pipeline",),
    )


def input_advice_of(graph: Pregel, app: api.App, turn: api.UserTurn, problem: BaseException) -> str:
    """Return how to give a graph the keys that it lacked, if its failure names one; else empty."""
    if turn.resumes or app.options.input is not None or isinstance(turn.value, Mapping):
        return ""
    given, fields = given_to(graph, app, turn), _fields(graph)
    missing = [name for name in fields if not isinstance(given, Mapping) or name not in given]
    if not any(re.search(rf"\b{re.escape(name)}\b", str(problem)) for name in missing):
        return ""
    return api.input_advice(app.pipeline, fields)


def _fields(graph: Pregel) -> Mapping[str, Any]:
    """Return the required keys of a graph's input with their JSON Schemas."""
    builder = getattr(graph, "builder", None)
    fields = api.input_fields(builder.input_schema) if builder is not None else None
    return {name: schema for name, schema in (fields or {}).items() if is_state(name)}


def _check_keys(template: Mapping[str, Any], graph: Pregel, app: api.App) -> None:
    """Raise ScriptBroken for a key that the graph would silently ignore."""
    keys = _keys(graph)
    for key in template:
        if keys is not None and key not in keys:
            hint = api.guess(key, keys)
            raise api.ScriptBroken(
                f"`{app.pipeline}` takes no {key!r}.{hint} It takes: {', '.join(keys)}.",
                ("app", "input", key),
            )


def _keys(graph: Pregel) -> Mapping[str, Any] | None:
    """Return the keys of a graph's input with their types; None if it takes any value."""
    builder = getattr(graph, "builder", None)
    if builder is None:
        return None
    schema = builder.input_schema
    try:
        hints = get_type_hints(schema)
    except (NameError, TypeError):
        hints = dict.fromkeys(builder.schemas.get(schema, ()), object)
    return {name: kind for name, kind in hints.items() if is_state(name)}


def answer_to(waiting: list[Mapping[str, Any]], value: Any) -> Command[Any] | None:
    """Return the command for the user's answer to a graph's questions.

    None for a graph at a breakpoint, which asks nothing and continues with None. Several questions
    at once are answered by a mapping from the asking node to the answer.
    """
    if all(not question["id"] for question in waiting):
        return None
    if len(waiting) > 1 and isinstance(value, Mapping):
        by_agent = {question["agent"]: question["id"] for question in waiting}
        if set(value) == set(by_agent):
            return Command(resume={by_agent[agent]: answer for agent, answer in value.items()})
    return Command(resume=value)


def reply_of(state: Any, key: str | None) -> Any:
    """Return a graph's reply.

    It is the state's value under a key, or the result of a function of the state; else its last
    message's text, or its only value.
    """
    if key is not None and ":" in key:
        return api.found_as(key)(state)
    if isinstance(state, BaseMessage):
        return text_of(state)
    if not isinstance(state, Mapping):
        return state
    if key is not None:
        value = state.get(key)
        return text_of(value) if isinstance(value, BaseMessage) else value
    if MESSAGES not in state and len(state) == 1:
        return reply_of(state, next(iter(state)))
    messages = [m for m in state.get(MESSAGES) or () if _is_said_by_an_agent(m)]
    return text_of(messages[-1]) if messages else None


def _is_said_by_an_agent(message: Any) -> bool:
    """Return whether a message may be a reply: a model's, or an agent's report.

    By convention, a report is a user's message with the agent's name (providers accept no assistant
    message at the end).
    """
    if isinstance(message, HumanMessage):
        return bool(message.name) and message.name.casefold() not in ("user", "human")
    return isinstance(message, AIMessage)


_ASYNC: Final = ("ainvoke", "astream")
_WAYS: Final = ("invoke", "stream", *_ASYNC)


class Calling:
    """Calls one graph, turn by turn."""

    def __init__(
        self,
        graph: Pregel,
        app: api.App,
        caller: api.Caller,
        context: Mapping[str, Any] | None = None,
    ) -> None:
        """``context`` is the graph's context if the scenario gives none.

        Raise FunctionMissing for an unknown method of running graphs, or an unknown output channel.
        """
        self._graph, self._app, self._caller, self._context = graph, app, caller, context
        self._template = api.compile_references(app.options.config)
        self._threads: dict[str, str] = {}
        """Session to its own thread."""
        self._projects: dict[str, str] = {}
        """Session to its project."""
        way = api.choose_method(app, _WAYS, "a graph")
        self._method = "ainvoke" if app.options.call is None and needs_a_loop(graph) else way
        _check_output(graph, app.options.output)

    def take_over(self, graph: Pregel) -> None:
        """Use another graph from now on, in the same threads."""
        self._graph = graph

    def input_for(self, turn: api.UserTurn, waiting: list[Mapping[str, Any]], number: int) -> Any:
        """Return the graph's input; raise ScriptMisfit for an answer without a question."""
        if not turn.resumes:
            return given_to(self._graph, self._app, turn)
        if not waiting:
            raise asked_nothing(turn.session, self._app.pipeline, number)
        return answer_to(waiting, turn.value)

    def prepare(self, session: str, recorder: api.TraceRecorder) -> None:
        """Prepare the graph's state for a new session."""
        if session not in self._threads:
            self._projects[session] = recorder.project
            config, _ = self._config(session)
            api.put_given_state(self._app, recorder, self._graph, session=session, config=config)

    def _config(self, session: str) -> tuple[dict[str, Any], Any]:
        """Return the configuration of a call, and the graph's context."""
        root = {"session": session, "project": self._projects[session]}
        config: dict[str, Any] = api.copy_plain(self._template.resolve(root))
        context = config.pop("context", self._context)
        own = config.get("configurable") or {}
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
            if isinstance(result, Iterator):
                for _ in result:
                    pass

    def reply(self, state: Any) -> Any:
        """Return the reply in a state; fields of models and dataclasses are keys."""
        reply_value = reply_of(state, self._app.options.output)
        with suppress(api.NotPlain):
            return api.plain(reply_value)
        return reply_value

    def _thread(self, session: str, own: Mapping[str, Any]) -> str:
        """Return a session's thread: its name, or the next name without another run's state."""
        if session not in self._threads:

            def name(number: int) -> str:
                return f"{session}-{number}" if number > 1 else session

            most = 1
            while self._is_taken(name(most), own):
                most *= 2
            # Runs take names in order: of a thousand names some twenty are looked up.
            free = bisect_left(range(1, most), True, key=lambda n: not self._is_taken(name(n), own))
            self._threads[session] = name(free + 1)
        return self._threads[session]

    def _is_taken(self, thread: str, own: Mapping[str, Any]) -> bool:
        saver = self._graph.checkpointer
        if not hasattr(saver, "get_tuple") or "thread_id" in own:
            return False
        config = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
        get = partial(self._caller.call, saver.aget_tuple) if _is_async(saver) else saver.get_tuple
        return get(config) is not None


def _check_output(graph: Pregel, output: str | None) -> None:
    """Raise FunctionMissing for a channel that the graph's state does not have."""
    if output is None or ":" in output or not isinstance(graph, CompiledStateGraph):
        return
    known = [name for name in graph.channels if name in graph.builder.channels]
    if output not in known:
        hint = api.guess(output, known, ". Did you mean `{}`?") or f". It has {', '.join(known)}."
        raise api.FunctionMissing(f"the graph's state has no `{output}`{hint}", output)


def asked_nothing(session: str, pipeline: str, turn: int) -> api.ScriptMisfit:
    """Return the error of an answer without a question."""
    return api.ScriptMisfit(
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
    for async_name, plain_name in compat.ASYNC_AND_PLAIN:
        if async_name in getattr(runnable, "__dict__", ()):
            return getattr(runnable, plain_name, None) is None
    return any(_is_async_only(step) for step in getattr(runnable, "steps", ()))
