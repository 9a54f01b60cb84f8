"""Tells features in this process, on pipelines that a test has changed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from pytest_bdd.parser import FeatureParser

from simkit.bdd.places import Places
from simkit.bdd.telling import Story
from simkit.bdd.vocabulary import VOCABULARIES
from simkit.scenario.files import Library
from simkit.source import Document
from tests.mutations import SCENARIOS, Edit, applied

FEATURES: Final = SCENARIOS.parent / "features"
_BY_KEYWORD: Final = {one.keyword.lower(): one for one in VOCABULARIES}


@dataclass(frozen=True, slots=True)
class Told:
    """What came of one scenario of a feature."""

    feature: str
    scenario: str
    red: tuple[str, ...]
    """The steps that do not hold, as the feature says them."""


@cache
def _scenarios(file: Path) -> tuple[Any, ...]:
    """A feature's scenarios, one for each row of an outline."""
    found = []
    for template in FeatureParser(str(file.parent), file.name).parse().scenarios.values():
        rows = [row for table in template.examples for row in table.as_contexts()]
        found += [template.render(row) for row in rows or [{}]]
    return tuple(found)


def told(library: Library, name: str = "") -> Iterator[Told]:
    """Tells the scenarios of all features, or those of a name; raises SourceError."""
    for file in sorted(FEATURES.glob("*.feature")):
        for scenario in _scenarios(file):
            if name in ("", scenario.name):
                yield _told(file, scenario, library)


def changed(document: Document, edits: Sequence[Edit]) -> Library:
    """Returns a library in which a pipeline is edited, under the name by which features know it."""
    file = str(FEATURES / os.path.relpath(document.file, FEATURES))
    base = Library()
    own = base.documents(file)[document.index]
    return base.with_document(own.with_data(applied(own.data, edits)))


def _told(file: Path, scenario: Any, library: Library) -> Told:
    story = Story(library, root=SCENARIOS.parent, folders=[SCENARIOS])
    text, line = file.read_text(encoding="utf-8"), scenario.line_number
    story.begin(Places(str(file), text, (line, line)), scenario.name)
    for step in scenario.steps:
        said = _BY_KEYWORD[step.type].line(step.name)
        assert said is not None, step.name
        story.lines = (step.line_number, step.line_number)
        story.whose, story.text = said.whose, step.docstring
        story.table = None if step.datatable is None else step.datatable.raw()
        said.step.tell(story, said.holes)
    lines = text.splitlines()
    red = (int(finding.where.split(":")[-2]) for finding in story.end().findings)
    return Told(file.stem, scenario.name, tuple(lines[place - 1].strip() for place in red))
