"""Edits of a file: values that describe changes, the resulting text, and those of a claim.

Pure: a text and edits at places in its documents give a new text. Every byte outside the replaced
ranges stays: comments, order, quotes, anchors, line ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from simkit.checks.findings import Path
from simkit.core.messages import ABSENT, ROLE_ALIASES, Dropped, Message, ToolCall
from simkit.language.matching import values
from simkit.language.matching.lists import aligned
from simkit.language.matching.misses import line
from simkit.language.matching.operators import is_operator
from simkit.language.paths import lookup, unescaped
from simkit.language.yaml import SourcePath
from simkit.update.observed_values import claim_of, claim_of_mapping, holds
from simkit.update.replacing import (
    Layout,
    Obstacle,
    Site,
    Spot,
    give,
    layouts,
    put,
    relisted,
    unfolded,
)


class Put(msgspec.Struct, frozen=True, tag=True):
    """An edit that replaces a value."""

    path: SourcePath
    value: Any


class Give(msgspec.Struct, frozen=True, tag=True):
    """An edit that adds a key to a mapping, as the last one."""

    path: SourcePath
    key: str
    value: Any


class Relist(msgspec.Struct, frozen=True, tag=True):
    """An edit that removes elements from a list and adds others; the rest stays unchanged."""

    path: SourcePath
    removed: tuple[int, ...]
    added: tuple[tuple[int, Any], ...]
    """Values, each inserted before the old element at this index; the list's length means its
    end."""


class Unfold(msgspec.Struct, frozen=True, tag=True):
    """An edit that writes brackets or braces on one line as lines, with unchanged parts."""

    path: SourcePath


Edit: TypeAlias = Put | Give | Relist | Unfold


class Replacement(msgspec.Struct, frozen=True, order=True):
    """A range of a text, and its new text."""

    start: int
    end: int
    depth: int
    """The order of several inserts at one place: the deepest comes first."""
    text: str


class Sheet:
    """A text with its layout, read once for all edits."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._layouts = layouts(text)
        match = re.search(r"\r\n?|\n", text)
        self._line_end = match[0] if match else "\n"

    def layout(self, document: int) -> Layout:
        """Return the layout of a document."""
        return self._layouts[document]

    def replacements(self, document: int, edit: Edit) -> list[Replacement]:
        """Return the ranges that an edit replaces in a document; raise Obstacle if it cannot."""
        layout = self._layouts[document]
        chain = _reached(layout, edit.path)
        site = Site(self.text, layout, chain)
        if isinstance(edit, Put):
            _refuse_anchors(layout, chain[-1])
            sites = [put(site, edit.value)]
        elif isinstance(edit, Give):
            sites = [give(site, edit.key, edit.value)]
        elif isinstance(edit, Relist):
            for index in edit.removed:
                _refuse_anchors(layout, chain[-1].items[index])
            sites = list(relisted(site, edit.removed, edit.added))
        else:
            sites = [unfolded(site)]
        return [
            Replacement(start, end, -len(chain), text.replace("\n", self._line_end))
            for start, end, text in sites
        ]

    def with_replacements(self, replacements: Iterable[Replacement]) -> str:
        """Return the text with ranges replaced; they must not overlap."""
        pieces: list[str] = []
        end = 0
        for replacement in sorted(replacements):
            if replacement.start < end:
                raise Obstacle("another change stands in the same place")
            pieces += [self.text[end : replacement.start], replacement.text]
            end = replacement.end
        return "".join([*pieces, self.text[end:]])


def edited(text: str, edits: Mapping[int, Sequence[Edit]]) -> str:
    """Return a file's text with the edits of each document; raise Obstacle."""
    sheet = Sheet(text)
    return sheet.with_replacements(
        replacement
        for document, some in edits.items()
        for edit in some
        for replacement in sheet.replacements(document, edit)
    )


def applied(data: Any, edits: Iterable[Edit]) -> Any:
    """Return a document's plain value after the edits."""
    # Lists change last, the innermost first, because that changes the indices in paths.
    for edit in sorted(edits, key=lambda outer: (isinstance(outer, Relist), -len(outer.path))):
        data = _applied(data, edit.path, edit)
    return data


def _applied(data: Any, path: SourcePath, edit: Edit) -> Any:
    if path:
        step, *rest = path
        inner = _applied(data[step], tuple(rest), edit)
        if isinstance(data, Mapping):
            return {**data, step: inner}
        return [inner if index == step else inner_value for index, inner_value in enumerate(data)]
    if isinstance(edit, Put):
        return edit.value
    if isinstance(edit, Give):
        return {**data, edit.key: edit.value}
    if isinstance(edit, Unfold):
        return data
    return list(_elements(data, edit))


def _elements(old: Sequence[Any], edit: Relist) -> Iterator[Any]:
    for index in range(len(old) + 1):
        yield from (value for before, value in edit.added if before == index)
        if index < len(old) and index not in edit.removed:
            yield old[index]


# Places where an edit is possible


def _reached(layout: Layout, path: SourcePath) -> list[Spot]:
    """Return the values on the way to a path; raise if an alias shares one."""
    chain = layout.chain(path)
    for spot in chain:
        if spot.kind == "alias":
            raise Obstacle(f"it is written elsewhere: here is only its alias `*{spot.anchor}`")
        if layout.is_shared(spot):
            raise Obstacle(f"aliases repeat it, as `*{spot.anchor}`")
    if len(chain) <= len(path):
        raise Obstacle("it is not written out here")
    return chain


def _refuse_anchors(layout: Layout, spot: Spot) -> None:
    """Raise if a replaced value contains an anchor that aliases elsewhere need."""
    for element in spot.below():
        if layout.is_shared(element):
            raise Obstacle(f"it holds the anchor `&{element.anchor}`, which aliases repeat")


def opened(text: str, document: int, path: SourcePath) -> str:
    """Return the text with the values on a path written in lines, not in brackets on one line.

    A value that cannot be written like this stays.
    """
    sheet = Sheet(text)
    for size in range(len(path) + 1):
        try:
            chain = _reached(sheet.layout(document), path[:size])
            if chain[-1].is_flow:
                text = sheet.with_replacements(sheet.replacements(document, Unfold(path[:size])))
                sheet = Sheet(text)
        except Obstacle:
            return text
    return text


# Changes of a claim that make it hold for the actual value; parts that hold stay


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
    return [Manual((), f"no claim that can be written matches {line(value)}")]


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
    return [as_claim(item) for item in value] if values.is_list(value) else claim_of(value)


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(values.structure_of(value), enc_hook=_builtin)


def _builtin(value: Any) -> Any:
    return str(value) if isinstance(value, values.ToolName) else [*value]


def _changes(matcher: Any, value: Any, at: Path, as_claim: AsClaim = claim_of) -> Iterator[Change]:
    if holds(matcher, value):
        return
    if isinstance(matcher, Mapping):
        yield from _of_mapping(matcher, value, at)
    elif isinstance(matcher, list) and values.is_list(values.structure_of(value)):
        elements = values.structure_of(value)
        yield from _relist(matcher, elements, at, lambda *it: not holds(*it), as_claim, _changes)
    elif isinstance(matcher, list) or values.text_of(value) is None:
        yield Put(at, _whole(value, as_claim))
    else:
        yield Put(at, values.text_of(value))


# Mappings


def _of_mapping(matcher: Mapping[str, Any], value: Any, at: Path) -> Iterator[Change]:
    keyed = {key: operand for key, operand in matcher.items() if not is_operator(key)}
    for key, operand in matcher.items():
        if key not in keyed and not holds({key: operand}, value):
            yield from _of_operator(key, operand, value, (*at, key))
    if not keyed or holds(keyed, value):
        return
    parts = _parts(keyed, value)
    if parts is not None:
        for key, inner in parts.items():
            yield from _changes(keyed[key], inner, (*at, key))
    elif len(keyed) == len(matcher):
        yield Put(at, claim_of(value))
    else:
        yield Manual(at, f"it stands beside operators, but the run has {line(value)}")


def _of_operator(name: str, operand: Any, value: Any, at: Path) -> Iterator[Change]:
    size = values.size_of(value)
    if name == "$eq":
        yield Put(at, values.text_of(value) if isinstance(operand, str) else _plain(value))
    elif name == "$len" and size is not None:
        yield from _changes(operand, size, at)
    elif name == "$exact" and isinstance(values.structure_of(value), Mapping):
        yield from _of_exact(operand, values.structure_of(value), at)
    else:
        yield Manual(at, f"`{name}` does not match {line(value)}")


def _of_exact(operand: Mapping[str, Any], value: Mapping[str, Any], at: Path) -> Iterator[Change]:
    matched = claim_of_mapping(value)
    if any(key not in matched for key in operand) or not operand:
        yield Put(at, matched)
        return
    for key, expected_item in operand.items():
        yield from _changes(expected_item, value[unescaped(key)], (*at, key))
    for key, claim in matched.items():
        if key not in operand:
            yield Give(at, key, claim)


def _role_keys(keyed: Mapping[str, Any]) -> set[str]:
    """Return the keys of a claim on a message that name its role: `user: …`."""
    roles = keyed.keys() & ROLE_ALIASES.keys()
    if "role" in keyed:
        roles.discard("tool")  # There it is the name of the tool that answered.
    return roles


def _parts(keyed: Mapping[str, Any], value: Any) -> dict[str, Any] | None:
    """Return the actual value of each key; None if the role, tool or kind of value differs."""
    if isinstance(value, ToolCall) and len(keyed) == 1:
        (name,) = keyed
        if name not in ("id", "name", "tool", "args"):
            return {name: value.args} if name == value.name else None
    if isinstance(value, (values.Content, values.ToolName)):
        value = value.structure
    if not isinstance(value, Mapping | Message | Dropped | ToolCall):
        return None
    role, content = _content_and_data(value)
    roles = _role_keys(keyed) if role else set()
    if any(ROLE_ALIASES[key] != role for key in roles):
        return None
    contents = roles | ({"content", "text"} if role else set())
    return {key: content if key in contents else lookup(value, unescaped(key)) for key in keyed}


def _content_and_data(value: Any) -> tuple[str, Any]:
    """Return the role and content of a message; an empty role for other values."""
    if isinstance(value, Dropped):
        value = value.message
    if isinstance(value, Message):
        return value.role, values.Content(value.content, value.data)
    if isinstance(value, Mapping) and "role" in value and "content" in value:
        content = value["content"]
        text = values.Content(content, value.get("data")) if isinstance(content, str) else content
        return ROLE_ALIASES.get(str(value["role"]), ""), text
    return "", ABSENT


# Lists


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
