"""Hits of lints and the scenario: each is claimed, turned off, allowed, or a finding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from simkit.checks.claims import FindingBuilder, cut_short, listed
from simkit.checks.findings import Finding, Hit
from simkit.checks.scope import Path, Scope
from simkit.language.matching import holds
from simkit.spec.lint_catalogue import LINTS
from simkit.spec.pipeline.waivers import is_off, names_place, places_off
from simkit.spec.validation_catalogue import PREFIX

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
    position = [builder.position(hit.path)] if hit.path else []
    return [*fields, *position, f"turn {hit.turn}" if hit.turn else ""]


# Hits of lints and the scenario: each is claimed, turned off, allowed, or a finding


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
            place = miss.at[1]
            assert isinstance(place, int)
            lint = claims[place]["id"]
            name = lint if isinstance(lint, str) else "a lint"
            lines = [f"found: {hit.id} {hit.what}" for hit in scope_hits if hit.id == name]
            yield builder.finding(
                (*scope.path, "findings", place),
                f"{name} is claimed, but {'not so ' if lines else 'not '}found {scope.words}",
                turn=scope.turn,
                context=cut_short(lines) or [_found_instead(scope_hits, scope)],
            )


def _found_instead(scope_hits: Sequence[Hit], scope: Scope) -> str:
    return f"lints found {scope.words}: {listed(sorted({hit.id for hit in scope_hits}))}"


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
        allowed = not _is_about_the_script(hit) and any(scope.expect.findings for scope in scopes)
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


def _is_about_the_script(hit: Hit) -> bool:
    """Return whether the script does not fit the run; claims on findings do not excuse that."""
    return hit.id in ("RUN-01", "RUN-03", "RUN-04")


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
    entry = LINTS[hit.id]
    return Finding(
        hit.id, "E" if severity_of(hit) == "E" else "W", hit.what, builder.position(path), path,
        hit.turn, hit.agent, hit.call, (), (f"{hit.id} {entry.name}: {entry.rule}", *more),
        builder.excerpt(path) if hit.path else "", entry.advice(builder.is_code), hit.breaks,
        event=hit.event,
    )  # fmt: skip
