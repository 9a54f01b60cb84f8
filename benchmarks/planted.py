"""Faults planted in the reference systems that exploration finds by their simulations.

Of the faults in `scenarios/*/mutations.yaml`, and of the mutants of the same pipelines that
`simkit mutate` makes, `CHOSEN` each are chosen by seed. Each is planted in its pipeline, and the
simulations of that pipeline are explored until one shows a finding: on the unchanged pipeline they
show none. No scenario and no claim of a scenario is used. A fault in a pipeline that has no
simulation is counted as not found.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Final

import msgspec

from simkit.core.errors import SimkitError
from simkit.explore.causes import Cause, label_of
from simkit.explore.chunks import Tally
from simkit.explore.conversations import converse
from simkit.explore.subjects import Subject, simulation_subject
from simkit.language.paths import as_text
from simkit.language.yaml import Document
from simkit.spec.pipeline.mutants import Edit, apply_edits, pipeline_mutants
from simkit.spec.scenario.items import ScenarioCase, simulations_in
from tests import mutations
from tests.explore.searching import search

CHOSEN: Final = 60
RUNS: Final = 300
SEED: Final = 0


class Planted(msgspec.Struct, frozen=True):
    """One fault in one pipeline."""

    folder: str
    pipeline: str
    """The pipeline's file."""
    kind: str
    name: str
    document: Document
    """The pipeline without the fault."""
    edits: tuple[Edit, ...]


def rows(rounds: int) -> list[list[object]]:
    """Return how many of the chosen faults are found: by system, by kind, and which are not."""
    del rounds
    table: list[list[object]] = []
    for source, faults in (
        ("mutations.yaml", mutation_faults()),
        ("simkit mutate", mutant_faults()),
    ):
        chosen = random.Random(SEED).sample(faults, min(CHOSEN, len(faults)))
        results = [(fault, explore_fault(fault)) for fault in chosen]
        table += _table(f"system, {source}", [(fault.folder, by) for fault, by in results])
        table += _table(f"kind, {source}", [(fault.kind, by) for fault, by in results])
        table += [
            [
                "not found",
                Path(fault.pipeline).name.removesuffix(".pipeline.yaml"),
                fault.kind,
                fault.name,
            ]
            for fault, by in results
            if not by
        ]
    return table


def _table(title: str, results: Sequence[tuple[str, str]]) -> Iterator[list[object]]:
    yield [title, "planted", "found", "by"]
    groups = sorted({group for group, _ in results})
    for name, wanted in [*((group, {group}) for group in groups), ("all", {*groups})]:
        those = [by for group, by in results if group in wanted]
        hits = Counter(by for by in those if by)
        yield [
            name,
            len(those),
            hits.total(),
            ", ".join(f"{by} {count}" for by, count in hits.most_common()),
        ]


def mutation_faults() -> list[Planted]:
    """Return the faults that the systems' files of mutations hold."""
    faults: list[Planted] = []
    for mutation in mutations.mutations():
        document = mutations.pipeline_document(mutation.folder, mutation.scenario)
        if mutation.folder in SYSTEMS:
            faults.append(
                Planted(
                    mutation.folder,
                    document.file,
                    kind_of(mutation.edit[0]),
                    mutation.id,
                    document,
                    mutation.edit,
                )
            )
    return faults


def mutant_faults() -> list[Planted]:
    """Return the mutants that `simkit mutate` makes of the pipelines of the written faults."""
    documents = {fault.pipeline: fault for fault in mutation_faults()}
    return [
        Planted(fault.folder, file, mutant.kind, mutant.text, fault.document, mutant.edits)
        for file, fault in documents.items()
        for mutant in pipeline_mutants(fault.document.data)
    ]


SYSTEMS: Final = (
    "fitness_coach",
    "agent_engine",
    "supervisor_context",
    "research_assistant",
    "handoff_pattern",
)
_KINDS: Final = (
    (r"channels\..*(reducer|last)", "reducers"),
    (r"channels\..*scope", "scopes"),
    (r"channels", "channels"),
    (r".*context.*filters", "filters"),
    (r".*context.*(window|max$|top$|since_days|threshold|truncate|tokens|preview)", "windows"),
    (r".*context", "sections"),
    (r"contracts.*payload|schemas", "payload keys"),
    (r"contracts.*writes", "writes"),
    (r"contracts", "contracts"),
    (r".*writes", "writes"),
    (r".*(before|after)", "rules"),
    (r"flow", "routes"),
    (r".*(tools|handoffs)", "tools"),
    (r"agents.*(output|parse|returns|input)", "outputs"),
)


def kind_of(edit: Edit) -> str:
    """Return the kind of a written fault, by the place that it changes first."""
    place = next(iter(edit.values()))
    path = place if isinstance(place, str) else ".".join(map(as_text, place))
    for pattern, kind in _KINDS:
        if re.match(pattern, path):
            return kind
    return "others"


def explore_fault(fault: Planted, runs: int = RUNS) -> str:
    """Return what shows a planted fault, `lint` or `claim` or `refused`; empty if nothing does."""
    try:
        document = fault.document.with_data(apply_edits(fault.document.data, fault.edits))
        library = mutations.library().with_document(document)
        for case in simulations_of(fault.folder, fault.pipeline):
            causes = _explored(simulation_subject(library, case), runs)
            if causes:
                return " ".join(sorted({_kind_of_cause(cause) for cause in causes}))
    except SimkitError:
        return "refused"
    return ""


def _kind_of_cause(cause: Cause) -> str:
    label = label_of(cause)
    return {"always": "claim", "finally": "claim", "error": "error"}.get(label, "lint")


@cache
def simulations_of(folder: str, pipeline: str) -> tuple[ScenarioCase, ...]:
    """Return the simulations in a system's folder that speak of a pipeline's file."""
    library = mutations.library()
    return tuple(
        case
        for file in sorted((mutations.SCENARIOS / folder).glob("*.simulation.yaml"))
        for case in simulations_in(str(file), library.cache)
        if _pipeline_of(case) == Path(pipeline).resolve()
    )


def _pipeline_of(case: ScenarioCase) -> Path:
    document = mutations.library().documents(case.file)[case.index]
    return (Path(case.file).parent / str(document.data["pipeline"])).resolve()


def _explored(subject: Subject, runs: int) -> set[Cause]:
    """Explore until something is found."""
    hits = 0

    def tell(tally: Tally) -> None:
        nonlocal hits
        hits = len(tally.causes)

    campaign = search(
        partial(converse, subject),
        runs=runs,
        turns_max=subject.simulation.turns,
        seed=SEED,
        rare=len(subject.rare),
        tell=tell,
        is_late=lambda: hits > 0,
    )
    return {discovery.cause for discovery in campaign.discoveries}


def _main(arguments: Sequence[str]) -> None:
    """Print which faults of the named folders are not found, for who writes their simulations."""
    for fault in [*mutation_faults(), *mutant_faults()]:
        if fault.folder in arguments or Path(fault.pipeline).name.split(".")[0] in arguments:
            by = explore_fault(fault, 100)
            if not by:
                print(fault.folder, Path(fault.pipeline).name, fault.kind, fault.name, sep="\t")


if __name__ == "__main__":
    _main(sys.argv[1:])
