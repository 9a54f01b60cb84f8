"""Edits of a file: values that describe changes, and the resulting text.

Pure: a text and edits at places in its documents give a new text. Every byte outside the replaced
ranges stays: comments, order, quotes, anchors, line ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from simkit.language.yaml import SourcePath
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
