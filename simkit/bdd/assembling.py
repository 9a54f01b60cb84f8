"""A story as a scenario that can be run: its claims put together, its turns assembled once each.

Each value has a line of the feature file, at which errors and findings are reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import cached_property, partial
from typing import Any, Final, NamedTuple

import msgspec
from yaml.error import Mark
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from simkit.checks.judge import Judgement, readdressed
from simkit.language.yaml import Document, SourcePath
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.items import ScenarioCase
from simkit.spec.scenario.model import Turn

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
        self._feature, self.file = feature, feature.file
        self.scenario = scenario
        """The lines of the scenario's title."""
        self._whole: dict[SourcePath, Lines] = {}
        """Values outside turns."""
        self._turns: list[dict[SourcePath, Lines]] = []
        """Values of each turn, by the path below it."""

    def say(self, path: SourcePath, lines: Lines, below: int) -> None:
        """Record that a step set the value at a path, and touched everything above it.

        The first ``below`` keys of the path keep their lines.
        """
        for length in range(below + 1, len(path) + 1):
            self._put(path[:length], lines)
        if self._at(path) is None:
            self._put(path, lines)

    def copy(self) -> Places:
        """Return an independent copy."""
        other = Places(self._feature, self.scenario)
        other._whole = dict(self._whole)
        other._turns = [dict(line) for line in self._turns]
        return other

    def position(self, line: int) -> str:
        """Return ``file:line:column`` of a step."""
        return f"{self.file}:{line}:{self._mark(line).column + 1}"

    def line_of(self, path: SourcePath) -> int:
        """Return the line of the step that set a value, or what is around it."""
        steps = (self._at(path[:length]) for length in range(len(path), 0, -1))
        return next(filter(None, steps), self.scenario)[0]

    def root(self, data: dict[str, Any]) -> Node:
        """Return the data as nodes with the steps' marks."""
        return self._node(data, (), self.scenario)

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


WHOLE: Final = -1
"""The turn of claims on the whole run."""
EVERY: Final = -2
"""The turns of claims that hold in every turn of conversations that are explored."""
LISTS: Final = ("includes", "excludes", "findings", "satisfies")
"""Claims that are lists of matchers, all of which must hold."""
COUNTS: Final = "model_calls"
"""The claim with plain counts as values."""


class Claim(NamedTuple):
    """One claim."""

    turn: int
    """The index of the turn, or WHOLE."""
    path: tuple[str, ...]
    """The path below `expect`."""
    matcher: Any
    lines: Lines


class Claims:
    """The claims of a story, in order."""

    def __init__(self) -> None:
        self._by_turn: dict[int, list[Claim]] = {}

    def add(self, claim: Claim) -> Claim | None:
        """Add a claim; return an earlier one that it contradicts, instead of adding it."""
        turn_claims = self._by_turn.setdefault(claim.turn, [])
        if claim.path[0] == COUNTS:
            for other in turn_claims:
                if other.path == claim.path:
                    return None if other.matcher == claim.matcher else other
        turn_claims.append(claim)
        return None

    @property
    def speak_of_the_end(self) -> Lines | None:
        """Return the lines of the first claim on the whole run; None if there is none."""
        return next((claim.lines for claim in self._by_turn.get(WHOLE, ())), None)

    def expect(self, turn: int, places: Places) -> dict[str, Any]:
        """Return the claims on a turn or on the whole run, and record their lines."""
        above: tuple[str | int, ...] = ("expect",) if turn == WHOLE else ("turns", turn, "expect")
        below = 0 if turn == WHOLE else TURN
        by_path: dict[tuple[str, ...], list[Claim]] = {}
        for claim in self._by_turn.get(turn, ()):
            by_path.setdefault(claim.path, []).append(claim)
        expectations: dict[str, Any] = {}
        for path, claims in by_path.items():
            *way, key = path
            inner = expectations
            for step in way:
                inner = inner.setdefault(step, {})
            at = (*above, *path)
            matchers = [claim.matcher for claim in claims]
            joint = () if key in LISTS else ("$all",)
            if joint:
                places.say(at, claims[-1].lines, below)
            if joint and len(claims) == 1:
                inner[key] = matchers[0]
                continue
            inner[key] = {"$all": matchers} if joint else matchers
            for number, claim in enumerate(claims):
                places.say((*at, *joint, number), claim.lines, below)
        return expectations


def claims_in(claim_data: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the claims in an `expect` mapping, each with its path."""
    depth = {"context": 3, "runs": 3, COUNTS: 2, "judge": 2}.get(path[0] if path else "", 1)
    is_deeper = not path or len(path) < depth
    if is_deeper and isinstance(claim_data, dict):
        for key, inner in claim_data.items():
            yield from claims_in(inner, (*path, key))
    elif path and path[-1] in LISTS and isinstance(claim_data, list):
        for element in claim_data:
            yield path, element
    elif path:
        yield path, claim_data


class StoryParts(NamedTuple):
    """The story so far: values without claims, claims, and the lines of both."""

    values: dict[str, Any]
    claims: Claims
    places: Places
    standing: Sequence[Set[str]]
    """For each turn, the tools with results for every turn."""

    def item(self) -> ScenarioCase:
        """Return the scenario's place in the feature file."""
        return ScenarioCase(self.places.file, self.values["scenario"], 0, self.places.scenario[0])

    def whole(self) -> tuple[dict[str, Any], Places]:
        """Return all values as in a scenario file, and their lines."""
        places = self.places.copy()
        turns = [
            _claimed(turn, self.claims.expect(index, places))
            for index, turn in enumerate(self.values["turns"])
        ]
        values = {**self.values, "turns": turns}
        return _claimed(values, self.claims.expect(WHOLE, places)), places


def whole(parts: StoryParts, library: Library) -> Prepared:
    """Return the story as from a file; raise SourceError for all errors in it."""
    values, places = parts.whole()
    document = places.document(values, partial(places.root, values))
    prepared = library.assembled(parts.item(), document)
    turns = tuple(map(_waiting, prepared.scenario.turns, parts.standing))
    scenario = prepared.scenario.model_copy(update={"turns": turns})
    return msgspec.structs.replace(prepared, scenario=scenario)


def _waiting(turn: Turn, standing: Set[str]) -> Turn:
    """Return the turn with results for every turn marked, which may stay unused."""
    if not standing:
        return turn
    results = {
        tool: msgspec.structs.replace(answers, may_wait=True) if tool in standing else answers
        for tool, answers in turn.tool_results.items()
    }
    return turn.model_copy(update={"tool_results": results})


def _claimed(values: dict[str, Any], expect: Mapping[str, Any]) -> dict[str, Any]:
    return {**values, "expect": expect} if expect else values


# Addresses of a scenario file in messages, as lines and steps of the feature


_STEPS: Final = {
    "replies": 'And {} replies "…"',
    "tool_results": 'And {} returns "…"',
    "elicits": 'And the user answers the server {} with "…"',
}


def in_steps(judgement: Judgement, line_of: Callable[[SourcePath], int]) -> Judgement:
    """Return a judgement whose findings name lines and steps of the feature.

    ``line_of`` returns the line of a value of the scenario.
    """

    def step(match: re.Match[str]) -> str:
        turn, name = int(match["turn"]), match["name"]
        below = f"below line {line_of(('turns', turn))}"
        if match["adds"]:
            return f"the step `{_STEPS[match['kind']].format(name)}` {below}"
        if match["under"] or match["place"] is None:
            return below
        return f"line {line_of(('turns', turn, match['kind'], name, int(match['place'])))}"

    return readdressed(judgement, step)
