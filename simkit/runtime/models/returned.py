"""Return types of tools, compared with scripted results.

A list under a tool's name answers one call with each of its items. If the tool itself returns
lists, by its annotation or by a schema, the user probably meant one result that is a list, and gets
an error that says so.

Code that calls a function gets what its annotation says: a mapping becomes the dataclass or the
pydantic model.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence, Set
from dataclasses import is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import msgspec
from pydantic import BaseModel, PydanticUserError, TypeAdapter, ValidationError

from simkit.core.errors import ScriptBroken, ScriptMisfit
from simkit.core.text import short
from simkit.language.json_schema.schemas import types_in
from simkit.runtime.ports import ToolReply
from simkit.trace.store import canonical

_LISTS: Final = frozenset(("array", "null"))
_SHOWN_MAX: Final = 200
_BUILT: Final = (BaseModel, Enum, date, time, timedelta, Decimal, UUID)
"""Types, beside dataclasses, that code expects where JSON has a mapping, a text or a number."""


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


def as_returned(tool: str, answer: ToolReply, returns: Any) -> Any:
    """Return a result as the function's annotation says: dataclasses, models, dates; lists of them.

    Anything else is left as it is. Raise ScriptMisfit for a mapping that does not fit the model.
    """
    value = answer.result
    if value is None or answer.error is not None or not any(map(_is_built, _types_in(returns))):
        return value
    try:
        return TypeAdapter(returns).validate_python(value)
    except ValidationError as problem:
        if not answer.path or not isinstance(value, (Mapping, list)):
            return value
        first = problem.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ScriptMisfit(
            f"tool {tool!r} returns a `{_name_of(returns)}`, and its result is none: "
            f"{place}: {first['msg']}",
            answer.path,
        ) from problem
    except (PydanticUserError, NameError, TypeError):  # A type that has no schema.
        return value


def _name_of(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _types_in(annotation: Any) -> Iterator[Any]:
    """Yield the types of an annotation: of a union, a list, a mapping those inside."""
    inner = get_args(annotation)
    if not inner:
        yield annotation
    elif _is_plain(get_origin(annotation)):
        for arg in inner:
            yield from _types_in(arg)


def _is_plain(origin: Any) -> bool:
    """Return whether a generic type is a union, a list or a mapping, which JSON has."""
    return origin in (Union, UnionType, Annotated) or (
        isinstance(origin, type) and issubclass(origin, (Sequence, Set, Mapping))
    )


def _is_built(kind: Any) -> bool:
    """Return whether values of a type are made of JSON: a model's, a dataclass's, a date."""
    return isinstance(kind, type) and (is_dataclass(kind) or issubclass(kind, _BUILT))


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
