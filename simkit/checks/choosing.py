"""Choice of the model calls, or runs, that each claim concerns, and its wording in findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from simkit.checks.claims import Writer, listed, no_place
from simkit.checks.findings import Finding
from simkit.checks.scope import Path, Scope
from simkit.core.messages import ABSENT
from simkit.core.text import counted
from simkit.language.matching.polarity import Polarity
from simkit.language.yaml import near
from simkit.spec.scenario.claims import ALL_AGENTS, EVERY, SOME, Selector, selected
from simkit.trace import events as e
from simkit.trace.views import CallView, RunView, ToolView, run_ids


def meant_agent(
    agent: str, facts: e.PipelineFacts, runs: Iterable[RunView], calls: Iterable[CallView]
) -> str:
    """Return ``; did you mean …?`` for an unknown agent, if a known one is near."""
    known = dict.fromkeys(_agents(facts, runs, calls))
    return _nearest_name(agent, known)


def meant_tool(tool: str, calls: Iterable[CallView], tools: Iterable[ToolView]) -> str:
    """Return the same for a tool that was neither offered nor called."""
    names = [name for call in calls for name in (call.context.tools or ())]
    return _nearest_name(tool, dict.fromkeys([*names, *(tool_.tool for tool_ in tools)]))


def _agents(
    facts: e.PipelineFacts, runs: Iterable[RunView], calls: Iterable[CallView]
) -> Iterator[str]:
    yield from facts.agents
    yield from (run.agent for run in runs)
    for call in calls:
        yield call.agent
        yield from call.context.handoffs or ()


def _nearest_name(word: str, known: Iterable[str]) -> str:
    names = [name for name in known if name]
    nearest = "" if word in names else near(word, names)
    return f"; did you mean `{nearest}`?" if nearest else ""


_MODEL_CALL: Final = "model call"

ItemT = TypeVar("ItemT")


class Group(NamedTuple, Generic[ItemT]):
    """All items that a key may select for one agent, in order."""

    agent: str
    items: Sequence[ItemT]
    run: int | None = None
    """The index of the run, if only its calls are meant; else None."""
    noun: str = _MODEL_CALL

    def name(self, item: ItemT) -> str:
        """Return the key by which a claim would name an item: ``billing[1]``."""
        place = next(at for at, position in enumerate(self.items) if position is item)
        return f"{self.agent}{self.within}[{place}]"

    @property
    def within(self) -> str:
        """Return ``[run 1]`` if only the calls of one run are meant."""
        return "" if self.run is None else f"[run {self.run}]"


class Looked(msgspec.Struct, Generic[ItemT], frozen=True):
    """One call or run, with the part of a claim that concerns it."""

    item: ItemT
    matcher: Any
    is_denial: bool
    """Whether only the denying part of the claim concerns it."""


class Claim(msgspec.Struct, Generic[ItemT], frozen=True):
    """One claim on one call, or run."""

    key: str
    name: str
    source_matcher: Any
    """The whole claim, of which only the denying part may concern an item."""
    path: Path
    looked: Looked[ItemT]
    group: Group[ItemT]
    scope: Scope

    @property
    def matcher(self) -> Any:
        """Return the part of the claim that concerns the item."""
        return self.looked.matcher

    @property
    def item(self) -> ItemT:
        """Return the item."""
        return self.looked.item


class Check(NamedTuple, Generic[ItemT]):
    """The functions that check claims on calls, or on runs."""

    polarity: Callable[[str, Any], Polarity]
    """Returns the polarity of a claim with a name."""
    holds: Callable[[Claim[ItemT], Writer], bool]
    findings: Callable[[Claim[ItemT], Writer], Iterable[Finding]]
    distance: Callable[[Claim[ItemT], Writer], float]
    """Returns the distance of an item from a claim; 0 if it holds."""


def check_chosen(
    key: str,
    path: Path,
    claims: Sequence[tuple[str, Any]],
    groups: Sequence[Group[ItemT]] | str,
    check: Check[ItemT],
    scope: Scope,
    writer: Writer,
) -> Iterator[Finding]:
    """Yield the failing claims on the selected calls, or runs; or why a key selects none."""
    selector = selected(key)
    if isinstance(groups, str):
        agent = "" if selector.agent == ALL_AGENTS else selector.agent
        yield writer.finding(path, groups, turn=scope.turn, agent=agent)
        return
    for group in groups:
        if selector.which == SOME:
            yield from _check_some(key, path, claims, group, check, scope, writer)
            continue
        chosen = _claims(key, path, claims, group, check, scope)
        findings = (finding for claim in chosen for finding in check.findings(claim, writer))
        yield from first_of_each(findings, selector)


def _claims(
    key: str,
    path: Path,
    claims: Sequence[tuple[str, Any]],
    group: Group[ItemT],
    check: Check[ItemT],
    scope: Scope,
) -> Iterator[Claim[ItemT]]:
    """Yield the claims, item by item."""
    selector = selected(key)
    for place, item in _items_of(selector, group):
        for name, matcher in claims:
            looked: Looked[ItemT] | None = Looked(item, matcher, False)
            if place:  # All claims concern the first.
                looked = _looked(place, item, selector, check.polarity(name, matcher), matcher)
            if looked is not None:
                yield Claim(key, name, matcher, (*path, name), looked, group, scope)


def _check_some(
    key: str,
    path: Path,
    claims: Sequence[tuple[str, Any]],
    group: Group[ItemT],
    check: Check[ItemT],
    scope: Scope,
    writer: Writer,
) -> Iterator[Finding]:
    """Yield a finding about the nearest item if no item satisfies all claims."""
    nearest: tuple[float, list[Claim[ItemT]]] | None = None
    for item in group.items:
        required = [
            Claim(key, name, matcher, (*path, name), Looked(item, matcher, False), group, scope)
            for name, matcher in claims
        ]
        if all(check.holds(claim, writer) for claim in required):
            return
        distance = sum(check.distance(claim, writer) for claim in required)
        if nearest is None or distance < nearest[0]:
            nearest = distance, required
    if nearest is not None:
        for claim in nearest[1]:
            for finding in check.findings(claim, writer):
                several = counted(len(group.items), group.noun)
                line = f"no one of {several} of {group.agent!r} satisfies all claims; nearest is "
                context = (f"{line}`{group.name(claim.item)}`", *finding.context)
                yield replace(finding, context=context)
                return


def looked_at(
    selector: Selector, polarity: Polarity, matcher: Any, group: Group[ItemT]
) -> Iterator[Looked[ItemT]]:
    """Yield the items that a claim concerns; not for ``[any]``, where one of them is enough."""
    for place, item in _items_of(selector, group):
        looked = _looked(place, item, selector, polarity, matcher)
        if looked is not None:
            yield looked


def _items_of(selector: Selector, group: Group[ItemT]) -> Iterable[tuple[int, ItemT]]:
    """Return the items that a key selects, each with its index among them."""
    place = selector.place
    return enumerate(group.items if place is None else (group.items[place],))


def _looked(
    place: int, item: ItemT, selector: Selector, polarity: Polarity, matcher: Any
) -> Looked[ItemT] | None:
    """Return an item with the part of a claim that concerns it; None if no part does."""
    if not place or selector.which == EVERY or not polarity.affirms:
        return Looked(item, matcher, False)
    return None if polarity.denial is ABSENT else Looked(item, polarity.denial, True)


def which_words(
    selector: Selector,
    polarity: Polarity,
    looked: Looked[ItemT],
    group: Group[ItemT],
    scope: Scope,
    holds: Callable[[ItemT], bool],
) -> Iterator[str]:
    """Yield a line that says which of several items the claim concerns, if the key does not.

    ``holds`` returns whether the claim holds for another item, too.
    """
    count = len(group.items)
    if count < 2 or selector.which:
        return
    all_of = f"{counted(count, group.noun)} of {group.agent!r} {_in(group, scope)}"
    if looked.is_denial or not polarity.affirms:
        subject = "what it denies is" if polarity.affirms else "it denies or bounds, so it is"
        broken = [f"`{group.name(item)}`" for item in group.items if not holds(item)]
        yield f"{subject} of all {all_of}; it does not hold of {listed(broken)}"
    else:
        others = [f"`{group.name(item)}`" for item in group.items if holds(item)]
        other_calls = listed(others) if others else "none of the others"
        yield f"it affirms, so it is of the first of {all_of}; it holds of {other_calls}"


def first_of_each(findings: Iterable[Finding], selector: Selector) -> Iterator[Finding]:
    """Yield one finding for each claim that concerns several calls by its kind, else all."""
    paths_seen: set[Path] = set()
    for finding in findings:
        if not selector.which and finding.path in paths_seen:
            continue
        paths_seen.add(finding.path)
        yield finding


def _in(group: Group[Any], scope: Scope) -> str:
    return scope.words if group.run is None else f"in its run [{group.run}] {scope.words}"


def calls_of_run(scope: Scope, agent: str, run: int) -> Group[CallView] | str:
    """Return the model calls of an agent's run at an index, or why there are none."""
    calls = scope.calls.get(agent, ())
    runs = run_ids(agent, scope.runs, calls)
    if not -len(runs) <= run < len(runs):
        if not runs:
            nearest = meant_agent(agent, scope.pipeline, scope.runs, scope.all_calls)
            return f"agent {agent!r} did not run {scope.words}{nearest}"
        times = "once" if len(runs) == 1 else f"{len(runs)} times"
        return f"agent {agent!r} ran {times} {scope.words}, {no_place(run, len(runs))}"
    place = run % len(runs)
    calls_found = [call for call in calls if call.run == runs[place]]
    if not calls_found:
        return f"agent {agent!r} made no model call in its run [{place}] {scope.words}"
    return Group(agent, calls_found, place)
