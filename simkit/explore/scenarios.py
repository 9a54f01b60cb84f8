"""Discovery conversations as scenario files, which fail with the same finding by themselves."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from simkit.explore.conversations import Cause, cause_of
from simkit.explore.search import Discovery
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.items import PIPELINE_SUFFIX, SCENARIO_SUFFIX, items_in
from simkit.spec.scenario.writing import block

_LEFT_OUT: Final = ("scenario", "turns", "expect", "examples", "xfail", "tags", "skip", "cassette")
"""Keys of the scenario that it starts from that say nothing of what was found."""


def scenario_text(discovery: Discovery, prepared: Prepared, folder: Path, command: str) -> str:
    """Return the text of a scenario file in a folder that shows a cause.

    ``command`` found it.
    """
    document = prepared.document
    finding = discovery.record.causes[discovery.cause]
    headline = " ".join(finding.what.split())
    tree: dict[str, Any] = {"scenario": headline[:100]}
    tree |= {key: value for key, value in document.data.items() if key not in _LEFT_OUT}
    tree |= dict(_paths(tree, Path(document.file).parent, folder))
    tree["turns"] = list(discovery.record.turns)
    redactor = prepared.redactor(os.environ)
    tree, headline = redactor.value(tree), redactor.text(headline)
    lines = [
        f"# {finding.id}: {headline}",
        f"# `{command}` found it, and made it as small as it could.",
        *block(tree, 0),
    ]
    own = prepared.pipeline_document
    if own is not document and own.file == document.file:
        lines += ["---", *block(redactor.value(own.data), 0)]
    return "\n".join([*lines, ""])


def file_name(cause: Cause, number: int) -> str:
    """Return the name of the file of a cause: its lint and agent, and a number beyond 1."""
    words = [cause.id if cause.id != "claim" else "error", cause.agent]
    name = "-".join(re.sub(r"[^\w-]+", "_", word) for word in words if word)
    return f"{name}{'' if number == 1 else f'-{number}'}{SCENARIO_SUFFIX}"


def shows(file: Path, cause: Cause) -> bool:
    """Return whether the scenario of a file fails by this cause."""
    library = Library()
    (item,) = items_in(str(file), library.cache)
    outcome = simulate(library.prepared(item))
    return cause in {cause_of(finding) for finding in outcome.judgement.findings}


def _paths(tree: Mapping[str, Any], before: Path, now: Path) -> Iterator[tuple[str, Any]]:
    """Yield the keys that name files, seen from another folder."""
    moved = os.path.relpath(before or ".", now)
    pipeline = tree["pipeline"]
    if str(pipeline).endswith(PIPELINE_SUFFIX):
        yield "pipeline", os.path.normpath(os.path.join(moved, pipeline))
    elif ":" in str(pipeline):
        app = dict(tree.get("app", {}))
        folders = app.get("path", ["."])
        app["path"] = [
            os.path.normpath(os.path.join(moved, folder))
            for folder in ([folders] if isinstance(folders, str) else folders)
        ]
        yield "app", app
    if "use" in tree:
        used = tree["use"]
        yield (
            "use",
            [
                os.path.normpath(os.path.join(moved, name))
                for name in ([used] if isinstance(used, str) else used)
            ],
        )
