"""Claims on agents' runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from simkit.checks.claims import (
    FindingBuilder,
    element_of,
    event_at,
    listed,
    not_observable,
    run_of,
)
from simkit.checks.findings import Finding, Scope
from simkit.checks.selection import Claim, Group, ItemChecks, index_is_in, meant_agent, ran_text
from simkit.core.text import short
from simkit.language.matching import Mismatch
from simkit.spec.lint_catalogue import ADVICE
from simkit.spec.scenario.claims import ALL_AGENTS, RUN_CLAIMS, Selector
from simkit.trace import events as e
from simkit.trace.views import RunView

_GROUP: Final = "$unordered"
"""The meaning of a nested list: its agents in any order."""
_OF_LISTS: Final = ("$has", "$in_order", "$unordered", "$not", "$either", "$all", "$in")
"""Operators whose operands contain names of agents, or lists of them."""


class RunChecks(ItemChecks[RunView]):
    """The checks of claims on the inputs and results of agents' runs."""

    family = "runs"
    noun = "run"

    def groups(self, scope: Scope, selector: Selector) -> list[Group[RunView]] | str:
        agent, index = selector.agent, selector.item_index
        runs_by_agent: dict[str, list[RunView]] = {}
        for run in scope.runs:
            runs_by_agent.setdefault(run.agent, []).append(run)
        if agent != ALL_AGENTS and agent not in runs_by_agent:
            nearest = meant_agent(agent, scope.pipeline, scope.runs, scope.all_calls)
            ran = f"those that did: {listed(list(runs_by_agent))}{nearest}"
            return f"agent {agent!r} did not run {scope.words}; {ran}"
        if agent != ALL_AGENTS:
            runs_by_agent = {agent: runs_by_agent[agent]}
        groups = [
            Group(name, runs) for name, runs in runs_by_agent.items() if index_is_in(index, runs)
        ]
        if groups or index is None:
            return groups
        if agent == ALL_AGENTS:
            most = max(map(len, runs_by_agent.values()), default=0)
            return (
                f"no agent has a run [{index}] {scope.words}: the first is [0], and none has "
                f"more than {most}"
            )
        return ran_text(agent, len(runs_by_agent[agent]), index, scope)

    def unobservable(self, scope: Scope, selector: Selector, name: str, matcher: Any) -> str:
        needs = ("runs", *RUN_CLAIMS[name].needs)
        return next((need for need in needs if not scope.can_observe(need)), "")

    def value(self, claim: Claim[RunView]) -> Any:
        read = RUN_CLAIMS[claim.name].read
        assert read is not None
        return read(claim.item)

    def holds(self, claim: Claim[RunView], builder: FindingBuilder) -> bool:
        return not self._unseen(claim) and super().holds(claim, builder)

    def _unseen(self, claim: Claim[RunView]) -> str:
        """Return the aspect that code did not show, so that a value is null; empty if none."""
        is_null = claim.scope.pipeline.is_code and self.value(claim) is None
        return RUN_CLAIMS[claim.name].null_needs if is_null else ""

    def findings(self, claim: Claim[RunView], builder: FindingBuilder) -> Iterable[Finding]:
        run, name = claim.item, claim.name
        unseen = self._unseen(claim)
        if unseen:
            title = f"runs.{claim.key}.{name}"
            return not_observable(claim.scope, builder, claim.path, title, unseen, run.agent)
        value = self.value(claim)
        if builder.holds(claim.matcher, value):
            return ()
        key = claim.key if claim.is_of_one else claim.group.name(run)
        return builder.compare(
            claim.matcher,
            value,
            claim.path,
            f"runs.{key}.{name}",
            turn=run.turn,
            agent=run.agent,
            context=[*self.which(claim, builder), *_status_lines(run, name)],
            many=self.has_other_values(claim, value),
            event=lambda misses: run_of(
                claim.scope,
                run,
                RUN_CLAIMS[name].happens_at,
                [str(miss.path[0]) for miss in misses if miss.path],
            ),
        )


def _status_lines(run: RunView, name: str) -> Iterator[str]:
    if run.status == "handed_off" and run.update:
        yield "the run passed control on, so it has no output; its handoff's contract wrote"
    elif run.status in ADVICE["statuses"]:
        yield ADVICE["statuses"][run.status]
    if name == "update" and not run.update and run.status == "done":
        yield "the run wrote nothing"


_CHECKS = RunChecks()


def check_runs(scope: Scope, builder: FindingBuilder) -> Iterator[Finding]:
    """Yield the failing claims on runs of a scope."""
    return _CHECKS.check(scope, builder)


# The order of runs


def check_agents(scope: Scope, builder: FindingBuilder) -> Iterator[Finding]:
    """Check the runs in start order; a nested list is one parallel group in any order."""
    claimed = scope.expect.agents
    groups = groups_of(scope.runs)
    actual = groups
    if _is_whole(claimed) or _has_group(claimed):
        claimed = _with_groups(claimed)
    else:
        actual = [run.agent for run in scope.runs]
    misses = builder.misses(claimed, actual)
    if not misses:
        return
    lines = [f"agents that ran {scope.words}: {listed([_name(group) for group in groups])}"]
    if scope.error is not None:
        lines.append(error_line(scope))
    source = scope.expect.agents

    def event(some: Sequence[Mismatch]) -> int | None:
        return _run_at(element_of(source, actual, some), scope, actual is groups)

    yield from builder.unlike(
        [_as_written(miss) for miss in misses],
        (*scope.path, "agents"),
        "agents",
        turn=scope.turn,
        context=lines,
        event=event,
        fix=_group_advice(source, groups),
    )


def _as_written(miss: Mismatch) -> Mismatch:
    """Return the mismatch without the matcher that replaces a nested list: that is in no file."""
    expected = miss.expected.replace(f"{_GROUP}: [", "the group [")
    at = tuple(
        step
        for index, step in enumerate(miss.at)
        if step != _GROUP or index == 0 or isinstance(miss.at[index - 1], str)
    )
    return replace(miss, expected=expected, at=at)


def _run_at(index: int | None, scope: Scope, by_group: bool) -> int | None:
    """Return the start of the run, or of the first one of a group, at an index."""
    if index is None:
        return None
    runs: dict[str, RunView] = {}
    for run in scope.runs:
        runs.setdefault((by_group and run.group) or run.id, run)
    first = list(runs.values())[index]
    return event_at(scope, e.AgentStarted, lambda event: event.run == first.id)


def _group_advice(claimed: Any, groups: list[Any]) -> str:
    """Describe the meaning of a nested list, if the right agents ran in another grouping."""
    if not isinstance(claimed, list) or _names(claimed) != _names(groups):
        return ""
    if _has_group(claimed) == _has_group(groups):
        return ""
    return "A nested list is one parallel group, `[router, [a, b]]`; a flat one is one by one."


def groups_of(runs: Sequence[RunView]) -> list[Any]:
    """Return the agents in start order; a list of several is one parallel group."""
    groups_found: list[Any] = []
    groups: dict[str, list[str]] = {}
    for run in runs:
        if not run.group:
            groups_found.append(run.agent)
        elif run.group in groups:
            # Agents that run inside one of them may have started in between.
            groups[run.group].append(run.agent)
        else:
            groups[run.group] = [run.agent]
            groups_found.append(groups[run.group])
    return groups_found


def _is_whole(matcher: Any) -> bool:
    """Return whether a matcher of agents is a complete list, a denial, or a choice of these."""
    if isinstance(matcher, list):
        return True
    return isinstance(matcher, Mapping) and (
        any(_is_whole(matcher.get(key)) for key in ("$not", "$eq", "$ne"))
        or any(
            _is_whole(element)
            for key in ("$either", "$all", "$in")
            for element in matcher.get(key, ())
        )
    )


def _has_group(matcher: Any, inside: bool = False) -> bool:
    """Return whether a matcher of agents contains a list within a list."""
    if isinstance(matcher, Mapping):
        return any(_has_group(inner, inside) for inner in matcher.values())
    if isinstance(matcher, list):
        return inside or any(_has_group(inner, True) for inner in matcher)
    return False


def _with_groups(matcher: Any) -> Any:
    """Return the matcher with every nested list as a group in any order."""
    if isinstance(matcher, list):
        return [{_GROUP: element} if element.__class__ is list else element for element in matcher]
    if isinstance(matcher, Mapping):
        return {
            key: _with_groups(inner) if key in _OF_LISTS else inner
            for key, inner in matcher.items()
        }
    return matcher


def _names(matcher: Any) -> list[str]:
    if isinstance(matcher, list):
        return sorted(name for inner in matcher for name in _names(inner))
    return [matcher] if isinstance(matcher, str) else []


def _name(element: Any) -> str:
    return f"[{', '.join(element)}]" if isinstance(element, list) else str(element)


def error_line(scope: Scope) -> str:
    """Return the line that says with which error a turn, or the run, ended."""
    assert scope.error is not None
    noun = "turn" if scope.turn else "run"
    return f"the {noun} ended with error {scope.error.type}: {short(scope.error.message, 160)}"
