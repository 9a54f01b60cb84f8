"""Tools of LangChain, answered by the scenario or executed; and long-term stores of graphs."""

from __future__ import annotations

import contextvars
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, get_args, get_origin

import msgspec
from langchain_core.messages import BaseMessage
from langchain_core.tools import BaseTool, StructuredTool, Tool
from langgraph.errors import GraphBubbleUp
from langgraph.pregel import Pregel
from langgraph.store.base import GetOp, PutOp, SearchOp
from langgraph.types import Command

from simkit.adapters import api
from simkit.adapters.langgraph import compat
from simkit.adapters.langgraph.graphs import graphs_in
from simkit.adapters.langgraph.messages import listeners, text_of

calling: Final = contextvars.ContextVar[str]("simkit_tool_call", default="")
"""The id of the tool call that this code executes."""
_INNER: Final = ("config", "run_manager", "callbacks")


def tool_rows(tools: Iterable[BaseTool]) -> list[api.Row]:
    """Return replacements that let the scenario answer in place of tools' functions.

    LangChain reads the signatures of the replaced functions to decide on the arguments.
    """
    kinds = dict.fromkeys((StructuredTool, Tool, *(type(tool) for tool in tools)))
    rows: list[api.Row] = []
    for kind in kinds:
        rows += [(kind, compat.RUN, _stood_in_for), (kind, compat.ARUN, _stood_in_for_async)]
    return rows


class _Suspended(BaseException):
    """A tool interrupts, or passes control by an exception: it has not failed."""

    def __init__(self, by: GraphBubbleUp) -> None:
        super().__init__(by)
        self.by = by


@contextmanager
def _no_failure() -> Iterator[None]:
    try:
        yield
    except GraphBubbleUp as bubble:
        raise _Suspended(bubble) from bubble


@listeners.around
def _stood_in_for(
    listener: Any, before: api.Replacement, self: Any, *args: Any, **kwargs: Any
) -> Any:
    work = _Work(self, lambda: before(self, *args, **kwargs))
    if listener.passes_control(self):
        return work.real()
    request = listener.request_for(self, kwargs)
    try:
        result = listener.use(self.name, _plain(kwargs), work.carry_out, request, _returns(self))
    except _Suspended as suspended:
        raise suspended.by from None
    return _later(work, result) if inspect.isawaitable(result) else work.answer(result)


@listeners.around
async def _stood_in_for_async(
    listener: Any, before: api.Replacement, self: Any, *args: Any, **kwargs: Any
) -> Any:
    work = _Work(self, lambda: before(self, *args, **kwargs))
    if listener.passes_control(self) or not _is_own(self, before):
        # A tool without a coroutine calls `_run`, which is replaced too.
        return await work.real()
    request, use = listener.request_for(self, kwargs), listener.use.in_loop
    result = use(self.name, _plain(kwargs), work.carry_out, request, _returns(self))
    return await _later(work, result)


def _is_own(tool: Any, before: api.Replacement) -> bool:
    has_coroutine = getattr(tool, "coroutine", None) is not None
    is_made_of_functions = isinstance(tool, (StructuredTool, Tool))
    return has_coroutine if is_made_of_functions else before is not compat.base_arun


async def _later(work: _Work, result: Any) -> Any:
    try:
        return work.answer(await result)
    except _Suspended as suspended:
        raise suspended.by from None


def _plain(args: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in args.items() if key not in _INNER}


class _Work:
    """A call of a tool, and the value that it returned, which simkit records without wrapping."""

    def __init__(self, tool: Any, real: Any) -> None:
        self._tool, self.real = tool, real
        self._results: list[Any] = []

    def carry_out(self) -> Any:
        """Call the tool; return the text of its result, or an awaitable of it."""
        with _no_failure():
            value = self.real()
        return self._awaited(value) if inspect.isawaitable(value) else self._text(value)

    async def _awaited(self, value: Any) -> Any:
        with _no_failure():
            value = await value
        return self._text(value)

    def _text(self, value: Any) -> Any:
        self._results.append(value)
        return _result_text(value, self._tool)

    def answer(self, value: Any) -> Any:
        """Return what the tool returned, or the scenario's result in the form that it has."""
        if self._results:
            return self._results[0]
        has_artifact = self._tool.response_format == "content_and_artifact"
        return (value, None) if has_artifact else value


def _returns(tool: Any) -> Any:
    """Return the annotation of a tool's result for the model, if its function has one."""
    function = getattr(type(tool), compat.RUN)
    if isinstance(tool, (StructuredTool, Tool)):
        function = tool.coroutine or tool.func
    annotation = api.returned_by(function)
    if tool.response_format != "content_and_artifact":
        return annotation
    # Of the pair that such a function returns, the model gets the first.
    return get_args(annotation)[0] if get_origin(annotation) is tuple else None


def _result_text(value: Any, tool: Any) -> Any:
    """Return the content of a tool's result, without the framework's wrapping."""
    if isinstance(value, Command):
        update = value.update if isinstance(value.update, Mapping) else {}
        messages = [
            message for message in update.get("messages") or () if isinstance(message, BaseMessage)
        ]
        return text_of(messages[-1]) if messages else None
    if isinstance(value, BaseMessage):
        return text_of(value)
    if tool.response_format == "content_and_artifact" and isinstance(value, tuple):
        return value[0]
    return value


SCOPE: Final = "global"
"""The scope of stored values that belong to no channel."""
ITEMS_MAX: Final = 100_000
"""The largest number of items that are read from a namespace."""

Namespace = tuple[str, ...]


def store_rows(store: Any) -> list[api.Row]:
    """Return replacements that observe a store, in which every operation is a batch."""
    return [(type(store), compat.BATCH, _batch), (type(store), compat.ABATCH, _batch)]


@listeners.around
def _batch(listener: Any, before: api.Replacement, self: Any, ops: Any) -> Any:
    operations = list(ops)
    return api.observe_result(
        before(self, operations), lambda results: listener.used_store(self, operations)
    )


class _Place(msgspec.Struct, frozen=True):
    """The place of a channel for one session."""

    channel: str
    namespace: Namespace
    options: api.StoreChannel

    def holds(self, operation: Any) -> bool:
        """Return whether an operation concerns it."""
        if isinstance(operation, SearchOp):
            return self.options.key is None and operation.namespace_prefix == self.namespace
        is_its = operation.namespace == self.namespace
        return is_its and self.options.key in (None, operation.key)


class Stored:
    """The contents of a pipeline's stores, as channels if the scenario names them."""

    def __init__(self, recorder: api.TraceRecorder) -> None:
        self._recorder = recorder
        self.channels: Mapping[str, api.StoreChannel] = {}
        self.is_deaf = False
        """Whether the current use of a store is not the pipeline's."""
        self._items: dict[tuple[str, Namespace], dict[str, Any]] = {}
        """Channel and namespace to the recorded items, by key."""
        self._looked: set[str] = set()
        """The sessions that have begun since the graph was built."""

    def facts(self) -> dict[str, api.ChannelFacts]:
        """Return the channels."""
        return {
            name: api.ChannelFacts("append" if channel.key is None else "replace", channel.scope)
            for name, channel in self.channels.items()
        }

    @contextmanager
    def deaf(self) -> Iterator[None]:
        """Ignore uses of stores inside."""
        before, self.is_deaf = self.is_deaf, True
        try:
            yield
        finally:
            self.is_deaf = before

    def look(self, graph: Pregel, caller: api.Caller) -> None:
        """Record a store's content at the beginning of a session, as far as it is unknown.

        Later operations on the store are observed.
        """
        if not self.channels or self._recorder.session in self._looked:
            return
        stores = [
            known_graph.store for known_graph in graphs_in(graph) if known_graph.store is not None
        ]
        if not stores:
            return
        self._looked.add(self._recorder.session)
        for place in self._places():
            stored = self._items.get((place.channel, place.namespace))
            before = (
                self._reported_value(place, stored)
                if stored is not None
                else self._initial_value(place)
            )
            with self.deaf():
                items = _items_in(stores[0], place.namespace, caller, stored or {})
            values = {key: value for key, value in items if place.options.key in (None, key)}
            self._items[place.channel, place.namespace] = values
            now = self._reported_value(place, values)
            if not api.is_equal(now, before):
                self._recorder.wrote({place.channel: {api.DECLARED_RESET: now}}, cause="user")

    def restart(self) -> None:
        """Restart: the content of the new graph's store is what outlived the process."""
        self._looked.clear()

    def tell(self, operation: Any, run: api.Run | None) -> None:
        """Record the items that an operation has read or written."""
        recorder, agent = self._recorder, run.agent if run is not None else ""
        if self.is_deaf or not isinstance(operation, (PutOp, GetOp, SearchOp)):
            return
        place = next(
            (candidate for candidate in self._places() if candidate.holds(operation)), None
        )
        name, scope = _named(operation), SCOPE
        if place is not None:
            name, scope = place.channel, place.options.scope
        if not isinstance(operation, PutOp):
            recorder.read(name, scope, agent, run)
            return
        recorder.stored(name, scope, agent, run)
        if place is not None:
            update = self._put(place, operation.key, operation.value)
            recorder.wrote({place.channel: update}, agent, run)

    def _put(self, place: _Place, key: str, value: Any) -> Any:
        """Return the update for a write of one item."""
        items = self._items.setdefault((place.channel, place.namespace), {})
        is_new = key not in items
        if value is None:
            items.pop(key, None)
        else:
            items[key] = value
        if place.options.key is None and is_new and value is not None:
            return [_value(place, value)]
        now = self._reported_value(place, items)
        return (
            now if place.options.key is not None and now is not None else {api.DECLARED_RESET: now}
        )

    def _reported_value(self, place: _Place, items: Mapping[str, Any]) -> Any:
        values = [_value(place, value) for value in items.values()]
        if place.options.key is None:
            return values
        return values[0] if values else None

    def _initial_value(self, place: _Place) -> Any:
        otherwise: Any = [] if place.options.key is None else None
        return self._recorder.initial_state.get(place.channel, otherwise)

    def _places(self) -> Iterator[_Place]:
        root = {"session": self._recorder.session, "project": self._recorder.project}
        for name, channel in self.channels.items():
            named = (str(api.compile_references(part).resolve(root)) for part in channel.namespace)
            yield _Place(name, tuple(named), channel)


def _named(operation: Any) -> str:
    if isinstance(operation, SearchOp):
        return "/".join(operation.namespace_prefix)
    return f"{'/'.join(operation.namespace)}/{operation.key}"


def _value(place: _Place, value: Any) -> Any:
    if place.options.value is None:
        return value
    value_at = api.lookup(value, place.options.value)
    return None if value_at is api.ABSENT else value_at


def _items_in(
    store: Any, namespace: Namespace, caller: api.Caller, known: Mapping[str, Any]
) -> list[tuple[str, Any]]:
    """Return keys and values of exactly one namespace.

    Known ones come first, in their order, then the oldest.
    """
    items: Sequence[Any] = (
        caller.call(partial(store.asearch, namespace, limit=ITEMS_MAX))
        if type(store).__name__.startswith("Async")
        else store.search(namespace, limit=ITEMS_MAX)
    )
    order = {key: index for index, key in enumerate(known)}
    own = [item for item in items if tuple(item.namespace) == namespace]
    own.sort(key=lambda item: (order.get(item.key, len(order)), item.created_at, item.key))
    return [(item.key, item.value) for item in own]
