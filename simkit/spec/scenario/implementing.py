"""Implementations: scenarios of declared pipelines that also run on code."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from simkit.language.yaml import Document, DocumentCache, SourcePath
from simkit.spec.fields import require
from simkit.spec.scenario import items
from simkit.spec.scenario.apps import App, CodePipeline, Implements, ProgramPipeline


class Standing(msgspec.Struct, frozen=True):
    """Whether a scenario runs on code that implements declared pipelines."""

    other: str = ""
    """The reason if it concerns a pipeline that the code does not implement; else empty."""
    left_out: str = ""
    """The reason if the code's file leaves it out; else empty."""


HOLDS = Standing()


def standing(item: items.ScenarioCase, app: App) -> Standing:
    """Return whether a scenario runs on code."""
    implements = app.implements
    if implements is None:
        return HOLDS
    if _holder(item) not in _designs(implements, app.folder):
        return Standing(other=f"`{app.pipeline}` does not implement its pipeline")
    return Standing(left_out=implements.leaves_out.get(_key(item, app.folder), ""))


def scenarios_of(app: App, cache: DocumentCache | None = None) -> dict[str, items.ScenarioCase]:
    """Return the scenarios, in the folder of a code pipeline's file, of its designs.

    Their keys are ``file::scenario``, relative to that folder.
    """
    if app.implements is None:
        return {}
    designs = _designs(app.implements, app.folder)
    return {
        _key(item, app.folder): item
        for file in items.scenario_files(app.folder)
        for item in items.items_in(file, cache)
        if _holder(item) in designs
    }


def check_left_out(document: Document, app: App, cache: DocumentCache | None = None) -> None:
    """Raise SourceError for the first left-out scenario that does not exist."""
    if app.implements is None or not app.implements.leaves_out:
        return
    scenarios = scenarios_of(app, cache)
    for key in app.implements.leaves_out:
        require(document, ("implements", "leaves_out", key), "scenario", key, scenarios, key=True)


def check_implements(code: CodePipeline | ProgramPipeline, document: Document) -> None:
    """Raise SourceError for the first missing design, or for an invalid path."""
    if code.implements is None:
        return
    folder = Path(document.file).parent
    single = isinstance(document.data["implements"]["designs"], str)
    for index, name in enumerate(code.implements.designs):
        path: SourcePath = ("implements", "designs")
        path = path if single else (*path, index)
        if not name.endswith((items.PIPELINE_SUFFIX, items.SCENARIO_SUFFIX)) or not os.path.isfile(
            folder / name
        ):
            known = tuple(sorted(file.name for file in folder.glob(f"*{items.PIPELINE_SUFFIX}")))
            raise document.error(
                path, f"there is no pipeline file `{name}` beside this one", word=name, known=known
            )
    if not code.implements.differs:
        return
    from simkit.trace.diff.traces import KINDS

    for at in code.implements.differs:
        kind = at.partition(".")[0]
        where = ("implements", "differs", at)
        require(document, where, "kind of difference", kind, KINDS, key=True)


def _designs(implements: Implements, folder: str) -> set[str]:
    return {os.path.realpath(Path(folder) / name) for name in implements.designs}


def _holder(item: items.ScenarioCase) -> str:
    """Return the file with the pipeline of a scenario."""
    file = Path(item.file)
    if item.pipeline.endswith((items.PIPELINE_SUFFIX, items.SCENARIO_SUFFIX)):
        file = file.parent / item.pipeline
    return os.path.realpath(file)


def _key(item: items.ScenarioCase, folder: str) -> str:
    return f"{Path(os.path.relpath(item.file, folder)).as_posix()}::{item.name}"
