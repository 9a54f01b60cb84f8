"""Cells of a feature as values, and what pytest-bdd passes over in outlines."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from gherkin.dialect import Dialect
from pytest_bdd.gherkin_parser import get_gherkin_document

from simkit.core.errors import SourceError
from simkit.core.text import counted
from simkit.language.yaml import load_text, near
from simkit.spec.pipeline.agents import channels_of, members_of, sections_of
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.known import Subject

Table = Sequence[Sequence[str]]
"""The rows of a step's table, each a list of cells."""

Read = Callable[[str], Any]

ROLES: Final = ("user", "assistant", "system", "developer", "tool")
_WORDS: Final = {"true": True, "false": False, "null": None}
_ESCAPED: Final = re.compile(r'\\(["\\])')
_DOTTED: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)+")
_BRACKETS: Final = {"[": "]", "{": "}"}


class TableInvalid(ValueError):
    """The table of a step has the wrong form."""


def typed(cell: str) -> Any:
    """Return the value of a cell or word.

    It is a number, true, false, null, a list or mapping in JSON or YAML, or a text, quoted or not.
    Raise TableInvalid for an invalid list or mapping.
    """
    text = cell.strip()
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > 1 and text[0] == text[-1] == '"':
        return _ESCAPED.sub(r"\1", text[1:-1])
    if re.fullmatch(r"[-+]?\d+", text):
        return int(text)
    if re.fullmatch(r"[-+]?\d+\.\d+", text):
        return float(text)
    return _structure(text) if text[-1:] == _BRACKETS.get(text[:1], "\n") else text


def _structure(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        (document,) = load_text(text, "")
    except (SourceError, ValueError):
        kind = "list" if text[0] == "[" else "mapping"
        raise TableInvalid(
            f"`{text}` begins like a {kind} and is none: put a text into quotes"
        ) from None
    return document.data


def pairs_of(table: Table, read: Read = typed) -> dict[str, Any]:
    """Return a table of names and values as a mapping; raise TableInvalid.

    A row may be a path: the last non-empty cell is the value, those before it are the names.
    """
    pairs: dict[str, Any] = {}
    for row in table:
        *names, value = row if len(row) == 2 else _without_empty_end(row)
        if not names or "" in names:
            raise TableInvalid("each row of this table must hold a name and a value")
        _put(pairs, [step for name in names for step in _steps(name)], read(value), names)
    return pairs


def _put(mapping: dict[str, Any], steps: Sequence[str], value: Any, names: Sequence[str]) -> None:
    place = mapping
    for name in steps[:-1]:
        place = place.setdefault(name, {}) if isinstance(place, dict) else place
    if not isinstance(place, dict) or steps[-1] in place:
        raise TableInvalid(f"this table has the row `{' '.join(names)}` twice")
    place[steps[-1]] = value


def _steps(name: str) -> list[str]:
    """Return the path of a name: ``order.total`` is `total` in `order`; quotes keep a dot."""
    if len(name) > 2 and name[0] == name[-1] == '"':
        return [name[1:-1]]
    return name.split(".") if _DOTTED.fullmatch(name) else [name]


def _without_empty_end(row: Sequence[str]) -> list[str]:
    cells = list(row)
    while cells and not cells[-1]:
        cells.pop()
    return cells or [""]


def records_of(table: Table, read: Read = typed) -> list[dict[str, Any]]:
    """Return a table with a header as a list of mappings; an empty cell is left out.

    Raise TableInvalid.
    """
    head, *rows = table
    if not rows:
        raise TableInvalid("this table needs a headline, and rows below it")
    _refuse_twins(head, "column")
    return [_record(head, row, read) for row in rows]


def _record(head: Sequence[str], row: Sequence[str], read: Read) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for name, cell in zip(head, row, strict=True):
        if cell != "":
            _put(record, _steps(name), read(cell), [name])
    return record


def messages_of(table: Table, read: Read = typed) -> list[dict[str, Any]]:
    """Return a table as messages: role and content, or a header with more; raise TableInvalid."""
    if all(len(row) == 2 and row[0] in ROLES for row in table):
        return [{role: read(content)} for role, content in table]
    if not {"role", "content"} & set(table[0]):
        other = next((row[0] for row in table if len(row) == 2 and row[0] not in ROLES), "")
        if nearest := near(other, ROLES):
            raise TableInvalid(f"unknown role `{other}`: did you mean `{nearest}`?")
        raise TableInvalid(
            f"this table must have two columns, a role ({', '.join(ROLES)}) and what was said, "
            "or a headline with `role` or `content`"
        )
    return records_of(table, read)


def items_of(table: Table, read: Read = typed) -> list[dict[str, Any]]:
    """Return a table as a list of mappings, or of messages if its first column has only roles.

    Raise TableInvalid.
    """
    is_said = all(len(row) == 2 and row[0] in ROLES for row in table)
    return messages_of(table, read) if is_said else records_of(table, read)


def with_nested(record: dict[str, Any], known: Sequence[str], under: str) -> dict[str, Any]:
    """Return a record with all columns except the known ones under one key."""
    inner = {key: value for key, value in record.items() if key not in known}
    outer = {key: value for key, value in record.items() if key in known}
    return {**outer, under: inner} if inner else outer


def _refuse_twins(names: Sequence[str], noun: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise TableInvalid(f"this table has the {noun} `{name}` twice")


class Names:
    """The names of one pipeline, recognized by their letters and digits alone.

    An unknown name stays as it is, so that validation of the scenario reports it.
    """

    def __init__(self, pipeline: Subject | None = None) -> None:
        self.schemas: Mapping[str, Any] = {}
        names: dict[str, Iterable[str]] = {}
        if isinstance(pipeline, App):
            names = {"agent": pipeline.agents, "source": pipeline.agents}
        elif pipeline is not None:
            self.schemas = pipeline.schemas
            agents = members_of(pipeline)
            sections = [name for agent in pipeline.agents for name in sections_of(pipeline, agent)]
            names = {
                "agent": agents,
                "channel": channels_of(pipeline),
                "section": sections,
                "source": [*sections, *agents],
                "handoff_type": filter(None, (each.type for each in pipeline.contracts)),
            }
        self._by_noun = {
            noun: {_spelled(name): name for name in known} for noun, known in names.items()
        }

    def find(self, noun: str, text: Any) -> Any:
        """Return the pipeline's name for a spoken one, or the names for a list."""
        if isinstance(text, list):
            return [self.find(noun, each) for each in text]
        return self._by_noun.get(noun, {}).get(_spelled(text), text)


def names_of(pipeline: Subject) -> Names:
    """Return the names of a pipeline, which many stories may have."""
    if isinstance(pipeline, App):
        return Names(pipeline)
    return pipeline.remembered(("spoken names",), lambda: Names(pipeline))


def _spelled(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


# Outlines: what pytest-bdd passes over in silence, and the texts in their cells


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
