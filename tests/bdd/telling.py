"""Tells features in this process, on pipelines that a test has changed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from pytest_bdd.parser import FeatureParser

from simkit.bdd.assembling import FeatureText, Places
from simkit.bdd.story import Story
from simkit.bdd.vocabulary import VOCABULARIES
from simkit.checks.findings import Finding
from simkit.language.yaml import Document
from simkit.session.simulate import simulate
from simkit.spec.pipeline.mutants import Edit, apply_edits
from simkit.spec.scenario.files import Library, Prepared, ScenarioCase
from tests.mutations import SCENARIOS

FEATURES: Final = SCENARIOS.parent / "features"
_BY_KEYWORD: Final = {vocabulary.keyword.lower(): vocabulary for vocabulary in VOCABULARIES}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one scenario of a feature."""

    scenario: str
    red: tuple[str, ...]
    """The steps that do not hold, as the feature says them."""


@dataclass(frozen=True, slots=True)
class StoryFile:
    """One scenario of a feature as a scenario file would hold it; told once, run often."""

    item: ScenarioCase
    document: Document
    pipeline: Document

    @property
    def effort(self) -> int:
        """More with restarts and other sessions, which start processes and run it once more."""
        turns = self.document.data["turns"]
        restarts = [turn for turn in turns if turn.get("restart")]
        return len(restarts) + len({turn.get("session") for turn in turns})

    def findings(self, library: Library) -> tuple[Finding, ...]:
        """Runs it with what a library holds; raises SourceError where it cannot be told."""
        return simulate(library.assembled(self.item, self.document)).judgement.findings

    def is_about(self, pipeline: Document) -> bool:
        """Whether it runs a pipeline, whichever way that names its file."""
        same = os.path.samefile(self.pipeline.file, pipeline.file)
        return same and self.pipeline.index == pipeline.index


class _Listening(Library):
    """A library that knows which scenario it put together last."""

    last: Prepared

    def assembled(self, item: ScenarioCase, document: Document) -> Prepared:
        self.last = super().assembled(item, document)
        return self.last


@cache
def _scenarios(file: Path) -> tuple[Any, ...]:
    """A feature's scenarios, one for each row of an outline."""
    results = []
    for template in FeatureParser(str(file.parent), file.name).parse().scenarios.values():
        rows = [row for table in template.examples for row in table.as_contexts()]
        results += [template.render(row) for row in rows or [{}]]
    return tuple(results)


def _pipeline_of(scenario: Any) -> str:
    """The name of the pipeline that a scenario of a feature is about."""
    named = (step.name.split('"') for step in scenario.steps if "the pipeline" in step.name)
    return next(Path(name).name.removesuffix(".pipeline.yaml") for _, name, _ in named)


def feature_of() -> dict[str, str]:
    """Returns the name of the feature of every scenario."""
    files = sorted(FEATURES.glob("*.feature"))
    return {scenario.name: file.stem for file in files for scenario in _scenarios(file)}


def recorded_features() -> set[str]:
    """Returns the names of the features that replay a recording."""
    files = FEATURES.glob("*.feature")
    return {file.stem for file in files if "Given the cassette " in _given(file)}


def _given(file: Path) -> str:
    return file.read_text(encoding="utf-8").replace("And the cassette ", "Given the cassette ")


def run_stories(library: Library, name: str = "") -> Iterator[Outcome]:
    """Tells the scenarios of all features, or those of a name; raises SourceError."""
    for file in sorted(FEATURES.glob("*.feature")):
        for scenario in _scenarios(file):
            if name in ("", scenario.name):
                yield _run_story(file, scenario, library)


def write_stories(folder: str) -> Iterator[StoryFile]:
    """Tells the scenarios of all features that are about a reference system, on its pipelines."""
    library = _Listening()
    for file in sorted(FEATURES.glob("*.feature")):
        for scenario in _scenarios(file):
            if not (SCENARIOS / folder / f"{_pipeline_of(scenario)}.pipeline.yaml").is_file():
                continue
            assert _run_story(file, scenario, library).red == (), scenario.name
            last = library.last
            yield StoryFile(last.item, last.document, last.pipeline_document)


def changed(document: Document, edits: Sequence[Edit]) -> Library:
    """Returns a library in which a pipeline is edited, under the name by which features know it."""
    file = str(FEATURES / os.path.relpath(document.file, FEATURES))
    base = Library()
    own = base.documents(file)[document.index]
    return base.with_document(own.with_data(apply_edits(own.data, edits)))


def _run_story(file: Path, scenario: Any, library: Library) -> Outcome:
    findings = _tell(scenario, file, Story(library, root=SCENARIOS.parent, folders=[SCENARIOS]))
    lines = file.read_text(encoding="utf-8").splitlines()
    red = (int(finding.where.split(":")[-2]) for finding in findings)
    return Outcome(scenario.name, tuple(lines[place - 1].strip() for place in red))


def findings_of(feature: str, folder: Path) -> Sequence[Finding]:
    """Tells the one scenario of a feature in a folder with pipelines."""
    file = folder / "desk.feature"
    file.write_text(feature, encoding="utf-8")
    (scenario,) = _scenarios(file)
    return _tell(scenario, file, Story(Library(), root=folder, folders=[folder]))


def _tell(scenario: Any, file: Path, story: Story) -> Sequence[Finding]:
    text, line = file.read_text(encoding="utf-8"), scenario.line_number
    story.begin(Places(FeatureText(str(file), text), (line, line)), scenario.name)
    for step in scenario.steps:
        reply = _BY_KEYWORD[step.type].line(step.name)
        assert reply is not None, step.name
        story.lines = (step.line_number, step.line_number)
        story.last_turn, story.text = reply.owner, step.docstring
        story.table = None if step.datatable is None else step.datatable.raw()
        reply.step.tell(story, reply.holes)
    return story.end().judgement.findings
