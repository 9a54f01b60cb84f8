"""Outlines: what pytest-bdd passes over in silence, and the texts in their cells.

pytest-bdd 9 leaves a hole without a column in the text of its step, runs an outline without rows
once, with all holes empty, and keeps one of two scenarios of a name. All would pass as tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from gherkin.dialect import Dialect
from pytest_bdd.gherkin_parser import get_gherkin_document

from simkit.core.errors import SourceError
from simkit.core.text import counted
from simkit.language.yaml import near

_HOLE: Final = re.compile(r"<(\w(?:[^<>]*[^<>\s])?)>")
_NAME: Final = re.compile(r"[\w .-]+")
_QUOTED: Final = re.compile(r'\\.|(")|<([^<>]+)>', re.DOTALL)
_UNESCAPED: Final = re.compile(r'(\\["\\])|("|\\$)')


class Flaw(NamedTuple):
    """A flaw of a scenario in a feature, with its line."""

    line: int
    problem: str
    near: str = ""
    known: tuple[str, ...] = ()
    advice: str = ""

    def error(self, position: Callable[[int], str]) -> SourceError:
        """Return the error; ``position`` returns the place of a line."""
        where = position(self.line)
        return SourceError(where, self.problem, "", self.near, self.known, self.advice)


def flaw_of(feature: Any, template: Any) -> Flaw | None:
    """Return what pytest-bdd would pass over in a scenario, before it is rendered."""
    name, line = template.name, template.line_number
    rows = sum(len(table.examples) for table in template.examples)
    holes = [*_holes(template)]
    dialect = Dialect.for_name(feature.language)
    outline_words = () if dialect is None else dialect.scenario_outline_keywords
    if not rows and (template.templated or template.keyword in outline_words):
        return Flaw(
            line,
            f"the outline `{name}` has no row, so nothing in it is tested",
            advice="Add a row below the names of the columns under `Examples:`.",
        )
    for table in template.examples:
        for hole, at in holes:
            if hole not in table.example_params:
                columns = tuple(table.example_params)
                return Flaw(
                    at,
                    f"no column fills `<{hole}>` in the outline `{name}` "
                    f"(its table is in line {table.line_number})",
                    near(hole, columns),
                    columns,
                    f"To send the text `<{hole}>` itself, make it the cell of a column.",
                )
    others = [at for at in _lines_of_scenarios(feature, name) if at != line]
    if others:
        lines = ", ".join(map(str, others))
        return Flaw(
            line,
            f"{counted(len(others) + 1, 'scenario')} are called `{name}` (also line {lines}), "
            "and pytest-bdd runs the last one alone",
            advice="Give each a name of its own.",
        )
    return None


def _holes(template: Any) -> Iterator[tuple[str, int]]:
    """Yield the names in angle brackets in a scenario's steps, each with its line.

    A name with an end in the same text is markup: `<b>…</b>`.
    """
    for step in template.steps:
        texts = [step.name, step.docstring or ""]
        if step.datatable is not None:
            texts += [cell for row in step.datatable.raw() for cell in row]
        for text in texts:
            for hole in _HOLE.findall(text):
                if _NAME.fullmatch(hole) and f"</{hole}>" not in text:
                    yield hole, step.line_number


def _lines_of_scenarios(feature: Any, name: str) -> Iterator[int]:
    """Yield the lines of all scenarios of a name in a feature file, below rules too."""
    document = get_gherkin_document(feature.filename, "utf-8")
    below = [*document.feature.children]
    while below:
        child = below.pop(0)
        if child.rule:
            below += child.rule.children
        elif child.scenario and child.scenario.name == name:
            yield child.scenario.location.line


def texts_in_quotes(text: str, row: Mapping[str, str]) -> str:
    """Return a step with the cells of a row in its holes.

    A quote, or a backslash at the end, of a cell between quotes is part of its text.
    """
    within = False

    def fill(match: re.Match[str]) -> str:
        nonlocal within
        if match[1]:
            within = not within
        cell = row.get(match[2]) if match[2] else None
        if cell is None:
            return match[0]
        return _UNESCAPED.sub(lambda part: part[1] or f"\\{part[2]}", cell) if within else cell

    return _QUOTED.sub(fill, text)
