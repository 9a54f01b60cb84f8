"""Implementation of ``simkit import``: an exported trace becomes a scenario file."""

from __future__ import annotations

import ast
import gzip
import json
import os
import re
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from simkit.capture.telemetry import conventions as names
from simkit.capture.telemetry.conversations import RecordedConversation, conversations_of
from simkit.capture.telemetry.exports import Export, read_export
from simkit.capture.telemetry.records import steps_of
from simkit.capture.telemetry.writing import otlp_of
from simkit.cli.init.checking import root_of
from simkit.cli.init.files import make_folder, write_new
from simkit.cli.init.first_scenario import AppRequest, app_options
from simkit.cli.init.first_test import options_of
from simkit.cli.traces import stored, trace_files
from simkit.core.answers import answer, current_answer
from simkit.core.errors import SimkitError, TraceError
from simkit.core.output import current_redactor, echo, echo_json, json_document
from simkit.core.stopping import BROKEN
from simkit.core.text import counted, shell_word
from simkit.language.paths import literal
from simkit.report.last_run import FOLDER
from simkit.session.execution.imported import has_whole_contexts, imported_scenario
from simkit.spec.scenario.items import PIPELINE_SUFFIX, SCENARIO_SUFFIX
from simkit.spec.scenario.writing import block, comment

_GZIP: Final = b"\x1f\x8b"
_NO_PIPELINE: Final = "your_app:run"
_ORDER: Final = ("scenario", "pipeline", "app", "servers", "agents", "given", "turns")


def import_trace(
    file: str, pipeline: str, options: Sequence[str], folders: Sequence[str], target: str
) -> int:
    """Write the scenarios of a trace; with a pipeline, run them. Return the exit code.

    Raise SimkitError if the file is no trace, or no scenario can be made of it.
    """
    export = read_export(_content(file), file)
    conversations = conversations_of(steps_of(export))
    stem = Path(file).name.partition(".")[0]
    place = Path(target or f"{stem}{SCENARIO_SUFFIX}")
    complete = [conversation for conversation in conversations if not conversation.refused]
    request = AppRequest(
        name=pipeline, messages=(), folders=tuple(folders), options=options_of(options)
    )
    missing = [*_missing(export, conversations, request)]
    answer(format=export.format, scenarios=[], missing=missing)
    for line in missing:
        echo(f"missing: {line}")
    if not complete:
        raise TraceError(_nothing_told(file, export, conversations))
    titles = [*_free_names(complete)]
    trees = [
        scenario_tree(conversation, name, _of_simkit(request, conversation), place)
        for conversation, name in zip(complete, titles, strict=True)
    ]
    make_folder(place.parent)
    if not write_new(place, scenarios_text(file, export, trees)):
        raise SimkitError(f"{place}: there is such a file, and nothing is written over it")
    turns = sum(len(tree["turns"]) for tree in trees)
    answer(scenarios=titles)
    echo(f"{place}: written: {counted(len(trees), 'scenario')}, {counted(turns, 'turn')}")
    if not pipeline:
        echo(f"Next: `simkit replay {shell_word(str(place))}`")
        return 0
    return _replayed(str(place), is_partial=len(complete) < len(conversations))


def _of_simkit(request: AppRequest, conversation: RecordedConversation) -> AppRequest:
    """Return the request with the pipeline that a run of simkit itself names."""
    name = str(conversation.own.get(names.PIPELINE, ""))
    if request.name or not name:
        return request
    declares = re.compile(rf"^pipeline: *['\"]?{re.escape(name)}['\"]? *(#.*)?$", re.MULTILINE)
    files = [
        file
        for file in sorted(Path().glob(f"**/*{PIPELINE_SUFFIX}"))
        if declares.search(file.read_text(encoding="utf-8", errors="replace"))
    ]
    return replace(request, name=files[0].as_posix() if len(files) == 1 else name)


def _content(file: str) -> bytes:
    try:
        content = Path(file).read_bytes()
        return gzip.decompress(content) if content.startswith(_GZIP) else content
    except (OSError, EOFError, zlib.error) as problem:
        why = getattr(problem, "strerror", None) or str(problem)
        raise TraceError(f"{file}: it cannot be read: {why}") from None


def _missing(
    export: Export, conversations: Sequence[RecordedConversation], request: AppRequest
) -> Iterator[str]:
    yield from export.problems
    for conversation in conversations:
        for line in conversation.missing:
            yield line if len(conversations) == 1 else f"{conversation.name!r}: {line}"
        if not has_whole_contexts(conversation):
            yield (
                "the exporter wrote only the beginning of what models were sent: nothing is "
                "claimed of contexts"
            )
        elif not conversation.refused and not _has_systems(conversation):
            yield "no instructions are in the trace: claims on contexts leave them open"
    if any(not conversation.refused for conversation in conversations):
        for conversation in conversations:
            for line in conversation.refused:
                yield f"{conversation.name!r} is left out: {line}"
        yield from _missing_pipelines({_of_simkit(request, row).name for row in conversations})


def _missing_pipelines(pipelines: Collection[str]) -> Iterator[str]:
    for name in sorted(pipelines):
        if name and ":" not in name and not name.endswith(PIPELINE_SUFFIX):
            yield f"where pipeline {name!r} is declared: write its file after `pipeline:`"
    if "" in pipelines:
        yield (
            f"which code the trace is of: write it for `{_NO_PIPELINE}`, or name it with --pipeline"
        )


def _has_systems(conversation: RecordedConversation) -> bool:
    calls = [call for turn in conversation.turns for call in turn.calls]
    return not any(call.messages for call in calls) or any(
        message.role == "system" for call in calls for message in call.messages or ()
    )


def _nothing_told(file: str, export: Export, conversations: Sequence[RecordedConversation]) -> str:
    if not conversations:
        return f"{file}: it is an export of {export.format}, and has no model call"
    lines = [line for conversation in conversations for line in conversation.refused]
    return "\n".join(
        [f"{file}: no scenario can be made of it", *(f"  {line}" for line in dict.fromkeys(lines))]
    )


def _free_names(conversations: Sequence[RecordedConversation]) -> Iterator[str]:
    used: dict[str, int] = {}
    for conversation in conversations:
        number = used[conversation.name] = used.get(conversation.name, 0) + 1
        yield conversation.name if number == 1 else f"{conversation.name} ({number})"


def scenario_tree(
    conversation: RecordedConversation, name: str, request: AppRequest, place: Path
) -> dict[str, Any]:
    is_code = ":" in request.name
    app = app_options(request, place, ()) if is_code else {}
    functions = _functions_of(request) if is_code else {}
    pipeline = request.name or _NO_PIPELINE
    if pipeline.endswith(PIPELINE_SUFFIX):
        pipeline = os.path.relpath(pipeline, place.parent).replace(os.sep, "/")
    return imported_scenario(conversation, name, pipeline, app, functions)


def _functions_of(request: AppRequest) -> Mapping[str, str]:
    """Return the plain functions of the application's module by name: it carries them out."""
    module = request.name.partition(":")[0]
    root = root_of(request.name, [Path.cwd(), *map(Path, request.folders)])
    if root is None:
        return {}
    stem = Path(root, *module.split("."))
    for path in (stem.with_suffix(".py"), stem / "__init__.py"):
        try:
            body = ast.parse(path.read_text(encoding="utf-8")).body
        except (OSError, SyntaxError, ValueError):
            continue
        plain = (node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
        return {n.name: f"{module}:{n.name}" for n in plain if not n.decorator_list}
    return {}


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


def _replayed(place: str, *, is_partial: bool) -> int:
    """Run the scenarios against today's code; say what it sends otherwise."""
    from simkit.cli.plan import RunPlan
    from simkit.cli.replay import ReplayOptions, replay

    form = "json" if current_answer() is not None else "table"
    code = replay(ReplayOptions(plan=RunPlan(paths=(place,)), form=form))
    return max(code, BROKEN if is_partial else 0)


# `simkit export`


def export_runs(path: str, target: str) -> int:
    """Write the runs of traces as OTLP JSON, a line each; return 0. Raise SimkitError."""
    files = trace_files(path or FOLDER)
    lines = [
        json.dumps(otlp_of(stored(file).view, Path(file).stem), ensure_ascii=False)
        for file in files
    ]
    text = "\n".join([*map(json_document, lines), ""])
    if target:
        if not write_new(Path(target), text):
            raise SimkitError(f"{target}: there is such a file, and nothing is written over it")
        echo(f"{target}: written: {counted(len(files), 'run')}")
        return 0
    answer(runs=[json.loads(line) for line in lines])
    if current_answer() is None:
        for line in lines:
            echo_json(line)
    return 0
