"""The first scenario of an app: the app is run once, and a scenario written that holds."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from simkit.checks.findings import CLAIM, Finding
from simkit.checks.judge import Outcome
from simkit.cli.console import Progress, output_to_stderr, paint_for
from simkit.cli.init.files import write_new
from simkit.core.errors import SimkitError
from simkit.core.redact import Redactor
from simkit.language.paths import literal
from simkit.language.yaml import load_text
from simkit.providers.values import Offer
from simkit.report.text import findings_text
from simkit.session.execution.alone import replayed_alone, root_of
from simkit.session.execution.first_run import (
    UNMARKED,
    FirstRun,
    first_run,
)
from simkit.session.execution.first_scenario import agents_of, scenario_of
from simkit.session.execution.scaffold import ScaffoldedReplies
from simkit.session.located_errors import placed
from simkit.session.simulate import Conversation, simulate
from simkit.spec.lint_catalogue import LINTS
from simkit.spec.scenario.apps import TURNS, App
from simkit.spec.scenario.code_names import folder_with
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.items import SCENARIO_SUFFIX, ScenarioCase
from simkit.spec.scenario.writing import block
from simkit.trace.views import view_of
from simkit.update.merging import changed_text
from simkit.update.proposals import additions

_MANY = 1_000
"""The limit of runs and calls of a first run, of which nothing is known yet."""


class AppRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request for a first scenario: the app, and how it is run."""

    name: str
    """``module:name``, a module, or either by its file."""
    messages: tuple[str, ...]
    call: str = ""
    folders: tuple[str, ...] = ()
    """The folders of the app's modules, beside the working directory."""
    is_program: bool = False
    """Whether the app reads the messages itself."""
    is_recorded: bool = False
    """Whether the providers answer."""
    options: Mapping[str, Any] = {}
    """Further options of the app, as under `app:`."""


class FirstScenario(msgspec.Struct, frozen=True):
    """A first scenario that was written."""

    offers: tuple[tuple[str, Offer], ...]
    """The tools that models were offered, each with the agent."""
    functions: Mapping[str, str]
    """Tool to its function, where a stand-in can replace it."""


def write_first(request: AppRequest, file: Path, source: ScaffoldedReplies | None) -> FirstScenario:
    """Write the first scenario of an app, which holds.

    The app's models are answered by a source, by their providers without one. Raise SimkitError
    if the app fails, or if a scenario cannot express what it does.
    """
    redactor = Redactor(os.environ)
    progress = Progress()
    progress.begin(f"running {request.name}")
    try:
        first_run = _first_run_of(request, file, source)
    finally:
        progress.end()
    if not first_run.calls:
        raise SimkitError(
            f"`{request.name}` called no model that simkit knows: there is nothing to write\n"
            "  `simkit doctor` says which client libraries are seen."
        )
    make = partial(
        scenario_of,
        first_run,
        file.name.removesuffix(SCENARIO_SUFFIX).replace("_", " "),
        request.name,
        user_texts=request.messages,
    )
    app = _app(request, file, functions=first_run.functions.values())
    tree = redactor.value(make(app))
    text, problems = _holding(file, tree, redactor)
    if problems and any(used.tool in first_run.functions for used in first_run.used):
        # A tool's change inside the app is no result that could replace the call.
        without = redactor.value(make(app, with_tools=False))
        text, others = _holding(file, without, redactor)
        tree, problems = (tree, problems) if others else (without, ())
    if problems:
        report = findings_text(problems, paint_for(False))
        raise SimkitError(
            f"{file}: not written, since a scripted run differs from this one:\n{report}"
        )
    if not _holds_again(file, text):
        tree = {**tree, "app": {**tree.get("app", {}), "fresh": True}}
        text, _ = _holding(file, tree, redactor)
    if redactor.text(text) != text:
        raise SimkitError(f"{file}: not written: it would hold a secret that the app sends itself")
    file.parent.mkdir(parents=True, exist_ok=True)
    if not write_new(file, text):
        raise SimkitError(f"{file}: there is such a file, and nothing is written over it")
    if replayed_alone(str(file)):
        # Some part of the contexts is new in every process.
        text, _ = _holding(file, tree, redactor, with_contexts=False)
        file.write_text(text, encoding="utf-8", newline="\n")
        _check_alone(file)
    return FirstScenario(tuple(_offers_of(first_run)), first_run.functions)


def _offers_of(first_run: FirstRun) -> Iterator[tuple[str, Offer]]:
    """Yield the tools that each call offered, with its agent."""
    for agent, call in zip(agents_of(first_run), first_run.calls, strict=True):
        yield from ((agent, offer) for offer in call.model_request.offers)


def _check_alone(file: Path) -> None:
    """Replay the file as a user would; raise SimkitError, and remove it, if it fails."""
    failed = replayed_alone(str(file))
    if failed:
        file.unlink()
        raise SimkitError(
            f"{file}: not written, since it does not hold in a new process:\n{failed}\n"
            "  Say with --path from which folder the app's modules are imported."
        )


def _app(
    request: AppRequest, file: Path, functions: Collection[str] | None = None
) -> dict[str, Any]:
    """Return the app's options: those of the first run, or with its tools' ``functions`` those of
    the scenario, which names folders only if its modules would not be found without them."""
    root = folder_with(request.name.partition(":")[0], Path.cwd())
    folders = [Path.cwd(), *(Path(folder).resolve() for folder in request.folders)]
    folders += [root] if root is not None and root not in folders else []
    scenario_folder = file.resolve().parent
    app = dict(request.options)
    if functions is None or not _are_found(request, functions, scenario_folder):
        root = root_of(request.name, folders) if functions is not None else None
        if root is not None and root not in folders:
            folders.append(root)
        named = [os.path.relpath(f, scenario_folder).replace(os.sep, "/") for f in folders]
        app["path"] = [*app.get("path", ()), *named]
    if request.is_program:
        app["input"] = TURNS
    if request.call:
        app["call"] = request.call
    return app


def _are_found(request: AppRequest, functions: Collection[str], folder: Path) -> bool:
    """Return whether all modules are found where they were imported from, or are installed, and
    no other folder is named."""
    named = [Path(path).resolve() for path in request.folders]
    roots = set()
    for name in (request.name, *functions):
        module, root = name.partition(":")[0], root_of(name, [Path.cwd(), *named])
        if root is not None and folder_with(module, folder) != root:
            return False
        roots.add(root)
    return roots.issuperset(named)


def _first_run_of(request: AppRequest, file: Path, source: ScaffoldedReplies | None) -> FirstRun:
    """Run the app once; unattributed calls belong to one agent so far."""
    tree = {
        "scenario": str(file),
        "pipeline": request.name,
        "app": _app(request, file),
        "limits": dict.fromkeys(
            ("agent_runs_per_turn", "model_calls_per_run", "handoffs_per_turn"), _MANY
        ),
        "turns": [{"user": text} for text in request.messages],
    }
    prepared = _prepared(str(file), _text(tree))
    assert isinstance(prepared.pipeline, App)
    # An earlier try leaves its modules behind, for a try that cannot import them again.
    home = prepared.pipeline.entry.partition(":")[0].partition(".")[0]
    app = msgspec.structs.replace(
        prepared.pipeline, fallback=UNMARKED, is_apart=home in sys.modules
    )
    again = msgspec.structs.replace(app, is_apart=False)
    with output_to_stderr(), placed(prepared):
        try:
            return first_run(msgspec.structs.replace(prepared, pipeline=app), source)
        except SimkitError as problem:
            if not app.is_apart or not is_import_failure(problem):
                raise
            return first_run(msgspec.structs.replace(prepared, pipeline=again), source)


def is_import_failure(problem: SimkitError) -> bool:
    """Return whether an app's modules cannot be imported."""
    return ": importing " in str(problem)


def _holding(
    file: Path, tree: Mapping[str, Any], redactor: Redactor, *, with_contexts: bool = True
) -> tuple[str, Sequence[Finding]]:
    """Return a scenario's text with claims, and the remaining findings.

    Lints that the app breaks are turned off in the text: the app is not simkit's.
    """
    claimed = partial(_claimed, str(file), redactor=redactor, with_contexts=with_contexts)
    text = claimed(_text(tree))
    findings = _outcome(_prepared(str(file), text)).judgement.findings
    lints = [finding.id for finding in findings if finding.id != CLAIM and not finding.breaks]
    if lints:
        reasons = {finding: f"the first run did so: {LINTS[finding].name}" for finding in lints}
        text = claimed(_text({**tree, "lints": reasons}))
        findings = _outcome(_prepared(str(file), text)).judgement.findings
    return text, findings


def _holds_again(file: Path, text: str) -> bool:
    """Return whether a scenario holds a second time in one process, as beside others of the app."""
    prepared = _prepared(str(file), text)
    assert isinstance(prepared.pipeline, App)
    app = msgspec.structs.replace(prepared.pipeline, is_apart=False)
    shared = msgspec.structs.replace(prepared, pipeline=app)
    with _silence():
        try:
            return not [simulate(shared) for _ in range(2)][-1].judgement.findings
        except SimkitError:
            # Its modules cannot be imported twice, so that `fresh` would not help.
            return True


def _outcome(prepared: Prepared) -> Outcome:
    """Run a scenario with modules of its own, in a new process if they cannot be imported twice
    in this one, as tables of a database that is declared in them."""
    with _silence():
        with contextlib.suppress(SimkitError):
            return simulate(prepared)
        with Conversation(prepared, is_apart=True) as conversation:
            conversation.follow(prepared)
            return conversation.finish()


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Drop what the app prints: it did so in its first run."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def _claimed(file: str, text: str, redactor: Redactor, *, with_contexts: bool) -> str:
    """Return the text with claims for each turn; after a claimed error, for the next."""
    names = ("context",) if with_contexts else ()
    while True:
        prepared = _prepared(file, text)
        view = view_of(_outcome(prepared).trace.events)
        proposal = additions(prepared, view, redactor, with_contexts=with_contexts, names=names)
        longer, _ = changed_text(file, text, [proposal])
        if longer == text:
            return text
        text = longer


def _text(tree: Mapping[str, Any]) -> str:
    order = ("scenario", "pipeline", "app", "lints", "agents", "limits", "turns")
    ordered = {key: tree[key] for key in order if key in tree}
    # References in the app's options are the user's.
    escaped = {k: value if k == "app" else literal(value) for k, value in ordered.items()}
    return "\n".join([*block(escaped, 0), ""])


def _prepared(file: str, text: str) -> Prepared:
    (document,) = load_text(text, file)
    item = ScenarioCase(file, str(document.data["scenario"]), 0, 1)
    prepared = Library().assembled(item, document)
    assert isinstance(prepared.pipeline, App)
    # State in its modules must not reach the next run: a new process does not have it.
    app = msgspec.structs.replace(prepared.pipeline, is_apart=True)
    return msgspec.structs.replace(prepared, pipeline=app)
