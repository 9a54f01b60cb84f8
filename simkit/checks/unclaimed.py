"""Hits of lints, errors, and turns that did not run; claims need not mention them.

Each hit is claimed, turned off, allowed, or a finding; an error is a finding unless it is claimed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from simkit.checks.claims import FindingBuilder, cut_short, listed
from simkit.checks.findings import Finding, Hit, Path, Scope
from simkit.checks.lints.facts import Facts
from simkit.core.text import counted
from simkit.language.matching import holds
from simkit.language.yaml import Document
from simkit.spec.lint_catalogue import LINTS, PREFIX
from simkit.spec.pipeline.models import is_off, names_place, places_off
from simkit.spec.scenario.model import CUTS, Scenario
from simkit.trace import events as e
from simkit.trace.views import View

Waived = Mapping[str, Mapping[str, str]]


def is_waived(hit: Hit, waivers: Waived, builder: FindingBuilder) -> bool:
    """Return whether a scenario turns a hit off."""
    if is_off(waivers, hit.id):
        return True
    texts = _texts(hit, builder) if hit.id in waivers else ()
    return any(names_place(texts, place) for place in waivers.get(hit.id, ()))


def check_waivers(
    waivers: Waived, hits: Sequence[Hit], builder: FindingBuilder
) -> Iterator[Finding]:
    """Yield each place under `lints` that turned nothing off."""
    for code, place in places_off(waivers):
        if code.startswith(PREFIX):
            continue  # `simkit validate` checks these.
        hits_of_lint = [hit for hit in hits if hit.id == code]
        if any(names_place(_texts(hit, builder), place) for hit in hits_of_lint):
            continue
        lines = cut_short([f"found: {hit.what}" for hit in hits_of_lint])
        yield builder.finding(
            ("lints", code, place),
            f"`{code}` was not found at `{place}`, so nothing is turned off there",
            context=lines or [f"{code} was not found at all"],
            fix="Remove the entry, or name the place as the finding does.",
        )


def _texts(hit: Hit, builder: FindingBuilder) -> list[str]:
    """Return the texts of a finding in which a place may occur."""
    fields = [value for value in hit.fields().values() if isinstance(value, str)]
    position = [builder.document.position(hit.path)] if hit.path else []
    return [*fields, *position, f"turn {hit.turn}" if hit.turn else ""]


ERRORS: Final[Mapping[str, str]] = {
    "ReplyMissing": "RUN-01",
    "ScriptMisfit": "RUN-01",
    "LimitExceeded": "FLW-01",
}
"""Errors that end a turn, and the lints that report the same."""


class Sorted:
    """The hits of a run, sorted by the scenario's claims and waivers."""

    def __init__(self) -> None:
        self.failing: list[Hit] = []
        self.warnings: list[Hit] = []
        self.noted: list[Hit] = []
        self.expected_hits: set[tuple[str, int]] = set()
        """Lint and turn of the hits that fail the scenario, or that it claims by name."""


class HitsByTurn:
    """Hits and scopes by turn, so that lookups are linear in the turns."""

    def __init__(self, hits: Sequence[Hit], scopes: Sequence[Scope]) -> None:
        self.all = hits
        self._hits: dict[int, list[Hit]] = {}
        for hit in hits:
            self._hits.setdefault(hit.turn, []).append(hit)
        self._scopes: dict[int, list[Scope]] = {}
        for scope in scopes:
            self._scopes.setdefault(scope.turn, []).append(scope)

    def of(self, scope: Scope) -> Sequence[Hit]:
        """Return the hits in a scope."""
        return self._hits.get(scope.turn, ()) if scope.turn else self.all

    def scopes_of(self, hit: Hit) -> Sequence[Scope]:
        """Return the scopes of a hit: its turn's, and the whole run's."""
        whole = self._scopes.get(0, [])
        return [*self._scopes.get(hit.turn, ()), *whole] if hit.turn else whole


def check_lint_claims(
    scopes: Sequence[Scope], hits: HitsByTurn, builder: FindingBuilder
) -> Iterator[Finding]:
    """Yield the claimed lints that have no hit in a scope."""
    for scope in scopes:
        claims = list(scope.expect.findings or ())
        if not claims:
            continue
        scope_hits = hits.of(scope)
        # Each claim needs its own hit: the matcher finds the largest pairing.
        for miss in builder.misses({"$has": claims}, [hit.fields() for hit in scope_hits]):
            index = miss.at[1]
            assert isinstance(index, int)
            lint = claims[index]["id"]
            name = lint if isinstance(lint, str) else "a lint"
            lines = [f"found: {hit.id} {hit.what}" for hit in scope_hits if hit.id == name]
            yield builder.finding(
                (*scope.path, "findings", index),
                f"{name} is claimed, but {'not so ' if lines else 'not '}found {scope.words}",
                turn=scope.turn,
                context=cut_short(lines)
                or [f"lints found {scope.words}: {listed(sorted({hit.id for hit in scope_hits}))}"],
            )


def sorted_hits(
    hits: HitsByTurn, off: Mapping[str, Mapping[str, str]], builder: FindingBuilder
) -> Sorted:
    """Sort hits: where a scope claims findings, further hits are allowed."""
    sorted = Sorted()
    for hit in hits.all:
        if is_waived(hit, off, builder):
            continue
        scopes = hits.scopes_of(hit)
        claimed = any(_claims(scope, hit) for scope in scopes)
        # No claim on findings excuses a script that does not fit the run.
        is_of_run = hit.id not in ("RUN-01", "RUN-03", "RUN-04")
        allowed = is_of_run and any(scope.expect.findings for scope in scopes)
        fails = severity_of(hit) == "E" and not allowed
        if claimed or _is_claimed_error(hit, scopes) or (allowed and not fails):
            sorted.noted.append(hit)
        elif fails:
            sorted.failing.append(hit)
        else:
            sorted.warnings.append(hit)
        if claimed or fails:
            sorted.expected_hits.add((hit.id, hit.turn))
    return sorted


def _claims(scope: Scope, hit: Hit) -> bool:
    return any(holds(claim, hit.fields()) for claim in scope.expect.findings or ())


def rules_without_calls(scenario: Scenario, document: Document, view: View) -> Iterator[Hit]:
    """Yield rules for agents of code that fit no call, if calls that fit no rule have an agent.

    That agent is the framework's, or the pipeline's only one. A rule with a misspelt text then does
    nothing, and what the scenario denies of its agent always holds. Only rules in the scenario's
    own file count: a table for many scenarios has more agents than each of them runs.
    """
    rule_names = [name for name, rule in scenario.agents.items() if rule.matchers()]
    if not rule_names:
        return
    agents = dict.fromkeys(call.agent for call in view.calls.values())
    others = [agent for agent in agents if agent not in rule_names]
    if not view.pipeline.is_code or not others or any(turn.error for turn in view.turns):
        return
    for name in rule_names:
        is_own = document.position(("agents", name)) != document.position(("agents",))
        if is_own and name not in agents:
            problem = (
                f"no model call fits the rule of agent {name!r}; calls that fit no rule are those "
                f"of {', '.join(map(repr, others))}"
            )
            yield Hit("RUN-01", problem, 0, name, severity="W", path=("agents", name))


def _is_claimed_error(hit: Hit, scopes: Sequence[Scope]) -> bool:
    """Return whether a claim on `error` covers a hit: both report one fact.

    Unused reply lines are another fact.
    """
    if "lines" in hit.data:
        return False
    return any(
        scope.expect.has("error")
        and scope.error is not None
        and ERRORS.get(scope.error.type) == hit.id
        for scope in scopes
    )


def severity_of(hit: Hit) -> str:
    """Return a hit's own severity, else its lint's."""
    return hit.severity or LINTS[hit.id].severity


def as_finding(hit: Hit, builder: FindingBuilder, more: Sequence[str] = ()) -> Finding:
    """Return a hit as a finding, at its turn."""
    path: Path = hit.path or (("turns", hit.turn - 1) if hit.turn else ())
    entry, document = LINTS[hit.id], builder.document
    return Finding(
        hit.id, "E" if severity_of(hit) == "E" else "W", hit.what, document.position(path), path,
        hit.turn, hit.agent, hit.call, (), (f"{hit.id} {entry.name}: {entry.rule}", *more),
        document.excerpt(path) if hit.path else "", entry.advice(builder.is_code), hit.breaks,
        event=hit.event,
    )  # fmt: skip


UNFINISHED: Final = frozenset(("ProgramEnded", "ToolMissing", "ReplyMissing", "ScriptMisfit"))
"""Errors about the scenario or a served program itself; nobody means to claim them."""


class Endings:
    """The ends of a trace's turns, and of the whole run, as the lints' pass found them."""

    def __init__(self, facts: Facts, events: Sequence[e.AnyEvent]) -> None:
        self.turns = facts.turns
        """The number of turns that began."""
        self.errors = facts.errors
        """Index of a turn to its number, and the error that ended it."""
        last = events[-1] if events else None
        self.error = last.error if isinstance(last, e.RunFinished) else None
        """The error that ended the run."""
        self.is_open = facts.turns > 0 and facts.turns not in facts.ended_turns
        """Whether the last turn did not finish."""

    @property
    def last_error(self) -> e.ErrorFacts | None:
        """Return the error that ended the last turn."""
        return self.errors.get(self.turns - 1, (0, None))[1]


def check_endings(
    scenario: Scenario, endings: Endings, hits: Sorted, builder: FindingBuilder
) -> Iterator[Finding]:
    """Yield errors that nobody claims, and turns that did not run if nothing else explains them."""
    missing = turns_left(scenario, endings)
    last = endings.turns
    tells = any(ended_by(hit, endings) for hit in hits.failing)
    for index, (number, error) in endings.errors.items():
        if _is_claimed(scenario, endings, index):
            continue
        if (ERRORS.get(error.type, ""), number) in hits.expected_hits:
            continue
        is_last = index == last - 1
        tells = tells or is_last
        yield _unclaimed(
            ("turns", index), f"turn {number}", error, number, missing if is_last else "", builder
        )
    if endings.error is not None and endings.last_error is None:
        lint = ERRORS.get(endings.error.type, "")
        # An error that kept a turn from beginning belongs to that turn, which is not in the trace.
        is_expected = not hits.expected_hits.isdisjoint(((lint, last), (lint, last + 1)))
        is_claimed = scenario.expect.has("error")
        tells = tells or is_claimed or not is_expected
        if not is_expected and not is_claimed:
            yield _unclaimed(("turns",), "the run", endings.error, 0, missing, builder)
    if missing and not tells:
        yield _not_run(missing, endings, builder)
    yield from _other_turns(scenario, endings, builder)


def turns_left(scenario: Scenario, endings: Endings) -> str:
    """Return which turns did not run; empty if all did."""
    first, last = endings.turns + 1, len(scenario.turns)
    if first > last:
        return ""
    return f"turn {last} did not run" if first == last else f"turns {first} to {last} did not run"


def ended_by(hit: Hit, endings: Endings) -> bool:
    """Return whether a lint reports the error that ended the last turn, or the run."""
    error = endings.error
    return (
        error is not None
        and ERRORS.get(error.type) == hit.id
        and hit.turn - endings.turns in (0, 1)  # Or it kept the next turn from beginning.
        and "lines" not in hit.data
    )


def _is_claimed(scenario: Scenario, endings: Endings, index: int) -> bool:
    if index < len(scenario.turns):
        turn = scenario.turns[index]
        if turn.expect.has("error") or (turn.is_cut and endings.errors[index][1].type in CUTS):
            return True
    return scenario.expect.has("error") and index == endings.turns - 1


def _unclaimed(
    path: tuple[str | int, ...],
    what: str,
    error: e.ErrorFacts,
    turn: int,
    missing: str,
    builder: FindingBuilder,
) -> Finding:
    return builder.finding(
        path,
        f"{what} ended with error {error.type}: {error.message}",
        turn=turn,
        context=[missing] if missing else [],
        fix="" if error.type in UNFINISHED else f"If it is meant, claim it: `error: {error.type}`.",
    )


def _not_run(missing: str, endings: Endings, builder: FindingBuilder) -> Finding:
    number = endings.turns
    error = endings.error or endings.last_error
    why = f"turn {number} ended with error {error.type}" if error else "the trace ends before"
    fix = "Remove the turns, or judge a trace that has them."
    if error is not None:
        fix = (
            f"Claim the error in turn {number}, `error: {error.type}`: then the conversation "
            "continues. Or remove the turns."
        )
    return builder.finding(("turns", number), f"{missing}: {why}", turn=number + 1, fix=fix)


def _other_turns(
    scenario: Scenario, endings: Endings, builder: FindingBuilder
) -> Iterator[Finding]:
    """Yield findings of a stored trace only: it is cut short, or belongs to another scenario."""
    if endings.is_open:
        number = endings.turns
        yield builder.finding(
            ("turns", number - 1),
            f"turn {number} did not finish: the trace ends in it",
            turn=number,
            fix="Run the scenario again.",
        )
    if endings.turns > len(scenario.turns):
        has, expected_turns = counted(endings.turns, "turn"), len(scenario.turns)
        yield builder.finding(
            ("turns",),
            f"the trace has {has}, the scenario {expected_turns}",
            fix="Judge the trace of this scenario, or add the turns.",
        )
