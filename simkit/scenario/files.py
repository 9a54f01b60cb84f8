"""Scenario and pipeline files: found, read, put together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from simkit.errors import ReferenceInvalid
from simkit.messages import ABSENT
from simkit.paths import lookup
from simkit.pipeline.model import Pipeline
from simkit.pipeline.names import check_pipeline
from simkit.references import compile as compile_references
from simkit.references import references_in
from simkit.scenario.fakes import Fakes
from simkit.scenario.items import (
    PIPELINE_SUFFIX,
    SCENARIO_SUFFIX,
    Item,
    items_in,
    scenario_files,
)
from simkit.scenario.model import Scenario, Shared
from simkit.scenario.names import check_scenario, check_shared
from simkit.shape import validated
from simkit.source import Document, load, near, text_of

ROOTS: Final = ("column", "env", "fake")
RUNNABLE: Final = ("router", "handoffs")
"""The flows that this version runs; the format knows more."""

__all__ = ["Item", "Library", "Prepared", "items_in", "scenario_files"]


class Prepared(msgspec.Struct, frozen=True):
    """A scenario with all that belongs to it, ready to run."""

    item: Item
    scenario: Scenario
    document: Document
    pipeline: Pipeline
    pipeline_document: Document
    shared: tuple[Shared, ...]
    """The files under ``use``; the nearest comes last."""
    written: Document | None = None
    """The scenario's document before its references were filled in."""

    def with_seed(self, seed: int) -> Prepared:
        """Returns the scenario under another seed: what Faker drew is drawn anew."""
        scenario, document = self.scenario, self.document
        if self.written is not None:
            document = _with_references(self.written, self.item.row, seed)
            scenario = validated(Scenario, document)
        scenario = scenario.model_copy(update={"seed": seed})
        return msgspec.structs.replace(self, scenario=scenario, document=document)


class Library:
    """Reads files once, and puts scenarios together with what they name."""

    def __init__(self) -> None:
        self._documents: dict[str, list[Document]] = {}
        self._pipelines: dict[tuple[str, int], Pipeline] = {}

    def documents(self, file: str) -> list[Document]:
        """The documents of a file; raises SourceError."""
        if file not in self._documents:
            self._documents[file] = load(file)
        return self._documents[file]

    def with_document(self, document: Document) -> Library:
        """Returns a library with this document in its own place in its file; the rest is shared.

        So a fault is planted without writing a file, and positions stay those of the file.
        """
        other = Library()
        other._documents = dict(self._documents)
        other._documents[document.file] = [
            document if one.index == document.index else one
            for one in self.documents(document.file)
        ]
        place = (document.file, document.index)
        other._pipelines = {key: p for key, p in self._pipelines.items() if key != place}
        return other

    def prepared(self, item: Item) -> Prepared:
        """Returns a scenario ready to run; raises SourceError for what is wrong with it."""
        return self.assembled(item, self.documents(item.file)[item.index])

    def assembled(self, item: Item, document: Document) -> Prepared:
        """Returns a scenario whose document need not be a file's, ready to run."""
        written, document = document, _with_references(document, item.row)
        scenario = validated(Scenario, document)
        pipeline_document = self._pipeline_document(document, scenario)
        pipeline = self.pipeline(pipeline_document)
        shared = tuple(self._shared(document, pipeline, scenario.use, (item.file,)))
        check_scenario(scenario, document, pipeline)
        return Prepared(item, scenario, document, pipeline, pipeline_document, shared, written)

    def pipeline(self, document: Document) -> Pipeline:
        """Returns a pipeline document as the model; raises SourceError."""
        key = document.file, document.index
        if key not in self._pipelines:
            pipeline = validated(Pipeline, document)
            check_pipeline(pipeline, document)
            self._pipelines[key] = pipeline
        return self._pipelines[key]

    def _pipeline_document(self, document: Document, scenario: Scenario) -> Document:
        name = scenario.pipeline
        if ":" in name and not name.endswith(PIPELINE_SUFFIX):
            raise document.error(
                ("pipeline",),
                f"this version cannot run `{name}`: pipelines in Python are not supported yet",
                advice=f"Name a `*{PIPELINE_SUFFIX}` file.",
            )
        if name.endswith((PIPELINE_SUFFIX, SCENARIO_SUFFIX)):
            file = str(Path(document.file).parent / name)
            if not Path(file).is_file():
                known = sorted(p.name for p in Path(document.file).parent.glob("*.pipeline.yaml"))
                raise document.error(
                    ("pipeline",), f"there is no file `{name}` beside this one",
                    word=name, known=tuple(known),
                )  # fmt: skip
            found = _pipelines_in(self.documents(file))
            if len(found) != 1:
                raise document.error(
                    ("pipeline",), f"`{name}` holds {len(found)} pipelines, but must hold one"
                )
            return next(iter(found.values()))
        here = _pipelines_in(self.documents(document.file))
        if name not in here:
            raise document.error(
                ("pipeline",), f"there is no pipeline `{name}` in this file",
                word=name, known=tuple(here),
                advice=f"A pipeline in its own file is named with its ending `{PIPELINE_SUFFIX}`.",
            )  # fmt: skip
        return here[name]

    def _shared(
        self, document: Document, pipeline: Pipeline, use: tuple[str, ...], chain: tuple[str, ...]
    ) -> Iterator[Shared]:
        for place, name in enumerate(use):
            file = str(Path(document.file).parent / name)
            path = ("use", place)
            if not Path(file).is_file():
                known = sorted(
                    str(found.relative_to(Path(document.file).parent))
                    for found in Path(document.file).parent.rglob("*.yaml")
                )
                raise document.error(
                    path, f"there is no file `{name}` beside this one", word=name,
                    known=tuple(k for k in known if k == near(name, known)),
                )  # fmt: skip
            if any(Path(file).resolve() == Path(before).resolve() for before in chain):
                names = " → ".join(Path(one).name for one in (*chain, file))
                raise document.error(path, f"`use` goes round in a circle: {names}")
            documents = self.documents(file)
            if len(documents) != 1:
                raise document.error(path, f"`{name}` must hold one document")
            (inner,) = documents
            shared = validated(Shared, inner)
            check_shared(shared, inner, pipeline)
            yield from self._shared(inner, pipeline, shared.use, (*chain, file))
            yield shared


def _pipelines_in(documents: list[Document]) -> dict[str, Document]:
    found: dict[str, Document] = {}
    for document in documents:
        data = document.data
        if isinstance(data, dict) and "pipeline" in data and "scenario" not in data:
            name = text_of(data["pipeline"]) or ""
            if name in found:
                line = found[name].line(("pipeline",))
                raise document.error(
                    ("pipeline",), f"pipeline `{name}` is here twice; the first is on line {line}"
                )
            found[name] = document
    return found


def _with_references(document: Document, row: int | None, seed: int | None = None) -> Document:
    """Returns the document with its scenario references filled in: column, env, fake."""
    data = document.data
    if not isinstance(data, dict):
        raise document.error((), "a document must be a mapping")
    if not document.mentions("${"):
        return document
    examples = data.get("examples")
    body = {key: value for key, value in data.items() if key not in ("examples", "pipeline")}
    try:
        found = references_in(body)
        template = compile_references(body)
    except ReferenceInvalid as problem:
        at = problem.args[1] if len(problem.args) > 1 else ()
        raise document.error(tuple(at), str(problem)) from None
    if not found and template.is_constant and template.resolve({}) == body:
        return document
    root: dict[str, Any] = {"column": {}, "env": {}}
    if row is not None and isinstance(examples, list) and isinstance(examples[row], dict):
        root["column"] = examples[row]
    allowed = data.get("env")
    if isinstance(allowed, list):
        root["env"] = {name: os.environ.get(name) for name in allowed if isinstance(name, str)}
    if "fake" in template.roots:
        seed = data.get("seed", 0) if seed is None else seed
        root["fake"] = Fakes(seed if isinstance(seed, int) else 0)
    for path, reference in found:
        _check_reference(document, path, reference, root)
    filled = {**data, **template.resolve(root)}
    return document.with_data(filled)


def _check_reference(
    document: Document, path: Any, reference: str, root: Mapping[str, Any]
) -> None:
    head = reference.replace("[", ".").split(".")[0]
    if head not in ROOTS:
        raise document.error(
            path, f"unknown reference `${{{reference}}}`", word=head, known=ROOTS,
            advice="A literal is written `$${`.",
        )  # fmt: skip
    if lookup(root, reference) is not ABSENT:
        return
    if head == "fake":
        word = reference.partition(".")[2]
        nearest = near(word, root["fake"].known())
        raise document.error(
            path, f"Faker has no `{word}`", advice=f"did you mean `{nearest}`?" if nearest else ""
        )
    known = tuple(f"{head}.{key}" for key in root[head])
    advice = "" if known else "The scenario has no `examples:` table."
    if head == "env":
        advice = "List the variable under `env:`."
    raise document.error(
        path, f"`${{{reference}}}` is not there", word=reference, known=known, advice=advice
    )
