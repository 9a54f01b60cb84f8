"""Claims that only a script can keep: they speak of words that nothing but reply lines says.

A claim is left out of live runs if a text in it stands in the scenario's reply lines, and neither
in the rest of the scenario (what users say, what tools return, what is given) nor in the pipeline's
file. So `reply: You get a refund.` is left out where a scripted model says so, and
`handoffs: [{payload: {order: A-1}}]` is judged if the user names A-1. Names of agents and tools,
truth values and regular expressions never leave a claim out. A number does only under the key under
which a reply line says it. A claim on `error` or `interrupt` is left out if a reply line of its
turn fails, or asks, on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from simkit.core.text import short
from simkit.language.yaml import SourcePath, path_text
from simkit.spec.scenario.borrowed import as_list
from simkit.spec.scenario.files import Prepared
from simkit.spec.scenario.moments import as_written

Leaf: TypeAlias = tuple[str, Any]
"""A scalar with the nearest key above it that is no operator."""

NAMES: Final = frozenset(("agents", "model_calls", "findings", "satisfies", "judge"))
"""Claims on names and numbers of the interface, and on judgements, which no script says."""
_CONTEXT_NAMES: Final = frozenset(
    ("sections", "tools", "handoffs", "tokens", "share", "prefix", "settings")
)
"""Claims on contexts with names and numbers only."""
_NAMING_KEYS: Final = frozenset(
    ("agent", "from", "id", "mode", "outcome", "role", "section", "to", "tool", "type")
)
"""Keys in claims whose values are names of the interface."""
_BY_AGENT: Final = ("context", "runs")
_BY_KEY: Final = ("state", "model_calls", "judge")
_PATTERNS: Final = frozenset(("$regex", "$type", "$schema", "$len"))
_WORDS: Final = ("text", "json", "calls", "handoff", "interrupt", "thinking")
"""Keys of a reply line with words of the model."""
_PURPOSES: Final = {"error": "fails", "interrupt": "asks"}
_QUOTED_MAX: Final = 60
_JUDGE: Final = "judge"
_OF_JUDGE: Final = (_JUDGE, "judge_replies")
"""Keys of a scenario, and of a turn, that no agent reads."""


class ClaimUnit(msgspec.Struct, frozen=True):
    """One claim, as live runs count it: a key below `expect:`, for contexts one of an agent."""

    path: SourcePath
    """Its place in the scenario's document."""
    why_left_out: str = ""
    """Why live runs do not judge it; empty if they do."""

    @property
    def turn(self) -> int:
        """Return the number of its turn, from 1; 0 for the whole run."""
        return int(self.path[1]) + 1 if self.path[0] == "turns" else 0

    @property
    def label(self) -> str:
        """Return its name in reports: `turn 1: context.refunds.includes`, `always.reply`."""
        if self.path[0] not in ("turns", "expect"):
            return path_text(self.path)
        key, *inner = map(str, self.path[3 if self.turn else 1 :])
        claim = f"{key} {inner[0]!r}" if key == _JUDGE else ".".join((key, *inner))
        return f"turn {self.turn}: {claim}" if self.turn else f"whole run: {claim}"


def claim_units(prepared: Prepared, first_turn: int = 1) -> list[ClaimUnit]:
    """Return the claims of a scenario from a turn on, with those that only its script can keep."""
    data = prepared.document.data
    script = _Script(prepared, first_turn)
    units = []
    for index, turn in enumerate(data["turns"]):
        if index + 1 >= first_turn:
            at = ("turns", index, "expect")
            units += [*_units_in(turn.get("expect", {}), at, script, turn.get("replies", {}))]
    units += _units_in(data.get("expect", {}), ("expect",), script, {})
    return units


def without_units(
    expect: Mapping[str, Any], at: SourcePath, paths: frozenset[SourcePath]
) -> dict[str, Any]:
    """Return claims without those at these paths; ``at`` is the path of the claims.

    Paths name references as the file does, also where the claims still wait for earlier replies.
    """
    result = {}
    for key, claim in expect.items():
        claim_path = (*at, as_written(key))
        if claim_path in paths:
            continue
        if isinstance(claim, Mapping) and any(
            path[: len(claim_path)] == claim_path for path in paths
        ):
            claim = without_units(claim, claim_path, paths)
            if not claim:
                continue
        result[key] = claim
    return result


def _units_in(
    expect: Mapping[str, Any], at: SourcePath, script: _Script, replies: Mapping[str, Any]
) -> Iterator[ClaimUnit]:
    for path, claim in parts_of(expect, at):
        key = str(path[len(at)])
        why = ""
        if key == _JUDGE and not script.has_judge:
            why = "the scenario names no model that answers: `judge: openai/gpt-5-mini`"
        elif key in _PURPOSES and _has_purpose(replies, key):
            why = f"a reply line of the turn {_PURPOSES[key]} on purpose"
        elif key not in NAMES and not (key == "context" and path[-1] in _CONTEXT_NAMES):
            why = script.why_only_scripted(claim, key)
        yield ClaimUnit(path, why)


def parts_of(expect: Mapping[str, Any], at: SourcePath) -> Iterator[tuple[SourcePath, Any]]:
    """Yield each claim with its path."""
    for key, claim in expect.items():
        if str(key).startswith("x-"):
            continue
        if key in _BY_AGENT:
            for agent, claims in claim.items():
                yield from (((*at, key, agent, name), claims[name]) for name in claims)
        elif key in _BY_KEY and is_by_name(claim):
            yield from (((*at, key, name), {name: claim[name]}) for name in claim)
        else:
            yield (*at, key), claim


def is_by_name(claim: Any) -> bool:
    """Return whether a claim is by channel or another name, and no matcher of the whole."""
    return isinstance(claim, Mapping) and not any(str(name).startswith("$") for name in claim)


class _Script:
    """The words of a scenario's reply lines, and all other words that its runs are given."""

    def __init__(self, prepared: Prepared, first_turn: int) -> None:
        data = prepared.document.data
        self.has_judge = _JUDGE in data
        """Whether a model answers questions to the judge."""
        turns = data["turns"]
        scripted = [turn.get("replies", {}) for turn in turns[first_turn - 1 :]]
        leaves = [leaf for replies in scripted for leaf in _leaves_of_replies(replies)]
        self._texts = [_normalized(value) for _, value in leaves if isinstance(value, str)]
        self._numbers = {leaf for leaf in leaves if not isinstance(leaf[1], str)}
        self._others = "\n".join(_normalized(text) for text in _other_texts(prepared, first_turn))

    def why_only_scripted(self, claim: Any, key: str) -> str:
        """Return why only the script can keep a claim; empty if its runs may."""
        for name, value in _leaves_of_claim(claim, key):
            if self._is_only_scripted(name, value):
                return f"{short(str(value), _QUOTED_MAX)!r} stands in reply lines only"
        return ""

    def _is_only_scripted(self, name: str, value: Any) -> bool:
        if not isinstance(value, str):
            is_scripted = (name, value) in self._numbers
        else:
            is_scripted = any(_is_in(_normalized(value), text) for text in self._texts)
        return is_scripted and not _is_in(_normalized(str(value)), self._others)


def _leaves_of_replies(replies: Mapping[str, Any]) -> Iterator[Leaf]:
    for lines in replies.values():
        for line in lines if isinstance(lines, list) else [lines]:
            if not isinstance(line, Mapping):
                yield from _leaves(line, "")
                continue
            for key in _WORDS:
                if key in line:
                    yield from _leaves_of_answer(key, line[key])


def _leaves_of_answer(key: str, value: Any) -> Iterator[Leaf]:
    """Yield what a model says with a part of its answer; targets and tools are no words of it."""
    if key == "handoff" and isinstance(value, Mapping):
        for part in ("query", "payload"):
            yield from _leaves(value.get(part), part)
    elif key == "calls":
        for call in value if isinstance(value, list) else [value]:
            if isinstance(call, Mapping):
                for arguments in call.values():
                    yield from _leaves(arguments, "")
    else:
        yield from _leaves(value, "")


def _leaves(value: Any, key: str) -> Iterator[Leaf]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(inner, str(name))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(inner, key)
    elif value is not None and not isinstance(value, bool) and value != "":
        yield key, value


def _leaves_of_claim(value: Any, key: str) -> Iterator[Leaf]:
    """Yield the values that a claim names; what operators such as `$len` say is no such value."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name not in _PATTERNS and name not in _NAMING_KEYS:
                yield from _leaves_of_claim(inner, key if str(name).startswith("$") else str(name))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves_of_claim(inner, key)
    else:
        yield from _leaves(value, key)


def _other_texts(prepared: Prepared, first_turn: int) -> Iterator[str]:
    """Yield all texts, keys too, of the scenario's files beside reply lines and claims."""
    data = prepared.document.data
    turns = [
        {key: value for key, value in turn.items() if _is_given(key, index + 1 < first_turn)}
        for index, turn in enumerate(data["turns"])
    ]
    about_it = ("expect", "scenario", "examples", "turns", *_OF_JUDGE)
    documents: list[Any] = [{key: value for key, value in data.items() if key not in about_it}]
    documents += [turns, *(document.data for document in prepared.used)]
    if prepared.pipeline_document is not prepared.document:
        documents.append(prepared.pipeline_document.data)
    for document in documents:
        yield from _texts_in(document)


def _is_given(key: str, is_before: bool) -> bool:
    """Return whether a key of a turn is given to live runs; lines of turns before them are."""
    return key not in ("expect", *_OF_JUDGE) and (is_before or key != "replies")


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from _texts_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts_in(inner)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _has_purpose(replies: Mapping[str, Any], key: str) -> bool:
    lines = (line for value in replies.values() for line in as_list(value))
    return any(isinstance(line, Mapping) and key in line for line in lines)


def _normalized(text: str) -> str:
    return " ".join(text.lower().split())


def _is_in(text: str, other: str) -> bool:
    """Return whether whole words of a text stand in another."""
    start = r"(?<!\w)" if text[:1].isalnum() else ""
    end = r"(?!\w)" if text[-1:].isalnum() else ""
    return bool(text) and re.search(f"{start}{re.escape(text)}{end}", other) is not None
