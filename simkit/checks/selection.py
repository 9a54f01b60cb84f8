"""Claims on model calls and on runs: which of them a key selects, and which a claim concerns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from simkit.checks.claims import FindingBuilder, index_error, listed, not_observable
from simkit.checks.findings import Finding, Path, Scope
from simkit.core.messages import ABSENT
from simkit.core.text import counted, guess
from simkit.language.matching import compile_matcher
from simkit.language.matching.contradictions import Polarity
from simkit.spec.scenario.claims import (
    ALL_AGENTS,
    EVERY,
    SOME,
    Selector,
    claimed_polarity,
    selected,
)
from simkit.trace import events as e
from simkit.trace.views import CallView, RunView, ToolView

ItemT = TypeVar("ItemT", bound=CallView | RunView)


def meant_agent(
    agent: str, facts: e.PipelineFacts, runs: Iterable[RunView], calls: Iterable[CallView]
) -> str:
    """Return ``; did you mean …?`` for an unknown agent, if a known one is near."""
    names = [*facts.agents, *(run.agent for run in runs)]
    for call in calls:
        names += [call.agent, *(call.context.handoffs or ())]
    return _nearest_name(agent, names)


def meant_tool(tool: str, calls: Iterable[CallView], tools: Iterable[ToolView]) -> str:
    """Return the same for a tool that was neither offered nor called."""
    names = [name for call in calls for name in (call.context.tools or ())]
    return _nearest_name(tool, [*names, *(each.tool for each in tools)])


def _nearest_name(word: str, existing: Iterable[str]) -> str:
    names = [name for name in dict.fromkeys(existing) if name]
    return "" if word in names else guess(word, names, "; did you mean `{}`?")


class Group(NamedTuple, Generic[ItemT]):
    """All items that a key may select for one agent, in order."""

    agent: str
    items: Sequence[ItemT]
    run: int | None = None
    """The index of the run, if only its calls are meant; else None."""

    def name(self, item: ItemT) -> str:
        """Return the key by which a claim would name an item: ``billing[run 1][0]``."""
        index = next(index for index, each in enumerate(self.items) if each is item)
        run = "" if self.run is None else f"[run {self.run}]"
        return f"{self.agent}{run}[{index}]"


class Claim(msgspec.Struct, Generic[ItemT], frozen=True):
    """One claim on one call, or run."""

    key: str
    name: str
    source_matcher: Any
    """The whole claim, of which only the denying part may concern an item."""
    path: Path
    item: ItemT
    matcher: Any
    """The part of the claim that concerns the item."""
    is_denial: bool
    """Whether that is only its denying part."""
    group: Group[ItemT]
    scope: Scope

    @property
    def selector(self) -> Selector:
        """Return what the claim's key selects."""
        return selected(self.key)

    @property
    def polarity(self) -> Polarity:
        """Return the polarity of the whole claim."""
        return claimed_polarity(self.name, self.source_matcher)

    @property
    def is_of_one(self) -> bool:
        """Return whether its key selects one agent, and neither every nor some item of it."""
        return self.selector.agent != ALL_AGENTS and self.selector.which not in (EVERY, SOME)


class ItemChecks(ABC, Generic[ItemT]):
    """The checks of one family of claims: those on contexts, or those on runs."""

    family: Literal["context", "runs"]
    noun: str
    """The name of an item in findings."""

    @abstractmethod
    def groups(self, scope: Scope, selector: Selector) -> list[Group[ItemT]] | str:
        """Return the items that a key selects, by agent; or why there are none."""

    @abstractmethod
    def unobservable(self, scope: Scope, selector: Selector, name: str, matcher: Any) -> str:
        """Return the aspect that a claim needs and the driver does not see; empty if none."""

    @abstractmethod
    def value(self, claim: Claim[ItemT]) -> Any:
        """Return what the claim speaks of in its item."""

    @abstractmethod
    def findings(self, claim: Claim[ItemT], builder: FindingBuilder) -> Iterable[Finding]:
        """Return what is wrong; nothing if the claim holds."""

    def holds(self, claim: Claim[ItemT], builder: FindingBuilder) -> bool:
        """Return whether the claim holds for its item."""
        return builder.holds(claim.matcher, self.value(claim))

    def distance(self, claim: Claim[ItemT], builder: FindingBuilder) -> float:
        """Return how far its item is from the claim; 0 if it holds."""
        return compile_matcher(claim.matcher).distance(self.value(claim))

    def check(self, scope: Scope, builder: FindingBuilder) -> Iterator[Finding]:
        """Yield the failing claims of the family in a scope."""
        claims_by_key: Mapping[str, Any] = getattr(scope.expect, self.family)
        for key, claims in claims_by_key.items():
            path = (*scope.path, self.family, key)
            selector = selected(key)
            agent = "" if self.family == "runs" and selector.agent == ALL_AGENTS else selector.agent
            observable: list[tuple[str, Any]] = []
            for name, matcher in claims.claimed().items():
                need = self.unobservable(scope, selector, name, matcher)
                if need:
                    title = f"{self.family}.{key}.{name}"
                    yield from not_observable(scope, builder, (*path, name), title, need, agent)
                else:
                    observable.append((name, matcher))
            if observable or self.family == "context":
                yield from self._check_key(key, path, observable, scope, builder)

    def _check_key(
        self,
        key: str,
        path: Path,
        claims: Sequence[tuple[str, Any]],
        scope: Scope,
        builder: FindingBuilder,
    ) -> Iterator[Finding]:
        """Yield the failing claims under a key; or why it selects nothing."""
        selector = selected(key)
        groups = self.groups(scope, selector)
        if isinstance(groups, str):
            agent = "" if selector.agent == ALL_AGENTS else selector.agent
            yield builder.finding(path, groups, turn=scope.turn, agent=agent)
            return
        for group in groups:
            index = selector.item_index
            items = group.items if index is None else (group.items[index],)
            # All claims concern the first item.
            whole = [
                [
                    Claim(key, name, matcher, (*path, name), item, matcher, False, group, scope)
                    for name, matcher in claims
                ]
                for item in items
            ]
            if selector.which == SOME:
                yield from self._check_some(whole, group, builder)
                continue
            paths_seen: set[Path] = set()
            concerning = [claim for row in whole for claim in _concerning(row, row is whole[0])]
            for claim in concerning:
                for finding in self.findings(claim, builder):
                    # A claim that concerns several items by its kind is reported once.
                    if selector.which or finding.path not in paths_seen:
                        paths_seen.add(finding.path)
                        yield finding

    def _check_some(
        self, rows: Sequence[Sequence[Claim[ItemT]]], group: Group[ItemT], builder: FindingBuilder
    ) -> Iterator[Finding]:
        """Yield what the nearest item fails if no item satisfies all claims."""
        if any(all(self.holds(claim, builder) for claim in row) for row in rows):
            return
        distances = [sum(self.distance(claim, builder) for claim in row) for row in rows]
        nearest = rows[distances.index(min(distances))]
        for claim in nearest:
            for finding in self.findings(claim, builder):
                several = counted(len(group.items), self.noun)
                line = f"no one of {several} of {group.agent!r} satisfies all claims; nearest is "
                context = (f"{line}`{group.name(claim.item)}`", *finding.context)
                yield replace(finding, context=context)

    def has_other_values(self, claim: Claim[ItemT], value: Any) -> bool:
        """Return whether the claim has other actual values in other items."""
        if not claim.is_of_one or claim.selector.item_index is not None:
            return not claim.is_of_one
        whole = replace(claim, matcher=claim.source_matcher, is_denial=False)
        return any(
            self.value(other) != value
            for item in claim.group.items
            for other in _concerning([replace(whole, item=item)], item is claim.group.items[0])
        )

    def which(self, claim: Claim[ItemT], builder: FindingBuilder) -> Iterator[str]:
        """Yield a line that says which of several items a claim concerns, if its key does not."""
        group, polarity = claim.group, claim.polarity
        if len(group.items) < 2 or claim.selector.which:
            return
        matcher = claim.matcher if claim.is_denial else claim.source_matcher
        holding: list[str] = []
        failing: list[str] = []
        for item in group.items:
            other = replace(claim, item=item, matcher=matcher, is_denial=False)
            names = holding if self.holds(other, builder) else failing
            names.append(f"`{group.name(item)}`")
        run = "" if group.run is None else f"in its run [{group.run}] "
        count = counted(len(group.items), self.noun)
        all_of = f"{count} of {group.agent!r} {run}{claim.scope.words}"
        if claim.is_denial or not polarity.affirms:
            subject = f"what `{claim.name}` denies" if polarity.affirms else f"`{claim.name}`"
            yield f"{subject} must hold in all {all_of}; it fails in {listed(failing)}"
        else:
            others = f"{listed(holding)} would match" if holding else "no other would match"
            yield f"`{claim.name}` is checked in the first of {all_of}; {others}"


def _concerning(claims: Iterable[Claim[ItemT]], is_first: bool) -> Iterator[Claim[ItemT]]:
    """Yield the claims that concern their item: of a later one only what they deny."""
    for claim in claims:
        if is_first or claim.selector.which == EVERY:
            yield claim
            continue
        polarity = claim.polarity
        if not polarity.affirms:
            yield claim
        elif polarity.denial is not ABSENT:
            yield replace(claim, matcher=polarity.denial, is_denial=True)


def index_is_in(index: int | None, items: Sequence[Any]) -> bool:
    """Return whether an index, also one from the end, exists; None always does."""
    return index is None or -len(items) <= index < len(items)


def ran_text(agent: str, count: int, index: int, scope: Scope) -> str:
    """Return the text that an agent has no run with an index."""
    times = "once" if count == 1 else f"{count} times"
    return f"agent {agent!r} ran {times} {scope.words}, {index_error(index, count)}"
