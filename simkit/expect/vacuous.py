"""RUN-03: a negative claim proves something only if what it denies could have been there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from simkit import events as e
from simkit.expect.claims import Writer
from simkit.expect.feasible import Candidates
from simkit.expect.findings import Hit
from simkit.expect.observing import claims_of
from simkit.expect.scope import Path
from simkit.expect.searching import NAMES, has_alternatives
from simkit.matching import Matcher, patterns_of
from simkit.matching.rendering import line
from simkit.messages import ABSENT, Message
from simkit.paths import as_text
from simkit.scenario.claims import Expect
from simkit.source import path_text
from simkit.views import View

_CLAIMS: Final = ("agents", "reply", "state", "handoffs", "tool_calls", "error", "interrupt",
                  "logs", "events")  # fmt: skip
_NUMERIC: Final = ("$gt", "$gte", "$lt", "$lte", "$approx")
"""A bound is no pattern: the number itself need not occur."""


def vacuous_claims(
    claims: Iterable[tuple[Path, int, Expect]], view: View, writer: Writer
) -> Iterator[Hit]:
    """Yields the `excludes` and `$not` whose pattern occurs nowhere in the trace."""
    search, candidates = _Search(view, writer), Candidates(view)
    for path, turn, expect in claims:
        for where, matcher, is_message in _negatives(path, expect):
            inner = where[len(path) :]
            if not search.could_hold(matcher, is_message, turn):
                what = f"nothing in the trace matches {line(matcher)}"
            elif not is_message and not candidates.could_be(matcher, inner[:-1], turn):
                what = f"no value of this claim in the trace could match {line(matcher)}"
            else:
                continue
            what = f"{path_text(inner)}: {what}, so its absence proves nothing"
            yield Hit("RUN-03", what, turn, path=where)


def _negatives(path: Path, expect: Expect) -> Iterator[tuple[Path, Any, bool]]:
    for key, context in expect.context.items():
        for place, matcher in enumerate(context.excludes or ()):
            yield (*path, "context", key, "excludes", place), matcher, True
        for name, matcher in context.claimed().items():
            yield from _nots((*path, "context", key, name), matcher)
    for key, run in expect.runs.items():
        for name, matcher in claims_of(run):
            yield from _nots((*path, "runs", key, name), matcher)
    written = expect.model_fields_set
    for name in _CLAIMS:
        if name in written:
            yield from _nots((*path, name), getattr(expect, name))


def _nots(path: Path, matcher: Any) -> Iterator[tuple[Path, Any, bool]]:
    if isinstance(matcher, str):
        return
    if isinstance(matcher, Mapping):
        for key, value in matcher.items():
            if key == "$not":
                yield (*path, key), value, False
            elif key != "$schema":
                yield from _nots((*path, key), value)
    elif isinstance(matcher, (list, tuple)):
        for place, value in enumerate(matcher):
            yield from _nots((*path, place), value)


class _Search:
    """Looks for patterns, each once, in all that was said, made, written and given."""

    def __init__(self, view: View, writer: Writer) -> None:
        self._view, self._writer = view, writer
        self._found: dict[tuple[bytes, bool], bool] = {}
        self._texts: list[str] = []
        self._whole = ""

    def could_hold(self, matcher: Any, is_message: bool, turn: int) -> bool:
        """Whether the pattern occurs; where it has no text of its own, a message must match."""
        encoded, compiled = self._writer.matchers.of(matcher)
        key = encoded, is_message
        if key not in self._found:
            self._found[key] = self._looked_for(matcher, key, compiled, turn)
        return self._found[key]

    def _looked_for(
        self, matcher: Any, key: tuple[bytes, bool], compiled: Matcher, turn: int
    ) -> bool:
        is_message = key[1]
        content = _pattern(matcher, NAMES if is_message else ())
        texts = () if content is ABSENT else patterns_of(content)
        if not texts:
            return not is_message or self._is_message(key[0], compiled)
        occur = (self._occurs(text, turn) for text in texts)
        return any(occur) if has_alternatives(matcher) else all(occur)

    def _is_message(self, key: bytes, compiled: Matcher) -> bool:
        calls = self._view.calls.values()
        return any(compiled.holds(message) for message in self._view.messages.values()) or any(
            self._writer.search.first(call.context, key, compiled) is not None for call in calls
        )

    def _occurs(self, text: str, turn: int) -> bool:
        """Looks around the claim's turn first: most patterns are from there."""
        if not self._texts:
            self._texts = _texts_by_turn(self._view)
            self._whole = "\n".join(self._texts)
        escaped = json.dumps(text, ensure_ascii=False)[1:-1]
        near = min(turn, len(self._texts) - 1)
        some = (self._texts[near], self._texts[max(0, near - 1)], self._texts[0], self._whole)
        if any(text in one for one in some):
            return True
        return escaped != text and escaped in self._whole


def _pattern(matcher: Any, names: Sequence[str]) -> Any:
    """Returns the matcher without names and bounds, or ABSENT if nothing is left."""
    if isinstance(matcher, Mapping):
        kept = {
            key: inner
            for key, value in matcher.items()
            if key not in _NUMERIC
            and key not in names
            and (inner := _pattern(value, names)) is not ABSENT
        }
        return kept or ABSENT
    if isinstance(matcher, (list, tuple)):
        found = [inner for one in matcher if (inner := _pattern(one, names)) is not ABSENT]
        return found or ABSENT
    return matcher


def _texts_by_turn(view: View) -> list[str]:
    """Everything that was said, made or written, once, by turn; names and what is given first."""
    texts: list[list[str]] = [[] for _ in range(len(view.turns) + 1)]
    texts[0] += _vocabulary(view.pipeline)
    seen = set(texts[0])
    for event in view.events:
        turn = texts[event.turn if event.turn < len(texts) else 0]
        for text in _texts_of(event):
            if text not in seen:
                seen.add(text)
                turn.append(text)
    return ["\n".join(found) for found in texts]


def _vocabulary(facts: e.PipelineFacts) -> Iterator[str]:
    yield from facts.channels
    yield from e.KINDS
    for name, agent in facts.agents.items():
        yield from (name, agent.instructions, *agent.tools)
    for contract in facts.contracts:
        yield from (contract.type, contract.mode)


_VALUES: Final[Mapping[type, tuple[str, ...]]] = {
    e.StateUpdated: ("update", "values"),
    e.ToolCalled: ("tool", "args"),
    e.ToolReturned: ("result",),
    e.ToolFailed: ("error",),
    e.ModelFailed: ("error", "message"),
    e.HandoffRequested: ("type", "query", "payload"),
    e.HandoffRejected: ("reason",),
    e.RouteChosen: ("targets", "labels"),
    e.AgentStarted: ("input",),
    e.AgentFinished: ("status", "output"),
    e.TurnInterrupted: ("question",),
    e.LogRecorded: ("level", "logger", "message", "error"),
    e.TurnFinished: ("reply", "error"),
    e.LimitReached: ("limit",),
    e.ContextBuilt: ("settings",),
}


def _texts_of(event: e.AnyEvent) -> Iterator[str]:
    for name in _VALUES.get(type(event), ()):
        value = getattr(event, name)
        if value is not None:
            yield as_text(value)
    if isinstance(event, e.MessageAdded):
        yield from _said(event.message)
    elif isinstance(event, e.ContextBuilt):
        for part in event.parts:
            if isinstance(part, e.Made):
                yield from _said(part.message)
                shown = part.shown
            else:
                shown = (part,)
            for one in shown:
                yield from _shown(one)


def _shown(part: e.Shown) -> Iterator[str]:
    edits = [cut.becomes for cut in (*part.cuts, *part.tail_cuts)]
    for message in (part.summary, part.rendered, *edits):
        if message is not None:
            yield from _said(message)


def _said(message: Message) -> Iterator[str]:
    yield message.content
    for call in message.calls:
        yield from (call.name, as_text(call.args))
