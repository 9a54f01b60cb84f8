"""Implementation of ``simkit record --new``: run an app once, and write a scenario from it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from simkit.capture.cassettes import Keying, load
from simkit.checks.findings import CLAIM, Finding
from simkit.cli.console import Progress, paint_for
from simkit.cli.init.files import write_new
from simkit.core.errors import SimkitError
from simkit.core.output import echo
from simkit.core.redact import Redactor
from simkit.core.text import counted
from simkit.language.yaml import load_text
from simkit.report.text import findings_text
from simkit.session.execution.alone import replayed_alone, root_of
from simkit.session.execution.first_run import UNMARKED, FirstRun, first_run
from simkit.session.execution.first_scenario import scenario_of
from simkit.session.simulate import placed, run, simulate
from simkit.spec.lint_catalogue import LINTS
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.items import SCENARIO_SUFFIX, ScenarioCase
from simkit.spec.scenario.writing import block
from simkit.trace.views import view_of
from simkit.update import additions, changed_text

_MANY = 1_000
"""The limit of runs and calls of a first run, of which nothing is known yet."""


class First(msgspec.Struct, frozen=True):
    """The user's options."""

    name: str
    pipeline: str
    messages: tuple[str, ...]
    call: str = ""
    cassette: str = ""
    folders: tuple[str, ...] = ()
    """The folders of the app's modules, beside the working directory."""


def write_first(first: First) -> int:
    """Write the first scenario of an app, which holds; return the exit code.

    Raise SimkitError if the app fails, or if a scenario cannot express what it does.
    """
    file = Path(first.name.removesuffix(SCENARIO_SUFFIX) + SCENARIO_SUFFIX)
    _refuse_what_is_there(file)
    redactor = Redactor(os.environ)
    progress = Progress()
    progress.begin(f"running {first.pipeline}")
    try:
        first_run = _first_run_of(first, file, redactor)
    finally:
        progress.end()
    if not first_run.calls:
        raise SimkitError(
            f"`{first.pipeline}` called no model that simkit knows: there is nothing to write\n"
            "  `simkit doctor` says which client libraries are seen."
        )
    make = partial(
        scenario_of,
        first_run,
        file.name.removesuffix(SCENARIO_SUFFIX).replace("_", " "),
        first.pipeline,
        _app(first, file, with_paths=True),
        first.messages,
    )
    tree = redactor.value(make())
    text, problems = _holding(str(file), tree, redactor)
    if problems and any(used.tool in first_run.functions for used in first_run.used):
        # A tool's change inside the app is no result that could replace the call.
        without = redactor.value(make(with_tools=False))
        text, others = _holding(str(file), without, redactor)
        tree, problems = (tree, problems) if others else (without, ())
    if problems:
        report = findings_text(problems, paint_for(False))
        raise SimkitError(
            f"{file}: not written, since a scripted run differs from this one:\n{report}"
        )
    if redactor.text(text) != text:
        raise SimkitError(f"{file}: not written: it would hold a secret that the app sends itself")
    file.parent.mkdir(parents=True, exist_ok=True)
    if not write_new(file, text):
        _refuse_what_is_there(file)
    if replayed_alone(str(file)):
        # Some part of the contexts is new in every process.
        text, _ = _holding(str(file), tree, redactor, with_contexts=False)
        file.write_text(text, encoding="utf-8", newline="\n")
    _check_alone(file)
    _tell(file, text)
    return 0


def _check_alone(file: Path) -> None:
    """Replay the file as a user would; raise SimkitError, and remove it, if it fails."""
    failed = replayed_alone(str(file))
    if failed:
        file.unlink()
        raise SimkitError(
            f"{file}: not written, since it does not hold in a new process:\n{failed}\n"
            "  Say with --path from which folder the app's modules are imported."
        )


def _refuse_what_is_there(file: Path) -> None:
    if os.path.lexists(file):
        raise SimkitError(f"{file}: there is such a file, and nothing is written over it")


def _app(first: First, file: Path, *, with_paths: bool = False) -> dict[str, Any]:
    """Return the app's options; with ``with_paths``, also the folder of its module."""
    folders = [Path.cwd(), *(Path(folder).resolve() for folder in first.folders)]
    root = root_of(first.pipeline) if with_paths else None
    if root is not None and root not in folders:
        folders.append(root)
    scenario_folder = file.resolve().parent
    path = [os.path.relpath(folder, scenario_folder).replace(os.sep, "/") for folder in folders]
    return {"path": path, **({"call": first.call} if first.call else {})}


def _first_run_of(first: First, file: Path, redactor: Redactor) -> FirstRun:
    """Run the app once; unattributed calls belong to one agent so far."""
    tree = {
        "version": 1,
        "scenario": first.name,
        "pipeline": first.pipeline,
        "app": _app(first, file),
        "agents": {UNMARKED: {"messages": {"$any": True}}},
        "limits": dict.fromkeys(
            ("agent_runs_per_turn", "model_calls_per_run", "handoffs_per_turn"), _MANY
        ),
        "turns": [{"user": text} for text in first.messages],
    }
    prepared = _prepared(str(file), _text(tree))
    cassette = load(first.cassette) if first.cassette else None
    # Output of a user's function is no part of the report.
    with contextlib.redirect_stdout(sys.stderr), placed(prepared):
        return first_run(prepared, cassette, Keying(redactor))


def _holding(
    file: str, tree: Mapping[str, Any], redactor: Redactor, *, with_contexts: bool = True
) -> tuple[str, Sequence[Finding]]:
    """Return a scenario's text with claims, and the remaining findings.

    Lints that the app breaks are turned off in the text: the app is not simkit's.
    """
    claimed = partial(_claimed, file, redactor=redactor, with_contexts=with_contexts)
    text = claimed(_text(tree))
    with contextlib.redirect_stdout(sys.stderr):
        findings = simulate(_prepared(file, text)).judgement.findings
    lints = [finding.id for finding in findings if finding.id != CLAIM and not finding.breaks]
    if lints:
        reasons = {finding: f"the first run did so: {LINTS[finding].name}" for finding in lints}
        text = claimed(_text({**tree, "lints": reasons}))
        with contextlib.redirect_stdout(sys.stderr):
            findings = simulate(_prepared(file, text)).judgement.findings
    return text, findings


def _claimed(file: str, text: str, redactor: Redactor, *, with_contexts: bool) -> str:
    """Return the text with claims for each turn; after a claimed error, for the next."""
    while True:
        prepared = _prepared(file, text)
        with contextlib.redirect_stdout(sys.stderr):
            view = view_of(run(prepared).events)
        proposal = additions(prepared, view, redactor, with_contexts=with_contexts)
        longer, _ = changed_text(file, text, [proposal])
        if longer == text:
            return text
        text = longer


def _text(tree: Mapping[str, Any]) -> str:
    order = ("version", "scenario", "pipeline", "app", "lints", "agents", "limits", "turns")
    ordered = {key: tree[key] for key in order if key in tree}
    return "\n".join([*block(_literal(ordered), 0), ""])


def _literal(value: Any) -> Any:
    """Return a value that a scenario reads as it is, without references."""
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, Mapping):
        return {_literal(key): _literal(inner) for key, inner in value.items()}
    return [_literal(inner) for inner in value] if isinstance(value, list | tuple) else value


def _prepared(file: str, text: str) -> Prepared:
    (document,) = load_text(text, file)
    return Library().assembled(ScenarioCase(file, str(document.data["scenario"]), 0, 1), document)


def _tell(file: Path, text: str) -> None:
    (document,) = load_text(text, str(file))
    agents = {agent for turn in document.data["turns"] for agent in turn.get("replies", {})}
    echo(
        f"{file}: {counted(len(document.data['turns']), 'turn')}, "
        f"{counted(len(agents), 'agent')}: {', '.join(sorted(agents))}"
    )
    echo(f"It holds: `simkit replay {file}`. Read its claims: they say what is.")
