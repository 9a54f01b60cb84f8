"""Return types of tools, compared with scripted results.

A list under a tool's name answers one call with each of its items. If the tool itself returns
lists, by its annotation or by a schema, the user probably meant one result that is a list, and gets
an error that says so.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from types import SimpleNamespace, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec

from simkit.core.errors import ScriptBroken
from simkit.core.text import short
from simkit.language.json_schema.kinds import types_in
from simkit.runtime.ports import ToolReply
from simkit.trace.store import canonical

_LISTS: Final = frozenset(("array", "null"))
_SHOWN_MAX: Final = 200


def returned_by(function: Callable[..., Any] | None) -> Any:
    """Return the return annotation of a function; None if it has none.

    Other annotations are not evaluated: a parameter may name a type that only type checkers know.
    """
    while isinstance(function, partial):
        function = function.func
    if function is None:
        return None
    called = function if inspect.isroutine(function) else type(function).__call__
    plain: Any = inspect.unwrap(called)
    plain = getattr(plain, "__func__", plain)
    declared = getattr(plain, "__annotations__", {}).get("return")
    only = SimpleNamespace(__annotations__={"return": declared})
    try:
        return get_type_hints(only, globalns=getattr(plain, "__globals__", {})).get("return")
    except Exception:  # The name does not exist, or only for type checkers.
        return None


def refuse_unwrapped(
    tool: str, answer: ToolReply, returns: Any, schemas: Mapping[str, Any] | None = None
) -> None:
    """Raise ScriptBroken for one of several results if the tool always returns a list.

    ``returns`` is the annotation of its function or a JSON Schema; None if neither is known.
    """
    if answer.at is None or answer.error is not None or isinstance(answer.result, list):
        return
    kinds = _kinds_in(returns, schemas or {})
    if "array" not in kinds or not kinds <= _LISTS:
        return
    if answer.result is None and "null" in kinds:
        return
    excerpt = short(msgspec.json.encode(canonical(answer.result)).decode(), _SHOWN_MAX)
    raise ScriptBroken(
        f"tool {tool!r} returns a list, and its results answer one call each: this call would get "
        f"{excerpt} alone.\nWrite `{tool}: {{returns: [{excerpt}]}}` for a list that answers every "
        "call, or a list of lists for one call after the other.",
        answer.at,
    )


def _kinds_in(returns: Any, schemas: Mapping[str, Any]) -> frozenset[str]:
    if isinstance(returns, Mapping):
        return types_in(returns, schemas) or frozenset()
    return frozenset(_kinds_of(returns))


def _kinds_of(annotation: Any) -> Iterator[str]:
    """Yield the JSON kinds of an annotated type: lists, null, or something else."""
    origin = get_origin(annotation)
    if isinstance(annotation, UnionType) or origin is Union:
        for arg in get_args(annotation):
            yield from _kinds_of(arg)
        return
    named = getattr(annotation, "__supertype__", None) or getattr(annotation, "__value__", None)
    if named is not None:
        yield from _kinds_of(named)
        return
    kind: Any = origin or annotation
    if annotation is type(None):
        yield "null"
    elif not isinstance(kind, type):
        yield ""
    elif issubclass(kind, Awaitable) and get_args(annotation):
        yield from _kinds_of(get_args(annotation)[-1])
    elif issubclass(kind, (Sequence, Set)) and not issubclass(kind, (str, bytes, bytearray)):
        yield "array"
    else:
        yield ""
