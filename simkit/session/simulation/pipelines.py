"""The pipeline of a test: a file, YAML text, a mapping, or code; and the people made up for it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simkit.core.errors import SourceError
from simkit.language.yaml import Document, load_text, near
from simkit.session.simulation.places import CallSite, call_site_of_caller, document_at
from simkit.spec.fields import FUNCTION_NAME
from simkit.spec.scenario.code_names import as_imported
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.filling import Filling
from simkit.spec.scenario.items import PIPELINE_SUFFIX
from simkit.spec.scenario.known import Subject
from simkit.spec.scenario.model import DEFAULT_START, Scenario

__tracebackhide__ = True


def pipeline_of(
    named: str | os.PathLike[str] | Mapping[str, Any],
    place: CallSite,
    library: Library,
    folders: Sequence[Path],
    scenario: Scenario,
    document: Document,
) -> tuple[Subject, Document]:
    """Return the pipeline, and its document; raise SourceError.

    ``scenario``, and its document, add options to a pipeline that is code.
    """
    if is_code(named):
        return library.subject(document, scenario), document
    if isinstance(named, Mapping):
        documents = [document_at(named, place, ())]
    elif isinstance(named, str) and "\n" in named:
        documents = load_text(named, f"<pipeline in {place.file}:{place.line}>")
    else:
        documents = library.documents(_file(os.fspath(named), place, folders))
    pipelines = [
        file_document
        for file_document in documents
        if isinstance(file_document.data, Mapping) and "scenario" not in file_document.data
    ]
    if len(pipelines) != 1:
        raise place.error(f"one pipeline is wanted here, but there are {len(pipelines)}")
    return library.subject(pipelines[0], scenario), pipelines[0]


def is_code(named: object) -> bool:
    """Return whether a test names a pipeline as ``module:function``."""
    return isinstance(named, str) and FUNCTION_NAME.fullmatch(named) is not None


def _file(name: str, place: CallSite, folders: Sequence[Path]) -> str:
    """Return the file, beside the test, in one of the folders, or in the working directory."""
    around = [Path(place.file).parent, *folders, Path()]
    for folder in around:
        if (folder / name).is_file():
            return os.path.relpath(folder / name)
    known = sorted({file.name for folder in around for file in folder.glob(f"*{PIPELINE_SUFFIX}")})
    raise SourceError(
        place.where,
        f"there is no pipeline `{name}`",
        near=near(name, known),
        known=tuple(known),
        advice=as_imported(name) if ":" in name else "",
    )


def fakes(*, seed: int = 0, start: str = DEFAULT_START, **people: Any) -> Mapping[str, Any]:
    """Make up people and things: ``fakes(seed=7, customers=3)["customers"][0]["email"]``.

    Each is a number, a locale, or a mapping as in a scenario file; a file with the same seed and
    start gives the same ones. Raise SourceError at the line of the call.

    >>> simkit.fakes(seed=7, customers=2) == simkit.fakes(seed=7, customers=2)
    True
    """
    place = call_site_of_caller()
    values = {"seed": seed, "start": start, "given": {"fakes": people}}
    try:
        return Filling(document_at(values, place, ()), None).people
    except SourceError as problem:
        raise SourceError(
            place.where, problem.what, problem.at, problem.near, problem.known, problem.advice
        ) from None
