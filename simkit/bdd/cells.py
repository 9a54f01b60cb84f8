"""Words and tables of a feature, as values: what stands between bars or in quotes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

Table = Sequence[Sequence[str]]
"""The rows of a step's table, each a list of cells."""

Read = Callable[[str], Any]

ROLES: Final = ("user", "assistant", "system", "developer", "tool")
_WORDS: Final = {"true": True, "false": False, "null": None}
_ESCAPED: Final = re.compile(r'\\(["\\])')


class TableInvalid(ValueError):
    """The table under a step is not of the form that the step reads."""


def typed(cell: str) -> Any:
    """Returns what a cell or word says.

    A number, true, false, null, a list or mapping in JSON, or a text, quoted or not.
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
    return _json(text) if text[:1] in ("[", "{") else text


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def pairs_of(table: Table, read: Read = typed) -> dict[str, Any]:
    """Returns a table of names and values as a mapping; raises TableInvalid.

    A row may lead deeper: the last cell that is not empty is the value, those before it the names.
    """
    found: dict[str, Any] = {}
    for row in table:
        *names, value = row if len(row) == 2 else _without_empty_end(row)
        if not names or "" in names:
            raise TableInvalid("each row of this table must hold a name and a value")
        place = found
        for name in names[:-1]:
            place = place.setdefault(name, {}) if isinstance(place, dict) else place
        if not isinstance(place, dict) or names[-1] in place:
            raise TableInvalid(f"this table has the row `{' '.join(names)}` twice")
        place[names[-1]] = read(value)
    return found


def _without_empty_end(row: Sequence[str]) -> list[str]:
    cells = list(row)
    while cells and not cells[-1]:
        cells.pop()
    return cells or [""]


def records_of(table: Table, read: Read = typed) -> list[dict[str, Any]]:
    """Returns a table with a headline as a list of mappings; an empty cell says nothing.

    Raises TableInvalid.
    """
    head, *rows = table
    if not rows:
        raise TableInvalid("this table needs a headline, and rows below it")
    _refuse_twins(head, "column")
    return [
        {key: read(cell) for key, cell in zip(head, row, strict=True) if cell != ""} for row in rows
    ]


def messages_of(table: Table, read: Read = typed) -> list[dict[str, Any]]:
    """Returns a table as messages: role and content, or a headline with more; TableInvalid."""
    if all(len(row) == 2 and row[0] in ROLES for row in table):
        return [{role: read(content)} for role, content in table]
    if not {"role", "content"} & set(table[0]):
        raise TableInvalid(
            f"this table must have two columns, a role ({', '.join(ROLES)}) and what was said, "
            "or a headline with `role` or `content`"
        )
    return records_of(table, read)


def items_of(table: Table, read: Read = typed) -> list[dict[str, Any]]:
    """Returns a table as a list of mappings; one whose first column holds only roles as messages.

    Raises TableInvalid.
    """
    is_said = all(len(row) == 2 and row[0] in ROLES for row in table)
    return messages_of(table, read) if is_said else records_of(table, read)


def with_nested(record: dict[str, Any], known: Sequence[str], under: str) -> dict[str, Any]:
    """Returns a record in which columns that are none of the known ones stand under one key."""
    inner = {key: value for key, value in record.items() if key not in known}
    outer = {key: value for key, value in record.items() if key in known}
    return {**outer, under: inner} if inner else outer


def _refuse_twins(names: Sequence[str], noun: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise TableInvalid(f"this table has the {noun} `{name}` twice")
