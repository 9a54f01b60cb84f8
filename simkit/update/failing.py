"""Failing claims with the actual values, found by the checks themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from simkit.checks.claims import Writer
from simkit.checks.findings import CLAIM, Finding
from simkit.checks.judge import CHECKS, Judgement, scopes_of
from simkit.checks.observing import unobservable
from simkit.checks.runs import groups_of
from simkit.checks.scope import Path, Scope
from simkit.language.yaml import Document
from simkit.spec.scenario.model import Scenario
from simkit.trace.views import View

_OTHER_CLAIMS: Final = ("satisfies", "findings")
"""Claims that have no actual value."""


class Failing(msgspec.Struct, frozen=True):
    """A failing claim, and the actual value."""

    path: Path
    """The path in the scenario's document."""
    name: str
    """The key of the claim: ``agents``, ``reply``, a section, …"""
    matcher: Any
    value: Any


class Stuck(msgspec.Struct, frozen=True):
    """A failing claim that no actual value can make true."""

    path: Path
    why: str


def failing_claims(
    scenario: Scenario, document: Document, view: View, judgement: Judgement
) -> Iterator[Failing | Stuck]:
    """Yield the failing claims, in the order of the file's turns."""
    for scope in scopes_of(scenario, view, range(len(view.turns))):
        collector = _Collector(document, scope)
        for name, check in CHECKS.items():
            if scope.expect.has(name) and not unobservable(scope, name):
                for finding in check(scope, collector):
                    collector.keep(finding)
        yield from collector.claims
    for finding in judgement.findings:
        if finding.id == CLAIM and _is_no_value(finding):
            yield Stuck(finding.path, finding.what)


def _is_no_value(finding: Finding) -> bool:
    path = finding.path
    if "expect" not in path:
        return True
    claim = path[path.index("expect") + 1 :]
    return claim[:1] in tuple((name,) for name in _OTHER_CLAIMS) or "not observable" in finding.what


class _Collector(Writer):
    """A writer that keeps compared values instead of writing findings."""

    def __init__(self, document: Document, scope: Scope) -> None:
        super().__init__(document)
        self._scope = scope
        self.claims: list[Failing | Stuck] = []

    def compare(
        self, matcher: Any, value: Any, path: Path, label: str, *, several: bool = False, **_: Any
    ) -> list[Finding]:
        """Keep a failing claim, once; report nothing."""
        if not self.misses(matcher, value) or any(claim.path == path for claim in self.claims):
            return []
        if several:
            why = f"`{path[-2]}` speaks of several: what one of them found may not hold of others"
            self.claims.append(Stuck(path, why))
        else:
            self.claims.append(Failing(path, str(path[-1]), matcher, value))
        return []

    def keep(self, finding: Finding) -> None:
        """Keep a finding that a check writes itself."""
        path, size = finding.path, len(self._scope.path)
        claim = path[size] if len(path) > size else ""
        if claim == "agents":
            value = groups_of(self._scope.runs)
            matcher = self._scope.expect.agents
            self.claims.append(Failing(path[: size + 1], "agents", matcher, value))
        elif claim == "model_calls":
            agent = str(path[-1])
            count = len(self._scope.calls.get(agent, ()))
            expected = (self._scope.expect.model_calls or {})[agent]
            self.claims.append(Failing(path, "model_calls", expected, count))
        elif "not observable" not in finding.what:
            # `includes[0] matches no message`: the path shows the rest.
            self.claims.append(Stuck(path, finding.what.partition("] ")[2] or finding.what))
