"""Phrases: what a step says, with typed holes, and the values that stand in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pytest_bdd.parsers import StepParser

Table = Sequence[Sequence[Any]]
"""The rows of a step's table, each a list of cells."""

_VALUE: Final = r'"(?:[^"\\]|\\.)*"|[-+]?\d+(?:\.\d+)?|true|false|null'
_NAME: Final = r"[A-Za-z_]\w*"
_AGENT: Final = rf"(?:[Tt]he )?{_NAME}(?:[ -]\w+)*?"
_PAIR: Final = rf"{_NAME} (?:{_VALUE})"
_AND: Final = r"(?:, and |, | and )"
_ITEM: Final = re.compile(rf"({_NAME}) ({_VALUE})")
_HOLE: Final = re.compile(r"\{(\w+)(?::(\w+))?\}")
_WORDS: Final[Mapping[str, Any]] = {"true": True, "false": False, "null": None}


class Kind(NamedTuple):
    """What may stand in a hole."""

    pattern: str
    read: Callable[[str], Any]
    example: str


def typed(cell: Any) -> Any:
    """Returns what a cell or word says: a number, true, false, null, or a text, quoted or not."""
    text = str(cell).strip()
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > 1 and text[0] == text[-1] == '"':
        return re.sub(r'\\(["\\])', r"\1", text[1:-1])
    if re.fullmatch(r"[-+]?\d+", text):
        return int(text)
    return float(text) if re.fullmatch(r"[-+]?\d+\.\d+", text) else text


def pairs_of(table: Table) -> dict[str, Any]:
    """Returns a table of two columns, name and value, as a mapping."""
    return {str(row[0]): typed(row[1]) for row in table if len(row) == 2}


def records_of(table: Table) -> list[dict[str, Any]]:
    """Returns a table with a headline as a list of mappings; an empty cell says nothing."""
    head, *rows = table
    return [
        {str(key): typed(cell) for key, cell in zip(head, row, strict=True) if cell != ""}
        for row in rows
    ]


def _agent(text: str) -> str:
    return text[4:] if text[:4].lower() == "the " else text


def _agents(text: str) -> list[str]:
    return [_agent(name) for name in re.split(_AND, text)]


KINDS: Final[Mapping[str, Kind]] = {
    "agent": Kind(_AGENT, _agent, "nutrition"),
    "agents": Kind(rf"{_AGENT}(?:{_AND}{_AGENT})*", _agents, "router and nutrition"),
    "count": Kind(r"\d+", int, "4"),
    "names": Kind(rf"{_NAME}(?:{_AND}{_NAME})*", _agents, "instructions and history"),
    "text": Kind(r'"(?:[^"\\]|\\.)*"', typed, '"pizza"'),
    "value": Kind(_VALUE, typed, '"Europe/Berlin"'),
    "values": Kind(
        rf"{_PAIR}(?:{_AND}{_PAIR})*",
        lambda text: {key: typed(value) for key, value in _ITEM.findall(text)},
        'food "pizza" and kcal 800',
    ),
    "word": Kind(_NAME, str, "log_meal"),
}
"""Every kind of hole by its name. ``{target:agent}`` is a hole ``target`` of the kind ``agent``."""


class Phrase(StepParser):
    """A step's words with holes in them: ``{agent} replies {text}``.

    A hole's name is its kind, unless the kind follows a colon.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._kinds = {hole: KINDS[kind or hole] for hole, kind in _HOLE.findall(name)}
        pattern, end = "", 0
        for hole in _HOLE.finditer(name):
            pattern += re.escape(name[end : hole.start()])
            pattern += f"(?P<{hole[1]}>{self._kinds[hole[1]].pattern})"
            end = hole.end()
        self._pattern = re.compile(pattern + re.escape(name[end:]))

    @property
    def example(self) -> str:
        """The phrase with something in each hole."""
        return _HOLE.sub(lambda hole: self._kinds[hole[1]].example, self.name)

    def is_matching(self, name: str) -> bool:
        return self._pattern.fullmatch(name) is not None

    def parse_arguments(self, name: str) -> dict[str, Any] | None:
        found = self._pattern.fullmatch(name)
        if found is None:
            return None
        return {hole: self._kinds[hole].read(text) for hole, text in found.groupdict().items()}
