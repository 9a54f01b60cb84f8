"""Claims that hold of the one call that they are of, and would not hold of another one."""

from __future__ import annotations

from simkit.checks.claims import Writer
from simkit.checks.contexts import unheld_elsewhere
from simkit.checks.scope import scope_of_turn
from simkit.language.yaml import Document
from simkit.spec.scenario.model import Scenario
from simkit.trace.views import View


def claims_unheld_elsewhere(
    scenario: Scenario, document: Document, view: View
) -> dict[str, list[str]]:
    """Returns model call to the claims that were held against the first call, and not it.

    They are those that would not hold of it. A report shows them beside its context, so that
    nobody takes a claim on the first call for one on all.
    """
    writer = Writer(document)
    unheld: dict[str, list[str]] = {}
    for place, turn in enumerate(scenario.turns[: len(view.turns)]):
        scope = scope_of_turn(view.turns[place], place, turn.expect, view)
        for call, claim in unheld_elsewhere(scope, writer):
            unheld.setdefault(call, []).append(claim)
    return unheld
