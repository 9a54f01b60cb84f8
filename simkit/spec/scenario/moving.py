"""Scenarios that are written into another folder: the keys that name files, seen from there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from simkit.spec.scenario.apps import App
from simkit.spec.scenario.files import Prepared
from simkit.spec.scenario.items import PIPELINE_SUFFIX


def moved_paths(
    tree: Mapping[str, Any], prepared: Prepared, folder: Path
) -> Iterator[tuple[str, Any]]:
    """Yield the keys of a scenario that name files, with their values as seen from a folder.

    ``tree`` has the scenario's keys; its paths are seen from the folder of ``prepared``. Folders of
    modules are named only where the modules would not be found from there.
    """
    before, now = Path(prepared.document.file).resolve().parent, folder.resolve()
    pipeline = prepared.pipeline
    if str(tree["pipeline"]).endswith(PIPELINE_SUFFIX):
        yield "pipeline", _relative(before / tree["pipeline"], now)
    elif isinstance(pipeline, App) and pipeline.entry:
        folders = pipeline.folders()
        if pipeline.options.path or folders != replace(pipeline, folder=str(now)).folders():
            places = [_relative(Path(place), now) for place in folders]
            yield "app", {**tree.get("app", {}), "path": places}
    if "use" in tree:
        names = [tree["use"]] if isinstance(tree["use"], str) else tree["use"]
        yield "use", [_relative(before / name, now) for name in names]


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()
