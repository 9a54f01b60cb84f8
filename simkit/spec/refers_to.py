"""Fields whose texts are names of something else in the file: an agent, a channel, a tool.

A field says so in its type, ``tuple[Annotated[str, RefersTo("agent")], ...]``, and is checked
wherever its model is checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import GenericAlias
from typing import Annotated, Any, Final, NamedTuple, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from simkit.language.yaml import SourcePath

_REFERENCE: Final = "${"


@dataclass(frozen=True, slots=True)
class RefersTo:
    """The mark of a text, or of a mapping's key, that must be a name of this kind.

    A text with a ``${…}`` reference is no name yet, and is not looked at.
    """

    kind: str
    also: tuple[str, ...] = ()
    """Words that stand for no single name, such as ``*``."""

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        described: dict[str, Any] = handler(core_schema)
        return described


AgentName = Annotated[str, RefersTo("agent")]
"""An agent; in a graph a node."""
DefinitionName = Annotated[str, RefersTo("definition")]
"""A key of a pipeline's `agents`."""
ChannelName = Annotated[str, RefersTo("channel")]
NodeName = Annotated[str, RefersTo("node")]
ToolName = Annotated[str, RefersTo("tool")]


class NameReference(NamedTuple):
    """A name in a field, and where the file gives it."""

    path: SourcePath
    word: str
    refers_to: RefersTo
    is_key: bool = False
    """Whether the word is a mapping's key."""


def name_references(
    value: Any, data: Any, at: SourcePath = (), kind: Any = None
) -> Iterator[NameReference]:
    """Yield the names in the fields that a file gives, in the order of the model's fields.

    ``data`` is the value as the file writes it, and ``at`` its path; ``kind`` is the type of the
    value: that of the value itself, if nothing is said. A model inside a model is searched if the
    file writes a mapping for it.
    """
    arguments = get_args(kind)
    if isinstance(value, BaseModel):
        yield from _references_of_model(value, data, at)
    elif isinstance(value, str):
        yield from _name(value, at, kind)
    elif isinstance(value, tuple) and arguments:
        # One item may be written without its list.
        several = isinstance(data, (list, tuple))
        for index, item in enumerate(value):
            inner = (data[index], (*at, index)) if several else (data, at)
            yield from name_references(item, *inner, arguments[0])
    elif isinstance(value, dict) and arguments and isinstance(data, Mapping):
        for key in value:
            yield from (name._replace(is_key=True) for name in _name(key, (*at, key), arguments[0]))
            yield from name_references(value[key], data.get(key), (*at, key), arguments[1])


def _references_of_model(model: BaseModel, data: Any, at: SourcePath) -> Iterator[NameReference]:
    if not isinstance(data, Mapping):
        return
    for name, (key, hint) in _fields(type(model)).items():
        if name in model.__pydantic_fields_set__ and key in data:
            yield from name_references(getattr(model, name), data[key], (*at, key), hint)


def _name(text: str, at: SourcePath, kind: Any) -> Iterator[NameReference]:
    for mark in get_args(kind):
        if isinstance(mark, RefersTo) and _REFERENCE not in text and text not in mark.also:
            yield NameReference(at, text, mark)


@cache
def _fields(model: type[BaseModel]) -> Mapping[str, tuple[str, Any]]:
    """Return the key and the type of each field in which there may be names."""
    hints = get_type_hints(model, include_extras=True)
    kinds = {name: _kind(hints[name]) for name in model.model_fields}
    return {
        name: (field.alias or name, kinds[name])
        for name, field in model.model_fields.items()
        if kinds[name] is not None
    }


def _kind(annotation: Any) -> Any:
    """Return a type without what validates it; None if there can be no names in its values."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        if any(isinstance(item, RefersTo) for item in arguments):
            return annotation
        return _kind(arguments[0])
    if isinstance(annotation, type) and not arguments:
        return annotation if issubclass(annotation, BaseModel) else None
    if origin is tuple:
        inner = _kind(arguments[0])
        return None if inner is None else GenericAlias(tuple, (inner, ...))
    if origin is dict:
        inner = [_kind(each) for each in arguments]
        return None if inner == [None, None] else GenericAlias(dict, (*inner,))
    return next(filter(None, map(_kind, arguments)), None)
