"""Replays scenario files in this process: `python -m tests.explore.replaying FILE…`."""

from __future__ import annotations

import json
import sys

from simkit.explore.causes import cause_of, is_of_application
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in


def causes_of(file: str) -> list[list[str]]:
    """Return the causes of the findings of a file's one scenario."""
    library = Library()
    (item,) = items_in(file, library.cache)
    judgement = simulate(library.prepared(item)).judgement
    findings = (*judgement.findings, *filter(is_of_application, judgement.warnings))
    return [[*cause_of(finding)] for finding in findings if not finding.follows]


if __name__ == "__main__":
    print(json.dumps({file: causes_of(file) for file in sys.argv[1:]}))
