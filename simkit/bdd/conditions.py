"""Conditions: the matching language in words, ``contains "pizza"`` for ``{$contains: pizza}``.

``steps.yaml`` has one row for each phrase, with its matcher. The same words stand after the subject
of a step, after `that`, and in the cells of a table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from simkit.bdd import phrases
from simkit.bdd.cells import (
    ROLES,
    Table,
    TableInvalid,
    items_of,
    messages_of,
    pairs_of,
    typed,
    with_nested,
)
from simkit.core.text import near
from simkit.language.matching.operators import TYPE_NAMES
from simkit.spec.scenario.claim_kinds import ClaimKind
from simkit.spec.scenario.claim_names import ENTRIES
from simkit.spec.scenario.claims import CONTEXT_CLAIMS, RUN_CLAIMS

_NOUNS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("agent", "agents", "other", "target"), "agent"),
    "channel": "channel",
    "section": "section",
}
"""The kind of name in holes with these names."""


class Below(NamedTuple):
    """The table or text below a step, and the names that its words may use."""

    text: str | None = None
    table: Table | None = None
    schema: Callable[[str], Any] = str
    """Returns a schema of the pipeline by its name."""
    name: Callable[[str, Any], Any] = lambda noun, text: text
    """Returns the name of an agent, channel, section or handoff type as the pipeline writes it."""
    yaml: Callable[[], Any] = lambda: None
    """Returns the text as YAML; raises SourceError at its line of the feature."""

    def value_of(self, hole: str, holes: Mapping[str, Any]) -> Any:
        """Return the value of a template's hole; LEFT_OUT if the line leaves it out.

        Raises TableInvalid.
        """
        key, _, noun = hole.partition(":")
        if not key:
            return FORMS[noun].read(self)
        value = holes.get(key, phrases.LEFT_OUT)
        if value is phrases.LEFT_OUT:
            return value
        if isinstance(value, Condition):
            matcher = value.matcher(self)
            return self.by_channel(matcher) if noun == "channels" else matcher
        if isinstance(value, phrases.Chosen):
            return value.key(lambda agent: self.name("agent", agent))
        if noun in ("schema", "upper"):
            return self.schema(value) if noun == "schema" else value.upper()
        noun = noun or _NOUNS.get(key, "")
        return self.name(noun, value) if noun else value

    def by_channel(self, matcher: Any) -> Any:
        """Return a matcher of channels under their real names."""
        if not isinstance(matcher, dict):
            return matcher
        return {
            key if key.startswith("$") else self.name("channel", key): inner
            for key, inner in matcher.items()
        }


class Condition(NamedTuple):
    """A condition on a value."""

    matcher: Callable[[Below], Any]
    """Returns the matcher; raises TableInvalid."""
    takes: tuple[str, ...] = ()
    """The required part below the step: `table`, `text`, or one of both."""


class Form(NamedTuple):
    """A form of the table or text below a step."""

    takes: tuple[str, ...]
    """The permitted kinds: `table`, `text`, or both."""
    read: Callable[[Below], Any]
    """Reads the value; raises TableInvalid."""


def _read_cells(below: Below) -> Callable[[str], Any]:
    """Return the function that reads a cell of a claim: a condition, or else a value."""

    def read(cell: str) -> Any:
        condition = condition_of(cell.strip())
        return typed(cell) if condition is None or condition.takes else condition.matcher(below)

    return read


def _value_below(below: Below) -> Any:
    if below.table is None:
        return below.text
    heads = {row[0] for row in below.table}
    # A misspelt role beside others is one, too: what reads messages refuses it.
    has_roles = heads & {*ROLES} and all(near(head, ROLES) for head in heads)
    form = "messages" if has_roles or "role" in below.table[0] else "pairs"
    return FORMS[form].read(below)


def _agents_below(below: Below) -> list[Any]:
    rows = [[below.name("agent", cell) for cell in row if cell] for row in below.table or ()]
    return [row if len(row) > 1 else row[0] for row in rows]


def _nested(below: Below, claim: str, under: str, agents: Sequence[str]) -> list[dict[str, Any]]:
    """Return the table of records below, with unknown columns under one key, and agents' names."""
    records, known = FORMS["records"].read(below), ENTRIES[claim].keys
    return [
        {
            key: below.name("agent", cell) if key in agents and isinstance(cell, str) else cell
            for key, cell in with_nested(record, known, under).items()
        }
        for record in records
    ]


def _calls_below(below: Below) -> list[dict[str, Any]]:
    """Return one call a row: the tool, and its arguments in the other columns."""
    records = [with_nested(record, ("tool",), "args") for record in items_of(below.table or ())]
    if not all(isinstance(record.get("tool"), str) for record in records):
        raise TableInvalid("this table needs a headline with `tool`, and a tool in each row")
    return [{record["tool"]: record.get("args", {})} for record in records]


def _mapping_of(below: Below, noun: str) -> Any:
    document = below.yaml()
    if not isinstance(document, dict):
        raise TableInvalid(f"this text must be {noun}, a mapping in YAML")
    return document


_TABLE: Final = ("table",)
_TEXT: Final = ("text",)
_EITHER: Final = ("text", "table")
FORMS: Final[Mapping[str, Form]] = {
    "text": Form(_TEXT, lambda below: below.text),
    "line": Form(_TEXT, lambda below: _mapping_of(below, "a reply line")),
    "settings": Form(_TEXT, lambda below: _mapping_of(below, "keys of a scenario file")),
    "claims": Form(_TEXT, lambda below: _mapping_of(below, "claims")),
    # Expected values: a cell may be a condition.
    "pairs": Form(_TABLE, lambda below: pairs_of(below.table or (), _read_cells(below))),
    "records": Form(_TABLE, lambda below: items_of(below.table or (), _read_cells(below))),
    "messages": Form(_TABLE, lambda below: messages_of(below.table or (), _read_cells(below))),
    "value": Form(_EITHER, _value_below),
    "channels": Form(_TABLE, lambda below: below.by_channel(FORMS["pairs"].read(below))),
    "agents": Form(_TABLE, _agents_below),
    "handoffs": Form(_TABLE, lambda below: _nested(below, "handoffs", "payload", ("from", "to"))),
    "tool_calls": Form(_TABLE, lambda below: _nested(below, "tool_calls", "args", ("agent",))),
    # Given values: a cell is a plain value.
    "plain_pairs": Form(_TABLE, lambda below: pairs_of(below.table or ())),
    "plain_records": Form(_TABLE, lambda below: items_of(below.table or ())),
    "calls": Form(_TABLE, _calls_below),
    "plain_value": Form(
        _EITHER, lambda below: below.text if below.table is None else pairs_of(below.table)
    ),
}  # fmt: skip


def forms_taken(template: Any) -> tuple[str, ...]:
    """Return the kinds that a step with this template takes below it: `table`, `text`, or both."""
    forms = [hole[1:] for hole in phrases.holes_of(template) if hole.startswith(":")]
    return FORMS[forms[0]].takes if forms else ()


_VERBS: Final = (
    "is", "are", "has", "have", "contains", "contain", "starts", "start", "ends", "end", "matches",
    "match", "equals", "equal", "fits", "fit", "does", "do",
)  # fmt: skip
CONDITIONS: Final = phrases.ROWS["conditions"]
"""All wordings of conditions. If two fit, the first one wins."""


@lru_cache(maxsize=4096)
def condition_of(text: str) -> Condition | None:
    """Return the condition in a text; None if it is none."""
    for words, phrase in _PHRASES:
        holes = phrase.holes_in(text)
        if holes is not None:
            return _condition(words, holes)
    for words, joint in _JOINTS:
        pieces = phrases.split_outside(text, joint)
        for index in range(1, len(pieces), 2):
            left = condition_of("".join(pieces[:index]))
            right = condition_of("".join(pieces[index + 1 :]))
            if left and right and not left.takes and not right.takes:
                return _condition(words, {"condition": left, "other": right})
    return None


def _condition(words: phrases.Row, holes: Mapping[str, Any]) -> Condition:
    return Condition(
        lambda below: phrases.fill(words.value, lambda hole: below.value_of(hole, holes)),
        forms_taken(words.value) or forms_taken_in(holes),
    )


def forms_taken_in(holes: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the kinds that the conditions in a phrase's holes take below the step."""
    conditions = (hole for hole in holes.values() if isinstance(hole, Condition))
    return tuple(form for condition in conditions for form in condition.takes)


def _read(text: str) -> Condition:
    condition = condition_of(text)
    if condition is None:
        raise phrases.Unreadable(text)
    return condition


def _matching(text: str) -> Condition:
    """Return the condition of ``food that contains "pizza", kcal 800 and no salt``."""
    pieces = phrases.split_outside(text, phrases.AND)
    conditions = _pairs(pieces)
    if conditions is None:
        raise phrases.Unreadable(text)
    return Condition(
        lambda below: {name: condition.matcher(below) for name, condition in conditions.items()}
    )


def _pairs(pieces: list[str]) -> dict[str, Condition] | None:
    """Parse pairs from pieces; a condition after `that` is as long as possible."""
    if not pieces:
        return {}
    for end in range(len(pieces), 0, -2):
        pair = _pair("".join(pieces[:end]))
        rest = _pairs(pieces[end + 1 :]) if pair else None
        if pair and rest is not None and pair[0] not in rest:
            return {pair[0]: pair[1], **rest}
    return None


_PAIR: Final = re.compile(
    rf"(?:no (?P<no>{phrases.NAME})|(?P<name>{phrases.NAME}) (?P<value>{phrases.VALUE})|"
    rf"(?P<whose>{phrases.NAME}) that (?P<is>.+))",
    re.DOTALL,
)


def _pair(text: str) -> tuple[str, Condition] | None:
    match = _PAIR.fullmatch(text)
    if match is None:
        return None
    if match["no"]:
        return match["no"], Condition(lambda _: {"$absent": True})
    if match["name"]:
        value = typed(match["value"])
        return match["name"], Condition(lambda _: value)
    inner = condition_of(match["is"])
    return (match["whose"], inner) if inner is not None and not inner.takes else None


_SECTION: Final = rf"{phrases.NAME}(?:[ -](?!in\b)\w+)*?"


def _subjects(rows: Mapping[str, ClaimKind]) -> list[str]:
    """Return the words that are claims where a section's name could stand: ``the tokens in …``."""
    return [row.phrase.split()[1] for row in rows.values() if row.phrase.startswith("the ")]


_NO_PARTS: Final = (*CONTEXT_CLAIMS, *_subjects(CONTEXT_CLAIMS))
_NO_SECTIONS: Final = (
    *_NO_PARTS, *_subjects(RUN_CLAIMS), "context", "run", "every", "last", *phrases.FIRST_WORDS
)  # fmt: skip
"""First words that begin something else than a section."""

CLAIM_KINDS: Final[Mapping[str, phrases.Kind]] = {
    **phrases.KINDS,
    "condition": phrases.Kind(
        rf"(?:{'|'.join(_VERBS)})(?: .+|:)", _read, 'contains "pizza"', "what must hold"),
    "matching": phrases.Kind(
        rf"(?:no )?{phrases.NAME}(?: .+)?", _matching, 'food "pizza" and kcal that is at least 500',
        "names with values, `that` and a condition, or `no` before the name"),
    "pattern": phrases.Kind(
        r"/(?:[^/\\]|\\.)+/", lambda text: text[1:-1].replace(r"\/", "/"), r"/piz+a/",
        "a regular expression between slashes"),
    "predicate": phrases.Kind(
        ".+", lambda text: _read(f"is {text}"), "at least 3", "what follows `is` in a condition"),
    "type": phrases.Kind(f"(?:{'|'.join(TYPE_NAMES)})", str, "number", "the name of a type"),
    "section": phrases.Kind(rf"(?!(?:{'|'.join(_NO_SECTIONS)})\b){_SECTION}", str, "history",
        "a section of the context, with underscores or blanks"),
    "part": phrases.Kind(rf"(?!(?:{'|'.join(_NO_PARTS)})\b){_SECTION}", str, "history",
        "a section of the context, with underscores or blanks"),
}  # fmt: skip
"""The kinds of holes in claims."""

_JOINED: Final[Mapping[str, str]] = {
    "{condition} or {other:condition}": " or ",
    "{condition} and {other:condition}": " and ",
}
_PHRASES: Final = [
    (words, phrases.Phrase(words.text, CLAIM_KINDS))
    for words in CONDITIONS
    if words.text not in _JOINED
]
_JOINTS: Final = [(words, _JOINED[words.text]) for words in CONDITIONS if words.text in _JOINED]
