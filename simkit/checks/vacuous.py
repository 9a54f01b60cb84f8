"""RUN-03: a negative claim proves something only if the denied thing could have been there."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from simkit.checks.claims import FindingBuilder
from simkit.checks.findings import Hit, Path
from simkit.checks.occurrence import Candidates, Occurring
from simkit.checks.searching import has_alternatives
from simkit.core.errors import ReferenceInvalid
from simkit.core.messages import ABSENT, ROLE_ALIASES, Message
from simkit.language.matching import compile_matcher
from simkit.language.matching.contradictions import polarity_of
from simkit.language.matching.lists import unique_parts
from simkit.language.matching.mappings import CALL_FIELDS, MESSAGE_FIELDS
from simkit.language.matching.misses import line
from simkit.language.matching.operators import OF_NUMBERS, is_operator
from simkit.language.matching.values import texts_wanted
from simkit.language.paths import as_text, head_of, leaves, parse, walk
from simkit.language.yaml import path_text
from simkit.spec.scenario.claim_kinds import ALL_NAMES, MESSAGE_NAMES
from simkit.spec.scenario.claims import (
    CONTEXT_CLAIMS,
    RUN_CLAIMS,
    SOME,
    TURN_CLAIMS,
    Expect,
    claim_kind_at,
    selected,
)
from simkit.spec.scenario.known import VALUE_KEYS
from simkit.trace import events as e
from simkit.trace.views import View

_DENIAL: Final = "$not"
_UNIQUE: Final = "$unique"
_NEGATIVE: Final = (_DENIAL, _UNIQUE, "$each", "$ne")
_ANY: Final = {"$any": True}
_VALUES: Final = ("state", "reply")
"""The claims on values with keys of their own."""
_OF_MESSAGES: Final = frozenset((*MESSAGE_FIELDS, *CALL_FIELDS, *ROLE_ALIASES))
"""Keys of messages, which channels may hold."""
_HOLDING: Final = ("$all", "$has", "$in_order", "$unordered", "$eq", "$exact")
"""Operators that hold only if all their operands do, for the value or for an element."""


def vacuous_claims(
    claims: Iterable[tuple[Path, int, Expect]],
    view: View,
    builder: FindingBuilder,
    unheld: Collection[Path] = (),
) -> Iterator[Hit]:
    """Yield the `excludes`, `$not` and `$ne` with a pattern that occurs nowhere in the trace.

    Also the `$unique` that compares nothing, and the `$each` that has no element. ``unheld`` are
    the paths of claims that failed or were skipped: these need no second finding.
    """
    search, candidates = _Search(view, builder), Candidates(view)
    reasons: dict[Any, str] = {}
    for path, turn, expect in claims:
        for inner, matcher in _negatives(expect):
            # Whether a message could match is the same in every turn.
            key = compile_matcher(matcher) if _is_excludes(inner) else (path, inner)
            if key not in reasons:
                reasons[key] = _why_vacuous(search, candidates, matcher, inner, turn)
            reason = reasons[key]
            if reason and not any(_is_of_claim(unheld_path, path, inner) for unheld_path in unheld):
                subject = "this" if inner[-1] == "$each" else "its absence"
                reason = f"{path_text(inner)}: {reason}, so {subject} proves nothing"
                yield Hit("RUN-03", reason, turn, path=(*path, *inner))


def _why_vacuous(
    search: _Search, candidates: Candidates, matcher: Any, inner: Path, turn: int
) -> str:
    """Return why a denied value could not occur at a place; empty if it could."""
    if inner[-1] == _UNIQUE:
        return _why_uncompared(search, matcher, inner[:-1], turn)
    if not polarity_of(matcher).affirms:
        return ""  # The denial of a denial affirms.
    if inner[-1] == "$each":
        is_asked = _DENIAL in inner or search.occurs(_ANY, inner[:-1])
        return "" if is_asked else "no such list in the trace has an element"
    is_message = _is_excludes(inner)
    value_steps = inner if is_message else inner[:-1]
    key = search.missing_key(matcher, value_steps)
    if key:
        return f"no value in the trace has a key `{key}`"
    if not search.could_hold(matcher, value_steps, turn):
        hint = isinstance(matcher, str) * ": a text without an operator is a whole one"
        return f"nothing in the trace matches {line(matcher)}{hint}"
    if not is_message and not candidates.could_be(matcher, value_steps, turn):
        return f"no value of this claim in the trace could match {line(matcher)}"
    return ""


def _why_uncompared(search: _Search, operand: Any, path: Path, turn: int) -> str:
    """Return why the `$unique` at a place compares no elements; empty if it could.

    Of keys it is asked only if there are such elements: the next conversation may have some.
    """
    keys, matcher = unique_parts(operand)
    element = _ANY if matcher is ABSENT else matcher
    if matcher is not ABSENT:
        if not polarity_of(matcher).affirms:
            return ""
        if not search.could_hold({"$has": [matcher]}, path, turn):
            return f"nothing in the trace matches {line(matcher)}"
    with_keys = {"$all": [element, *({key: _ANY} for key in keys)]}
    if search.occurs(element, path) and not search.occurs(with_keys, path):
        return f"no element in the trace has {' and '.join(f'`{key}`' for key in keys)}"
    return ""


def _is_excludes(inner: Path) -> bool:
    return inner[0] == "context" and inner[2] == "excludes"


def _is_of_claim(unheld_path: Path, path: Path, inner: Path) -> bool:
    """Return whether a finding concerns a pattern's claim, or a larger part with it."""
    size = 1
    if inner[0] in ("context", "runs"):
        is_any = selected(str(inner[1])).which == SOME  # It holds for one call or none.
        size = 2 if is_any else 4 if inner[2] in ("includes", "excludes") else 3
    claim = (*path, *inner[:size])
    shared = min(len(unheld_path), len(claim))
    return shared > len(path) and unheld_path[:shared] == claim[:shared]


def _negatives(expect: Expect) -> Iterator[tuple[Path, Any]]:
    for key, context in expect.context.items():
        for index, matcher in enumerate(context.excludes or ()):
            yield ("context", key, "excludes", index), matcher
        for name, matcher in context.claimed().items():
            if name != "excludes":
                yield from _nots(("context", key, name), matcher)
    for key, run in expect.runs.items():
        for name, matcher in run.claimed().items():
            yield from _nots(("runs", key, name), matcher)
    for name, kind in TURN_CLAIMS.items():
        if kind.values is not None and expect.has(name):
            yield from _nots((name,), getattr(expect, name))


def _nots(at: Path, matcher: Any) -> Iterator[tuple[Path, Any]]:
    for path, inner in walk(matcher, at, lambda key: key in (_DENIAL, _UNIQUE, "$schema")):
        if path != at and path[-1] in _NEGATIVE:
            yield path, inner


class _Search:
    """A search for patterns in everything said, made, written and given."""

    def __init__(self, view: View, builder: FindingBuilder) -> None:
        self._view = view
        self._occurring = Occurring(view, builder)
        self._texts: list[str] = []
        self._keys = ""
        """The texts, and the schemas in which keys stand."""
        self._whole = ""
        self._leaves: set[str] = set()
        self._values: set[str] = set()
        """The texts as they are; ``_leaves`` are those inside other values."""

    def could_hold(self, matcher: Any, path: Path, turn: int) -> bool:
        """Return whether the texts of a pattern occur, or a value of its kind matches it.

        ``path`` leads from `expect` to it. Names are no texts: a pattern of names only must match.
        """
        names = claim_kind_at(path).name_keys
        content = ABSENT if names == ALL_NAMES else _pattern(matcher, names)
        texts = () if content is ABSENT else tuple(texts_wanted(content))
        if texts:
            inside = names != MESSAGE_NAMES  # Of a message, all of its text is asked.
            occur = (self._occurs(text, turn, way, inside) for text, way in texts)
            if any(occur) if has_alternatives(matcher) else all(occur):
                return True
        elif not names:
            return True
        return self._occurring.occurs(matcher, path)

    def missing_key(self, matcher: Any, path: Path) -> str:
        """Return the first key of a value that nothing in the run has; empty if there is none.

        A value may stand under any other key, or was only spoken of: its denial proves something
        where its key exists.
        """
        is_inside = path[0] in _VALUES or any(_is_head(step) for step in path)
        for key in _keys_wanted(matcher, is_inside):
            if key not in _OF_MESSAGES and not self._is_key(key):
                return "" if self._occurring.occurs(matcher, path) else key
        return ""

    def _is_key(self, key: str) -> bool:
        if not self._keys:
            view = self._view
            self._occurs("", 0)  # It reads the texts.
            schemas = [tool.parameters for tool in view.definitions.values()]
            facts = as_text([schemas, view.pipeline.schemas, *map(str, view.pipeline.channels)])
            contracts = [as_text(contract.payload) for contract in view.pipeline.contracts]
            self._keys = "\n".join([self._whole, facts, *contracts])
        quoted = json.dumps(key, ensure_ascii=False)
        return quoted in self._keys or json.dumps(quoted, ensure_ascii=False)[1:-1] in self._keys

    def occurs(self, element: Any, path: Path) -> bool:
        """Return whether an element of the lists at a place matches."""
        return self._occurring.occurs(element, (*path, "$has"))

    def _occurs(self, text: str, turn: int, way: str = "$contains", inside: bool = True) -> bool:
        """Search around the claim's turn first: most patterns come from there."""
        if not self._texts:
            self._texts, self._values, self._leaves = _texts_by_turn(self._view)
            self._whole = "\n".join(self._texts)
        if not way:
            return text in self._values or (inside and text in self._leaves)
        if way == "$regex" and re.escape(text) != text:
            return any(map(compile_matcher({way: text}).holds, self._values | self._leaves))
        escaped = json.dumps(text, ensure_ascii=False)[1:-1]
        near = min(turn, len(self._texts) - 1)
        some = (self._texts[near], self._texts[max(0, near - 1)], self._texts[0], self._whole)
        if any(text in text_ for text_ in some):
            return True
        return escaped != text and escaped in self._whole


def _is_head(step: str | int) -> bool:
    """Return whether a step of a path leads to a value with keys of its own."""
    return isinstance(step, str) and head_of(step) in VALUE_KEYS


def _keys_wanted(matcher: Any, is_inside: bool) -> Iterator[str]:
    """Yield the keys that a value must have for a matcher to hold.

    ``is_inside``: the matcher is of such a value, and not of the entry that holds it.
    """
    if isinstance(matcher, (list, tuple)):
        for element in matcher:
            yield from _keys_wanted(element, is_inside)
    elif isinstance(matcher, Mapping):
        for key, operand in matcher.items():
            if is_operator(key):
                if key in _HOLDING:
                    yield from _keys_wanted(operand, is_inside)
            elif polarity_of(operand).affirms:
                steps = _steps_of(key)
                if is_inside:
                    yield from steps
                elif _is_head(key):
                    yield from steps[1:]
                yield from _keys_wanted(operand, is_inside or _is_head(key))


def _steps_of(key: str) -> list[str]:
    try:
        return [step for step in parse(key) if isinstance(step, str)]
    except ReferenceInvalid:
        return [key]


def _pattern(matcher: Any, names: Sequence[str]) -> Any:
    """Return the matcher without names and bounds, or ABSENT if nothing is left."""
    if isinstance(matcher, Mapping):
        patterns = {
            key: inner
            for key, value in matcher.items()
            if key not in OF_NUMBERS  # A bound is no pattern: the number need not occur.
            and key not in names
            and (inner := _pattern(value, names)) is not ABSENT
        }
        return patterns or ABSENT
    if isinstance(matcher, (list, tuple)):
        patterns_inside = [
            inner for element in matcher if (inner := _pattern(element, names)) is not ABSENT
        ]
        return patterns_inside or ABSENT
    return matcher


def _texts_by_turn(view: View) -> tuple[list[str], set[str], set[str]]:
    """Return all that was said, made or written, by turn, names and given values first.

    Each value is there once; also return the texts as they are, and those inside the values.
    """
    texts: list[list[str]] = [[] for _ in range(len(view.turns) + 1)]
    texts[0] += _vocabulary(view.pipeline)
    texts_seen = set(texts[0])
    inside: set[str] = {""}
    for event in view.events:
        turn = texts[event.turn if event.turn < len(texts) else 0]
        for value in _values_of(event, view):
            text = as_text(value)
            if text not in texts_seen:
                texts_seen.add(text)
                turn.append(text)
                inside.update(leaf for leaf in leaves(value) if isinstance(leaf, str))
    return ["\n".join(turn_texts) for turn_texts in texts], texts_seen, inside


def _vocabulary(facts: e.PipelineFacts) -> Iterator[str]:
    yield from facts.channels
    yield from e.KINDS
    for name, agent in facts.agents.items():
        yield from (name, agent.instructions, *agent.tools)
    for contract in facts.contracts:
        yield from (contract.type, contract.mode)


_TEXT_FIELDS: Final[Mapping[type, tuple[str, ...]]] = {
    e.ToolCalled: ("tool", "args"),
    e.ToolReturned: ("result",),
    e.ToolFailed: ("error",),
    e.ModelFailed: ("error", "message"),
    e.HandoffRequested: ("type", "query", "payload"),
    e.HandoffRejected: ("reason",),
    e.RouteChosen: ("targets", "labels"),
    e.AgentFinished: ("status",),
    e.LogRecorded: ("level", "logger", "message", "error"),
    e.LimitReached: ("limit",),
}
"""Events to their fields in which a text may occur, beside those that a claim's row names."""


def _text_fields() -> Mapping[type, Sequence[str]]:
    fields = {kind: [*names] for kind, names in _TEXT_FIELDS.items()}
    for rows in (TURN_CLAIMS, RUN_CLAIMS, CONTEXT_CLAIMS):
        for row in rows.values():
            if row.recorded_in is not None:
                event, name = row.recorded_in
                fields.setdefault(event, []).append(name)
    return fields


_ALL_TEXT_FIELDS: Final = _text_fields()


def _values_of(event: e.AnyEvent, view: View) -> Iterator[Any]:
    if isinstance(event, e.StateUpdated):
        yield from filter(None, view.new_parts(event))
    for name in _ALL_TEXT_FIELDS.get(type(event), ()):
        value = getattr(event, name)
        if value is not None:
            yield value
    if isinstance(event, e.MessageAdded):
        yield from _message_texts(event.message)
    elif isinstance(event, e.ContextBuilt):
        for part in event.parts:
            if isinstance(part, e.InlinePart):
                yield from _message_texts(part.message)
                entries_shown = part.shown
            else:
                entries_shown = (part,)
            for entry in entries_shown:
                yield from _shown_texts(entry)


def _shown_texts(part: e.HistoryPart) -> Iterator[Any]:
    edits = [cut.becomes for cut in (*part.cuts, *part.tail_cuts)]
    for message in (part.summary, part.rendered, *edits):
        if message is not None:
            yield from _message_texts(message)


def _message_texts(message: Message) -> Iterator[Any]:
    yield from (message.content, message.data or "")
    for call in message.calls:
        yield from (call.name, call.args)
