"""Input that is no text: what code says it takes, and how a scenario gives it."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from simkit.adapters.entry import found_as
from simkit.core.errors import ScriptBroken
from simkit.language.json_schema.examples import example_of, type_of
from simkit.language.paths import compile as compile_references
from simkit.language.yaml import SourcePath
from simkit.runtime.ports import UserTurn
from simkit.spec.scenario.writing import flow

USER: Final = "${user}"
SESSION: Final = "${session}"
_SESSION: Final = re.compile(r"(session|thread|conversation|chat)(_?id)?", re.IGNORECASE)
"""Names of the field that tells sessions apart."""
_MESSAGES: Final = "messages"
_USUAL: Final = (
    "message", "question", "query", "user_input", "input", "user_message", "user_query", "text",
    "prompt", "request", "content", "task", "topic",
)  # fmt: skip
"""Names of the field that holds the user's message, the likeliest first."""
_ADVISED: Final = re.compile(r"`app: \{input: (\{.*\}|\[.*\])\}`")
_LISTS: Final = (list, tuple, set, frozenset, abc.Sequence, abc.Collection, abc.Iterable)
"""Types of which a scenario writes a value as a list. A text is some of them, too."""
Fields = Mapping[str, Any]
"""Name of a field to the JSON Schema of its value."""


def given_input(template: str | Mapping[str, Any] | Sequence[Any], turn: UserTurn) -> Any:
    """Return the input that `app: {input: …}` makes of the user's message."""
    if isinstance(template, str):
        return found_as(template)(turn.message)
    return compile_references(template).resolve({"user": turn.message, "session": turn.session})


def input_fields(kind: Any) -> Fields | None:
    """Return the fields that a TypedDict, a dataclass or a pydantic model requires.

    None for other types; a mapping without a schema has none.
    """
    if not inspect.isclass(kind):
        return {} if inspect.isclass(origin := get_origin(kind)) and _is_mapping(origin) else None
    if issubclass(kind, BaseModel):
        schema = kind.model_json_schema()
        required = schema.get("required", ())
        return {name: {**schema["properties"][name], **_defs(schema)} for name in required}
    if not is_typeddict(kind) and not is_dataclass(kind):
        return {} if _is_mapping(kind) else None
    hints: Mapping[str, Any]
    try:
        hints = get_type_hints(kind)
    except (NameError, TypeError):
        hints = {}
    return {name: schema_of_type(hints.get(name)) for name in _required_names(kind, hints)}


def _required_names(kind: Any, hints: Mapping[str, Any]) -> list[str]:
    """Return the fields that a TypedDict or a dataclass requires; ``hints`` are its types."""
    if is_dataclass(kind):
        return [
            field.name
            for field in fields(kind)
            if field.init and field.default is MISSING and field.default_factory is MISSING
        ]
    # Annotations that are texts are not looked at where `__required_keys__` is made.
    extras = get_type_hints(kind, include_extras=True) if hints else kind.__annotations__
    required = getattr(kind, "__required_keys__", ())
    return [n for n, t in extras.items() if n in required and get_origin(t) is not NotRequired]


def _is_mapping(kind: type) -> bool:
    return issubclass(kind, Mapping)


def _defs(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"$defs": schema["$defs"]} if "$defs" in schema else {}


def schema_of_type(kind: Any) -> Any:
    """Return the JSON Schema of a type; an empty one if it has none."""
    if kind is None:
        return {}
    if (inner := input_fields(kind)) and not issubclass(kind, BaseModel):
        # Before Python 3.12, pydantic refuses TypedDicts of the standard library.
        return {"type": "object", "properties": dict(inner), "required": [*inner]}
    try:
        return TypeAdapter(kind).json_schema()
    except (PydanticUserError, NameError, TypeError):
        return {}


def input_template(schemas: Fields) -> dict[str, Any]:
    """Return an input with the fields: the user's message in the likeliest, values in the others.

    >>> input_template({"limit": {"type": "integer"}, "question": {}, "session_id": {}})
    {'limit': 1, 'question': '${user}', 'session_id': '${session}'}
    """
    texts = [name for name, schema in schemas.items() if not schema or type_of(schema) == "string"]
    usual = [name for name in _USUAL if name in texts]
    values = {name: example_of(schema, name) for name, schema in schemas.items()}
    values |= {name: SESSION for name in texts if _SESSION.fullmatch(name) and values[name] == name}
    if _MESSAGES in values:
        values[_MESSAGES] = [{"role": "user", "content": USER}]
    elif chosen := (usual or texts or [*values])[:1]:
        values[chosen[0]] = USER
    return values


def input_example(schemas: Fields) -> str:
    """Return an input with the fields, as a scenario writes it."""
    return flow(input_template(schemas))


def input_advice(entry: str, schemas: Fields) -> str:
    """Return how a scenario gives a pipeline the fields that it takes."""
    if not schemas:
        return (
            f"`{entry}` takes a mapping, and was called with the user's message alone. Say what is "
            'in it: `app: {input: {KEY: "${user}"}}`.'
        )
    names = ", ".join(f"`{name}`" for name in schemas)
    return (
        f"`{entry}` takes a mapping with {names}, and was called with the user's message alone. "
        f"Say what is in it: `app: {{input: {input_example(schemas)}}}`."
    )


def type_advice(entry: str, kind: Any) -> str:
    """Return how a scenario gives a function the value of its parameter's type.

    Empty if a text may be one, or if the type is not known.
    """
    if may_be_text(kind):
        return ""
    sentence = (
        f"`{entry}` takes `{_type_name(kind)}`, and was called with the user's message, a text."
    )
    if _is_list(kind):
        return f"{sentence} Say what is in it: `app: {{input: {flow(_list_template(kind))}}}`."
    return (
        f"{sentence} Name a function of the message that returns what it takes: "
        "`app: {input: module:function}`."
    )


def _list_template(kind: Any) -> list[Any]:
    """Return a list of a type with the user's message in it."""
    schema = schema_of_type(next(iter(get_args(kind)), None))
    if type_of(schema) != "object":
        return [USER]
    fields_ = schema.get("properties", {})
    names = [*schema.get("required", ())] or [*fields_]
    if not names:
        return [{"role": "user", "content": USER}]
    return [input_template({name: {**fields_.get(name, {}), **_defs(schema)} for name in names})]


def may_be_text(kind: Any) -> bool:
    """Return whether a text may be a value of a type; True for types that say nothing."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, UnionType):
        return any(map(may_be_text, get_args(kind)))
    if get_origin(kind) is Literal:
        return any(isinstance(value, str) for value in get_args(kind))
    if _is_list(kind):
        return False
    class_ = get_origin(kind) or kind
    if kind is Any or not inspect.isclass(class_):
        return True
    return issubclass(class_, str) or _accepts_text(class_)


def _accepts_text(class_: type) -> bool:
    try:
        return issubclass(str, class_)
    except TypeError:  # A protocol that cannot be asked.
        return True


def _is_list(kind: Any) -> bool:
    return (get_origin(kind) or kind) in _LISTS


def _type_name(kind: Any) -> str:
    """Return a type as its author wrote it, without modules."""
    return (
        kind.__name__
        if inspect.isclass(kind) and not get_args(kind)
        else str(kind).rpartition("typing.")[2]
    )


def input_advised(problem: str) -> str:
    """Return the input that an error's advice names, in YAML; empty if it names none."""
    match = _ADVISED.search(problem)
    return match[1] if match else ""


# The parameter of a function


def parameter_type(function: Callable[..., Any]) -> Any:
    """Return the type of a function's first parameter; None if nothing says it.

    That of an optional one is the type beside None.
    """
    function = _python_function(function)
    name = _first_parameter(function)
    try:
        kind = get_type_hints(function).get(name)
    except (NameError, TypeError, AttributeError):
        return None
    if get_origin(kind) not in (Union, UnionType):
        return kind
    kinds = [each for each in get_args(kind) if each is not NoneType]
    return kinds[0] if len(kinds) == 1 else kind


def fields_taken(function: Callable[..., Any]) -> Fields | None:
    """Return the fields of the mapping that a function takes; None if it may take a text.

    Its annotation says so, or its code, which reads keys of its first parameter.
    """
    schemas = input_fields(parameter_type(function))
    if schemas:
        return schemas
    names = _keys_read(_python_function(function))
    return {key: {} for key in names} if names else schemas


def fitted(value: Any, kind: Any, entry: str, path: SourcePath) -> Any:
    """Return a mapping or a list as what a function takes: a dataclass, a pydantic model, a list.

    Any other value is returned as it is. Raise ScriptBroken, with the path of the input, for one
    that does not fit.
    """
    if isinstance(value, Mapping):
        if not inspect.isclass(kind) or not (issubclass(kind, BaseModel) or is_dataclass(kind)):
            return value
    elif not isinstance(value, list) or not _is_list(kind):
        return value
    try:
        return TypeAdapter(kind).validate_python(value)
    except PydanticUserError:
        return value
    except ValidationError as problem:
        first = problem.errors()[0]
        address = ".".join(map(str, first["loc"]))
        raise ScriptBroken(
            f"`{entry}` takes a `{_type_name(kind)}`, and the input is none: "
            f"{address}: {first['msg']}",
            path,
        ) from problem


def _python_function(function: Any) -> Any:
    """Return the function that runs when a callable is called."""
    while isinstance(function, partial):
        function = function.func
    if not inspect.isroutine(function):
        function = getattr(type(function), "__call__", function)  # noqa: B004
    return inspect.unwrap(function)


def _first_parameter(function: Any) -> str:
    try:
        names = [*inspect.signature(function).parameters]
    except (TypeError, ValueError):
        return ""
    if not inspect.ismethod(function) and names[:1] == ["self"]:
        names = names[1:]
    return names[0] if names else ""


def _keys_read(function: Any) -> list[str]:
    """Return the keys that a function's code reads of its first parameter, each once."""
    name = _first_parameter(function)
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return []
    keys: dict[str, None] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=ast.Name(id=owner), slice=ast.Constant(value=str(key))):
                pass
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=owner), attr="get"),
                args=[ast.Constant(value=str(key)), *_],
            ):
                pass
            case _:
                continue
        if owner == name:
            keys.setdefault(key)
    return [*keys]
