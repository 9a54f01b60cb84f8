"""Tools of LangChain: answered by the scenario, or executed."""

from __future__ import annotations

import contextvars
import inspect
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, get_args, get_origin

from langchain_core.messages import BaseMessage
from langchain_core.tools import BaseTool, StructuredTool, Tool
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from simkit.adapters.api import Replacement, Row, ToolRequest, UseTool, returned_by
from simkit.adapters.langgraph import compat
from simkit.adapters.langgraph.callbacks import listeners
from simkit.adapters.langgraph.messages import text_of

calling: Final = contextvars.ContextVar[str]("simkit_tool_call", default="")
"""The id of the tool call that this code executes."""
_INNER: Final = ("config", "run_manager", "callbacks")


def rows_for(tools: Iterable[BaseTool]) -> list[Row]:
    """Return replacements that let the scenario answer in place of tools' functions.

    LangChain reads the signatures of the replaced functions to decide on the arguments.
    """
    kinds = dict.fromkeys((StructuredTool, Tool, *(type(tool) for tool in tools)))
    rows: list[Row] = []
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
def _stood_in_for(listener: Any, before: Replacement, self: Any, *args: Any, **kwargs: Any) -> Any:
    return listener.used(self, kwargs, lambda: before(self, *args, **kwargs))


@listeners.around
async def _stood_in_for_async(
    listener: Any, before: Replacement, self: Any, *args: Any, **kwargs: Any
) -> Any:
    if not _is_own(self, before):
        # A tool without a coroutine calls `_run`, which is replaced too.
        return await before(self, *args, **kwargs)
    return await listener.used_in_loop(self, kwargs, lambda: before(self, *args, **kwargs))


def _is_own(tool: Any, before: Replacement) -> bool:
    has_coroutine = getattr(tool, "coroutine", None) is not None
    is_made_of_functions = isinstance(tool, (StructuredTool, Tool))
    return has_coroutine if is_made_of_functions else before is not compat.base_arun


def used(
    use: UseTool, tool: Any, args: Mapping[str, Any], request: ToolRequest | None, real: Any
) -> Any:
    """Execute a tool's call; return the value from which LangChain makes its answer."""
    work = _Work(tool, real)
    try:
        result = use(tool.name, _plain(args), work.carry_out, request, _returns(tool))
    except _Suspended as suspended:
        raise suspended.by from None
    return _later(work, result) if inspect.isawaitable(result) else work.answer(result)


async def used_in_loop(
    use: UseTool, tool: Any, args: Mapping[str, Any], request: ToolRequest | None, real: Any
) -> Any:
    """Do the same in a task, which waits without blocking its event loop."""
    work = _Work(tool, real)
    plain = _plain(args)
    result = use.in_loop(tool.name, plain, work.carry_out, request, _returns(tool))
    return await _later(work, result)


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
        self._tool, self._real = tool, real
        self._results: list[Any] = []

    def carry_out(self) -> Any:
        """Call the tool; return the text of its result, or an awaitable of it."""
        with _no_failure():
            value = self._real()
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
    annotation = returned_by(function)
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
