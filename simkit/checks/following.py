"""Causes: findings that follow from another one name it, so that one cause gives one finding.

An agent that did not run is noticed by every claim on its contexts and runs, by its reply lines, by
the handoff to it and by the reply of another agent in its place. Each of these findings names the
one that explains it. A finding without a cause stands for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from simkit.checks.findings import CLAIM, Finding, Scope
from simkit.checks.lints.run import REFUSED
from simkit.checks.origins import LEFT_OVER, Parts, Places, wrong_parts
from simkit.checks.unclaimed import ERRORS
from simkit.language.matching.misses import NOTHING
from simkit.language.paths import head_of, walk
from simkit.trace import events as e
from simkit.trace.views import CallView, View

_LACKING: Final = ("$has:", "$in_order:")
_CARRIED_OVER: Final = "RUN-08"
"""It is noted where the text is met, and began before the scenario."""
_VALUES: Final = ("context", "runs", "state", "reply")
"""Claims on values that come back in later ones."""


def with_causes(
    findings: Sequence[Finding], scopes: Sequence[Scope], view: View, places: Places
) -> list[Finding]:
    """Return the findings in the order of the run, each after what it follows from, whose place
    and headline it names."""
    if not findings:
        return []
    findings, repeats = places.placed(findings), _Repeats()
    order = sorted(
        range(len(findings)),
        key=lambda n: (
            findings[n].id != _CARRIED_OVER,
            findings[n].event,
            not places.is_of_error(findings[n]),
            findings[n].id == LEFT_OVER,
        ),
    )
    explicit = _Causes(findings, scopes, view)
    number_of = {id(finding): number for number, finding in enumerate(findings)}
    roots = {}
    for number in order:
        finding = findings[number]
        root = number_of[id(explicit.root_of(finding))]
        if root == number and finding.id == CLAIM:
            root = repeats.first(finding, places.calls_of(finding), number)
        roots[number] = root
    groups: dict[int, list[int]] = {}
    for number in order:
        root = number
        while roots[root] != root:
            root = roots[root]
        groups.setdefault(root, []).append(number)
    return [
        replace(findings[n], follows="" if n == root else findings[root].place_and_what)
        for root, group in groups.items()
        for n in sorted(group, key=lambda n: n != root)
    ]


def at_failing_calls(warnings: Sequence[Finding], findings: Sequence[Finding]) -> list[Finding]:
    """Return warnings, of which those at the call of a failing claim name the first one there."""
    first: dict[tuple[Any, ...], str] = {}
    for finding in findings:
        if finding.call is not None and not finding.follows:
            first.setdefault((finding.event, finding.agent), finding.place_and_what)
    return [
        replace(warning, follows=first.get((warning.event, warning.agent), ""))
        for warning in warnings
    ]


class _Repeats:
    """Finds the first claim of which a later one repeats the wrong parts."""

    def __init__(self) -> None:
        self._by_part: dict[str, list[tuple[int, Parts]]] = {}

    def first(self, finding: Finding, calls: Sequence[CallView], number: int) -> int:
        """Return the number of the claim; that of the finding itself, which is added, if none is.

        Lists of what happened have no parts: each line is a fact of its own.
        """
        if not {*_VALUES} & {*finding.path}:
            return number
        whole, *ways = wrong_parts(finding, calls)
        earlier = next(filter(None, map(self._with_all, ways)), (number, whole))
        for part in whole:
            self._by_part.setdefault(part, []).append((number, whole))
        return earlier[0]

    def _with_all(self, needed: Parts) -> tuple[int, Parts] | None:
        lists = [self._by_part.get(part, []) for part in needed]
        return next((each for each in min(lists, key=len, default=[]) if needed <= each[1]), None)


class _Causes:
    """Findings that may explain others, by turn."""

    def __init__(self, findings: Sequence[Finding], scopes: Sequence[Scope], view: View) -> None:
        self._view = view
        self._scopes = {scope.path: scope for scope in scopes}
        self._number_of = {id(finding): number for number, finding in enumerate(findings)}
        self._by_turn: dict[int, list[Finding]] = {}
        for finding in findings:
            self._by_turn.setdefault(finding.turn, []).append(finding)
        self._ran: dict[int, set[str]] = {
            turn.number: {run.agent for run in turn.runs} | {*turn.calls_by_agent}
            for turn in view.turns
        }
        self._ran[0] = set().union(*self._ran.values())

    def root_of(self, finding: Finding) -> Finding:
        """Return the last cause in the chain of causes of a finding; in a ring, the first found."""
        visited: list[Finding] = []
        cause: Finding | None = finding
        while cause is not None and all(cause is not earlier for earlier in visited):
            visited.append(cause)
            cause = self._cause(cause)
        if cause is None:
            return visited[-1]
        entry = next(n for n, earlier in enumerate(visited) if earlier is cause)
        return min(visited[entry:], key=lambda each: self._number_of[id(each)])

    def _cause(self, finding: Finding) -> Finding | None:
        if finding.breaks or "not observable" in finding.what:
            return None
        scope = self._scope_of(finding)
        if finding.id != CLAIM:
            return self._cause_of_lines(finding)
        if scope is None:
            return None
        claim = str(finding.path[len(scope.path)]) if len(finding.path) > len(scope.path) else ""
        turn = scope.turn or len(self._view.turns)
        for cause in self._ends(scope.error, turn):
            if cause is not finding and (
                _is_cut_off(finding, claim, scope) or _is_refused(finding, claim, cause)
            ):
                return cause
        missing = self._missing(finding, claim, scope)
        return next(iter(self._why_not(missing, finding)), None) if missing else None

    def _scope_of(self, finding: Finding) -> Scope | None:
        for size in (3, 1):
            scope = self._scopes.get(finding.path[:size])
            if scope is not None:
                return scope
        return None

    def _ends(self, error: e.ErrorFacts | None, turn: int) -> list[Finding]:
        """Return the findings that a turn ended with an error."""
        if error is None:
            return []
        lint = ERRORS.get(error.type, "")
        near = [*self._by_turn.get(turn, ()), *self._by_turn.get(0, ())]
        return [
            finding
            for finding in near
            if (finding.id == CLAIM and finding.path in (("turns", turn - 1), ("turns",)))
            or (lint and finding.id == lint)
            or (finding.id == CLAIM and finding.path[-1:] == ("error",) and finding.turn == turn)
        ]

    def _cause_of_lines(self, finding: Finding) -> Finding | None:
        """Return why no call used an agent's lines: the turn's error, or the claim on `agents`."""
        turns = self._view.turns
        if finding.id != LEFT_OVER or not 0 < finding.turn <= len(turns):
            return None
        error = turns[finding.turn - 1].error
        if error is not None and ERRORS.get(error.type) != LEFT_OVER:
            return next(iter(self._ends(error, finding.turn)), None)
        for other in self._by_turn[finding.turn] if finding.call is None else ():
            if other.id == LEFT_OVER and other.call is not None:
                return other  # A call without a line: what it kept from running has lines left.
        ran = self._ran.get(finding.turn)
        if not finding.agent or not ran or finding.agent in ran:
            return None
        return next(self._expected(finding.agent, finding.turn), None)

    def _missing(self, finding: Finding, claim: str, scope: Scope) -> set[str]:
        """Return the agents that did not run, if that alone makes a claim fail."""
        names: Iterable[str] = ()
        if claim in ("context", "runs"):
            names = (finding.agent,)
        elif claim == "model_calls":
            names = (str(finding.path[-1]),)
        elif claim in _AGENT_KEYS and _lacks(finding):
            names = _named(getattr(scope.expect, claim), _AGENT_KEYS[claim])
        elif claim in _OF_OTHERS and _OF_OTHERS[claim](finding, scope):
            others = self._by_turn.get(scope.turn, ())
            names = (name for other in others for name in self._expects(other))
        return {name for name in names if name} - self._ran.get(scope.turn, set())

    def _why_not(self, missing: set[str], finding: Finding) -> Iterator[Finding]:
        """Yield the causes why agents did not run, the nearest first."""
        turns = [finding.turn] if finding.turn else [0, *(turn for turn in self._by_turn if turn)]
        for turn in turns:
            for agent in sorted(missing):
                yield from (other for other in self._expected(agent, turn) if other is not finding)
            for other in self._by_turn.get(turn, ()):
                if other.id == LEFT_OVER and other.agent in missing and other is not finding:
                    yield other
        for other in self._by_turn.get(finding.turn, ()):
            if not _is_beside(other, finding) and missing & self._handed_to(other):
                yield other

    def _handed_to(self, finding: Finding) -> set[str]:
        """Return the targets in a claim on handoffs, if the claim only misses some."""
        scope = self._scope_of(finding)
        if scope is None or finding.id != CLAIM or not _lacks(finding):
            return set()
        is_of_handoffs = finding.path[len(scope.path) :][:1] == ("handoffs",)
        return {*_named(scope.expect.handoffs, "to")} if is_of_handoffs else set()

    def _expected(self, agent: str, turn: int) -> Iterator[Finding]:
        """Yield the claim on `agents` of a turn, if it names an agent that did not run."""
        for claim in self._by_turn.get(turn, ()):
            if agent in self._expects(claim):
                yield claim

    def _expects(self, finding: Finding) -> set[str]:
        """Return the agents in a failing claim on `agents` that did not run."""
        scope = self._scope_of(finding)
        if finding.id != CLAIM or scope is None:
            return set()
        if finding.path[len(scope.path) :][:1] != ("agents",):
            return set()
        return {*_texts(scope.expect.agents)} - self._ran.get(scope.turn, set())


def _is_beside(other: Finding, finding: Finding) -> bool:
    """Return whether two findings stand in one claim."""
    size = finding.path.index("expect") + 2 if "expect" in finding.path else 0
    return bool(size) and other.path[:size] == finding.path[:size]


def _is_cut_off(finding: Finding, claim: str, scope: Scope) -> bool:
    """Return whether a claim could have held if its turn had continued."""
    check = _CUT_OFF.get(claim)
    return check is not None and check(finding, scope)


def _is_refused(finding: Finding, claim: str, cause: Finding) -> bool:
    """Return whether a claim on handoffs fails by the outcome of the one that was refused."""
    return (
        claim == "handoffs"
        and cause.what.startswith(REFUSED)
        and bool(finding.differences)
        and all(
            difference.at.endswith("outcome") and difference.actual == '"rejected"'
            for difference in finding.differences
        )
    )


def _lacks(finding: Finding, _: Scope | None = None) -> bool:
    """Return whether something is missing, and nothing else is wrong."""
    return bool(finding.differences) and all(
        difference.actual == NOTHING
        or difference.expected.startswith(_LACKING)
        or not (difference.expected or difference.actual)
        for difference in finding.differences
    )


def _lacks_or_waits(finding: Finding, scope: Scope) -> bool:
    """Return whether handoffs are missing, or were requested and not made before the error."""
    rest = [d for d in finding.differences if not d.at.endswith("outcome")]
    waits = len(rest) < len(finding.differences) and all(
        d.actual == '"requested"' for d in finding.differences if d not in rest
    )
    lacks = _lacks(replace(finding, differences=tuple(rest))) if rest else True
    return lacks and (waits or bool(rest))


def _is_without_call(finding: Finding, scope: Scope) -> bool:
    """Return whether the call or run that a key selects does not exist."""
    return len(finding.path) == len(scope.path) + 2


def _has_too_few_calls(finding: Finding, scope: Scope) -> bool:
    agent = str(finding.path[-1])
    return len(scope.calls.get(agent, ())) < (scope.expect.model_calls or {}).get(agent, 0)


_CUT_OFF: Final[Mapping[str, Callable[[Finding, Scope], bool]]] = {
    **dict.fromkeys(("agents", "tool_calls", "logs", "events"), _lacks),
    "handoffs": _lacks_or_waits,
    **dict.fromkeys(("context", "runs"), _is_without_call),
    "model_calls": _has_too_few_calls,
    "reply": lambda _, scope: scope.reply is None,
    "interrupt": lambda _, scope: scope.interrupt is None,
    **dict.fromkeys(("state", "findings", "judge"), lambda _finding, _scope: True),
}
"""Claim to whether an error that ended the turn explains its finding."""


def _is_unwritten(finding: Finding, scope: Scope) -> bool:
    """Return whether no run in scope wrote the differing channels of a claim on the state."""
    keys = {head_of(difference.at) for difference in finding.differences if difference.at}
    written_channels = {name for update in scope.updates if update.agent for name in update.update}
    return bool(keys) and not keys & written_channels


def _is_of_another(_: Finding, scope: Scope) -> bool:
    """Return whether there is no reply, or one of an agent that is not claimed to have run."""
    run = scope.replying_run
    author = run.agent if run is not None else ""
    return scope.reply is None or author not in {*_texts(scope.expect.agents)}


_OF_OTHERS: Final[Mapping[str, Callable[[Finding, Scope], bool]]] = {
    "reply": _is_of_another,
    "interrupt": _CUT_OFF["interrupt"],
    "state": _is_unwritten,
}
"""Claim to whether its finding may come of an agent that did not run."""
_AGENT_KEYS: Final = {"handoffs": "to", "tool_calls": "agent"}
"""Claim to the key that names the agent which is missing if an element is."""


def _named(matcher: Any, key: str) -> Iterator[str]:
    """Yield the texts under a key of a matcher."""
    for path, inner in walk(matcher):
        if path[-1:] == (key,) and isinstance(inner, str):
            yield inner


def _texts(matcher: Any) -> Iterator[str]:
    """Yield the agents in a claim on `agents`, except denied ones."""
    for path, inner in walk(matcher):
        if isinstance(inner, str) and not {"$not", "$ne"} & {*path}:
            yield inner
