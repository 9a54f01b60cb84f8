"""Scenario and pipeline files: find them, read them, join them, write them into another folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from simkit.core.errors import SourceError
from simkit.core.redact import Redactor, secrets_written_in
from simkit.language.paths import lookup
from simkit.language.yaml import Document, DocumentCache, near, text_of
from simkit.spec.fields import FUNCTION_NAME
from simkit.spec.loading import validated, validated_at
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.pipeline.names import check_pipeline
from simkit.spec.scenario import apps
from simkit.spec.scenario.apps import check_implements
from simkit.spec.scenario.claims import Expect
from simkit.spec.scenario.code_names import as_imported, meant_by, names_in
from simkit.spec.scenario.filling import Filling, root_of_files, used_files
from simkit.spec.scenario.items import (
    PIPELINE_SUFFIX,
    SCENARIO_SUFFIX,
    ScenarioCase,
    is_pipeline,
    items_in,
    scenario_files,
)
from simkit.spec.scenario.known import Subject
from simkit.spec.scenario.model import Scenario, Shared, Turn, unmet
from simkit.spec.scenario.moments import WHOLE, answered
from simkit.spec.scenario.names import check_judge, check_scenario, check_shared

__all__ = ["Library", "Prepared", "ScenarioCase", "items_in", "scenario_files"]


class Prepared(msgspec.Struct, frozen=True):
    """A scenario with all its files, ready to run."""

    item: ScenarioCase
    scenario: Scenario
    document: Document
    pipeline: Subject
    pipeline_document: Document
    """The pipeline's document; the scenario's own if the pipeline is code."""
    shared: tuple[Shared, ...]
    """The files under ``use``; the nearest comes last."""
    source_document: Document | None = None
    """The scenario's document with unresolved references; None if there are none."""
    used: tuple[Document, ...] = ()
    """The documents of the files under ``use``; the nearest comes last."""
    used_written: tuple[Document, ...] = ()
    """The documents under ``use`` with unresolved references."""
    waiting: Mapping[int, Any] = {}
    """Turn index, or WHOLE for the claims on the whole run, to its source with references to
    replies of earlier turns."""

    @property
    def skip(self) -> str | None:
        """Return why it is skipped: its ``skip``, else missing distributions; None if it runs."""
        return self.scenario.skip if self.scenario.skip is not None else self.unmet or None

    @property
    def unmet(self) -> str:
        """Return the missing distributions of it and of files under ``use``; empty if none."""
        shared = (need for part in self.shared for need in part.needs)
        return unmet((*shared, *self.scenario.needs))

    def redactor(self, environ: Mapping[str, str]) -> Redactor:
        """Return the redactor for its secrets and the environment's."""
        documents = (self.document, self.pipeline_document, *self.used)
        secrets = {secret for document in documents for secret in document.secrets}
        if isinstance(self.pipeline, apps.App):
            secrets.update(secrets_written_in({"env": self.pipeline.options.env}))
        return self.scenario.record.redactor(environ, secrets)

    def refusal(self) -> SourceError:
        """Return the error about missing distributions, for runs that must not skip."""
        return self.document.error(("needs",), self.unmet)

    def turn_after(self, index: int, turn_values: Sequence[Mapping[str, Any]]) -> Turn:
        """Return a turn with ``turn_values`` of earlier turns filled in; raise SourceError."""
        turn = self.scenario.turns[index]
        if index not in self.waiting:
            return turn
        data = answered(self.waiting[index], turn_values[:index])
        return validated_at(Turn, data, self.document, ("turns", index))

    def after(self, turn_values: Sequence[Mapping[str, Any]]) -> Prepared:
        """Return the scenario with ``turn_values`` of its turns filled in."""
        if not self.waiting:
            return self
        indices = [index for index in sorted(self.waiting) if WHOLE < index < len(turn_values)]
        turns, data = list(self.scenario.turns), list(self.document.data["turns"])
        for index in indices:
            turns[index] = self.turn_after(index, turn_values)
            data[index] = answered(self.waiting[index], turn_values[:index])
        scenario = self.scenario.model_copy(update={"turns": tuple(turns)})
        whole = {**self.document.data, "turns": data}
        if WHOLE in self.waiting:
            whole |= answered({"expect": self.waiting[WHOLE]}, turn_values)
            expect = validated_at(Expect, whole["expect"], self.document, ("expect",))
            scenario = scenario.model_copy(update={"expect": expect})
        return msgspec.structs.replace(
            self, scenario=scenario, document=self.document.with_data(whole)
        )

    def with_seed(self, seed: int) -> Prepared:
        """Return the scenario with another seed, and with new words from Faker."""
        drawn = self if self.source_document is None else self._drawn(self.source_document, seed)
        scenario = drawn.scenario.model_copy(update={"seed": seed})
        return msgspec.structs.replace(drawn, scenario=scenario)

    def _drawn(self, source: Document, seed: int) -> Prepared:
        """Return the scenario with new values filled in; without any it is the same."""
        filling = Filling(source, self.item.row, seed, self.used_written)
        document = filling.filled(source)
        used = tuple(filling.filled(written_use) for written_use in self.used_written)
        if document is self.document and used == self.used:
            return self
        return msgspec.structs.replace(
            self,
            scenario=validated(Scenario, document),
            document=document,
            shared=tuple(validated(Shared, filled) for filled in used),
            used=used,
            waiting=filling.waiting,
        )


class Library:
    """Reads files once, and joins scenarios with the files that they name."""

    def __init__(self, cache: DocumentCache | None = None) -> None:
        """``cache`` has the files that were looked at before."""
        self.cache = DocumentCache() if cache is None else cache
        self._changed: dict[str, list[Document]] = {}
        self._pipelines: dict[tuple[str, int], Pipeline] = {}
        self._named: dict[tuple[str, str], Document] = {}
        """File and name to the pipeline's document; a file's scenarios mostly share one."""
        self._files: dict[tuple[tuple[Path, ...], str], list[Path]] = {}

    def files(self, folders: Sequence[Path], pattern: str) -> list[Path]:
        """Return the files of a pattern in folders and below, each once; found once a library."""
        key = tuple(folders), pattern
        if key not in self._files:
            files = {file.resolve(): file for folder in folders for file in folder.rglob(pattern)}
            self._files[key] = sorted(files.values())
        return self._files[key]

    def documents(self, file: str) -> list[Document]:
        """Return the documents of a file; raise SourceError."""
        return self._changed.get(file) or self.cache.documents(file)

    def with_document(self, document: Document) -> Library:
        """Return a library with a changed document in its place in its file; the rest is shared.

        So a fault is planted without writing a file, and positions stay those of the file.
        """
        other = Library(self.cache)
        other._changed = dict(self._changed)
        other._changed[document.file] = [
            document if document_.index == document.index else document_
            for document_ in self.documents(document.file)
        ]
        changed = (document.file, document.index)
        other._pipelines = {key: p for key, p in self._pipelines.items() if key != changed}
        return other

    def prepared(self, item: ScenarioCase) -> Prepared:
        """Return a scenario ready to run; raise SourceError for the first error."""
        return self.assembled(item, self.documents(item.file)[item.index])

    def assembled(self, item: ScenarioCase, document: Document) -> Prepared:
        """Return a scenario from a document that need not be in a file, ready to run."""
        used = tuple(self.used(document, item.row))
        original, filling = document, Filling(document, item.row, used=used)
        document = filling.filled(document)
        scenario = validated(Scenario, document)
        pipeline_document = self._pipeline_document(document, scenario)
        subject = self.subject(pipeline_document, scenario)
        filled = tuple(map(filling.filled, used))
        shared = tuple(validated(Shared, inner) for inner in filled)
        for shared_part, inner in zip(shared, filled, strict=True):
            check_shared(shared_part, inner, subject)
        if isinstance(subject, apps.App) and shared:
            rules = {k: rule for shared_part in shared for k, rule in shared_part.agents.items()}
            subject = msgspec.structs.replace(subject, agents={**rules, **subject.agents})
        check_scenario(scenario, document, subject)
        check_judge(scenario, document)
        return Prepared(
            item, scenario, document, subject, pipeline_document, shared, original, filled, used,
            filling.waiting,
        )  # fmt: skip

    def subject(self, document: Document, scenario: Scenario | None = None) -> Subject:
        """Return the pipeline of a document, declared or code; raise SourceError.

        ``scenario`` is the scenario that names it, and may add options to a pipeline that is code.
        """
        data = document.data
        if isinstance(data, dict) and "scenario" not in data:
            if "code" in data:
                return _in_file(validated(apps.CodePipeline, document), document, scenario)
            if "program" in data:
                return _in_file(validated(apps.ProgramPipeline, document), document, scenario)
        if scenario is not None and isinstance(data, dict) and "scenario" in data:
            return _app(scenario, document)
        return self.pipeline(document)

    def pipeline(self, document: Document) -> Pipeline:
        """Return a pipeline document as the model; raise SourceError."""
        key = document.file, document.index
        if key not in self._pipelines:
            pipeline = validated(Pipeline, document)
            check_pipeline(pipeline, document)
            self._pipelines[key] = pipeline
        return self._pipelines[key]

    def _pipeline_document(self, document: Document, scenario: Scenario) -> Document:
        name = scenario.pipeline
        is_program = (
            scenario.app.input == apps.TURNS and apps.MODULE_NAME.fullmatch(name) is not None
        )
        if (":" in name or is_program) and not name.endswith((PIPELINE_SUFFIX, SCENARIO_SUFFIX)):
            return document
        key = document.file, name
        if key not in self._named:
            self._named[key] = self._document_named(name, document)
        return self._named[key]

    def _document_named(self, name: str, document: Document) -> Document:
        if name.endswith((PIPELINE_SUFFIX, SCENARIO_SUFFIX)):
            file = str(Path(document.file).parent / name)
            if not os.path.isfile(file):
                known = sorted(p.name for p in Path(document.file).parent.glob("*.pipeline.yaml"))
                raise document.error(
                    ("pipeline",),
                    f"there is no file `{name}` beside this one",
                    word=name,
                    known=tuple(known),
                )
            pipelines = _pipelines_in(self.documents(file))
            if len(pipelines) != 1:
                raise document.error(
                    ("pipeline",), f"`{name}` holds {len(pipelines)} pipelines, but must hold one"
                )
            return next(iter(pipelines.values()))
        own_pipelines = _pipelines_in(self.documents(document.file))
        if name not in own_pipelines:
            raise document.error(
                ("pipeline",),
                f"there is no pipeline `{name}` in this file",
                word=name,
                known=tuple(own_pipelines),
                advice=_nearest_name(name, document),
            )
        return own_pipelines[name]

    def used(self, document: Document, row: int | None = None) -> Iterator[Document]:
        """Yield the documents under `use`, inner ones first, with references unresolved.

        Raise SourceError for a file that is not there, uses itself, or holds several documents.
        """
        yield from self._used(document, root_of_files(document, row), ())

    def _used(
        self, document: Document, root: Mapping[str, Any], chain: tuple[str, ...]
    ) -> Iterator[Document]:
        chain = (*chain, document.file)
        folder = Path(document.file).parent
        for index, name in used_files(document, root):
            file, path = str(folder / name), ("use", index)
            if not os.path.isfile(file):
                known = sorted(str(other.relative_to(folder)) for other in folder.rglob("*.yaml"))
                raise document.error(
                    path,
                    f"there is no file `{name}` beside this one",
                    word=name,
                    known=tuple(other for other in known if other == near(name, known)),
                )
            if any(Path(file).resolve() == Path(before).resolve() for before in chain):
                names = " → ".join(Path(file_).name for file_ in (*chain, file))
                raise document.error(path, f"`use` goes round in a circle: {names}")
            documents = self.documents(file)
            if len(documents) != 1:
                raise document.error(path, f"`{name}` must hold one document")
            yield from self._used(documents[0], root, chain)
            yield documents[0]


def _nearest_name(name: str, document: Document) -> str:
    """Describe what to write for an unknown pipeline name."""
    folder = Path(document.file).parent
    file = folder / name
    if file.suffix == ".py":
        return as_imported(f"{name}:{next(iter(names_in(file)), 'run')}")
    if os.path.isfile(file):
        return f"Rename that file to `{name.split('.')[0]}{PIPELINE_SUFFIX}`."
    paths = lookup(document.data, "app.path")
    named = [str(folder / path) for path in paths] if isinstance(paths, list) else []
    advice = meant_by(name, [*named, str(folder), str(Path.cwd())])
    if advice:
        return advice
    if "." in name and FUNCTION_NAME.fullmatch(":".join(name.rsplit(".", 1))):
        return f"A pipeline that is code is named `{':'.join(name.rsplit('.', 1))}`."
    if os.path.isfile(f"{file}{PIPELINE_SUFFIX}"):
        return f"It is in a file of its own: write `pipeline: {name}{PIPELINE_SUFFIX}`."
    files = {each.name.split(".")[0]: each.name for each in folder.glob(f"*{PIPELINE_SUFFIX}")}
    if nearest := near(name.split(".")[0], files):
        return f"Did you mean the file beside this one, `pipeline: {files[nearest]}`?"
    return f"A pipeline in its own file is named with its ending `{PIPELINE_SUFFIX}`."


def _app(scenario: Scenario, document: Document) -> apps.App:
    """Return the code pipeline that a scenario names."""
    is_program = scenario.app.input == apps.TURNS
    if FUNCTION_NAME.fullmatch(scenario.pipeline) is None and not is_program:
        raise document.error(
            ("pipeline",),
            f"`{scenario.pipeline}` is no `module:function`",
            advice=as_imported(scenario.pipeline),
        )
    return apps.App(
        scenario.pipeline,
        scenario.pipeline,
        str(Path(document.file).parent),
        scenario.app,
        scenario.agents,
        scenario.allow_hosts,
        servers=scenario.servers,
    )


def _in_file(
    named: apps.CodePipeline | apps.ProgramPipeline, document: Document, scenario: Scenario | None
) -> apps.App:
    """Return a code pipeline in a file, with the scenario's additions."""
    check_implements(named, document)
    app = apps.App(
        named.pipeline,
        "",
        str(Path(document.file).parent),
        named.app,
        named.agents,
        implements=named.implements,
    )
    if isinstance(named, apps.CodePipeline):
        app = msgspec.structs.replace(
            app, entry=named.code, allow_hosts=named.allow_hosts, servers=named.servers
        )
    else:
        app = msgspec.structs.replace(app, program=named.program, channels=named.channels)
        apps.check_program(document, named.app)
    options = named.app
    if scenario is not None and "app" in scenario.model_fields_set:
        own = {key: getattr(scenario.app, key) for key in scenario.app.model_fields_set}
        options = named.app.model_copy(update=own)
    if app.entry and ":" not in app.entry and options.input != apps.TURNS:
        raise document.error(
            ("code",),
            f"`{app.entry}` is no `module:function`",
            advice=_nearest_name(app.entry, document),
        )
    if scenario is None:
        return app
    return msgspec.structs.replace(
        app,
        options=options,
        agents={**app.agents, **scenario.agents},
        allow_hosts=(*app.allow_hosts, *scenario.allow_hosts),
        servers={**app.servers, **scenario.servers},
    )


def _pipelines_in(documents: list[Document]) -> dict[str, Document]:
    by_name: dict[str, Document] = {}
    for document in documents:
        data = document.data
        if isinstance(data, dict) and is_pipeline(data):
            name = text_of(data["pipeline"]) or ""
            if name in by_name:
                line = by_name[name].line(("pipeline",))
                raise document.error(
                    ("pipeline",), f"pipeline `{name}` is here twice; the first is on line {line}"
                )
            by_name[name] = document
    return by_name


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
    elif isinstance(pipeline, apps.App) and pipeline.entry:
        folders = pipeline.folders()
        if pipeline.options.path or folders != replace(pipeline, folder=str(now)).folders():
            places = [_relative(Path(path), now) for path in folders]
            yield "app", {**tree.get("app", {}), "path": places}
    if "use" in tree:
        names = [tree["use"]] if isinstance(tree["use"], str) else tree["use"]
        yield "use", [_relative(before / name, now) for name in names]


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()
