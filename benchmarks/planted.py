"""Faults planted in the reference systems that exploration finds without a claim.

Of the faults in `scenarios/*/mutations.yaml`, `CHOSEN` are chosen by seed. Each is planted in its
pipeline, which is then explored from its scenario: only the users' texts are used. A fault is found
if a cause shows that the pipeline without it does not.
"""

from __future__ import annotations

import random
from collections import Counter
from functools import cache, partial

from simkit.core.errors import SimkitError
from simkit.explore.conversations import Cause, converse
from simkit.explore.search import search
from simkit.explore.subjects import scenario_subject
from simkit.spec.scenario.files import Prepared
from tests import mutations

CHOSEN = 60
RUNS = 100
SEED = 0


def rows(rounds: int) -> list[list[object]]:
    """Returns for each reference system how many of its chosen faults are found, and by what."""
    del rounds
    known = [mutation for mutation in mutations.mutations()]
    chosen = random.Random(SEED).sample(known, CHOSEN)
    totals: Counter[str] = Counter(mutation.folder for mutation in chosen)
    found: Counter[str] = Counter()
    by_lint: dict[str, Counter[str]] = {folder: Counter() for folder in totals}
    for mutation in chosen:
        new = _causes(mutation) - _causes_without(mutation.folder, mutation.scenario)
        found[mutation.folder] += bool(new)
        by_lint[mutation.folder].update({cause.id for cause in new})
    table: list[list[object]] = [["system", "planted", "found", "by"]]
    for folder in sorted(totals):
        by = ", ".join(f"{lint} {count}" for lint, count in by_lint[folder].most_common())
        table.append([folder, totals[folder], found[folder], by])
    table.append(["all", CHOSEN, found.total(), ""])
    return table


def _causes(mutation: mutations.Mutation) -> set[Cause]:
    try:
        return _explored(mutations.planted(mutation))
    except SimkitError as problem:
        # The fault is refused before anything runs.
        return {Cause("refused", "", type(problem).__name__)}


@cache
def _causes_without(folder: str, scenario: str) -> set[Cause]:
    return _explored(mutations.library().prepared(mutations.item(folder, scenario)))


def _explored(prepared: Prepared) -> set[Cause]:
    subject = scenario_subject(prepared)
    campaign = search(partial(converse, subject), runs=RUNS, turns_max=3, seed=SEED)
    return {discovery.cause for discovery in campaign.discoveries}
