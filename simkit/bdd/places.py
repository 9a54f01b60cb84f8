"""Where each value of a story was said: the lines of the feature file."""

from __future__ import annotations

from functools import partial
from typing import Any

from yaml.error import Mark
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from simkit.source import Document, SourcePath

Lines = tuple[int, int]
"""The first and the last line of a step, from 1."""


class Places:
    """Remembers which step said what, and makes a document of what was said.

    The document's positions are the steps' in the feature file, so that every error and finding
    about a value points to the step that said it.
    """

    def __init__(self, file: str, text: str, scenario: Lines) -> None:
        self.file = file
        self._text = text
        self._lines = text.split("\n")
        self._said: dict[SourcePath, Lines] = {(): scenario}

    def say(self, path: SourcePath, lines: Lines, below: int) -> None:
        """Notes that a step said the value at a path, and last spoke of all above it.

        The first ``below`` keys of the path keep the place that they have.
        """
        for length in range(below + 1, len(path) + 1):
            self._said[path[:length]] = lines
        self._said.setdefault(path, lines)

    def copy(self) -> Places:
        """Returns places that may be added to, and leave these as they are."""
        other = Places(self.file, self._text, self._said[()])
        other._said = dict(self._said)
        return other

    def position(self, line: int) -> str:
        """Returns ``file:line:column`` of a step."""
        return f"{self.file}:{line}:{self._mark(line).column + 1}"

    def document(self, data: dict[str, Any]) -> Document:
        """Returns the data as a document of the feature file."""
        root = self._node(data, (), self._said[()])
        # A restart hands the document to another process, which a lambda would not survive.
        return Document(self.file, 0, data, partial(_same, root), self._text)

    def _node(self, value: Any, path: SourcePath, lines: Lines) -> Node:
        lines = self._said.get(path, lines)
        start, end = self._mark(lines[0]), self._mark(lines[1])
        if isinstance(value, dict):
            pairs = [
                (
                    ScalarNode("", key, *self._marks((*path, key), lines), style='"'),
                    self._node(inner, (*path, key), lines),
                )
                for key, inner in value.items()
            ]
            return MappingNode("", pairs, start, end)
        if isinstance(value, list):
            items = [self._node(inner, (*path, i), lines) for i, inner in enumerate(value)]
            return SequenceNode("", items, start, end)
        return ScalarNode("", str(value), start, self._mark(lines[1], ends=True), style='"')

    def _marks(self, path: SourcePath, lines: Lines) -> tuple[Mark, Mark]:
        lines = self._said.get(path, lines)
        return self._mark(lines[0]), self._mark(lines[1], ends=True)

    def _mark(self, line: int, ends: bool = False) -> Mark:
        text = self._lines[line - 1] if 0 < line <= len(self._lines) else ""
        column = len(text) if ends else len(text) - len(text.lstrip())
        # Only the order of two marks' indexes is ever looked at.
        return Mark(self.file, line * 10_000 + column, line - 1, column, None, 0)


def _same(node: Node) -> Node:
    return node
