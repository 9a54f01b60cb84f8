"""Implementation of ``simkit import``: an exported trace becomes a scenario file."""

from __future__ import annotations

import ast
import gzip
import json
import os
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from simkit.capture.telemetry import conventions as names
from simkit.capture.telemetry.conversations import conversations_of
from simkit.capture.telemetry.exports import Export, read_export
from simkit.capture.telemetry.recorded import RecordedConversation
from simkit.capture.telemetry.records import steps_of
from simkit.capture.telemetry.writing import otlp_of
from simkit.cli.init.files import make_folder, root_of, write_new
from simkit.cli.init.first_scenario import AppRequest, app_options
from simkit.cli.init.first_test import options_of
from simkit.cli.selection import pipelines_in
from simkit.cli.traces import Identities, stored, trace_files
from simkit.core.answers import answer, current_answer
from simkit.core.errors import SimkitError, SourceError, TraceError
from simkit.core.output import current_redactor, echo, echo_json, json_document
from simkit.core.stopping import BROKEN
from simkit.core.text import counted, shell_word
from simkit.language.paths import literal
from simkit.language.yaml import DocumentCache
from simkit.report.last_run import FOLDER
from simkit.session.execution import imported
from simkit.spec.scenario.code_names import bindings, file_of
from simkit.spec.scenario.items import PIPELINE_SUFFIX, SCENARIO_SUFFIX, missing, parted
from simkit.spec.scenario.writing import block, comment

_GZIP: Final = b"\x1f\x8b"
_NO_PIPELINE: Final = "your_app:run"
_SUFFIXES: Final = (PIPELINE_SUFFIX, SCENARIO_SUFFIX)
_ORDER: Final = (
    "scenario", "pipeline", "seed", "start", "app", "servers", "agents", "given", "turns",
)  # fmt: skip


def import_trace(
    file: str, pipeline: str, options: Sequence[str], folders: Sequence[str], target: str
) -> int:
    """Write the scenarios of a trace; with a pipeline, run them. Return the exit code.

    Raise SimkitError if the file is no trace, or no scenario can be made of it.
    """
    export = read_export(_content(file), file)
    conversations = conversations_of(steps_of(export))
    stem = Path(file).name.partition(".")[0]
    path = Path(target or f"{stem}{SCENARIO_SUFFIX}")
    complete = [conversation for conversation in conversations if not conversation.refused]
    folders, chosen = tuple(folders), options_of(options)
    requests = [
        AppRequest(name=pipeline or name, messages=(), folders=folders, options=chosen)
        for name in map(_pipeline_of, complete)
    ]
    missing = [*missing_lines(export, conversations), *_missing_pipelines(requests)]
    answer(format=export.format, scenarios=[], missing=missing)
    for line in missing:
        echo(f"missing: {line}")
    if not complete:
        raise TraceError(_nothing_told(file, export, conversations))
    titles = [*_free_names(complete)]
    trees = [scenario_tree(*row, path) for row in zip(complete, titles, requests, strict=True)]
    make_folder(path.parent)
    if not write_new(path, scenarios_text(file, export, trees)):
        raise SimkitError(f"{path}: there is such a file, and nothing is written over it")
    turns = sum(len(tree["turns"]) for tree in trees)
    answer(scenarios=[{"name": title} for title in titles])
    echo(f"{path}: written: {counted(len(trees), 'scenario')}, {counted(turns, 'turn')}")
    if not pipeline:
        echo(f"Next: `simkit replay {shell_word(str(path))}`")
        return 0
    from simkit.cli.plan import RunPlan
    from simkit.cli.replay import ReplayOptions, replay

    form = "json" if current_answer() is not None else "table"
    code = replay(ReplayOptions(plan=RunPlan(paths=(str(path),)), form=form))
    return max(code, BROKEN if len(complete) < len(conversations) else 0)


def _pipeline_of(conversation: RecordedConversation) -> str:
    """Return the pipeline of a run of simkit, its file if that is near; empty for others."""
    name, run = (str(conversation.own.get(key, "")) for key in (names.PIPELINE, names.RUN))
    file = Path(parted(run)[0])
    for path in (file, *sorted(file.parent.glob(f"*{PIPELINE_SUFFIX}"))) if name else ():
        with suppress(SourceError):
            if path.is_file() and pipelines_in(str(path), DocumentCache()) == [name]:
                return path.as_posix()
    return name


def _missing_pipelines(requests: Sequence[AppRequest]) -> Iterator[str]:
    """Yield a line for each pipeline whose place is not known."""
    for name in sorted({request.name for request in requests}):
        if not name:
            yield (
                f"which code the trace is of: write it for `{_NO_PIPELINE}`, or name it with "
                "--pipeline"
            )
        elif ":" not in name and not name.endswith(_SUFFIXES):
            yield f"where pipeline {name!r} is declared: write its file after `pipeline:`"


def _content(file: str) -> bytes:
    try:
        content = Path(file).read_bytes()
        return gzip.decompress(content) if content.startswith(_GZIP) else content
    except FileNotFoundError:
        raise missing(file, ".json", ".jsonl", ".gz", ".pb") from None
    except (OSError, EOFError, zlib.error) as problem:
        why = getattr(problem, "strerror", None) or str(problem)
        raise TraceError(f"{file}: it cannot be read: {why}") from None


def missing_lines(export: Export, conversations: Sequence[RecordedConversation]) -> Iterator[str]:
    yield from export.problems
    for conversation in conversations:
        for line in conversation.missing:
            yield line if len(conversations) == 1 else f"{conversation.name!r}: {line}"
        if not imported.has_whole_contexts(conversation):
            yield (
                "the exporter wrote only the beginning of what models were sent: nothing is "
                "claimed of contexts"
            )
        elif not conversation.refused and not imported.has_instructions(conversation):
            yield "no instructions are in the trace: claims on contexts leave them open"
    if any(not conversation.refused for conversation in conversations):
        for conversation in conversations:
            for line in conversation.refused:
                yield f"{conversation.name!r} is left out: {line}"


def _nothing_told(file: str, export: Export, conversations: Sequence[RecordedConversation]) -> str:
    if not conversations:
        return f"{file}: it is an export of {export.format}, and has no model call"
    lines = dict.fromkeys(f"\n  {line}" for row in conversations for line in row.refused)
    return f"{file}: no scenario can be made of it{''.join(lines)}"


def _free_names(conversations: Sequence[RecordedConversation]) -> Iterator[str]:
    used: dict[str, int] = {}
    for conversation in conversations:
        number = used[conversation.name] = used.get(conversation.name, 0) + 1
        yield conversation.name if number == 1 else f"{conversation.name} ({number})"


def scenario_tree(
    conversation: RecordedConversation, name: str, request: AppRequest, path: Path
) -> dict[str, Any]:
    is_code = ":" in request.name
    app = app_options(request, path, ()) if is_code else {}
    functions = _functions_of(request) if is_code else {}
    pipeline = request.name or _NO_PIPELINE
    if pipeline.endswith(_SUFFIXES):
        pipeline = os.path.relpath(pipeline, path.parent).replace(os.sep, "/")
    return imported.imported_scenario(conversation, name, pipeline, app, functions)


def _functions_of(request: AppRequest) -> Mapping[str, str]:
    """Return the plain functions of the application's module by name: it carries them out."""
    module, folders = request.name.partition(":")[0], [Path.cwd(), *map(Path, request.folders)]
    file = file_of(module, [*map(str, folders), *sys.path])
    if file is None or root_of(request.name, folders) is None:
        return {}
    return {
        name: f"{module}:{name}"
        for name, node in bindings(file)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.decorator_list
    }


def scenarios_text(file: str, export: Export, trees: Sequence[Mapping[str, Any]]) -> str:
    redactor = current_redactor()
    parts = []
    for tree in trees:
        ordered = {key: tree[key] for key in _ORDER if key in tree}
        # References in the app's options are the user's.
        escaped = {k: v if k == "app" else literal(v) for k, v in ordered.items()}
        parts.append("\n".join(["version: 1", *block(redactor.value(escaped), 0), ""]))
    head = comment(f"`simkit import {Path(file).name}` wrote this: {export.format}.")
    return "\n".join([head, "---\n".join(parts)])


# `simkit export`


def export_runs(path: str, target: str) -> int:
    """Write the runs of traces as OTLP JSON, a line each; return 0. Raise SimkitError."""
    files = trace_files(path or FOLDER)
    identities = Identities(DocumentCache())
    runs = [otlp_of(stored(file).view, identities.of(file) or Path(file).stem) for file in files]
    lines = [json_document(json.dumps(run, ensure_ascii=False)) for run in runs]
    if target:
        if not write_new(Path(target), "".join(f"{line}\n" for line in lines)):
            raise SimkitError(f"{target}: there is such a file, and nothing is written over it")
        echo(f"{target}: written: {counted(len(files), 'run')}")
        return 0
    answer(runs=runs)
    if current_answer() is None:
        for line in lines:
            echo_json(line)
    return 0
