"""Scenarios on another pipeline than the one that they name."""

from __future__ import annotations

import os
from pathlib import Path

from simkit.errors import SourceError
from simkit.scenario.files import Library, Prepared
from simkit.scenario.items import PIPELINE_SUFFIX, Item
from simkit.source import heads, near, text_of


def on_pipeline(item: Item, named: str, library: Library) -> Prepared:
    """Returns a scenario ready to run on the pipeline that it would name so.

    Raises SourceError for what is wrong with it there.
    """
    document = library.documents(item.file)[item.index]
    return library.assembled(item, document.with_data({**document.data, "pipeline": named}))


def named_for(file: str, pipeline: str) -> str:
    """Returns what a scenario of the file writes to name a pipeline: a file, or a name.

    A name is looked for in the scenario's file, then in the pipeline files beside it.
    """
    folder = Path(file).parent
    if ":" in pipeline:
        return pipeline
    if pipeline.endswith(PIPELINE_SUFFIX):
        if not Path(pipeline).is_file():
            raise SourceError(pipeline, "there is no such file")
        return os.path.relpath(pipeline, folder)
    here = _pipelines_in(file)
    if pipeline in here:
        return pipeline
    beside = {
        name: found.name
        for found in sorted(folder.glob(f"*{PIPELINE_SUFFIX}"))
        for name in _pipelines_in(str(found))
    }
    if pipeline not in beside:
        known = (*here, *beside)
        raise SourceError(
            file, f"--pipeline: there is no pipeline `{pipeline}` in this file or beside it",
            near=near(pipeline, known), known=known,
        )  # fmt: skip
    return beside[pipeline]


def _pipelines_in(file: str) -> list[str]:
    values = (head.values for head in heads(file) if "scenario" not in head.values)
    return [str(text_of(found["pipeline"])) for found in values if "pipeline" in found]
