"""What is kept of each tool call, and of each node that has worked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NotRequired, TypedDict, get_type_hints

from langchain_core.messages import AnyMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolCallRequest
from pydantic import TypeAdapter, ValidationError

from engine.errors import UnfitResult
from engine.values import compact


class ToolCallRecord(TypedDict):
    """One call of a tool, with what came of it."""

    call_id: str
    tool: str
    args: dict[str, Any]
    result: Any
    error: str | None
    called_at: str
    returned_at: str


class StageRecord(TypedDict):
    """What a node has put out, with the calls that it made."""

    node: str
    output: Any
    tool_calls: list[ToolCallRecord]
    decision: NotRequired[dict[str, str]]
    """The choice that led to where the node stands, or that it made."""


def now() -> str:
    """Returns the time, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def recorded(request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]) -> ToolMessage:
    """Carries a tool call out, and attaches its record to the message for the model."""
    call, tool = request.tool_call, request.tool
    called_at, result, error = now(), None, None
    try:
        if tool is None:
            raise LookupError(f"there is no tool {call['name']!r}")
        result = checked(tool, tool.invoke(call["args"]))
    except Exception as problem:
        error = words_of(problem)
    record = ToolCallRecord(
        call_id=str(call["id"]), tool=call["name"], args=call["args"], result=result, error=error,
        called_at=called_at, returned_at=now(),
    )  # fmt: skip
    return ToolMessage(
        compact(result) if error is None else error,
        tool_call_id=call["id"], name=call["name"], artifact=record,
        status="success" if error is None else "error",
    )  # fmt: skip


def checked(tool: BaseTool, result: Any) -> Any:
    """Returns a tool's result; raises UnfitResult for one that is not what the tool promises."""
    promised = get_type_hints(getattr(tool, "func", None) or tool._run).get("return", Any)
    try:
        TypeAdapter(promised).validate_python(result, strict=True)
    except ValidationError as problem:
        raise UnfitResult(
            f"the result of tool {tool.name!r} is unfit: {problem.errors()[0]['msg']}"
        ) from problem
    return result


def words_of(problem: Exception) -> str:
    """Returns what a model is told of an exception; Python's own say little without their names."""
    is_pythons = type(problem).__module__ == "builtins"
    return f"{type(problem).__name__}: {problem}" if is_pythons else str(problem)


def records_in(messages: Sequence[AnyMessage]) -> list[ToolCallRecord]:
    """Returns the records that a node's messages carry, in order."""
    return [one.artifact for one in messages if isinstance(one, ToolMessage)]
