"""Lines of the feature file, for each value of a story."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

from yaml.error import Mark
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from simkit.language.yaml import Document, SourcePath

Lines = tuple[int, int]
"""The first and the last line of a step, from 1."""
TURN: Final = 2
"""The number of keys of a path that name the turn: ``turns`` and its index."""


class FeatureText:
    """A feature file, which all its stories share."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.text = file, text

    @cached_property
    def lines(self) -> Sequence[str]:
        """Return its lines; most stories hold, and nobody asks where something is."""
        return self.text.split("\n")


class Places:
    """The step of each value, for a document of these values.

    The document's positions are the steps' in the feature file, so that every error and finding
    about a value points to its step.
    """

    def __init__(self, feature: FeatureText, scenario: Lines) -> None:
        self._feature = feature
        self._scenario = scenario
        self._whole: dict[SourcePath, Lines] = {}
        """Values outside turns."""
        self._turns: list[dict[SourcePath, Lines]] = []
        """Values of each turn, by the path below it."""

    @property
    def file(self) -> str:
        """Return the feature file."""
        return self._feature.file

    @property
    def scenario(self) -> Lines:
        """Return the lines of the scenario's title."""
        return self._scenario

    def say(self, path: SourcePath, lines: Lines, below: int) -> None:
        """Record that a step set the value at a path, and touched everything above it.

        The first ``below`` keys of the path keep their lines.
        """
        for length in range(below + 1, len(path) + 1):
            self._put(path[:length], lines)
        if self._at(path) is None:
            self._put(path, lines)

    def copy(self, turns: Sequence[int] | None = None) -> Places:
        """Return an independent copy.

        ``turns`` are the only turns in it, in this order; None means all.
        """
        other = Places(self._feature, self._scenario)
        other._whole = dict(self._whole)
        chosen = self._turns if turns is None else [self._turns[turn] for turn in turns]
        other._turns = [dict(line) for line in chosen]
        return other

    def position(self, line: int) -> str:
        """Return ``file:line:column`` of a step."""
        return f"{self.file}:{line}:{self._mark(line).column + 1}"

    def root(self, data: dict[str, Any]) -> Node:
        """Return the data as nodes with the steps' marks."""
        return self._node(data, (), self._scenario)

    def document(self, data: dict[str, Any], root: Callable[[], Node]) -> Document:
        """Return the data as a document of the feature file; ``root`` returns its nodes."""
        return Document(self.file, 0, data, root, self._feature.text)

    def _at(self, path: SourcePath) -> Lines | None:
        if len(path) < TURN or path[0] != "turns":
            return self._whole.get(path)
        place = path[1]
        assert isinstance(place, int)
        return self._turns[place].get(path[2:]) if place < len(self._turns) else None

    def _put(self, path: SourcePath, lines: Lines) -> None:
        if len(path) < TURN or path[0] != "turns":
            self._whole[path] = lines
            return
        place = path[1]
        assert isinstance(place, int)
        while len(self._turns) <= place:
            self._turns.append({})
        self._turns[place][path[2:]] = lines

    def _node(self, value: Any, path: SourcePath, lines: Lines) -> Node:
        lines = self._at(path) or lines
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
        lines = self._at(path) or lines
        return self._mark(lines[0]), self._mark(lines[1], ends=True)

    def _mark(self, line: int, ends: bool = False) -> Mark:
        lines = self._feature.lines
        text = lines[line - 1] if 0 < line <= len(lines) else ""
        column = len(text) if ends else len(text) - len(text.lstrip())
        # Only the order of two marks' indices matters.
        return Mark(self.file, line * 10_000 + column, line - 1, column, None, 0)
