"""Scenarios on another pipeline than their own."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from simkit.checks.findings import CLAIM, Finding
from simkit.core.errors import SourceError
from simkit.language.yaml import Document, DocumentCache, near, text_of
from simkit.report.results import Result
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.implementing import HOLDS, Standing, standing
from simkit.spec.scenario.items import PIPELINE_SUFFIX, ScenarioCase, is_pipeline
from simkit.spec.scenario.known import Subject


class Other(msgspec.Struct, frozen=True):
    """A scenario on another pipeline than its own."""

    prepared: Prepared | None
    """The scenario there; None if it does not run there, or the pipeline leaves it out."""
    standing: Standing = HOLDS


def other_pipeline(item: ScenarioCase, named: str, library: Library) -> Other:
    """Return a scenario on the pipeline of this name.

    Raise SourceError for errors there.
    """
    pipeline_file = _standing(item, named, library)
    if pipeline_file.other:
        return Other(None, pipeline_file)
    try:
        return Other(on_pipeline(item, named, library), pipeline_file)
    except SourceError:
        if not pipeline_file.left_out:
            raise
        return Other(None, pipeline_file)


def _standing(item: ScenarioCase, named: str, library: Library) -> Standing:
    """Return whether a scenario runs on the pipeline of this name."""
    if not named.endswith(PIPELINE_SUFFIX):
        return HOLDS
    folder = Path(item.file).parent
    if os.path.realpath(folder / named) == os.path.realpath(folder / item.pipeline):
        return HOLDS  # It is the scenario's own pipeline.
    subject, _ = pipeline_in(str(folder / named), library)
    return standing(item, subject) if isinstance(subject, App) else HOLDS


def pipeline_in(file: str, library: Library) -> tuple[Subject, Document]:
    """Return a file's only pipeline, with its document; raise SourceError."""
    documents = library.documents(file)
    if len(documents) != 1:
        raise SourceError(file, f"holds {len(documents)} documents, but must hold one pipeline")
    return library.subject(documents[0]), documents[0]


def turned(result: Result, standing: Standing, pipeline: str) -> Result:
    """Return the result of a scenario that a pipeline leaves out: its failure is expected."""
    result = msgspec.structs.replace(result, on=pipeline)
    if standing.left_out and result.failed:
        return msgspec.structs.replace(
            result, outcome="xfailed", findings=(), error="", reason=standing.left_out
        )
    if not standing.left_out or result.outcome != "held":
        return result
    finding = Finding(
        CLAIM,
        "E",
        f"the scenario holds on {pipeline}, which leaves it out: {standing.left_out}",
        f"{result.file}:{result.line}:1",
        (),
        fix="Take it out of `leaves_out`.",
    )
    return msgspec.structs.replace(result, outcome="failed", findings=(finding,))


def on_pipeline(item: ScenarioCase, named: str, library: Library) -> Prepared:
    """Return a scenario ready to run on the pipeline of this name.

    Raise SourceError for errors there.
    """
    document = library.documents(item.file)[item.index]
    return library.assembled(item, document.with_data({**document.data, "pipeline": named}))


def named_for(file: str, pipeline: str, cache: DocumentCache | None = None) -> str:
    """Return the name of a pipeline in a scenario of the file: a file, or a name.

    A name is searched in the scenario's file, then in the pipeline files beside it.
    """
    folder = Path(file).parent
    if ":" in pipeline:
        return pipeline
    if pipeline.endswith(PIPELINE_SUFFIX):
        if not Path(pipeline).is_file():
            raise SourceError(pipeline, "there is no such file")
        return os.path.relpath(pipeline, folder)
    cache = DocumentCache() if cache is None else cache
    names_here = _pipelines_in(file, cache)
    if pipeline in names_here:
        return pipeline
    names_beside = {
        name: file_.name
        for file_ in sorted(folder.glob(f"*{PIPELINE_SUFFIX}"))
        for name in _pipelines_in(str(file_), cache)
    }
    if pipeline not in names_beside:
        known = (*names_here, *names_beside)
        raise SourceError(
            file,
            f"--pipeline: there is no pipeline `{pipeline}` in this file or beside it",
            near=near(pipeline, known),
            known=known,
        )
    return names_beside[pipeline]


def _pipelines_in(file: str, cache: DocumentCache) -> list[str]:
    values = (head.values for head in cache.heads(file) if is_pipeline(head.values))
    return [str(text_of(value["pipeline"])) for value in values]
