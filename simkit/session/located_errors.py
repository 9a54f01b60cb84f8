"""Errors of a run that lie in its scenario: each is reported at its place in the file."""

from __future__ import annotations

from simkit.core.errors import (
    CallUnattributed,
    FunctionMissing,
    PatternTooSlow,
    ProcessFailed,
    ScriptBroken,
    SourceError,
)
from simkit.core.messages import ABSENT
from simkit.language.paths import follow
from simkit.language.yaml import Document, SourcePath
from simkit.spec.scenario.files import Prepared


def _document_of(prepared: Prepared, path: SourcePath) -> Document:
    """Return the document of a path; for code, it may be the pipeline's file."""
    is_here = path[:1] not in (("app",), ("agents",), ("program",)) or (
        follow(prepared.document.data, path[:2]) is not ABSENT
    )
    return prepared.document if is_here else prepared.pipeline_document


class _Placing:
    """Turns an unusable script into an error at its place in the scenario."""

    __slots__ = ("_prepared",)

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: object
    ) -> None:
        if problem is not None:
            located = _located(self._prepared, problem)
            if located is not None:
                raise located from problem


def placed(prepared: Prepared) -> _Placing:
    """Report an unusable script at its place in the scenario."""
    return _Placing(prepared)


def _located(prepared: Prepared, problem: BaseException) -> SourceError | None:
    """Return the error with its place; None for an error that stays as it is."""
    if isinstance(problem, (ProcessFailed, ScriptBroken)):
        where = _document_of(prepared, problem.path).position(problem.path)
        return SourceError(where, problem.what)
    if isinstance(problem, CallUnattributed):
        return SourceError(prepared.document.position(("pipeline",)), str(problem))
    if isinstance(problem, PatternTooSlow):
        for document in (prepared.document, prepared.pipeline_document):
            path = document.path_of(problem.pattern) or document.path_of(f"/{problem.pattern}/")
            if path is not None:
                return SourceError(document.position(path), problem.what)
    if isinstance(problem, FunctionMissing):
        for document in (prepared.pipeline_document, prepared.document):
            path = document.path_of(problem.name)
            if path is not None:
                return SourceError(document.position(path), problem.what)
    return None
