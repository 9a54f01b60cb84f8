"""Conditions: the matching language in words, ``contains "pizza"`` for ``{$contains: pizza}``.

A table of phrases, each with the operators that it stands for. The same words stand after the
subject of a step, after `that`, and in the cells of a table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from simkit.bdd.cells import ROLES, Table, items_of, messages_of, pairs_of, typed
from simkit.bdd.kinds import AND, FIRST_WORDS, KINDS, NAME, VALUE, split_outside
from simkit.bdd.phrases import Kind, Phrase, Unreadable
from simkit.language.matching.general import TYPE_NAMES
from simkit.spec.pipeline.recipe import RESERVED


class Below(NamedTuple):
    """What stands below a step, and what its words may name."""

    text: str | None = None
    table: Table | None = None
    schema: Callable[[str], Any] = str
    """Returns a schema of the pipeline by its name."""


class Condition(NamedTuple):
    """What must be so of a value."""

    matcher: Callable[[Below], Any]
    """Returns the matcher; raises TableInvalid."""
    takes: tuple[str, ...] = ()
    """What must stand below: `table`, `text`, or one of both."""


class Words(NamedTuple):
    """One way to say a condition."""

    operators: tuple[str, ...]
    """The operators that it stands for; none where a plain value, list or mapping says it."""
    text: str
    build: Callable[[Below, Mapping[str, Any]], Any]
    takes: tuple[str, ...] = ()


_TABLE: Final = ("table",)
_TEXT: Final = ("text",)
_VERBS: Final = (
    "is", "are", "has", "have", "contains", "contain", "starts", "start", "ends", "end", "matches",
    "match", "equals", "equal", "fits", "fit", "does", "do",
)  # fmt: skip


def _cell(below: Below) -> Callable[[str], Any]:
    """Return what reads a cell of a claim: a condition, or else a value."""

    def read(cell: str) -> Any:
        condition = condition_of(cell.strip())
        return typed(cell) if condition is None or condition.takes else condition.matcher(below)

    return read


def pairs_below(below: Below) -> dict[str, Any]:
    """Return the table of names and values or conditions below a step."""
    return pairs_of(below.table or (), _cell(below))


def records_below(below: Below) -> list[dict[str, Any]]:
    """Return the table with a headline below a step."""
    return items_of(below.table or (), _cell(below))


def messages_below(below: Below) -> list[dict[str, Any]]:
    """Return the table of messages below a step."""
    return messages_of(below.table or (), _cell(below))


def _below(below: Below) -> Any:
    """A text, a table of messages, or one of names and values."""
    if below.table is None:
        return below.text
    heads_messages = all(row[0] in ROLES for row in below.table) or "role" in below.table[0]
    return messages_below(below) if heads_messages else pairs_below(below)


def _one_or_all(texts: list[str]) -> Any:
    return texts[0] if len(texts) == 1 else texts


def _holds(below: Below, hole: Condition) -> Any:
    return hole.matcher(below)


def _spread(_: Below, values: Mapping[str, Any]) -> Any:
    if "spread" not in values:
        return {"$approx": values["number"]}
    return {"$approx": {"value": values["number"], "abs": values["spread"]}}


CONDITIONS: Final = (
    Words((), "(is|are) {value}", lambda _, values: values["value"]),
    Words((), "(is|are):", lambda below, _: _below(below), ("text", "table")),
    Words((), "(is|are) the list {list}", lambda _, values: values["list"]),
    Words((), "(is|are) these items:", lambda below, _: records_below(below), _TABLE),
    Words(
        ("$len",), "(has|have) {amount} (items|item|characters|character)",
        lambda _, values: {"$len": values["amount"]},
    ),
    Words((), "(has|have) {matching}", lambda below, values: _holds(below, values["matching"])),
    Words((), "(has|have):", lambda below, _: pairs_below(below), _TABLE),
    Words(("$eq",), "(equals|equal) {value}", lambda _, values: {"$eq": values["value"]}),
    Words(("$eq",), "(equals|equal):", lambda below, _: {"$eq": _eq(below)}, ("text", "table")),
    Words(("$ne",), "(is|are) not {value}", lambda _, values: {"$ne": values["value"]}),
    Words(("$in",), "(is|are) one of {list}", lambda _, values: {"$in": values["list"]}),
    Words(
        ("$not", "$in"), "(is|are) none of {list}",
        lambda _, values: {"$not": {"$in": values["list"]}},
    ),
    Words(("$type",), "(is|are) (a|an) {type}", lambda _, values: {"$type": values["type"]}),
    Words(("$any",), "(is|are) there", lambda *_: {"$any": True}),
    Words(("$absent",), "(is|are) absent", lambda *_: {"$absent": True}),
    Words(
        ("$not",), "(does|do) not {condition}",
        lambda below, values: {"$not": _holds(below, values["condition"])},
    ),
    Words(
        ("$not",), "(is|are) not {predicate}",
        lambda below, values: {"$not": _holds(below, values["predicate"])},
    ),
    Words(
        ("$either",), "{condition} or {other:condition}",
        lambda below, values: {
            "$either": [_holds(below, values["condition"]), _holds(below, values["other"])]
        },
    ),
    Words(
        ("$all",), "{condition} and {other:condition}",
        lambda below, values: {
            "$all": [_holds(below, values["condition"]), _holds(below, values["other"])]
        },
    ),
    Words(
        ("$schema",), "(fits|fit) the schema {word}",
        lambda below, values: {"$schema": below.schema(values["word"])},
    ),
    Words(("$gt",), "(is|are) (more than|above) {number}", lambda _, x: {"$gt": x["number"]}),
    Words(("$gte",), "(is|are) at least {number}", lambda _, values: {"$gte": values["number"]}),
    Words(
        ("$lt",), "(is|are) (less than|below|fewer than) {number}",
        lambda _, values: {"$lt": values["number"]},
    ),
    Words(("$lte",), "(is|are) at most {number}", lambda _, values: {"$lte": values["number"]}),
    Words(
        ("$gte", "$lte"), "(is|are) between {low:number} and {high:number}",
        lambda _, values: {"$gte": values["low"], "$lte": values["high"]},
    ),
    Words(("$approx",), "(is|are) about {number}[ give or take {spread:number}]", _spread),
    Words(
        ("$approx",), "(is|are) within {percent} of {number}",
        lambda _, values: {"$approx": {"value": values["number"], "rel": values["percent"]}},
    ),
    Words(
        ("$contains",), "(contains|contain) {texts}",
        lambda _, values: {"$contains": _one_or_all(values["texts"])},
    ),
    Words(
        ("$contains",), "(contains|contain):", lambda below, _: {"$contains": below.text}, _TEXT
    ),
    Words(("$starts",), "(starts|start) with {text}", lambda _, x: {"$starts": x["text"]}),
    Words(("$ends",), "(ends|end) with {text}", lambda _, values: {"$ends": values["text"]}),
    Words(("$regex",), "(matches|match) {pattern}", lambda _, x: {"$regex": x["pattern"]}),
    Words(("$len",), "(is|are) empty", lambda *_: {"$len": 0}),
    Words(
        ("$each",), "(has|have) only items that {condition}",
        lambda below, values: {"$each": _holds(below, values["condition"])},
    ),
    Words(
        ("$each",), "(has|have) only items with {matching}",
        lambda below, values: {"$each": _holds(below, values["matching"])},
    ),
    Words(
        ("$has",), "(has|have) an item that {condition}",
        lambda below, values: {"$has": [_holds(below, values["condition"])]},
    ),
    Words(
        ("$has",), "(has|have) an item with {matching}",
        lambda below, values: {"$has": [_holds(below, values["matching"])]},
    ),
    Words(
        ("$has",), "(has|have) among others:", lambda below, _: {"$has": records_below(below)},
        _TABLE,
    ),
    Words(
        ("$in_order",), "(has|have) in this order, among others:",
        lambda below, _: {"$in_order": records_below(below)}, _TABLE,
    ),
    Words(
        ("$in_order",), "(has|have) {list} in this order, among others",
        lambda _, values: {"$in_order": values["list"]},
    ),
    Words(
        ("$unordered",), "(has|have) in any order:",
        lambda below, _: {"$unordered": records_below(below)}, _TABLE,
    ),
    Words(
        ("$unordered",), "(has|have) {list} in any order",
        lambda _, values: {"$unordered": values["list"]},
    ),
    Words(
        ("$exact",), "(has|have) exactly {matching}",
        lambda below, values: {"$exact": _holds(below, values["matching"])},
    ),
    Words(
        ("$exact",), "(has|have) exactly:", lambda below, _: {"$exact": pairs_below(below)}, _TABLE
    ),
    Words(("$keys",), "(has|have) the keys {names}", lambda _, values: {"$keys": values["names"]}),
)  # fmt: skip
"""Every way to say a condition. Where two fit, the first one is meant."""


def _eq(below: Below) -> Any:
    return below.text if below.table is None else pairs_of(below.table)


@lru_cache(maxsize=4096)
def condition_of(text: str) -> Condition | None:
    """Return the condition that words say; None if they say none."""
    for words, phrase in _PHRASES:
        holes = phrase.holes_in(text)
        if holes is not None:
            return _condition(words, holes)
    for words, joint in _JOINTS:
        pieces = split_outside(text, joint)
        for place in range(1, len(pieces), 2):
            left = condition_of("".join(pieces[:place]))
            right = condition_of("".join(pieces[place + 1 :]))
            if left and right and not left.takes and not right.takes:
                return _condition(words, {"condition": left, "other": right})
    return None


def _condition(words: Words, holes: Mapping[str, Any]) -> Condition:
    inner = [hole for hole in holes.values() if isinstance(hole, Condition)]
    takes = words.takes or tuple(form for condition in inner for form in condition.takes)
    return Condition(lambda below: words.build(below, holes), takes)


def _read(text: str) -> Condition:
    condition = condition_of(text)
    if condition is None:
        raise Unreadable(text)
    return condition


def _predicate(text: str) -> Condition:
    return _read(f"is {text}")


def _matching(text: str) -> Condition:
    """Name with values or conditions: ``food that contains "pizza", kcal 800 and no salt``."""
    pieces = split_outside(text, AND)
    conditions = _pairs(pieces)
    if conditions is None:
        raise Unreadable(text)
    return Condition(
        lambda below: {name: condition.matcher(below) for name, condition in conditions.items()}
    )


def _pairs(pieces: list[str]) -> dict[str, Condition] | None:
    """Read pairs from pieces; what follows `that` reaches as far as it can be understood."""
    if not pieces:
        return {}
    for end in range(len(pieces), 0, -2):
        pair = _pair("".join(pieces[:end]))
        rest = _pairs(pieces[end + 1 :]) if pair else None
        if pair and rest is not None and pair[0] not in rest:
            return {pair[0]: pair[1], **rest}
    return None


_PAIR: Final = re.compile(
    rf"(?:no (?P<no>{NAME})|(?P<name>{NAME}) (?P<value>{VALUE})|"
    rf"(?P<whose>{NAME}) that (?P<is>.+))",
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


_SECTION: Final = rf"{NAME}(?:[ -](?!in\b)\w+)*?"
_NO_SECTIONS: Final = (
    *RESERVED,
    "shares",
    "input",
    "goal",
    "output",
    "reply",
    "context",
    "run",
    "every",
    "last",
    *FIRST_WORDS,
)
"""First words that lead on to something else than a section."""

CLAIM_KINDS: Final[Mapping[str, Kind]] = {
    **KINDS,
    "condition": Kind(
        rf"(?:{'|'.join(_VERBS)})(?: .+|:)", _read, 'contains "pizza"', "what must be so"
    ),
    "matching": Kind(
        rf"(?:no )?{NAME}(?: .+)?", _matching, 'food "pizza" and kcal that is at least 500',
        "names with values, `that` and a condition, or `no` before the name",
    ),
    "pattern": Kind(
        r"/(?:[^/\\]|\\.)+/", lambda text: text[1:-1].replace(r"\/", "/"), r"/piz+a/",
        "a regular expression between slashes",
    ),
    "predicate": Kind(".+", _predicate, "at least 3", "what follows `is` in a condition"),
    "type": Kind(f"(?:{'|'.join(TYPE_NAMES)})", str, "number", "the name of a type"),
    "section": Kind(
        rf"(?!(?:{'|'.join(_NO_SECTIONS)})\b){_SECTION}", str, "history",
        "a section of the context, underscores spoken or not",
    ),
    "part": Kind(
        rf"(?!(?:{'|'.join((*RESERVED, 'shares'))})\b){_SECTION}", str, "history",
        "a section of the context, underscores spoken or not",
    ),
}  # fmt: skip
"""The kinds of holes in claims."""

_JOINED: Final[Mapping[str, str]] = {
    "{condition} or {other:condition}": " or ",
    "{condition} and {other:condition}": " and ",
}
_PHRASES: Final = [
    (words, Phrase(words.text, CLAIM_KINDS)) for words in CONDITIONS if words.text not in _JOINED
]
_JOINTS: Final = [(words, _JOINED[words.text]) for words in CONDITIONS if words.text in _JOINED]
