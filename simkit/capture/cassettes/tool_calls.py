"""Calls of a pipeline's own tools as interactions: method CALL, address ``tool:NAME``."""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import msgspec

from simkit.core.errors import CassetteInvalid
from simkit.core.messages import JsonValue
from simkit.providers.http import Headers, HttpRequest, HttpResponse

CALL: Final = "CALL"
_JSON: Final[Headers] = (("content-type", "application/json"),)
_FAILED: Final = 500
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class ToolFailed(Exception):
    """The recorded failure of a tool."""


def tool_request(tool: str, args: JsonValue) -> HttpRequest:
    """Return the request that stands for a call."""
    return HttpRequest(CALL, f"tool:{tool}", _JSON, _encode(args))


def result_of(recorded: HttpResponse) -> Any:
    """Return the recorded result; raise the recorded exception.

    A built-in exception is raised as itself; any other one as a ToolFailed with its name.
    """
    answer = msgspec.json.decode(recorded.body)
    if recorded.status == _FAILED:
        raise _exception(answer["type"], answer["error"])
    return answer


def _exception(name: str, text: str) -> Exception:
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        with suppress(TypeError):
            return kind(text)
    named: type[ToolFailed] = type(name, (ToolFailed,), {})
    return named(text)


def real_result(tool: str, real: Callable[[], Any], record: Callable[[HttpResponse], None]) -> Any:
    """Call a tool, and return its result or an awaitable; ``record`` gets the outcome.

    Raise what the tool raises, and CassetteInvalid for a result that is no plain data.
    """
    try:
        result = real()
    except Exception as problem:
        record(_failed(problem))
        raise
    if hasattr(result, "__await__"):
        return _awaited(tool, result, record)
    record(_answer(tool, result))
    return result


async def _awaited(
    tool: str, result: Awaitable[Any], record: Callable[[HttpResponse], None]
) -> Any:
    try:
        value = await result
    except Exception as problem:
        record(_failed(problem))
        raise
    record(_answer(tool, value))
    return value


def _answer(tool: str, value: Any) -> HttpResponse:
    foreign = foreign_type(value)
    if foreign:
        raise CassetteInvalid(
            f"tool `{tool}` returned a {foreign}, which a cassette cannot hold\n"
            "  only plain data is recorded: texts, numbers, lists, mappings with texts as keys"
        )
    return HttpResponse(200, _JSON, (_encode(value),))


def _failed(problem: Exception) -> HttpResponse:
    # The text of a KeyError is its key's `repr`.
    text = str(problem.args[0]) if len(problem.args) == 1 else str(problem)
    fields = {"type": type(problem).__name__, "error": text}
    return HttpResponse(_FAILED, _JSON, (_encode(fields),))


def foreign_type(value: Any) -> str:
    """Return the name of the first type that is no plain data; empty if there is none."""
    if value is None or type(value) in (bool, int, float, str):
        return ""
    if type(value) in (list, tuple):
        return next(filter(None, map(foreign_type, value)), "")
    if type(value) is dict:
        keys = (type(key).__name__ for key in value if type(key) is not str)
        return next(keys, "") or next(filter(None, map(foreign_type, value.values())), "")
    return type(value).__name__
