"""Names in claims: agents, sections, channels, tools, lints, and fields of events."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from simkit.core.errors import MatcherError
from simkit.core.messages import HANDOFF_PREFIX
from simkit.core.text import Open, synonym_of
from simkit.language.matching.kinds import check_kind
from simkit.language.matching.lists import unique_parts
from simkit.language.matching.operators import OF_ELEMENTS, OF_VALUE, inner_matchers
from simkit.language.paths import head_of, words_in
from simkit.language.yaml import Document, SourcePath
from simkit.spec.fields import ANYTHING, require
from simkit.spec.pipeline.root_names import keys_in, leads_to
from simkit.spec.scenario.claims import (
    ALL_AGENTS,
    CONTEXT_CLAIMS,
    FORMS,
    RUN_CLAIMS,
    RUN_FORMS,
    RUN_SPOKEN,
    SELECTOR_PHRASES,
    TURN_CLAIMS,
    ContextClaims,
    Expect,
    RunClaims,
    claimed_polarity,
    malformed,
    selected,
)
from simkit.spec.scenario.known import FileValues, KnownNames, ValueNames
from simkit.trace.events import AnyEvent
from simkit.trace.views import LOG_FIELDS, HandoffView, ToolView

FEATURE_SUFFIX: Final = ".feature"
EVENT_KEYS: Final = (
    "kind",
    *sorted({name for event in AnyEvent.__args__ for name in event.__struct_fields__}),
)
EVENT_KEYS_BY_KIND: Final[Mapping[str, Sequence[str]]] = {
    str(event.__struct_config__.tag): ("kind", *event.__struct_fields__)
    for event in AnyEvent.__args__
}
"""Kind of an event to the fields that it has."""
BETWEEN_TURNS: Final = ("RunStarted", "SessionStarted", "RunFinished", "JudgeAnswered")
"""The events that stand before, between and after the turns."""
_ON_THE_WHOLE: Final = "Claim it on the whole run: under `expect:` beside `turns:`, or `finally:`."
_OF_THE_RUN: Final = {"JudgeAnswered": "Claim the answer under `judge:`."}
"""Event to what claims it instead."""
_ANY: Final = {"$any": True}
"""Whatever stands under a key that is compared."""

Sections: TypeAlias = Sequence[str] | None
"""The known sections; None if sections are not checked."""
_CALLED: Final = "called tool"
"""The noun of the tools that messages may name, those of handoffs and given state included."""


class Entries(NamedTuple):
    """The mappings in a claim on a list: their keys, and the names in them."""

    names: Mapping[str, str]
    """Key to the noun of its names."""
    noun: str = ""
    """The noun of such a mapping."""
    keys: Sequence[str] = ()
    """The known keys; empty if they are checked elsewhere."""
    required: frozenset[str] = frozenset()
    """Those that every such mapping has."""
    has_values: bool = False
    """Whether they have arguments, payloads or results."""


_AGENT: Final = {"agent": "agent"}
_OFFERED: Final = Entries({"name": "tool", "server": "server"})
ENTRIES: Final[Mapping[str, Entries]] = {
    "handoffs": Entries(
        {"from": "agent", "to": "agent", "mode": "mode", "outcome": "outcome"},
        "a handoff", tuple(HandoffView.FIELDS), frozenset(HandoffView.FIELDS) - {"reason"}, True,
    ),
    "tool_calls": Entries(
        {**_AGENT, "tool": "tool", "server": "server"},
        "a tool call", tuple(ToolView.FIELDS), frozenset(ToolView.FIELDS), True,
    ),
    "logs": Entries(
        {**_AGENT, "level": "log level"}, "a log record", LOG_FIELDS, frozenset({"message"})
    ),
    "events": Entries({"kind": "event", **_AGENT}, "an event", EVENT_KEYS, has_values=True),
    "findings": Entries({"id": "lint", **_AGENT}),
    "dropped": Entries({"what": "kind of cut", "by": "filter"}),
    "left_out": Entries(
        {"section": "section", "channel": "channel", "by": "reason"},
        "what was left out", required=frozenset({"section", "by"}),
    ),
}  # fmt: skip
"""Claim to its keys and names."""


class ClaimNames:
    """The check of one scenario's claims against the names of its pipeline."""

    def __init__(
        self,
        document: Document,
        known: KnownNames,
        initial_state: Any = None,
        values: Callable[[], FileValues] = FileValues,
    ) -> None:
        """``initial_state`` is the state before the first turn: its messages may name any tool.

        ``values`` returns those that the file gives; without it, models may answer anything.
        """
        self._document, self._known, self._initial_state = document, known, initial_state
        self._values = ValueNames(known.values, values)

    def check(self, expect: Expect, at: SourcePath) -> None:
        """Raise SourceError for the first unknown name."""
        claimed = expect.__pydantic_fields_set__
        if not claimed:
            return
        for name, row in TURN_CLAIMS.items():
            if name not in claimed:
                continue
            matcher, path = getattr(expect, name), (*at, name)
            if name in ENTRIES:
                self._entries(matcher, path, ENTRIES[name])
            elif isinstance(matcher, dict) and name in ("context", "runs", "model_calls"):
                for key, claims in matcher.items():
                    self._calls(key, claims, (*path, key))
            elif row.refers_to == "channel":
                self._state(matcher, path)
            elif row.refers_to:
                self._texts(matcher, path, row.refers_to)
        if "events" in claimed and at[:1] == ("turns",):
            self._happens_in_turns(expect.events, (*at, "events"))

    def check_findings(self, matcher: Any, at: SourcePath) -> None:
        """Raise SourceError for the first unknown lint or agent in a matcher of findings."""
        self._entries(matcher, at, ENTRIES["findings"])

    def _happens_in_turns(self, matcher: Any, at: SourcePath) -> None:
        """Raise SourceError for an event that no turn has: its denial would always hold."""
        for path, entry in _mappings_in(matcher, at):
            for where, kind in _texts_in(entry.get("kind"), (*path, "kind")):
                if kind in BETWEEN_TURNS:
                    raise self._document.error(
                        where,
                        f"`{kind}` happens in no turn, so a claim on a turn cannot speak of it",
                        advice=_OF_THE_RUN.get(kind, _ON_THE_WHOLE),
                    )

    # Contexts and runs

    def _calls(self, key: str, claims: ContextClaims | RunClaims | int, at: SourcePath) -> None:
        """Check the claims on an agent's contexts, or on its runs, or the number of its calls."""
        if isinstance(claims, int):
            require(self._document, at, "agent", key, self._known.agents, key=True)
            return
        if isinstance(claims, ContextClaims):
            self._context(key, claims, at)
        else:
            self._run(key, claims, at)
        self._says_which(key, claims.claimed(), at)

    def _sections(self, key: str, at: SourcePath) -> Sequence[str]:
        """Return the sections of the agents that ``agent[k]`` or ``*`` stands for."""
        name = selected(key).agent
        if name == ALL_AGENTS:
            return self._known.sections
        brackets = malformed(key)
        if brackets is not None and name not in self._known.agents:
            agent, rest = brackets
            raise self._document.error(
                at, f"`{rest}` names no call and no run", key=True, advice=self._forms(agent, at)
            )
        require(self._document, at, "agent", name, self._known.agents, key=True)
        return self._known.sections_of(name)

    def _context(self, key: str, claims: ContextClaims, at: SourcePath) -> None:
        sections = self._sections(key, at)
        self._context_keys(claims, at, sections)
        for claim, matcher in claims.claimed().items():
            row, path = CONTEXT_CLAIMS.get(claim), (*at, claim)
            if claim in sections or claim == "dropped" or (row and row.form == "messages"):
                self._messages(matcher, path, sections)
            if row is not None and row.refers_to:
                self._texts(matcher, path, row.refers_to, sections)
                if claim == "tools":
                    self._entries(matcher, path, _OFFERED)
            elif claim == "share":
                self._shares(matcher, path, sections)
            elif claim in ENTRIES:
                self._entries(matcher, path, ENTRIES[claim], sections)

    def _context_keys(self, claims: ContextClaims, at: SourcePath, sections: Sequence[str]) -> None:
        """Raise SourceError for a key that is neither a claim nor a section."""
        declared = self._known.all_sections
        known: Sequence[str] = (*CONTEXT_CLAIMS, *sections)
        if sections is ANYTHING:
            # Rules for code need not name all sections, but none has a misspelt claim's name.
            known = Open(CONTEXT_CLAIMS) if declared else ANYTHING
        for claim in claims.claimed():
            # A section that was removed from the recipe is a finding, not an error in the file.
            if claim not in declared:
                # No section has another tool's word for a claim.
                names = CONTEXT_CLAIMS if synonym_of(claim, CONTEXT_CLAIMS) else known
                require(self._document, (*at, claim), claims.noun, claim, names, key=True)

    def _shares(self, matcher: Any, at: SourcePath, sections: Sequence[str]) -> None:
        """Check the names in a claim on shares: an unknown name would always have the share 0."""
        if matcher is None or ANYTHING in (self._known.agents, sections):
            return
        names = ("user", *self._known.agents, *sections)
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
                    f"`{name}` needs one matching {noun}: for the whole run, say which of `{key}`",
                    key=True,
                    advice=self._forms(key, at),
                )

    def _forms(self, agent: str, at: SourcePath) -> str:
        """Describe the keys for an agent's calls, or runs, that are valid here."""
        is_run = at[-2] == "runs"
        if self._document.file.endswith(FEATURE_SUFFIX):
            forms, noun = (SELECTOR_PHRASES, RUN_SPOKEN), "run" if is_run else "context"
        else:
            forms, noun = (FORMS, RUN_FORMS), ""
        # The second form names a run, inside of which a claim on calls can stand.
        forms_text = ", ".join(form.format(agent, noun) for form in forms[: 1 if is_run else 2])
        return (
            f"Name the {'run' if is_run else 'call'}: {forms_text}. "
            "Or write the claim in the turn that it is about."
        )

    def _run(self, key: str, run: RunClaims, at: SourcePath) -> None:
        self._sections(key, at)
        for name, matcher in run.claimed().items():
            row, path = RUN_CLAIMS[name], (*at, name)
            if row.form == "messages":
                self._messages(matcher, path, None)
            elif row.refers_to == "channel":
                self._state(matcher, path, of_values=name != "update")
            elif row.refers_to:
                self._texts(matcher, path, row.refers_to)

    def _state(self, matcher: Any, at: SourcePath, of_values: bool = True) -> None:
        """Check the channels in a claim on the state, and whether they can hold the values."""
        if matcher is None:
            return
        channels = self._known.channels
        for path, key in keys_in(matcher, at):
            if not leads_to(key, channels):
                require(self._document, path, "channel", head_of(key), channels, key=True)
        try:
            if of_values:
                check_kind(matcher, self._known.state)
        except MatcherError as problem:
            raise self._document.error_of(problem, at, key=bool(problem.word)) from None

    # Matchers

    def _messages(self, matcher: Any, at: SourcePath, sections: Sections) -> None:
        """Check the names in a matcher of messages and of their calls."""
        if matcher is None:
            return
        named = {"section": "section", **_AGENT} if sections is not None else _AGENT
        self._entries(matcher, at, Entries(named), sections)
        for path, entry in _mappings_in(matcher, at):
            if "tool" in entry and "role" in entry:  # Without a role it is a tool message's key.
                self._texts(entry["tool"], (*path, "tool"), _CALLED)
            calls = Entries({"tool": _CALLED, "name": _CALLED}, has_values=not self._initial_state)
            self._entries(entry.get("calls"), (*path, "calls"), calls)

    def _names(self, noun: str, sections: Sections) -> tuple[Iterable[str], Collection[str]]:
        """Return the names of a noun; the second ones are valid, but not listed in errors."""
        known = self._known
        if noun == "section":
            return sections or (), known.all_sections
        if noun != _CALLED:
            return known.of(noun), ()
        if ANYTHING in (known.tools, known.agents):
            return ANYTHING, ()
        handing_on = (f"{HANDOFF_PREFIX}{name}" for name in known.agents)
        return known.tools, {
            *known.declared_tools, *handing_on, *words_in(self._initial_state),
        }  # fmt: skip

    def _texts(self, matcher: Any, at: SourcePath, noun: str, sections: Sections = ()) -> None:
        """Check the plain texts in a matcher of names; without a claim there are none."""
        if matcher is None:
            return
        known, also = self._names(noun, sections)
        if type(matcher) is list and isinstance(known, tuple):
            # Most are a list of known names, which needs no paths.
            for text in matcher:
                if type(text) is not str or text not in known:
                    break
            else:
                return
        for path, text in _texts_in(matcher, at):
            if text not in also:
                require(self._document, path, noun.removeprefix("called "), text, known)

    def _entries(
        self, matcher: Any, at: SourcePath, entries: Entries, sections: Sections = ()
    ) -> None:
        """Check the mappings in a matcher of a list: their keys, and the values of some."""
        if matcher is None:
            return
        for path, entry in _mappings_in(matcher, at):
            keys, noun = _keys_of(entry, entries)
            for key, operand in entry.items():
                if key.startswith("$"):
                    continue
                if keys and not leads_to(key, keys):
                    require(self._document, (*path, key), noun, head_of(key), keys, key=True)
                if key in entries.names:
                    self._texts(operand, (*path, key), entries.names[key], sections)
            if entries.has_values:
                self._values.check(self._document, path, entry)


def _keys_of(entry: Mapping[str, Any], entries: Entries) -> tuple[Sequence[str], str]:
    """Return the known keys of a mapping, and their noun: those of its kind, if it names one."""
    kind = entry.get("kind")
    if entries.names.get("kind") == "event" and isinstance(kind, str):
        keys = EVENT_KEYS_BY_KIND.get(kind)
        if keys is not None:
            return keys, f"field of the event {kind}"
    return entries.keys, f"field of {entries.noun}"


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
        for index, element in enumerate(matcher):
            yield (*at, index), element
    elif isinstance(matcher, Mapping):
        for key, operand in matcher.items():
            if key in ("$eq", "$ne"):
                yield (*at, key), operand
            elif key in (*OF_VALUE, *OF_ELEMENTS):
                yield from inner_matchers(key, operand, (*at, key))
            if key == "$unique":
                keys, elements = unique_parts(operand)
                other_keys = elements if isinstance(elements, Mapping) else {}
                for name in keys:
                    yield (*at, key), {**other_keys, name: _ANY}
