"""Lines of a test's Python file, as positions in a document."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from types import FrameType
from typing import Any, Final, NamedTuple

from yaml.error import Mark
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from simkit.core.errors import SourceError
from simkit.language.yaml import Document

_OWN: Final = "simkit.session.simulation."


class CallSite(NamedTuple):
    """The place of one call in a Python file."""

    file: str
    """The file, relative to the working directory."""
    line: int
    """The line, from 1."""
    column: int
    """The column, from 0."""
    last_line: int
    last_column: int

    @property
    def where(self) -> str:
        """Return ``file:line:column``, from 1."""
        return f"{self.file}:{self.line}:{self.column + 1}"

    def error(self, problem: str, near: str = "", known: Sequence[str] = ()) -> SourceError:
        """Return an error about the call."""
        return SourceError(self.where, problem, near=near, known=tuple(known))


def call_site_of_caller() -> CallSite:
    """Return the place of the nearest calling code outside simkit."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_OWN):
        frame = frame.f_back
    if frame is None:
        return CallSite("<unknown>", 1, 0, 1, 0)
    positions = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), ())
    first, last, column, last_column = positions or (None, None, None, None)
    line = first or frame.f_lineno
    return CallSite(
        _typed(frame.f_code.co_filename), line, column or 0, last or line, last_column or 0
    )


def _typed(file: str) -> str:
    """Return a path relative to the working directory; on another drive it stays absolute."""
    try:
        return os.path.relpath(file) if os.path.isabs(file) else file
    except ValueError:
        return file


def document_at(data: Mapping[str, Any], whole: CallSite, turns: Sequence[CallSite]) -> Document:
    """Return a scenario as a document of the Python file, each turn at its call."""
    text = "".join(linecache.getlines(whole.file))
    # A restart sends the document to another process, which a lambda would not survive.
    return Document(whole.file, 0, data, partial(_root, whole, tuple(turns)), text)


def _root(whole: CallSite, turns: tuple[CallSite, ...]) -> Node:
    """Return nodes for values with their own place; others use the nearest ancestor's."""
    items = [_node(turn) for turn in turns]
    key = ScalarNode("", "turns", *_marks(whole))
    return MappingNode("", [(key, SequenceNode("", items, *_marks(whole)))], *_marks(whole), False)


def _node(place: CallSite) -> ScalarNode:
    return ScalarNode("", "", *_marks(place), style='"')


def _marks(place: CallSite) -> tuple[Mark, Mark]:
    return (
        _mark(place.file, place.line, place.column),
        _mark(place.file, place.last_line, place.last_column),
    )


def _mark(file: str, line: int, column: int) -> Mark:
    # Only the order of two marks' indices matters.
    return Mark(file, line * 10_000 + column, line - 1, column, None, 0)
