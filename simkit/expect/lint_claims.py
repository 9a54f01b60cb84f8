"""What lints saw, held against the scenario: claimed, turned off, allowed, or a finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simkit.expect.claims import Writer, listed
from simkit.expect.findings import Finding, Hit
from simkit.expect.scope import Path, Scope
from simkit.lint_catalogue import LINTS


class Sorted:
    """The hits of a run, sorted by what the scenario says of them."""

    def __init__(self) -> None:
        self.failing: list[Hit] = []
        self.warnings: list[Hit] = []
        self.noted: list[Hit] = []


def check_lint_claims(scopes: Sequence[Scope], hits: Sequence[Hit], writer: Writer) -> Iterator[Finding]:
    """Yields the lints that a scope claims and that were not found there."""
    for scope in scopes:
        here = [hit for hit in hits if not scope.turn or hit.turn == scope.turn]
        left = list(here)
        for place, wanted in enumerate(scope.expect.findings or ()):
            _, matcher = writer.matchers.of(wanted)
            found = next((hit for hit in left if matcher.holds(hit.fields())), None)
            if found is not None:
                left.remove(found)
                continue
            name = wanted["id"] if isinstance(wanted["id"], str) else "the lint"
            lines = [f"found: {hit.id} {hit.what}" for hit in here if hit.id == name]
            if not lines:
                lines = [f"lints found {scope.words}: {listed(sorted({hit.id for hit in here}))}"]
            yield writer.finding(
                (*scope.path, "findings", place), f"{name} was claimed, but not found {scope.words}",
                turn=scope.turn, context=lines,
            )  # fmt: skip


def sorted_hits(
    hits: Sequence[Hit], scopes: Sequence[Scope], off: Sequence[str], writer: Writer
) -> Sorted:
    """Sorts hits: where a scope claims findings, others may be found too and do not fail."""
    sorted_ = Sorted()
    claiming = [scope for scope in scopes if scope.expect.findings is not None]
    for hit in hits:
        if hit.id in off:
            continue
        allowed = any(
            not scope.turn or scope.turn == hit.turn for scope in claiming
        )
        claimed = any(
            writer.matchers.of(wanted)[1].holds(hit.fields())
            for scope in claiming
            if not scope.turn or scope.turn == hit.turn
            for wanted in scope.expect.findings or ()
        )
        if claimed or (allowed and not _is_about_the_script(hit)) or _is_claimed_error(hit, scopes):
            sorted_.noted.append(hit)
        elif severity_of(hit) == "E":
            sorted_.failing.append(hit)
        else:
            sorted_.warnings.append(hit)
    return sorted_


def _is_about_the_script(hit: Hit) -> bool:
    """A script that does not fit its run is no finding about the pipeline that others excuse."""
    return hit.id == "RUN-01"


def _is_claimed_error(hit: Hit, scopes: Sequence[Scope]) -> bool:
    """A limit or a missing reply that ended the turn is one fact with the error it raised."""
    if hit.id not in ("FLW-01", "RUN-01"):
        return False
    kind = {"FLW-01": "LimitExceeded", "RUN-01": "ReplyMissing"}[hit.id]
    return any(
        scope.expect.has("error") and scope.error is not None and scope.error.type == kind
        for scope in scopes
        if not scope.turn or scope.turn == hit.turn
    )


def severity_of(hit: Hit) -> str:
    """A hit's own severity, else its lint's."""
    return hit.severity or LINTS[hit.id].severity


def as_finding(hit: Hit, writer: Writer) -> Finding:
    """Returns what a lint saw as a finding, at the turn it speaks of."""
    path: Path = hit.path or (("turns", hit.turn - 1) if hit.turn else ())
    entry = LINTS[hit.id]
    return Finding(
        hit.id, "E" if severity_of(hit) == "E" else "W", hit.what, writer.position(path), path,
        hit.turn, hit.agent, hit.call, (), (f"{hit.id} {entry.name}: {entry.rule}",),
        writer.excerpt(path) if hit.path else "", entry.fix, hit.breaks,
    )  # fmt: skip
