"""Names in claims: agents, sections, channels, tools, lints, and what an event has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from simkit.events import KINDS, AnyEvent
from simkit.lint_catalogue import LINTS
from simkit.paths import head_of
from simkit.pipeline.recipe import FILTERS
from simkit.pipeline.root_names import HANDOFF_FIELDS, keys_in, leads_to
from simkit.scenario.claims import CONTEXT_CLAIMS, ContextClaims, Expect, RunClaims, selected
from simkit.scenario.known import Known
from simkit.shape import ANYTHING, require
from simkit.source import Document, SourcePath

EVERY: Final = "*"
HANDOFF_KEYS: Final = (*HANDOFF_FIELDS, "outcome", "reason")
TOOL_KEYS: Final = (
    "agent", "tool", "args", "result", "error", "call_id", "called_at", "returned_at",
)  # fmt: skip
EVENT_KEYS: Final = (
    "kind",
    *sorted({name for event in AnyEvent.__args__ for name in event.__struct_fields__}),
)
MODES: Final = ("transfer", "delegate", "replace")
OUTCOMES: Final = ("made", "rejected")
LEFT_OUT_BY: Final = (
    "scopes", "since_days", "time_ranges", "tags", "threshold", "max", "tokens", "preview",
    "truncate",
)  # fmt: skip
DROPPED_WHAT: Final = ("message", "tool_calls", "content")

_INNER: Final = (
    "$not", "$either", "$all", "$in", "$eq", "$ne", "$has", "$each", "$in_order", "$unordered",
    "$exact",
)  # fmt: skip
"""Operators whose operands are held against the value, or against its elements."""

Values = Mapping[str, tuple[str, Iterable[str]]]
"""For a key: what its texts are called, and which there are."""


class ClaimNames:
    """Checks the claims of one scenario against the names of its pipeline."""

    def __init__(self, document: Document, known: Known) -> None:
        self._document, self._known = document, known
        self._members, self._channels, self._tools = known.agents, known.channels, known.tools

    def check(self, expect: Expect, at: SourcePath) -> None:
        """Raises SourceError for the first name that leads nowhere."""
        if not expect.model_fields_set:
            return
        agent = ("agent", self._members)
        self._texts(expect.agents, (*at, "agents"), *agent)
        for key, claims in expect.context.items():
            self._context(key, claims, (*at, "context", key))
        for key, run in expect.runs.items():
            self._run(key, run, (*at, "runs", key))
        self._state(expect.state, (*at, "state"))
        self._entries(expect.handoffs, (*at, "handoffs"), "field of a handoff", HANDOFF_KEYS, {
            "from": agent, "to": agent, "mode": ("mode", MODES), "outcome": ("outcome", OUTCOMES),
        })  # fmt: skip
        self._entries(expect.tool_calls, (*at, "tool_calls"), "field of a tool call", TOOL_KEYS, {
            "agent": agent, "tool": ("tool", self._tools),
        })  # fmt: skip
        for name in expect.model_calls or ():
            path = (*at, "model_calls", name)
            require(self._document, path, "agent", name, self._members, key=True)
        self._entries(expect.events, (*at, "events"), "field of an event", EVENT_KEYS, {
            "kind": ("event", KINDS), "agent": agent,
        })  # fmt: skip
        findings = list(expect.findings or ())
        self._entries(findings, (*at, "findings"), "", (), {
            "id": ("lint", LINTS), "agent": agent,
        })  # fmt: skip

    # Contexts and runs

    def _sections(self, key: str, at: SourcePath) -> Sequence[str]:
        """Returns the sections of the agents that ``agent[k]`` or ``*`` speaks of."""
        name, _ = selected(key)
        if name == EVERY:
            return self._known.sections
        require(self._document, at, "agent", name, self._members, key=True)
        return self._known.sections_of(name)

    def _context(self, key: str, claims: ContextClaims, at: SourcePath) -> None:
        sections = self._sections(key, at)
        known = ANYTHING if sections is ANYTHING else (*CONTEXT_CLAIMS, *sections)
        for claim in claims.claimed():
            require(self._document, (*at, claim), claims.noun, claim, known, key=True)
        self._texts(claims.sections, (*at, "sections"), "section", sections)
        self._texts(claims.tools, (*at, "tools"), "tool", self._tools)
        agent = ("agent", self._members)
        said: Values = {"agent": agent, "section": ("section", sections)}
        for claim in ("messages", "includes", "excludes", *sections):
            self._entries(claims.claimed().get(claim), (*at, claim), "", (), said)
        self._entries(claims.dropped, (*at, "dropped"), "", (), {
            "agent": agent, "what": ("kind of cut", DROPPED_WHAT),
            "by": ("filter", self._filters()),
        })  # fmt: skip
        self._entries(claims.left_out, (*at, "left_out"), "", (), {
            "section": ("section", sections), "channel": ("channel", self._channels),
            "by": ("reason", LEFT_OUT_BY),
        })  # fmt: skip

    def _filters(self) -> Sequence[str]:
        own = self._known.filters
        return own if own is ANYTHING else (*FILTERS, "agents", "window", *own)

    def _run(self, key: str, run: RunClaims, at: SourcePath) -> None:
        self._sections(key, at)
        self._state(run.received, (*at, "received"))
        self._state(run.update, (*at, "update"))

    def _state(self, matcher: Any, at: SourcePath) -> None:
        """Checks the channels that a claim on the state names."""
        if matcher is None:
            return
        for path, key in keys_in(matcher, at):
            if not leads_to(key, self._channels):
                word = head_of(key)
                require(self._document, path, "channel", word, self._channels, key=True)

    # Matchers

    def _texts(self, matcher: Any, at: SourcePath, noun: str, known: Iterable[str]) -> None:
        """Checks the plain texts in a matcher of names; where no claim is, there are none."""
        if matcher is None:
            return
        for path, text in _texts_in(matcher, at):
            require(self._document, path, noun, text, known)

    def _entries(
        self, matcher: Any, at: SourcePath, noun: str, fields: tuple[str, ...], values: Values
    ) -> None:
        """Checks the mappings in a matcher of a list: their keys, and the values of some."""
        if matcher is None:
            return
        for path, entry in _mappings_in(matcher, at):
            for key, operand in entry.items():
                if key.startswith("$"):
                    continue
                if fields and not leads_to(key, fields):
                    word = head_of(key)
                    require(self._document, (*path, key), noun, word, fields, key=True)
                if key in values:
                    self._texts(operand, (*path, key), *values[key])


def _texts_in(matcher: Any, at: SourcePath) -> Iterator[tuple[SourcePath, str]]:
    if isinstance(matcher, str):
        yield at, matcher
    else:
        for path, inner in _inner(matcher, at):
            yield from _texts_in(inner, path)


def _mappings_in(matcher: Any, at: SourcePath) -> Iterator[tuple[SourcePath, Mapping[str, Any]]]:
    if isinstance(matcher, Mapping) and any(not key.startswith("$") for key in matcher):
        yield at, matcher
    for path, inner in _inner(matcher, at):
        yield from _mappings_in(inner, path)


def _inner(matcher: Any, at: SourcePath) -> Iterator[tuple[SourcePath, Any]]:
    """Yields the matchers directly inside one: elements of a list, operands of operators."""
    if isinstance(matcher, (list, tuple)):
        for place, element in enumerate(matcher):
            yield (*at, place), element
    elif isinstance(matcher, Mapping):
        for key, operand in matcher.items():
            if key in _INNER:
                yield (*at, key), operand
