"""Changes of a claim that make it hold for the actual value; parts that hold stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from simkit.checks.scope import Path
from simkit.core.messages import ABSENT, ROLE_ALIASES, Dropped, Message, ToolCall
from simkit.language.matching.lists import aligned
from simkit.language.matching.misses import line
from simkit.language.matching.operators import is_operator
from simkit.language.matching.values import (
    Content,
    ToolName,
    is_list,
    size_of,
    structure_of,
    text_of,
)
from simkit.language.paths import lookup
from simkit.update.edits import Edit, Give, Put, Relist, applied
from simkit.update.observed_values import claim_of, claim_of_mapping, holds


class Manual(msgspec.Struct, frozen=True):
    """A part of a claim that only a person can change."""

    path: Path
    why: str


Change: TypeAlias = Edit | Manual
AsClaim: TypeAlias = Callable[[Any], Any]
"""Returns the claim for an actual value."""


def changes(matcher: Any, value: Any, as_claim: AsClaim = claim_of) -> list[Change]:
    """Return the changes that make a matcher hold for a value; paths begin at the matcher.

    ``as_claim`` makes the claim for an element, if the value is a list.
    """
    all_edits = list(_changes(matcher, value, (), as_claim))
    edits = [edit for edit in all_edits if not isinstance(edit, Manual)]
    if len(edits) < len(all_edits) or holds(applied(matcher, edits), value):
        return all_edits
    for whole in (_whole(value, as_claim), {"$eq": _plain(value)}):
        if holds(whole, value):
            return [Put((), whole)]
    return [Manual((), f"no claim that can be written holds of {line(value)}")]


def changes_of_agents(matcher: Any, groups: Sequence[Any]) -> list[Change]:
    """Return the changes that make a list of agents hold.

    A nested list is one group in any order.
    """
    if not isinstance(matcher, list):
        return [Manual((), "it is no plain list of agents")]

    def fits(expected: Any, actual: Any) -> bool:
        if isinstance(expected, list) and isinstance(actual, list):
            return holds({"$unordered": expected}, actual)
        return holds(expected, actual)

    return list(
        _relist(matcher, groups, (), lambda *pair: not fits(*pair), lambda item: item, _replace)
    )


def _whole(value: Any, as_claim: AsClaim) -> Any:
    return [as_claim(item) for item in value] if is_list(value) else claim_of(value)


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(structure_of(value), enc_hook=_builtin)


def _builtin(value: Any) -> Any:
    return str(value) if isinstance(value, ToolName) else [*value]


def _changes(matcher: Any, value: Any, at: Path, as_claim: AsClaim = claim_of) -> Iterator[Change]:
    if holds(matcher, value):
        return
    if isinstance(matcher, Mapping):
        yield from _of_mapping(matcher, value, at)
    elif isinstance(matcher, list) and is_list(structure_of(value)):
        elements = structure_of(value)
        yield from _relist(matcher, elements, at, _differs, as_claim, _changes)
    elif isinstance(matcher, list) or text_of(value) is None:
        yield Put(at, _whole(value, as_claim))
    else:
        yield Put(at, text_of(value))


# Mappings


def _of_mapping(matcher: Mapping[str, Any], value: Any, at: Path) -> Iterator[Change]:
    plain = {key: operand for key, operand in matcher.items() if not is_operator(key)}
    for key, operand in matcher.items():
        if key not in plain and not holds({key: operand}, value):
            yield from _of_operator(key, operand, value, (*at, key))
    if not plain or holds(plain, value):
        return
    parts = _parts(plain, value)
    if parts is not None:
        for key, inner in parts.items():
            yield from _changes(plain[key], inner, (*at, key))
    elif len(plain) == len(matcher):
        yield Put(at, claim_of(value))
    else:
        yield Manual(at, f"it stands beside operators, but found was {line(value)}")


def _of_operator(name: str, operand: Any, value: Any, at: Path) -> Iterator[Change]:
    size = size_of(value)
    if name == "$eq":
        yield Put(at, text_of(value) if isinstance(operand, str) else _plain(value))
    elif name == "$len" and size is not None:
        yield from _changes(operand, size, at)
    elif name == "$exact" and isinstance(structure_of(value), Mapping):
        yield from _of_exact(operand, structure_of(value), at)
    else:
        yield Manual(at, f"`{name}` does not hold of {line(value)}")


def _of_exact(operand: Mapping[str, Any], value: Mapping[str, Any], at: Path) -> Iterator[Change]:
    matched = claim_of_mapping(value)
    if any(key not in matched for key in operand) or not operand:
        yield Put(at, matched)
        return
    for key, expected_item in operand.items():
        yield from _changes(expected_item, value[_unescaped(key)], (*at, key))
    for key, claim in matched.items():
        if key not in operand:
            yield Give(at, key, claim)


def _role_keys(plain: Mapping[str, Any]) -> set[str]:
    """Return the keys of a claim on a message that name its role: `user: …`."""
    roles = plain.keys() & ROLE_ALIASES.keys()
    if "role" in plain:
        roles.discard("tool")  # There it is the name of the tool that answered.
    return roles


def _parts(plain: Mapping[str, Any], value: Any) -> dict[str, Any] | None:
    """Return the actual value of each key; None if the role, tool or kind of value differs."""
    if isinstance(value, ToolCall) and len(plain) == 1:
        (name,) = plain
        if name not in ("id", "name", "tool", "args"):
            return {name: value.args} if name == value.name else None
    if isinstance(value, (Content, ToolName)):
        value = value.structure
    if not isinstance(value, Mapping | Message | Dropped | ToolCall):
        return None
    role, content = _content_and_data(value)
    roles = _role_keys(plain) if role else set()
    if any(ROLE_ALIASES[key] != role for key in roles):
        return None
    contents = roles | ({"content", "text"} if role else set())
    return {key: content if key in contents else lookup(value, _unescaped(key)) for key in plain}


def _content_and_data(value: Any) -> tuple[str, Any]:
    """Return the role and content of a message; an empty role for other values."""
    if isinstance(value, Dropped):
        value = value.message
    if isinstance(value, Message):
        return value.role, Content(value.content, value.data)
    if isinstance(value, Mapping) and "role" in value and "content" in value:
        content = value["content"]
        text = Content(content, value.get("data")) if isinstance(content, str) else content
        return ROLE_ALIASES.get(str(value["role"]), ""), text
    return "", ABSENT


def _unescaped(key: str) -> str:
    return key[1:] if key.startswith("$$") else key


# Lists


def _differs(expected: Any, actual: Any) -> bool:
    return not holds(expected, actual)


def _replace(
    _expected: Any, actual: Any, at: Path, as_claim: AsClaim = claim_of
) -> Iterator[Change]:
    yield Put(at, as_claim(actual))


def _relist(
    expected: Sequence[Any],
    actual: Sequence[Any],
    at: Path,
    differs: Callable[[Any, Any], bool],
    as_claim: AsClaim,
    change: Callable[[Any, Any, Path, AsClaim], Iterator[Change]],
) -> Iterator[Change]:
    """Yield the changes that make a complete list hold: changed, removed and added elements."""
    pairs = aligned(expected, actual, differs)
    if not pairs:
        yield Put(at, [as_claim(item) for item in actual])
        return
    for number, index in pairs:
        if differs(expected[number], actual[index]):
            yield from change(expected[number], actual[index], (*at, number), as_claim)
    placed = dict(pairs)
    removed = tuple(number for number in range(len(expected)) if number not in placed)
    of = {index: number for number, index in pairs}
    added = []
    before = 0
    for index, item in enumerate(actual):
        if index in of:
            before = of[index] + 1
        else:
            added.append((before, as_claim(item)))
    if removed or added:
        yield Relist(at, removed, tuple(added))
