"""Plants the faults of the `mutations.yaml` files in pipelines, through the code that users run.

A mutation says what is edited (`edit`: the pipeline, `edit_scenario`: the script, where a broken
pipeline asks for other replies), which claim of which scenario turns red, and which scenario of
the same pipeline stays green. `elsewhere` names further scenarios, with the claims that it turns
red there. Nothing is written: the edited values stand in the place of those that were read, so
findings name the lines of the real files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from simkit.checks.findings import Finding
from simkit.checks.judge import Outcome
from simkit.language.paths import parse
from simkit.language.yaml import Document
from simkit.session.simulate import simulate
from simkit.spec.pipeline.mutants import Edit, apply_edits
from simkit.spec.scenario.files import Library, Prepared, ScenarioCase, items_in
from simkit.trace.events import TurnFinished
from tests.building import load

SCENARIOS: Final = Path(__file__).resolve().parent.parent / "scenarios"

Parts = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One fault, and what it does."""

    id: str
    rules: tuple[int, ...]
    """The rules that it breaks, by their number in the tables."""
    why: str
    scenario: str
    """`file::name` of the scenario that turns red, the file beside `mutations.yaml`."""
    red: tuple[str, ...]
    """The paths of the claims, or of the parts of them, that no longer hold."""
    green: str
    """`file::name` of a scenario of the same pipeline that still holds."""
    edit: tuple[Edit, ...]
    edit_scenario: tuple[Edit, ...]
    folder: str


@cache
def mutations() -> tuple[Mutation, ...]:
    """Returns every mutation of every folder, in the order of the files."""
    result: list[Mutation] = []
    for file in sorted(SCENARIOS.glob("*/*mutations.yaml")):
        (document,) = load(file)
        for entry in document.data["mutations"]:
            first = _mutation(entry, file.parent.name)
            result += [first, *_branches(entry, first)]
    return tuple(result)


def _branches(entry: Mapping[str, Any], first: Mutation) -> Iterator[Mutation]:
    """Yields the fault once for each further scenario that it turns red, with its script as it is.

    It is a branch of the rules that it breaks: they are claimed of other turns, agents and nodes.
    """
    for number, (scenario, red) in enumerate(entry.get("elsewhere", {}).items(), start=1):
        identity = f"{first.id}-branch-elsewhere-{number}"
        yield replace(first, id=identity, scenario=scenario, red=_red(red), edit_scenario=())


def _red(claims: str | list[str]) -> tuple[str, ...]:
    return tuple(claims if isinstance(claims, list) else [claims])


def _mutation(entry: Mapping[str, Any], folder: str) -> Mutation:
    return Mutation(
        id=entry["id"],
        rules=tuple(int(rule) for rule in entry["rules"]),
        why=entry["why"],
        scenario=entry["scenario"],
        red=_red(entry["red"]),
        green=entry["green"],
        edit=tuple(entry["edit"]),
        edit_scenario=tuple(entry.get("edit_scenario", ())),
        folder=folder,
    )


@cache
def library() -> Library:
    """Returns the one library of the unedited files."""
    return Library()


@cache
def items(folder: str, file: str) -> dict[str, ScenarioCase]:
    """Returns the scenarios of a file by name."""
    return {item.name: item for item in items_in(str(SCENARIOS / folder / file))}


def item(folder: str, scenario: str) -> ScenarioCase:
    """Returns the scenario that `file::name` names; raises KeyError if there is none."""
    file, _, name = scenario.partition("::")
    return items(folder, file)[name]


@cache
def unmutated(folder: str, scenario: str) -> Outcome:
    """Returns what comes of a scenario as its file says it."""
    return simulate(library().prepared(item(folder, scenario)))


@cache
def pipeline_document(folder: str, scenario: str) -> Document:
    """Returns the pipeline that a scenario runs."""
    return library().prepared(item(folder, scenario)).pipeline_document


def mutated(mutation: Mutation) -> Outcome:
    """Returns what comes of the mutation's scenario under its edits."""
    edited = _script_edited(_pipeline_edited(library(), mutation), mutation)
    return simulate(edited.prepared(item(mutation.folder, mutation.scenario)))


def planted(mutation: Mutation) -> Prepared:
    """Returns the mutation's scenario on the pipeline with its edits, and with its own script."""
    edited = _pipeline_edited(library(), mutation)
    return edited.prepared(item(mutation.folder, mutation.scenario))


def with_its_script_alone(mutation: Mutation) -> Outcome:
    """Returns what comes of the scenario's edits without those of the pipeline."""
    edited = _script_edited(library(), mutation)
    return simulate(edited.prepared(item(mutation.folder, mutation.scenario)))


def other_scenario(mutation: Mutation) -> Outcome:
    """Returns what comes of the unrelated scenario under the mutation."""
    edited = _pipeline_edited(library(), mutation)
    return simulate(edited.prepared(item(mutation.folder, mutation.green)))


def _pipeline_edited(base: Library, mutation: Mutation) -> Library:
    document = pipeline_document(mutation.folder, mutation.scenario)
    return base.with_document(document.with_data(apply_edits(document.data, mutation.edit)))


def _script_edited(base: Library, mutation: Mutation) -> Library:
    if not mutation.edit_scenario:
        return base
    place = item(mutation.folder, mutation.scenario)
    document = base.documents(place.file)[place.index]
    return base.with_document(
        document.with_data(apply_edits(document.data, mutation.edit_scenario))
    )


def findings_at(outcome: Outcome, claim: str) -> list[Finding]:
    """Returns the findings on a claim or on a part of it."""
    path = parse(claim)
    return [
        finding
        for finding in outcome.judgement.findings
        if finding.id == "claim" and any(place[: len(path)] == path for place in places(finding))
    ]


def places(finding: Finding) -> list[Parts]:
    """Returns where a finding says that values differ: one path for each claim of its line."""
    first, *others = [path_parts(each.at) for each in finding.differences] or [()]
    if not first or finding.path[-len(first) :] != first:
        return [finding.path]
    claim = finding.path[: -len(first)]
    return [finding.path, *(claim + part for part in others if part)]


def path_parts(path: str) -> Parts:
    """Returns the keys and indices of a path as messages show it, ``runs."desk[1]".goal``."""
    return parse(re.sub(r'\.?("(?:[^"\\]|\\.)*")', r"[\1]", path)) if path else ()


def errors(outcome: Outcome) -> list[str]:
    """Returns the errors that turns ended with."""
    finished = (event for event in outcome.trace.events if isinstance(event, TurnFinished))
    return [event.error.type for event in finished if event.error is not None]


def where_in_file(file: str, index: int, path: Parts) -> str:
    """Returns `file:line:column` of a value, read with PyYAML alone.

    Where the tail of the path is not written, the nearest ancestor answers.
    """
    mark = _nodes_at(file, index, path)[-1].start_mark
    return f"{file}:{mark.line + 1}:{mark.column + 1}"


def is_written(file: str, index: int, path: Parts) -> bool:
    """Whether a value stands in the file at exactly this path."""
    return len(_nodes_at(file, index, path)) == len(path) + 1


def _nodes_at(file: str, index: int, path: Parts) -> list[Any]:
    """The nodes on the way, from the document's root, as far as there are any."""
    nodes = [_composed(file)[index]]
    for step in path:
        node, results = nodes[-1], []
        if isinstance(node, yaml.MappingNode):
            results = [value for key, value in node.value if key.value == step]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            values = _repeat_turns(node) if len(nodes) == 2 else node.value
            results = values[step : step + 1]
        if not results:
            break
        nodes += results
    return nodes


def _repeat_turns(turns: yaml.SequenceNode) -> list[Any]:
    """The turns as a conversation takes them: one with `repeat: 3` stands there three times."""
    values: list[Any] = []
    for turn in turns.value:
        times = [value for key, value in turn.value if key.value == "repeat"]
        values += [turn] * (int(times[0].value) if times else 1)
    return values


@cache
def _composed(file: str) -> list[Any]:
    with open(file, encoding="utf-8") as text:
        return list(yaml.compose_all(text, Loader=yaml.CSafeLoader))
