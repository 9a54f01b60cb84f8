"""Mappings: partial, key by key; also messages and tool calls, by their fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from simkit.core.errors import MatcherError, ReferenceInvalid
from simkit.core.messages import ABSENT, ROLE_ALIASES, Dropped, Message, ToolCall, value_said
from simkit.language.matching.misses import Build, Miss, Misses, Path, prefixed
from simkit.language.matching.rendering import NOTHING
from simkit.language.matching.values import Content
from simkit.language.paths import Getter, getter, parse

MESSAGE_FIELDS: Final = (
    *("role", "content", "text", "agent", "section", "calls", "id", "turn", "tool", "call_id"),
    *("data", "thinking"),
)
DROPPED_FIELDS: Final = (*MESSAGE_FIELDS, "what", "by")
CALL_FIELDS: Final = ("id", "name", "tool", "args", "to")
_LITERAL_OPERATORS: Final = frozenset(
    {"$contains", "$starts", "$ends", "$regex", "$len", "$schema"}
)


class KeyMatcher(msgspec.Struct, frozen=True):
    """One plain key of a mapping matcher."""

    key: str
    get: Getter
    misses: Misses
    at: Path
    operand: Any
    first: str | int
    """The first part of the key, read as a path."""
    role: str | None
    """The role that the key names; None if it names no role."""
    as_role: Misses
    """For the key ``role``: the same matcher with other libraries' role names translated."""


class Keyed(msgspec.Struct, frozen=True):
    """The plain keys of a mapping matcher."""

    entries: tuple[KeyMatcher, ...]
    at: Path
    source: Mapping[str, Any]


def keyed(plain: Mapping[str, Any], at: Path, build: Build) -> Misses:
    """Return the matcher of mappings with matching values, key by key."""
    return _partial(_keyed(plain, at, build))


def exact(operand: Any, at: Path, build: Build) -> Misses:
    """Return the matcher of mappings with these keys and no others."""
    if not isinstance(operand, Mapping):
        raise MatcherError(at, "`$exact` takes a mapping")
    for key in operand:
        if key.startswith("$") and not key.startswith("$$"):
            raise MatcherError(
                (*at, key), "`$exact` takes plain keys", key, (), f"put `{key}` beside `$exact`"
            )
    return exactly(operand, at, build)


def exactly(plain: Mapping[str, Any], at: Path, build: Build) -> Misses:
    """Return the matcher of mappings with these plain keys and no others.

    ``build`` compiles the inner matchers.
    """
    node = _keyed(plain, at, build)
    partial = _partial(node)

    def misses(value: Any) -> Iterator[Miss]:
        if isinstance(value, Content):
            value = value.structure
        yield from partial(value)
        if isinstance(value, Mapping):
            named = {key for entry in node.entries for key in _named(entry, value)}
            for key in value:
                if key not in named:
                    yield Miss((key,), at, "", NOTHING, value[key])
        elif not node.entries and isinstance(value, (Message, Dropped, ToolCall)):
            yield Miss((), at, "$exact", plain, value)

    return misses


def _partial(node: Keyed) -> Misses:
    speaks = any(entry.role is not None for entry in node.entries)
    pairs = tuple((entry.key, entry.get, entry.misses) for entry in node.entries)

    def of_dict(value: dict[str, Any]) -> Iterator[Miss]:
        for key, get, inner in pairs:
            for miss in inner(get(value)):
                yield prefixed(key, miss)

    def misses(value: Any) -> Iterable[Miss]:
        if value.__class__ is dict and not (speaks and "role" in value and "content" in value):
            return of_dict(value)
        return _of_any(node, value)

    return misses


def _keyed(plain: Mapping[str, Any], at: Path, build: Build) -> Keyed:
    entries = tuple(_entry(key, operand, at, build) for key, operand in plain.items())
    if "role" in plain or sum(entry.role is not None for entry in entries) > 1:
        # Beside a role, `tool` is the tool's name.
        entries = tuple(
            msgspec.structs.replace(entry, role=None) if entry.key == "tool" else entry
            for entry in entries
        )
    return Keyed(entries, at, plain)


def _named(entry: KeyMatcher, value: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the keys of a mapping that an entry covers."""
    if entry.key in value:
        return (entry.key,)
    if entry.role is not None and "role" in value and "content" in value:
        return ("role", "content")
    return (entry.first,)


def _entry(source: str, operand: Any, at: Path, build: Build) -> KeyMatcher:
    key = source[1:] if source.startswith("$$") else source
    at = (*at, source)
    inner = build(operand, at)
    as_role = inner
    if key == "role" and (translated := _roles(operand)) != operand:
        as_role = build(translated, at)
    role = ROLE_ALIASES.get(source)
    return KeyMatcher(key, getter(key), inner, at, operand, _first(key), role, as_role)


def _first(key: str) -> str | int:
    try:
        return parse(key)[0]
    except ReferenceInvalid:
        return key


def _roles(matcher: Any) -> Any:
    """Return a matcher of roles with other libraries' role names translated."""
    if isinstance(matcher, str):
        return ROLE_ALIASES.get(matcher, matcher)
    if isinstance(matcher, list):
        return [_roles(inner) for inner in matcher]
    if isinstance(matcher, Mapping):
        return {
            key: inner if key in _LITERAL_OPERATORS else _roles(inner)
            for key, inner in matcher.items()
        }
    return matcher


def _of_any(node: Keyed, value: Any) -> Iterable[Miss]:
    if isinstance(value, (Message, Dropped)):
        return _of_message(node, value)
    if isinstance(value, Content):
        value = value.structure
    if isinstance(value, ToolCall):
        return _of_call(node, value)
    if isinstance(value, Mapping):
        return _of_mapping(node, value)
    return (Miss((), node.at, "", node.source, value),)


def _of_mapping(node: Keyed, value: Mapping[str, Any]) -> Iterator[Miss]:
    is_message = "role" in value and "content" in value
    for entry in node.entries:
        if is_message and entry.role is not None and entry.key not in value:
            content = value["content"]
            if isinstance(content, str):
                content = Content(content, value.get("data"))
            role = value["role"]
            if isinstance(role, str):
                role = ROLE_ALIASES.get(role, role)
            if role != entry.role:
                yield _other_role(entry, role)
            for miss in entry.misses(content):
                yield prefixed("content", miss)
        else:
            for miss in entry.misses(entry.get(value)):
                yield prefixed(entry.key, miss)


def _of_message(node: Keyed, value: Message | Dropped) -> Iterator[Miss]:
    message = value.message if isinstance(value, Dropped) else value
    fields = DROPPED_FIELDS if isinstance(value, Dropped) else MESSAGE_FIELDS
    for entry in node.entries:
        if entry.role is not None:
            if message.role != entry.role:
                yield _other_role(entry, message.role)
            for miss in entry.misses(Content(message.content, value_said(message))):
                yield prefixed("content", miss)
        elif entry.key == "role":
            for miss in entry.as_role(message.role):
                yield prefixed("role", miss)
        elif entry.key == "content" or entry.key == "text":
            for miss in entry.misses(Content(message.content, value_said(message))):
                yield prefixed(entry.key, miss)
        elif entry.first in fields:
            for miss in entry.misses(entry.get(value)):
                yield prefixed(entry.key, miss)
        else:
            note = f"a message has {', '.join(fields)}, or a role and its content"
            yield Miss((entry.key,), entry.at, "", entry.operand, ABSENT, note)


def _other_role(entry: KeyMatcher, role: Any) -> Miss:
    note = ""
    if entry.key == "tool":
        note = "`tool` is the role here; the tool's name is `{role: tool, tool: …}`"
    return Miss(("role",), entry.at, "", entry.role, role, note)


def _of_call(node: Keyed, call: ToolCall) -> Iterator[Miss]:
    if len(node.entries) == 1 and node.entries[0].first not in CALL_FIELDS:
        entry = node.entries[0]
        if call.name != entry.key:
            yield Miss(("name",), entry.at, "", entry.key, call.name)
        for miss in entry.misses(call.args):
            yield prefixed("args", miss)
        return
    for entry in node.entries:
        if entry.first in CALL_FIELDS:
            for miss in entry.misses(entry.get(call)):
                yield prefixed(entry.key, miss)
        else:
            note = f"a tool call has {', '.join(CALL_FIELDS)}"
            yield Miss((entry.key,), entry.at, "", entry.operand, ABSENT, note)
