"""Names in claims: agents, sections, channels, tools, lints, and fields of events."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from simkit.core.errors import MatcherError
from simkit.core.messages import HANDOFF_PREFIX
from simkit.language.matching.kinds import check_kind
from simkit.language.paths import head_of
from simkit.language.yaml import Document, Open, SourcePath
from simkit.spec.fields import ANYTHING, require
from simkit.spec.lint_catalogue import LINTS
from simkit.spec.pipeline.recipe import FILTERS, FILTERS_WITH_OPTIONS
from simkit.spec.pipeline.root_names import HANDOFF_FIELDS, keys_in, leads_to
from simkit.spec.scenario.claims import (
    ALL_AGENTS,
    CONTEXT_CLAIMS,
    FORMS,
    RUN_FORMS,
    RUN_SPOKEN,
    SELECTOR_PHRASES,
    ContextClaims,
    Expect,
    RunClaims,
    claimed_polarity,
    malformed,
    selected,
)
from simkit.spec.scenario.known import KnownNames
from simkit.trace.events import KINDS, AnyEvent

FEATURE_SUFFIX: Final = ".feature"
HANDOFF_KEYS: Final = (*HANDOFF_FIELDS, "outcome", "reason")
TOOL_KEYS: Final = (
    "agent", "tool", "args", "asked", "result", "error", "call_id", "called_at", "returned_at",
)  # fmt: skip
LOG_KEYS: Final = ("level", "logger", "message", "error", "agent")
LOG_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
"""The levels of `logging`; code may define others."""
EVENT_KEYS: Final = (
    "kind",
    *sorted({name for event in AnyEvent.__args__ for name in event.__struct_fields__}),
)
MODES: Final = ("transfer", "delegate", "replace")
OUTCOMES: Final = ("made", "rejected")
LEFT_OUT_BY: Final = (
    "scopes",
    "since_days",
    "time_ranges",
    "tags",
    "threshold",
    "max",
    "tokens",
    "preview",
    "truncate",
)
DROPPED_WHAT: Final = ("message", "tool_calls", "content")

_INNER: Final = (
    "$not", "$either", "$all", "$in", "$eq", "$ne", "$has", "$each", "$in_order", "$unordered",
    "$exact",
)  # fmt: skip
"""Operators whose operands are matched with the value, or with its elements."""

Values = Mapping[str, tuple[str, Iterable[str]] | tuple[str, Iterable[str], Collection[str]]]
"""Key to the noun for its texts in messages, and the known texts."""


class ClaimNames:
    """The check of one scenario's claims against the names of its pipeline."""

    def __init__(self, document: Document, known: KnownNames, initial_state: Any = None) -> None:
        """``initial_state`` is the state before the first turn: its messages may name any tool."""
        self._document, self._known, self._initial_state = document, known, initial_state
        self._members, self._channels, self._tools = known.agents, known.channels, known.tools

    def check(self, expect: Expect, at: SourcePath) -> None:
        """Raise SourceError for the first unknown name."""
        if not expect.model_fields_set:
            return
        agent = ("agent", self._members)
        self._texts(expect.agents, (*at, "agents"), *agent)
        for key, claims in expect.context.items():
            self._context(key, claims, (*at, "context", key))
            self._says_which(key, claims.claimed(), (*at, "context", key))
        for key, run in expect.runs.items():
            self._run(key, run, (*at, "runs", key))
            values = {name: getattr(run, name) for name in run.model_fields_set}
            self._says_which(key, values, (*at, "runs", key))
        self._state(expect.state, (*at, "state"))
        self._values(expect.state, (*at, "state"))
        self._entries(expect.handoffs, (*at, "handoffs"), "field of a handoff", HANDOFF_KEYS, {
            "from": agent, "to": agent, "mode": ("mode", MODES), "outcome": ("outcome", OUTCOMES),
        })  # fmt: skip
        self._entries(
            expect.tool_calls,
            (*at, "tool_calls"),
            "field of a tool call",
            TOOL_KEYS,
            {
                "agent": agent,
                "tool": ("tool", self._tools),
            },
        )
        for name in expect.model_calls or ():
            path = (*at, "model_calls", name)
            require(self._document, path, "agent", name, self._members, key=True)
        self._entries(
            expect.logs,
            (*at, "logs"),
            "field of a log record",
            LOG_KEYS,
            {
                "agent": agent,
                "level": ("log level", Open(LOG_LEVELS)),
            },
        )
        self._entries(
            expect.events,
            (*at, "events"),
            "field of an event",
            EVENT_KEYS,
            {
                "kind": ("event", KINDS),
                "agent": agent,
            },
        )
        self.check_findings(list(expect.findings or ()), (*at, "findings"))

    def check_findings(self, matcher: Any, at: SourcePath) -> None:
        """Raise SourceError for the first unknown lint or agent in a matcher of findings."""
        self._entries(
            matcher,
            at,
            "",
            (),
            {
                "id": ("lint", LINTS),
                "agent": ("agent", self._members),
            },
        )

    # Contexts and runs

    def _sections(self, key: str, at: SourcePath) -> Sequence[str]:
        """Return the sections of the agents that ``agent[k]`` or ``*`` stands for."""
        name = selected(key).agent
        if name == ALL_AGENTS:
            return self._known.sections
        brackets = malformed(key)
        if brackets is not None and name not in self._members:
            agent, rest = brackets
            raise self._document.error(
                at, f"`{rest}` names no call and no run", key=True, advice=self._forms(agent, at)
            )
        require(self._document, at, "agent", name, self._members, key=True)
        return self._known.sections_of(name)

    def _context(self, key: str, claims: ContextClaims, at: SourcePath) -> None:
        sections = self._sections(key, at)
        all_sections = self._known.all_sections
        known = ANYTHING if sections is ANYTHING else (*CONTEXT_CLAIMS, *sections)
        for claim in claims.claimed():
            # A section that was removed from the recipe is a finding, not an error in the file.
            if claim not in all_sections:
                require(self._document, (*at, claim), claims.noun, claim, known, key=True)
        self._texts(claims.sections, (*at, "sections"), "section", sections, all_sections)
        self._texts(claims.tools, (*at, "tools"), "tool", self._tools)
        agent = ("agent", self._members)
        self._texts(claims.handoffs, (*at, "handoffs"), *agent)
        self._shares(claims.share, (*at, "share"), sections)
        values: Values = {"section": ("section", sections, all_sections)}
        for claim in ("messages", "includes", "excludes", "dropped", *sections):
            self._messages(claims.claimed().get(claim), (*at, claim), values)
        self._entries(
            claims.dropped,
            (*at, "dropped"),
            "",
            (),
            {
                "what": ("kind of cut", DROPPED_WHAT),
                "by": ("filter", filters_of(self._known)),
            },
        )
        self._entries(
            claims.left_out,
            (*at, "left_out"),
            "",
            (),
            {
                "section": ("section", sections, all_sections),
                "channel": ("channel", self._channels),
                "by": ("reason", LEFT_OUT_BY),
            },
        )

    def _shares(self, matcher: Any, at: SourcePath, sections: Sequence[str]) -> None:
        """Check the names in a claim on shares: an unknown name would always have the share 0."""
        if matcher is None or ANYTHING in (self._members, sections):
            return
        names = ("user", *self._members, *sections)
        for path, entry in _mappings_in(matcher, at):
            for key in entry:
                if not key.startswith("$") and key not in self._known.all_sections:
                    where = (*path, key)
                    require(self._document, where, "agent or section", key, names, key=True)

    def _says_which(self, key: str, claims: Mapping[str, Any], at: SourcePath) -> None:
        """Raise SourceError for a claim on the whole run that affirms and names no call.

        In a turn such a claim concerns the first call; a run of several turns has no such call.
        """
        selector = selected(key)
        if at[-2] == "runs" and selector.run is not None:
            raise self._document.error(
                at,
                f"runs are named by their place alone: `{selector.agent}[{selector.run}]`",
                key=True,
            )
        if at[0] != "expect" or not selector.is_plain:
            return
        noun = "model call" if at[-2] == "context" else "run"
        for name, matcher in claims.items():
            if claimed_polarity(name, matcher).affirms:
                raise self._document.error(
                    (*at, name),
                    f"`{name}` affirms something, so that a claim on the whole run must name the "
                    f"{noun} of `{key}`",
                    key=True,
                    advice=self._forms(key, at),
                )

    def _forms(self, agent: str, at: SourcePath) -> str:
        """Describe the keys for an agent's calls, or runs, that are valid here."""
        is_run = at[-2] == "runs"
        if self._document.file.endswith(FEATURE_SUFFIX):
            forms, noun = (
                (SELECTOR_PHRASES,) if is_run else (SELECTOR_PHRASES, RUN_SPOKEN),
                "run" if is_run else "context",
            )
        else:
            forms, noun = (FORMS,) if is_run else (FORMS, RUN_FORMS), ""
        forms_text = ", ".join(form.format(agent, noun) for form in forms)
        return f"Name the {'run' if is_run else 'call'}: {forms_text}."

    def _run(self, key: str, run: RunClaims, at: SourcePath) -> None:
        self._sections(key, at)
        self._state(run.received, (*at, "received"))
        self._values(run.received, (*at, "received"))
        self._texts(run.goal, (*at, "goal"), "goal", self._known.goals)
        self._state(run.update, (*at, "update"))
        self._messages(run.messages, (*at, "messages"), {})

    def _state(self, matcher: Any, at: SourcePath) -> None:
        """Check the channels in a claim on the state."""
        if matcher is None:
            return
        for path, key in keys_in(matcher, at):
            if not leads_to(key, self._channels):
                word = head_of(key)
                require(self._document, path, "channel", word, self._channels, key=True)

    def _values(self, matcher: Any, at: SourcePath) -> None:
        """Check whether the channels can hold the claimed values."""
        if matcher is None:
            return
        try:
            check_kind(matcher, self._known.state)
        except MatcherError as problem:
            raise self._document.error(
                (*at, *problem.path),
                problem.what,
                word=problem.word,
                known=problem.known,
                advice=problem.advice,
                key=bool(problem.word),
            ) from None

    # Matchers

    def _messages(self, matcher: Any, at: SourcePath, values: Values) -> None:
        """Check the names in a matcher of messages and of their calls."""
        if matcher is None:
            return
        named: Values = {**values, "agent": ("agent", self._members)}
        self._entries(matcher, at, "", (), named)
        tool = ("tool", *self._called)
        for path, entry in _mappings_in(matcher, at):
            if "tool" in entry and "role" in entry:  # Without a role it is a tool message's key.
                self._texts(entry["tool"], (*path, "tool"), *tool)
            self._entries(
                entry.get("calls"), (*path, "calls"), "", (), {"tool": tool, "name": tool}
            )

    @property
    def _called(self) -> tuple[Sequence[str], Collection[str]]:
        """Return the tools that messages may name, those of handoffs and given state included."""
        if ANYTHING in (self._tools, self._members):
            return ANYTHING, ()
        handing_on = (f"{HANDOFF_PREFIX}{name}" for name in self._members)
        also = {*self._known.declared_tools, *handing_on, *_words_in(self._initial_state)}
        return self._tools, also

    def _texts(
        self,
        matcher: Any,
        at: SourcePath,
        noun: str,
        known: Iterable[str],
        also: Collection[str] = (),
    ) -> None:
        """Check the plain texts in a matcher of names; without a claim there are none.

        Names in ``also`` are valid, but not listed in errors.
        """
        if matcher is None:
            return
        for path, text in _texts_in(matcher, at):
            if text not in also:
                require(self._document, path, noun, text, known)

    def _entries(
        self, matcher: Any, at: SourcePath, noun: str, fields: tuple[str, ...], values: Values
    ) -> None:
        """Check the mappings in a matcher of a list: their keys, and the values of some."""
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


def filters_of(known: KnownNames) -> Sequence[str]:
    """Return the names that a dropped message may give as its reason."""
    own = known.filters
    return own if own is ANYTHING else (*FILTERS, *FILTERS_WITH_OPTIONS, "window", *own)


def _words_in(value: Any) -> Iterator[str]:
    """Yield the keys and texts of a value: a given call may name its tool as a key."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield key
            yield from _words_in(inner)
    elif isinstance(value, (list, tuple)):
        for word in value:
            yield from _words_in(word)


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
    """Yield the matchers directly inside one: elements of a list, operands of operators."""
    if isinstance(matcher, (list, tuple)):
        for place, element in enumerate(matcher):
            yield (*at, place), element
    elif isinstance(matcher, Mapping):
        for key, operand in matcher.items():
            if key in _INNER:
                yield (*at, key), operand
