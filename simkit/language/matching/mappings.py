"""Mappings: partial, key by key; also messages and tool calls, by their fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Final, NamedTuple

from simkit.core.errors import MatcherError
from simkit.core.messages import ABSENT, ROLE_ALIASES, Dropped, Message, ToolCall, value_said
from simkit.language.matching.misses import NOTHING, Build, Condition, Miss, Path, prefixed, unless
from simkit.language.matching.values import Content, ToolName
from simkit.language.paths import Getter, first_step, getter, unescaped

MESSAGE_FIELDS: Final = (
    *("role", "content", "text", "agent", "section", "calls", "id", "turn", "tool", "call_id"),
    *("data", "thinking", "name"),
)
_OF_DROPPED: Final = ("what", "by")
DROPPED_FIELDS: Final = (*MESSAGE_FIELDS, *_OF_DROPPED)
_ATTRIBUTES: Final = ("agent", "calls", "turn", "data")
"""Fields that are never absent."""
CALL_FIELDS: Final = ("id", "name", "tool", "args", "to")
_LITERAL_OPERATORS: Final = frozenset(
    {"$contains", "$starts", "$ends", "$regex", "$len", "$schema"}
)


class _Field(NamedTuple):
    """A field of messages, with the condition on its value."""

    path: str
    read: Getter
    inner: Condition


class KeyMatcher(NamedTuple):
    """One plain key of a mapping matcher."""

    key: str
    get: Getter
    inner: Condition
    at: Path
    operand: Any
    first: str | int
    """The first part of the key, read as a path."""
    role: str | None
    """The role that the key names; None if it names no role."""
    field: _Field
    """The field of a message that the key names."""


class Keyed(NamedTuple):
    """The plain keys of a mapping matcher."""

    entries: Sequence[KeyMatcher]
    at: Path
    source: Mapping[str, Any]


def keyed(plain: Mapping[str, Any], at: Path, build: Build) -> Condition:
    """Return the matcher of mappings with matching values, key by key."""
    return unless(partial(_of_any, _keyed(plain, at, build)))


def exact(operand: Any, at: Path, build: Build) -> Condition:
    """Return the matcher of mappings with these keys and no others."""
    if not isinstance(operand, Mapping):
        raise MatcherError(at, "`$exact` takes a mapping")
    for key in operand:
        if key.startswith("$") and not key.startswith("$$"):
            raise MatcherError(
                (*at, key), "`$exact` takes plain keys", key, (), f"put `{key}` beside `$exact`"
            )
    return exactly(operand, at, build)


def exactly(plain: Mapping[str, Any], at: Path, build: Build) -> Condition:
    """Return the matcher of mappings with these plain keys and no others.

    ``build`` compiles the inner matchers.
    """
    node = _keyed(plain, at, build)

    def misses(value: Any) -> Iterator[Miss]:
        if isinstance(value, Content):
            value = value.structure
        yield from _of_any(node, value)
        if isinstance(value, Mapping):
            named = {key for entry in node.entries for key in _named(entry, value)}
            for key in value:
                if key not in named:
                    yield Miss((key,), at, "", NOTHING, value[key])
        elif not node.entries if isinstance(value, ToolCall) else _lacks_role(node, value):
            yield Miss((), at, "$exact", plain, value)

    return unless(misses)


def _lacks_role(node: Keyed, value: Any) -> bool:
    """Return whether a value is a message, of which no key names the role that each has."""
    keys = (entry.role or entry.key for entry in node.entries)
    return isinstance(value, (Message, Dropped)) and not {*keys} & {"role", *ROLE_ALIASES}


def _keyed(plain: Mapping[str, Any], at: Path, build: Build) -> Keyed:
    roles = {key: ROLE_ALIASES[key] for key in plain if key in ROLE_ALIASES}
    if "role" in plain or len(roles) > 1:
        roles.pop("tool", None)  # Beside a role, it is the tool's name.
    entries = [_entry(key, operand, at, build, roles.get(key)) for key, operand in plain.items()]
    return Keyed(entries, at, plain)


def _named(entry: KeyMatcher, value: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the keys of a mapping that an entry covers."""
    if entry.key in value:
        return (entry.key,)
    if entry.role is not None and "role" in value and "content" in value:
        return ("role", "content")
    return (entry.first,)


def _entry(source: str, operand: Any, at: Path, build: Build, role: str | None) -> KeyMatcher:
    key = unescaped(source)
    at = (*at, source)
    inner = build(operand, at)
    if role is not None:
        field = _Field("content", _content_of, inner)
    elif key == "role":
        # Other libraries' role names are translated.
        field = _Field(key, attrgetter(key), build(_roles(operand), at))
    elif key in ("content", "text"):
        field = _Field(key, _content_of, inner)
    else:
        field = _Field(key, attrgetter(key) if key in _ATTRIBUTES else getter(key), inner)
    return KeyMatcher(key, getter(key), inner, at, operand, first_step(key), role, field)


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
    if value.__class__ is dict:
        return _of_mapping(node, value)
    if isinstance(value, (Message, Dropped)):
        return _of_message(node, value)
    if isinstance(value, (Content, ToolName)):
        value = value.structure
    if isinstance(value, ToolCall):
        return _of_call(node, value)
    if isinstance(value, Mapping):
        return _of_mapping(node, value)
    return (Miss((), node.at, "", node.source, value, _operators_meant(node)),)


def _operators_meant(node: Keyed) -> str:
    """Return the note that keys are keys, if they are operators without their `$`."""
    # The table of operators compiles what is here.
    from simkit.language.matching.operators import operator_meant

    names = [operator_meant(entry.key) for entry in node.entries]
    if not names or not all(names):
        return ""
    return f"without `$` it is a key of a mapping; the operator is `{'`, `'.join(names)}`"


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
            for miss in entry.inner.misses(content):
                yield prefixed("content", miss)
        else:
            for miss in entry.inner.misses(entry.get(value)):
                yield prefixed(entry.key, miss)


def _of_message(node: Keyed, value: Message | Dropped) -> Iterator[Miss]:
    message = value.message if isinstance(value, Dropped) else value
    fields = DROPPED_FIELDS if isinstance(value, Dropped) else MESSAGE_FIELDS
    for entry in node.entries:
        if entry.role not in (None, message.role):
            yield _other_role(entry, message.role)
        if entry.role is not None or entry.first in fields:
            is_dropped = entry.first in _OF_DROPPED
            read = entry.field.read(value if is_dropped else message)
            for miss in entry.field.inner.misses(read):
                yield prefixed(entry.field.path, miss)
        else:
            note = f"a message has {', '.join(fields)}, or a role and its content"
            yield Miss((entry.key,), entry.at, "", entry.operand, ABSENT, note)


def _content_of(message: Message) -> Content:
    return Content(message.content, None if message.data is None else value_said(message))


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
        for miss in entry.inner.misses(call.args):
            yield prefixed("args", miss)
        return
    for entry in node.entries:
        if entry.first in CALL_FIELDS:
            for miss in entry.inner.misses(entry.get(call)):
                yield prefixed(entry.key, miss)
        else:
            note = f"a tool call has {', '.join(CALL_FIELDS)}"
            yield Miss((entry.key,), entry.at, "", entry.operand, ABSENT, note)
