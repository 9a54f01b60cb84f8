"""Faults drawn in the pipelines of the reference systems, and the rules whose claims they break.

A fault is a small edit of a pipeline (`pipeline_mutants`, or a line less) that no `mutations.yaml`
has: nobody has looked at it, and no claim was written for it. All scenarios of the pipeline are run
with it.
`python -m tests.drawn_faults --seed 7 --count 60` prints those that no rule's own claim notices.

Whether each rule has a claim of its own is found by hand, in three steps:

1. `python -m tests.drawn_faults --rules --seed 7 --count 55` draws rules, and prints for each one
   the faults that break it already.
2. A person writes another fault for each rule into a file:
   `- {rule: 42, pipeline: fitness_coach/fitness_coach, edit: [{remove: channels.notes}]}`.
3. `python -m tests.drawn_faults --judge FILE` prints those that turn no claim of their rule red.

`drawn_faults.yaml` holds faults of ten draws; a test demands nineteen of twenty.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from simkit.checks.findings import CLAIM
from simkit.core.errors import SourceError
from simkit.core.messages import ABSENT
from simkit.language.paths import as_text, follow, parse
from simkit.language.yaml import Document, SourcePath
from simkit.session.simulate import simulate
from simkit.spec.pipeline.mutants import Edit, PipelineMutant, apply_edits, pipeline_mutants
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import ScenarioCase
from tests.mutations import (
    SCENARIOS,
    Mutation,
    items,
    library,
    mutations,
    path_parts,
    pipeline_document,
    places,
)
from tests.test_reference_systems import TABLES, claims_of, page

RULE, OTHER, ERROR, NOTHING = VERDICTS = ("claim of a rule", "other claim", "error", "nothing")
"""What notices a fault: a claim that asserts a rule; only another claim or a lint; the check of the
files before the run; nothing."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One small edit of one pipeline."""

    folder: str
    document: Document
    mutant: PipelineMutant


@dataclass(frozen=True, slots=True)
class Result:
    """The effect of a fault."""

    verdict: str
    rules: tuple[int, ...]
    """The rules of which a claim is red."""
    places: tuple[str, ...]
    """`scenario: path` of each finding."""
    claims: tuple[tuple[ScenarioCase, SourcePath], ...] = ()
    """The claims that are red."""


@cache
def pipelines() -> dict[str, tuple[str, Document]]:
    """Return the pipelines in which mutations are planted: file to folder and document."""
    every = (
        (mutation.folder, pipeline_document(mutation.folder, mutation.scenario))
        for mutation in mutations()
    )
    folders = {folder for folder, _ in TABLES.values()}
    return {each.file: (folder, each) for folder, each in every if folder in folders}


@cache
def _rules_by_claim() -> dict[tuple[str, str], dict[SourcePath, set[int]]]:
    """Return folder and scenario to the claims in it, each with the rules that it asserts."""
    by_claim: dict[tuple[str, str], dict[SourcePath, set[int]]] = {}
    for table, (folder, _) in TABLES.items():
        for row in page(table):
            for scenario, claim in claims_of(table, row):
                claims = by_claim.setdefault((folder, scenario), {})
                claims.setdefault(parse(claim), set()).add(row.number)
    return by_claim


@cache
def faults() -> tuple[Fault, ...]:
    """Return every fault, in the order of the files, also those that are planted already."""
    return tuple(
        Fault(folder, document, mutant)
        for _, (folder, document) in sorted(pipelines().items())
        for mutant in (*pipeline_mutants(document.data), *_lines_less(document.data))
    )


def _lines_less(value: object, path: SourcePath = ()) -> Iterator[PipelineMutant]:
    """Yield a fault for each key and each item: it is not there."""
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    for key in keys:
        place = (*path, key)
        edit = {"remove": place}
        yield PipelineMutant(kind="lines", text=f"no {place}", path=place, edits=(edit,))
        yield from _lines_less(follow(value, (key,)), place)


@cache
def _planted_in(file: str) -> set[str]:
    """Return a pipeline with each of the faults that are planted in it."""
    data = pipelines()[file][1].data
    planted = (mutation for mutation in mutations() if _document(mutation).file == file)
    return {str(apply_edits(data, mutation.edit)) for mutation in planted}


def _is_planted(fault: Fault) -> bool:
    document = fault.document
    return str(apply_edits(document.data, fault.mutant.edits)) in _planted_in(document.file)


def draw_rules(seed: int, count: int) -> dict[int, tuple[str, str]]:
    """Return some of the observable rules, by number: the table and the document's words."""
    rows = [(table, row) for table in TABLES for row in page(table) if row.links]
    chosen = random.Random(seed).sample(rows, min(count, len(rows)))
    return {
        row.number: (table, row.words)
        for table, row in sorted(chosen, key=lambda pair: pair[1].number)
    }


def written_faults(file: str) -> list[tuple[int, Fault]]:
    """Return the faults that a person has written into a file, each with the rule it breaks."""
    documents = {
        "/".join(path.removesuffix(".pipeline.yaml").split("/")[-2:]): each
        for path, each in pipelines().items()
    }
    faults_read: list[tuple[int, Fault]] = []
    for entry in yaml.safe_load(Path(file).read_text(encoding="utf-8")):
        folder, document = documents[entry["pipeline"]]
        edits = tuple(entry["edit"])
        if (document.file, edits) in _planted():
            raise ValueError(f"{entry} is in a mutations.yaml already: write another fault")
        mutant = PipelineMutant(kind="", text=str(entry), path=(), edits=edits)
        faults_read.append((entry["rule"], Fault(folder, document, mutant)))
    return faults_read


@cache
def _planted() -> list[tuple[str, tuple[Edit, ...]]]:
    return [(_document(mutation).file, mutation.edit) for mutation in mutations()]


def _document(mutation: Mutation) -> Document:
    return pipeline_document(mutation.folder, mutation.scenario)


def draw(seed: int, count: int) -> list[Fault]:
    """Return some of the faults that are not planted."""
    mixed = random.Random(seed).sample(faults(), len(faults()))
    return [*islice((fault for fault in mixed if not _is_planted(fault)), count)]


@cache
def _cases(folder: str, file: str) -> tuple[ScenarioCase, ...]:
    """Return the scenarios that run a pipeline; those that assert rules come first."""
    cases = [
        case
        for path in sorted((SCENARIOS / folder).glob("*.scenario.yaml"))
        for case in items(folder, path.name).values()
        if library().prepared(case).pipeline_document.file == file
    ]
    return tuple(sorted(cases, key=lambda case: _key(folder, case) not in _rules_by_claim()))


def _key(folder: str, case: ScenarioCase) -> tuple[str, str]:
    return folder, f"{case.file.rpartition('/')[2]}::{case.name}"


def judged(rule: int, fault: Fault) -> Result:
    """Return what notices a fault that breaks a rule; `claim of a rule` is a claim of that rule.

    A planted fault names claims of one agent in one scenario. Others state the same fact of another
    turn, agent or pipeline of the system. They assert the rule, too, if that planted fault turns
    them red, or if the fault changes the same option of the same section, contract or edge.
    """
    result = result_of(fault, whole=True)
    if rule in result.rules:
        return result
    facts = _facts_of(rule, fault)
    if any(
        any(_are_one(_fact(path), fact) for fact in facts)
        or _asserts(rule, fault.folder, case, path)
        for case, path in result.claims
    ):
        return replace(result, verdict=RULE, rules=(*result.rules, rule))
    return replace(result, verdict=OTHER) if result.verdict == RULE else result


def _asserts(rule: int, folder: str, case: ScenarioCase, path: SourcePath) -> bool:
    """Return whether a planted fault of a rule turns a claim red that states what it names."""
    return any(
        _are_one(path, place)
        for mutation in mutations()
        if mutation.folder == folder and rule in mutation.rules
        if any(_are_one(_fact(path), _fact(parse(claim))) for claim in mutation.red)
        for place in _broken(mutation.id, case)
    )


def _facts_of(rule: int, fault: Fault) -> list[SourcePath]:
    """Return the facts that a rule's planted faults break where they change what this one does."""
    changed = _changed(fault.document.data, fault.mutant.edits)
    return [
        _fact(parse(claim))
        for mutation in mutations()
        if mutation.folder == fault.folder and rule in mutation.rules
        if changed & _changed_by(mutation.id)
        for claim in mutation.red
    ]


@cache
def _changed_by(mutation_id: str) -> frozenset[SourcePath]:
    (mutation,) = (each for each in mutations() if each.id == mutation_id)
    return _changed(_document(mutation).data, mutation.edit)


def _changed(data: object, edits: Sequence[Edit]) -> frozenset[SourcePath]:
    """Return the options that edits change, without the names of agents and tools and indices."""
    before, after = (
        dict(_leaves(_resolved(data))),
        dict(_leaves(_resolved(apply_edits(data, edits)))),
    )
    different = {
        path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    }
    unnamed = ((path[0], *path[1 + (path[0] in {"agents", "tools"}) :]) for path in different)
    return frozenset(tuple(part for part in path if isinstance(part, str)) for path in unnamed)


def _resolved(data: Any) -> dict[str, Any]:
    """Return a pipeline whose agents have all that `defaults` give them, their sections by name."""
    agents = {name: {**data.get("defaults", {}), **agent} for name, agent in data["agents"].items()}
    for agent in agents.values():
        flat = [
            section
            for entry in agent.get("context", ())
            for section in (entry if isinstance(entry, list) else [entry])
        ]
        named = [each if isinstance(each, dict) else {each: {}} for each in flat]
        agent["order"] = str([[*each] for each in named])
        agent["context"] = {name: options for each in named for name, options in each.items()}
    return {**data, "defaults": {}, "agents": agents}


def _leaves(value: object, path: SourcePath = ()) -> Iterator[tuple[SourcePath, str]]:
    """Yield each value that holds no others, and each list of such values."""
    if isinstance(value, list) and all(isinstance(each, dict) for each in value):
        value = dict(enumerate(value))
    if not isinstance(value, dict) or not value:
        yield path, str(value)
        return
    for key, inner in value.items():
        yield from _leaves(inner, (*path, key))


def _are_one(path: SourcePath, other: SourcePath) -> bool:
    length = min(len(path), len(other))
    return length > 0 and path[:length] == other[:length]


def _fact(path: SourcePath) -> SourcePath:
    """Return what a claim is about: its path without turn, agents, indices and operators."""
    fact = path[path.index("expect") + 1 :] if "expect" in path else ()
    if fact[:1] in {("context",), ("runs",), ("model_calls",)}:
        fact = (fact[0], *fact[2:])
    return tuple(
        part
        for part in fact
        if isinstance(part, str) and not part.startswith("$") and part not in _agents()
    )


@cache
def _agents() -> frozenset[str]:
    documents = (document.data for _, document in pipelines().values())
    return frozenset(name for data in documents for name in data["agents"])


@cache
def _broken(mutation_id: str, case: ScenarioCase) -> tuple[SourcePath, ...]:
    """Return the claims of a scenario that a planted fault turns red, if its pipeline can have it.

    A pipeline can have it where what it changes is written in it as in the one that has it.
    """
    (mutation,) = (each for each in mutations() if each.id == mutation_id)
    document, planted = library().prepared(case).pipeline_document, _document(mutation)
    if not all(_stands(edit, planted.data, document.data) for edit in mutation.edit):
        return ()
    edited = document.with_data(apply_edits(document.data, mutation.edit))
    red = _red(library().with_document(edited), case)
    return tuple(path for path, kind, _ in red if kind == CLAIM)


def _stands(edit: Edit, *documents: object) -> bool:
    """Return whether what an edit changes is written in both documents, and the same."""
    (_, path), *_ = edit.items()
    way = parse(path) if isinstance(path, str) else path
    values = [follow(document, way) for document in documents]
    if values == [ABSENT, ABSENT]:
        values = [follow(document, way[:-1]) for document in documents]
    return ABSENT not in values and values[0] == values[1]


def result_of(fault: Fault, whole: bool = False) -> Result:
    """Return what notices a fault; scenarios of no rule run only if no rule's claim is red."""
    data = apply_edits(fault.document.data, fault.mutant.edits)
    edited = library().with_document(fault.document.with_data(data))
    verdicts, rules, places = {NOTHING}, set[int](), list[str]()
    red: list[tuple[ScenarioCase, SourcePath]] = []
    for case in _cases(fault.folder, fault.document.file):
        claims = _rules_by_claim().get(_key(fault.folder, case), {})
        if rules and not claims and not whole:
            break
        for path, kind, text in _red(edited, case):
            broken_rules = _rules_at(path, claims) if kind == CLAIM else set[int]()
            verdicts.add(RULE if broken_rules else ERROR if kind == ERROR else OTHER)
            rules |= broken_rules
            places.append(f"{case.name}: {text}")
            red += [(case, path)] if kind == CLAIM else []
    verdict = min(verdicts, key=VERDICTS.index)
    return Result(verdict, tuple(sorted(rules)), tuple(places), tuple(red))


def _red(files: Library, case: ScenarioCase) -> Iterator[tuple[SourcePath, str, str]]:
    """Yield path, kind and text of all that is red in a scenario.

    A claim that names what the fault has removed is red before the run, and alone: the files are
    refused at the first such name. So it is left out, and the scenario tried again.
    """
    while True:
        try:
            findings = simulate(files.prepared(case)).judgement.findings
        except SourceError as problem:
            path = path_parts(problem.at)
            kind = CLAIM if "expect" in path else ERROR
            yield path, kind, str(problem)
            document = files.documents(case.file)[case.index]
            if not problem.where.startswith(document.file) or not ({"expect", "replies"} & {*path}):
                return
            data = apply_edits(document.data, ({"remove": path},))
            files = files.with_document(document.with_data(data))
            continue
        for finding in findings:
            for path in places(finding):
                yield path, finding.id, f"{finding.id} {as_text(list(path))}"
        return


def _rules_at(path: SourcePath, claims: Mapping[SourcePath, set[int]]) -> set[int]:
    """Return the rules of the claims at a place, above it, or, in `expect`, below it."""
    if "expect" not in path:
        return set()
    return set().union(
        *(
            rules
            for claim, rules in claims.items()
            if path[: len(claim)] == claim or claim[: len(path)] == path
        )
    )


def main() -> None:
    """Print what notices the faults of a seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--rules", action="store_true", help="draw rules, not faults")
    parser.add_argument("--judge", metavar="FILE", help="faults that a person has written")
    options = parser.parse_args()
    if options.rules:
        for number, (table, words) in draw_rules(options.seed, options.count).items():
            print(f"{number} {words}")
            for each in mutations():
                if number in each.rules and each.folder == TABLES[table][0]:
                    file = pipeline_document(each.folder, each.scenario).file
                    print(f"    {file}: {list(each.edit)} {list(each.red)}"[:400])
        return
    counts = Counter[str]()
    drawn = [(0, fault) for fault in draw(options.seed, options.count)]
    for rule, fault in written_faults(options.judge) if options.judge else drawn:
        result = judged(rule, fault) if rule else result_of(fault)
        counts[result.verdict] += 1
        if result.verdict != RULE:
            print(f"{fault.folder}: {fault.mutant.text}: {result.verdict} {result.rules}")
            for place in result.places[:4]:
                print(f"    {place[:200]}", flush=True)
    print({verdict: counts[verdict] for verdict in VERDICTS})


if __name__ == "__main__":
    main()
