"""Scenario files run, and their texts with what was found accepted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from simkit.checks.findings import CLAIM, Finding
from simkit.checks.judge import Outcome
from simkit.core.redact import Redactor
from simkit.language.yaml import load_text
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library, Prepared, items_in
from simkit.update.proposals import Proposal, additions, changed_text, fixes

Propose = Callable[[Prepared, Outcome], Proposal]


class Accepted(NamedTuple):
    """A text as it is after one round, and what is left."""

    text: str
    notes: list[str]
    """What must be done by hand, without the file's name."""


def propose_fixes(prepared: Prepared, outcome: Outcome) -> Proposal:
    """What makes failing claims hold."""
    return fixes(prepared, outcome.view, outcome.judgement)


def propose_claims(prepared: Prepared, outcome: Outcome) -> Proposal:
    """Claims for turns without."""
    return additions(prepared, outcome.view, Redactor({}))


def accepted(text: str, folder: Path, propose: Propose = propose_fixes) -> Accepted:
    """The text of a scenario file with the proposals of all its runs."""
    file = folder / "a.scenario.yaml"
    # Line ends stay what they are.
    file.write_bytes(text.encode())
    name = str(file)
    proposals = [propose(*ran) for ran in ran_all(name, text)]
    new, notes = changed_text(name, text, proposals)
    return Accepted(new, [f"{note.where}: {note.what}".removeprefix(f"{name}:") for note in notes])


def ran_all(file: str, text: str) -> list[tuple[Prepared, Outcome]]:
    """Runs all scenarios of a file, as if this text stood in it."""
    library = Library()
    for document in load_text(text, file):
        library = library.with_document(document)
    prepared = [library.prepared(item) for item in items_in(file)]
    return [(item, simulate(item)) for item in prepared if item.scenario.skip is None]


def failing_claims(file: str, text: str) -> list[Finding]:
    """The claims of a file that do not hold, as if this text stood in it."""
    return [
        finding
        for _, outcome in ran_all(file, text)
        for finding in outcome.judgement.findings
        if finding.id == CLAIM
    ]
