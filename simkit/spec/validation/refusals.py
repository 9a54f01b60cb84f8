"""The code of an error that keeps a file from running, by its place and its kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel

from simkit.core.errors import SourceError
from simkit.language.yaml import Document
from simkit.spec.fields import validated
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.model import Scenario, Shared
from simkit.spec.validation.problems import place_of

_NAMES: Final = ("there is no ", "has no tool ", "leads nowhere", "in this file")
"""Beginnings of errors about names that list no known ones."""


def code_of(problem: SourceError, library: Library) -> str:
    """Return the code of an error; only used for files with errors."""
    file, _, _ = place_of(problem.where)
    try:
        documents = library.documents(file)
    except SourceError:
        return "VAL-01"
    if any(_is_of_shape(problem, document) for document in documents):
        return "VAL-02"
    if not problem.at:
        return "VAL-01"
    if problem.known or problem.near or any(words in problem.what for words in _NAMES):
        return "VAL-03"
    return "VAL-04" if problem.at.startswith("flow.graph") else "VAL-05"


def _is_of_shape(problem: SourceError, document: Document) -> bool:
    try:
        validated(_model_of(document), document)
    except SourceError as other:
        return (other.where, other.what) == (problem.where, problem.what)
    return False


def _model_of(document: Document) -> type[BaseModel]:
    data = document.data
    if not isinstance(data, Mapping) or "scenario" in data:
        return Scenario
    return Pipeline if "pipeline" in data else Shared
