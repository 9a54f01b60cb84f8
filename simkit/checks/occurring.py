"""Occurrence: whether a denied thing is anywhere in the run, among values of its kind.

``messages: {$not: {$has: [{role: tool}]}}`` proves something if any message of the run is a tool's,
``sections: {$not: {$has: [handoff]}}`` if any context has such a section. Elements of a list may
occur separately: each of them could have been there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from simkit.checks.claims import Writer
from simkit.checks.feasible import COLLECTED, of_runs
from simkit.checks.provenance import shares
from simkit.checks.scope import Path, event_fields, log_fields
from simkit.checks.searching import NAMES
from simkit.language.matching import Matcher, compile_matcher
from simkit.language.matching.compiling import is_operator
from simkit.language.matching.patterns import patterns_of
from simkit.spec.scenario.claims import CONTEXT_CLAIMS
from simkit.trace import events as e
from simkit.trace.views import View

_ELEMENTS: Final = ("$has", "$each", "$in_order", "$unordered")
_SAME: Final = ("$either", "$all", "$in", "$eq", "$exact")
_PLACE: Final = re.compile(r"\[-?\d+\]\.?")
_MESSAGE_CLAIMS: Final = ("messages", "includes", "excludes")
_ALL_KEYS: Final = ("*",)


class Kind(NamedTuple):
    """A kind of values that claims concern."""

    values: Callable[[View], Iterator[Any]] | None
    """All such values of a run, of lists their elements; None for messages."""
    is_list: bool
    names: tuple[str, ...] = ()
    """The keys whose values are names, which occur in no text; ``*`` if all are names."""

    @property
    def is_of_names(self) -> bool:
        """Return whether all values are names, and no texts."""
        return self.names == _ALL_KEYS


def kind_of(path: Path) -> Kind | None:
    """Return the kind of a claim's values; ``path`` leads from `expect` to it, or into it."""
    head = str(path[0])
    if head not in ("context", "runs"):
        return _KINDS.get((head,))
    name = str(path[2])
    is_section = head == "context" and name not in CONTEXT_CLAIMS
    return _MESSAGES if is_section or name in _MESSAGE_CLAIMS else _KINDS.get((head, name))


class Occurring:
    """A search among all values of a kind; each pattern is searched once."""

    def __init__(self, view: View, writer: Writer) -> None:
        self._view, self._writer = view, writer
        self._values: dict[int, list[Any]] = {}
        self._holds: dict[tuple[int, Matcher], bool] = {}

    def occurs(self, matcher: Any, path: Path) -> bool:
        """Return whether a value of its kind matches a pattern.

        ``path`` leads from `expect` to it.
        """
        kind = kind_of(path)
        if kind is None:
            return False
        if path[0] == "context" and path[2] == "excludes":
            return self._could_be(matcher, ("$has",), kind)
        size = 3 if path[0] in ("context", "runs") else 1
        return self._could_be(matcher, _steps(path[size:], kind), kind)

    def _could_be(self, matcher: Any, steps: Path, kind: Kind) -> bool:
        """Return whether a pattern matches, or each of its parts if it concerns a list."""
        if self._is_one(matcher, steps, kind):
            return True
        if isinstance(matcher, (list, tuple)):
            inner = (*steps, "$has")
            return all(self._could_be(element, inner, kind) for element in matcher)
        if not isinstance(matcher, Mapping) or not any(key in _LISTING for key in matcher):
            return False
        return all(self._holds_in(key, inner, steps, kind) for key, inner in matcher.items())

    def _holds_in(self, key: str, operand: Any, steps: Path, kind: Kind) -> bool:
        """Return the same for one key of a pattern."""
        if key in _ELEMENTS:
            each = operand if key != "$each" and isinstance(operand, (list, tuple)) else [operand]
            return all(self._could_be(element, (*steps, "$has"), kind) for element in each)
        if key == "$all":
            return all(self._could_be(element, steps, kind) for element in operand)
        if key in ("$either", "$in"):
            return any(self._could_be(element, steps, kind) for element in operand)
        if key in ("$eq", "$exact"):
            return self._could_be(operand, steps, kind)
        return self._is_one({key: operand}, steps, kind)

    def _is_one(self, matcher: Any, steps: Path, kind: Kind) -> bool:
        """Return whether one value, or element, matches a whole pattern."""
        if kind.is_list:
            if not steps or steps[0] != "$has":
                return not isinstance(matcher, (list, tuple)) and not patterns_of(matcher)
            steps = steps[1:]
        for step in reversed(steps):
            matcher = {step: [matcher] if step == "$has" else matcher}
        compiled = compile_matcher(matcher)
        memo = id(kind), compiled
        if memo not in self._holds:
            self._holds[memo] = (
                self._is_message(compiled)
                if kind.values is None
                else any(compiled.holds(value) for value in self._all(kind))
            )
        return self._holds[memo]

    def _is_message(self, compiled: Matcher) -> bool:
        view = self._view
        return any(compiled.holds(message) for message in view.messages.values()) or any(
            self._writer.search.first(call.context, compiled) is not None
            for call in view.calls.values()
        )

    def _all(self, kind: Kind) -> list[Any]:
        values_found = self._values.get(id(kind))
        if values_found is None:
            assert kind.values is not None
            values_found = self._values[id(kind)] = list(kind.values(self._view))
        return values_found


_LISTING: Final = (*_ELEMENTS, *_SAME)


def _steps(inside: Path, kind: Kind) -> Path:
    """Return the path into a claim's values, without operators: keys, and ``$has``."""
    steps: list[str] = []
    before: str | int = ""
    for step in inside:
        if isinstance(step, int):
            if before not in _ELEMENTS and before not in _SAME:
                steps.append("$has")
        elif step in _ELEMENTS:
            steps.append("$has")
        elif not is_operator(step):
            rest = _PLACE.sub("", step) if step.startswith("[") else step
            if rest != step:
                steps.append("$has")
            if rest:
                steps.append(rest)
        before = step
    return tuple(steps)


def _of_contexts(name: str) -> Callable[[View], Iterator[Any]]:
    def values(view: View) -> Iterator[Any]:
        return (item for call in view.calls.values() for item in _listed(call.context, name))

    return values


def _listed(context: Any, name: str) -> Iterator[Any]:
    items = getattr(context, name)
    yield from (items() if callable(items) else items) or ()


def _tools(view: View) -> Iterator[str]:
    for agent in view.pipeline.agents.values():
        yield from agent.tools
    yield from _of_contexts("tools")(view)


def _agents(view: View) -> Iterator[str]:
    yield from view.pipeline.agents
    yield from (run.agent for turn in view.turns for run in turn.runs)
    yield from _of_contexts("handoffs")(view)


def _dropped(view: View) -> Iterator[Any]:
    yield from _of_contexts("dropped")(view)
    yield from view.messages.values()


def _shares(view: View) -> Iterator[Any]:
    nobody = dict.fromkeys(("user", *view.pipeline.agents), 0.0)
    for call in view.calls.values():
        yield {**nobody, **shares(call.context)}


def _logs(view: View) -> Iterator[Any]:
    return (log_fields(event) for event in view.events if isinstance(event, e.LogRecorded))


def _states(view: View) -> Iterator[Any]:
    yield from (turn.state for turn in view.turns)
    yield from COLLECTED["state",](view)


_RECORDS: Final = (*NAMES, "by", "what", "channel")
_MESSAGES: Final = Kind(None, is_list=True, names=NAMES)
_KINDS: Final[Mapping[tuple[str, ...], Kind]] = {
    **{key: Kind(values, is_list=False) for key, values in COLLECTED.items()},
    ("state",): Kind(_states, is_list=False),
    ("agents",): Kind(_agents, is_list=True, names=_ALL_KEYS),
    ("handoffs",): Kind(lambda view: (h.fields() for t in view.turns for h in t.handoffs), True),
    ("tool_calls",): Kind(lambda view: (o.fields() for t in view.turns for o in t.tools), True),
    ("logs",): Kind(_logs, is_list=True),
    ("events",): Kind(
        lambda view: (event_fields(view.whole_event(event)) for event in view.events), is_list=True
    ),
    ("context", "sections"): Kind(_of_contexts("sections"), is_list=True, names=_ALL_KEYS),
    ("context", "tools"): Kind(_tools, is_list=True, names=_ALL_KEYS),
    ("context", "handoffs"): Kind(_agents, is_list=True, names=_ALL_KEYS),
    ("context", "dropped"): Kind(_dropped, is_list=True, names=_RECORDS),
    ("context", "left_out"): Kind(_of_contexts("left_out"), is_list=True, names=_RECORDS),
    ("context", "tokens"): Kind(
        lambda view: (call.context.tokens for call in view.calls.values()), is_list=False
    ),
    ("context", "share"): Kind(_shares, is_list=False),
    ("runs", "received"): Kind(of_runs("received"), is_list=False),
    ("runs", "update"): Kind(of_runs("update"), is_list=False),
}
