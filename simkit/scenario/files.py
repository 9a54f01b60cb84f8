"""Scenario and pipeline files: found, read, put together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from simkit.errors import ReferenceInvalid, SourceError
from simkit.messages import ABSENT
from simkit.paths import lookup
from simkit.pipeline.model import Pipeline
from simkit.pipeline.names import check_pipeline
from simkit.references import compile as compile_references
from simkit.references import references_in
from simkit.scenario.apps import App, CodePipeline
from simkit.scenario.fakes import Fakes
from simkit.scenario.implementing import check_implements
from simkit.scenario.items import (
    PIPELINE_SUFFIX,
    SCENARIO_SUFFIX,
    Item,
    items_in,
    scenario_files,
)
from simkit.scenario.known import Subject
from simkit.scenario.model import DEFAULT_START, Scenario, Shared
from simkit.scenario.modules import meant_by, names_in
from simkit.scenario.names import check_scenario, check_shared
from simkit.scenario.needs import unmet
from simkit.shape import FUNCTION_NAME, validated
from simkit.source import Document, Shelf, near, text_of

ROOTS: Final = ("column", "env", "fake")
RUNNABLE: Final = ("router", "handoffs")
"""The flows that this version runs; the format knows more."""

__all__ = ["Item", "Library", "Prepared", "items_in", "scenario_files"]


class Prepared(msgspec.Struct, frozen=True):
    """A scenario with all that belongs to it, ready to run."""

    item: Item
    scenario: Scenario
    document: Document
    pipeline: Subject
    pipeline_document: Document
    """The pipeline's document; the scenario's own, where the pipeline is code."""
    shared: tuple[Shared, ...]
    """The files under ``use``; the nearest comes last."""
    written: Document | None = None
    """The scenario's document before its references were filled in."""

    @property
    def skip(self) -> str | None:
        """Why it is not run: its ``skip``, else what it needs and is not installed."""
        return self.scenario.skip if self.scenario.skip is not None else self.unmet or None

    @property
    def unmet(self) -> str:
        """What it needs, or a file under ``use``, and is not installed; empty if all is."""
        shared = (need for one in self.shared for need in one.needs)
        return unmet((*shared, *self.scenario.needs))

    def refusal(self) -> SourceError:
        """Returns the error that says what is not installed, where that may not be."""
        return self.document.error(("needs",), self.unmet)

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

    def __init__(self, shelf: Shelf | None = None) -> None:
        """``shelf`` has the documents of files that were looked at before."""
        self._shelf = Shelf() if shelf is None else shelf
        self._documents: dict[str, list[Document]] = {}
        self._pipelines: dict[tuple[str, int], Pipeline] = {}
        self._named: dict[tuple[str, str], Document] = {}
        """File and name to the pipeline's document; a file's scenarios mostly share one."""

    def documents(self, file: str) -> list[Document]:
        """The documents of a file; raises SourceError."""
        if file not in self._documents:
            self._documents[file] = self._shelf.documents(file)
        return self._documents[file]

    def with_document(self, document: Document) -> Library:
        """Returns a library with this document in its own place in its file; the rest is shared.

        So a fault is planted without writing a file, and positions stay those of the file.
        """
        other = Library(self._shelf)
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
        subject = self.subject(pipeline_document, scenario)
        shared = tuple(self._shared(document, subject, scenario.use, (item.file,)))
        if isinstance(subject, App) and shared:
            rules = {k: rule for one in shared for k, rule in one.agents.items()}
            subject = msgspec.structs.replace(subject, agents={**rules, **subject.agents})
        check_scenario(scenario, document, subject)
        return Prepared(item, scenario, document, subject, pipeline_document, shared, written)

    def subject(self, document: Document, scenario: Scenario | None = None) -> Subject:
        """Returns what a document says a pipeline is, declared or code; raises SourceError.

        ``scenario`` is the one that names it, and may say more of one that is code.
        """
        data = document.data
        if isinstance(data, dict) and "code" in data and "scenario" not in data:
            code = validated(CodePipeline, document)
            check_implements(code, document)
            return _in_file(code, document, scenario)
        if scenario is not None and isinstance(data, dict) and "scenario" in data:
            return _app(scenario, document)
        return self.pipeline(document)

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
            return document
        key = document.file, name
        if key not in self._named:
            self._named[key] = self._document_named(name, document)
        return self._named[key]

    def _document_named(self, name: str, document: Document) -> Document:
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
                advice=_meant(name, document),
            )  # fmt: skip
        return here[name]

    def _shared(
        self, document: Document, pipeline: Subject, use: tuple[str, ...], chain: tuple[str, ...]
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


def _meant(name: str, document: Document) -> str:
    """Says what to write for a pipeline that no document of the file has."""
    beside = Path(document.file).parent
    file = beside / name
    if file.suffix == ".py":
        return _as_imported(f"{name}:{next(iter(names_in(file)), 'run')}")
    if file.is_file():
        return f"Rename that file to `{name.split('.')[0]}{PIPELINE_SUFFIX}`."
    paths = lookup(document.data, "app.path")
    named = [str(beside / path) for path in paths] if isinstance(paths, list) else []
    advice = meant_by(name, [*named, str(beside), str(Path.cwd())])
    if advice:
        return advice
    if "." in name and FUNCTION_NAME.fullmatch(":".join(name.rsplit(".", 1))):
        return f"A pipeline that is code is named `{':'.join(name.rsplit('.', 1))}`."
    return f"A pipeline in its own file is named with its ending `{PIPELINE_SUFFIX}`."


def _as_imported(written: str) -> str:
    """Says how code is named that was named by its file, or with a method."""
    file, _, name = written.rpartition(":")
    folder, _, module = file.rstrip(":").removesuffix(".py").rpartition("/")
    named, _, method = name.partition(".")
    if FUNCTION_NAME.fullmatch(f"{module}:{named}") is None:
        return "Code is named as it is imported: `myapp.agents:run`."
    options = [f"path: [{folder}]"] if folder.strip("./") else []
    options += [f"call: {method}"] if method else []
    also = f", with `app: {{{', '.join(options)}}}`" if options else ""
    return f"Code is named as it is imported: `{module}:{named}`{also}."


def _app(scenario: Scenario, document: Document) -> App:
    """Returns the pipeline that a scenario names as code."""
    if FUNCTION_NAME.fullmatch(scenario.pipeline) is None:
        raise document.error(
            ("pipeline",), f"`{scenario.pipeline}` is no `module:function`",
            advice=_as_imported(scenario.pipeline),
        )  # fmt: skip
    folder = str(Path(document.file).parent)
    name = scenario.pipeline
    return App(name, name, folder, scenario.app, scenario.agents, scenario.allow_hosts)


def _in_file(code: CodePipeline, document: Document, scenario: Scenario | None) -> App:
    """Returns a pipeline that a file names as code, with what a scenario adds to it."""
    folder = str(Path(document.file).parent)
    app = App(
        code.pipeline, code.code, folder, code.app, code.agents, code.allow_hosts, code.implements
    )  # fmt: skip
    if scenario is None:
        return app
    given = scenario.model_fields_set
    return msgspec.structs.replace(
        app,
        options=scenario.app if "app" in given else app.options,
        agents={**app.agents, **scenario.agents},
        allow_hosts=(*app.allow_hosts, *scenario.allow_hosts),
    )


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
    # What a graph is given of the user's message is filled in turn by turn.
    root: dict[str, Any] = {"column": {}, "env": {}, "user": "${user}"}
    if row is not None and isinstance(examples, list) and isinstance(examples[row], dict):
        root["column"] = examples[row]
    allowed = data.get("env")
    if isinstance(allowed, list):
        root["env"] = {name: os.environ.get(name) for name in allowed if isinstance(name, str)}
    if "fake" in template.roots:
        seed = data.get("seed", 0) if seed is None else seed
        root["fake"] = Fakes(seed if isinstance(seed, int) else 0, _start_of(data))
    for path, reference in found:
        if (*path[:2], reference) != ("app", "input", "user"):
            _check_reference(document, path, reference, root)
    filled = {**data, **template.resolve(root)}
    return document.with_data(filled)


def _start_of(data: Mapping[str, Any]) -> str:
    """Returns a scenario's start before it is checked; the usual one for what is none."""
    try:
        moment = datetime.fromisoformat(data.get("start", DEFAULT_START))
    except (TypeError, ValueError):
        return DEFAULT_START
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()


def _check_reference(
    document: Document, path: Any, reference: str, root: Mapping[str, Any]
) -> None:
    head = reference.replace("[", ".").split(".")[0]
    if head not in ROOTS:
        raise document.error(
            path, f"unknown reference `${{{reference}}}`", word=head, known=ROOTS,
            advice="A literal is written `$${`.",
        )  # fmt: skip
    try:
        if lookup(root, reference) is not ABSENT:
            return
    except ReferenceInvalid as problem:
        raise document.error(path, str(problem)) from None
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
