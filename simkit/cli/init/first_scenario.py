"""The first scenario of an app: the app is run once, and a scenario made that holds.

Each run is in a copy of one process that has imported the app and run nothing.
"""

from __future__ import annotations

import contextlib
import copy
import io
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from simkit.checks.coverage import Measurement
from simkit.checks.findings import CLAIM, Finding
from simkit.cli.console import Progress, paint_for
from simkit.cli.init.files import root_of
from simkit.cli.init.project import TEXTS
from simkit.core.errors import SimkitError
from simkit.core.redact import Redactor
from simkit.core.text import shell_word
from simkit.language.paths import literal
from simkit.language.yaml import load_text
from simkit.report.text import findings_text
from simkit.session.execution.applications import OwnProcesses
from simkit.session.execution.first_run import UNMARKED, FirstRun, ScaffoldedReplies, first_run
from simkit.session.execution.first_scenario import (
    reach_of,
    scenario_of,
    uncalled_tools,
    with_calls,
)
from simkit.session.execution.running import placed
from simkit.session.simulate import simulate
from simkit.session.workers import WorkerDied
from simkit.spec.lint_catalogue import LINTS
from simkit.spec.scenario.apps import TURNS, App
from simkit.spec.scenario.code_names import folder_with
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.items import SCENARIO_SUFFIX, ScenarioCase
from simkit.spec.scenario.writing import block
from simkit.trace.store import Trace
from simkit.trace.views import view_of
from simkit.trace.views.prefixes import shows_past
from simkit.update.proposals import additions, changed_text

_MANY = 1_000
"""The limit of runs and calls of a first run, of which nothing is known yet."""

_NEXT: Final = {"user": "And what happens next?"}
_FURTHER: Final = (
    (_NEXT, {"user": "Is that all?"}, {"user": "Good morning", "session": "other"}),
    (_NEXT,),
)
"""The turns that follow a single message, the likeliest to find faults first."""
_CLAIMS: Final = ("context", "handoffs", "state")


class AppRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request for a first scenario: the app, and how it is run."""

    name: str
    """``module:name``, a module, or either by its file."""
    messages: tuple[str, ...]
    replies: tuple[str, ...] = ()
    """The first answers of models; scaffolded replies follow."""
    call: str = ""
    folders: tuple[str, ...] = ()
    """The folders of the app's modules, beside the working directory."""
    is_program: bool = False
    """Whether the app reads the messages itself."""
    is_recorded: bool = False
    """Whether the providers answer."""
    options: Mapping[str, Any] = {}
    """Further options of the app, as under `app:`."""
    further: Sequence[Mapping[str, str]] = ()
    """The turns after the messages."""

    def turns(self) -> list[Mapping[str, str]]:
        """Return the turns, without replies."""
        return [*({"user": text} for text in self.messages), *self.further]


class FirstScenario(msgspec.Struct, frozen=True):
    """A first scenario that holds."""

    app: App
    """The app as it was run first."""
    tree: Mapping[str, Any]
    """The scenario without claims."""
    text: str
    """The scenario with them."""
    notes: Sequence[str]
    """The parts of the app that it never reaches, and how to reach them."""


def _left_out(request: AppRequest, ran: _Twice, prepared: Prepared, folder: Path) -> Iterator[str]:
    """Yield what a scenario never reaches of its app, and what to type for it."""
    view, measured = view_of(ran.trace.events), Measurement()
    measured.add(prepared.pipeline, prepared.pipeline_document, view)
    missed: dict[str, list[str]] = {"agents": [], "tools": [], "handoffs": []}
    for item in measured.items():
        if not item.hits and item.kind in missed and not item.name.endswith(" failed"):
            missed[item.kind].append(item.name.removesuffix(" answered"))
    listing = "; ".join(f"{kind} {', '.join(names)}" for kind, names in missed.items() if names)
    how = f"`simkit coverage {shell_word(folder.as_posix())}` says what to write for each"
    if missed["agents"]:
        app = shell_word(request.name)
        how = f"`simkit init --app {app} --reply TEXT`, the text with which a model leads there"
    if listing:
        yield f"never reached: {listing}"
        yield f"To reach them: {how}."
    if len(view.turns) > 1 and not shows_past(view):
        yield TEXTS["shares_nothing"]


def first_scenario(
    request: AppRequest, file: Path, source: ScaffoldedReplies | None
) -> FirstScenario:
    """Return the first scenario of an app, which holds.

    The app's models are answered by a source, by their providers without one. Raise SimkitError
    if the app fails, or if a scenario cannot express what it does.
    """
    redactor = Redactor(os.environ)
    prepared = _first_prepared(request, file)
    assert isinstance(prepared.pipeline, App)
    with _running(prepared.pipeline, str(file), request.is_recorded) as runs:
        first_run, request = _observed(runs, request, file, source)
        if not first_run.calls:
            raise SimkitError(
                f"`{request.name}` called no model that simkit knows: there is nothing to write\n"
                "  `simkit doctor` says which client libraries are seen."
            )
        trees = [_redacted(tree, redactor) for tree in _trees(first_run, request, file)]
        for tree in trees:
            try:
                text, ran = _holding(runs, tree, redactor)
            except SimkitError:
                if tree is trees[-1]:
                    raise
                continue
            if not ran.findings:
                break
        if ran.findings:
            report = findings_text(ran.findings, paint_for(False))
            raise SimkitError(
                f"{file}: not written, since a scripted run differs from this one:\n"
                f"{report}\n  If it keeps anything in files, give each run a new folder:\n"
                "  --option setup=MODULE:FUNCTION, a function that changes into one."
            )
        if not ran.holds_again:
            tree = {**tree, "app": {**tree.get("app", {}), "fresh": True}}
            text, _ = _holding(runs, tree, redactor)
    if redactor.text(text) != text:
        raise SimkitError(f"{file}: not written: it would hold a secret that the app sends itself")
    notes = _left_out(request, ran, _prepared(str(file), text), file.parent)
    return FirstScenario(prepared.pipeline, tree, text, [*notes])


def _redacted(tree: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    """Return a scenario without secrets; a header of the command line stays unless it is a key."""
    without: dict[str, Any] = redactor.value(tree)
    for name, value in tree.get("app", {}).get("headers", {}).items():
        without["app"]["headers"][name] = redactor.value(value)
    return without


def text_without_contexts(first: FirstScenario, file: Path) -> str:
    """Return the text of a first scenario without claims on contexts."""
    with _running(first.app, str(file), keeps_keys=False) as runs:
        return _holding(runs, first.tree, Redactor(os.environ), with_contexts=False)[0]


def _observed(
    runs: _Runs, request: AppRequest, file: Path, source: ScaffoldedReplies | None
) -> tuple[FirstRun, AppRequest]:
    """Return the app's first run, and the request with the messages of all its turns.

    Where instructions let a model choose among words, it is the run that reaches more.
    """
    observed = _longest(runs, request, file, source)
    if source is not None and (wordy := source.in_words()) is not None:
        with contextlib.suppress(SimkitError):
            other = _longest(runs, request, file, wordy)
            if len(reach_of(other[0])) > len(reach_of(observed[0])):
                vars(source).update(vars(wordy))
                return other
    return observed


def _longest(
    runs: _Runs, request: AppRequest, file: Path, source: ScaffoldedReplies | None
) -> tuple[FirstRun, AppRequest]:
    """Return a first run of several turns, if the app takes them, and the request with them.

    A single message gets further turns, which show what the first one leaves behind: not where
    the app fails in them, or asks no model.
    """
    for further in _FURTHER if source is not None and len(request.messages) == 1 else ():
        longer = msgspec.structs.replace(request, further=further)
        own_source = copy.deepcopy(source)
        with contextlib.suppress(SimkitError):
            run = runs.first(_first_prepared(longer, file), own_source)
            if {call.turn for call in run.calls}.issuperset(range(len(longer.turns()))):
                vars(source).update(vars(own_source))
                return run, longer
    return runs.first(_first_prepared(request, file), source), request


def _trees(first: FirstRun, request: AppRequest, file: Path) -> Iterator[dict[str, Any]]:
    """Yield scenarios of a first run, the one that tests most first; others where it fails."""
    name = file.name.removesuffix(SCENARIO_SUFFIX).replace("_", " ")
    make = partial(scenario_of, first, name, request.name, turns=request.turns())
    app = app_options(request, file, functions=first.functions.values())
    tree = make(app)
    if not request.is_recorded and (tools := uncalled_tools(first)):
        yield with_calls(tree, tools, first.functions)
        yield with_calls(tree, dict([*tools.items()][:1]), first.functions)
    yield tree
    if any(used.tool in first.functions for used in first.used):
        # A tool's change inside the app is no result that could replace the call.
        yield make(app, with_tools=False)


def app_options(
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


def _first_prepared(request: AppRequest, file: Path) -> Prepared:
    """Return the app's first run as a scenario; unattributed calls belong to one agent so far."""
    tree = {
        "scenario": str(file),
        "pipeline": request.name,
        "app": app_options(request, file),
        "limits": dict.fromkeys(
            ("agent_runs_per_turn", "model_calls_per_run", "handoffs_per_turn"), _MANY
        ),
        "turns": request.turns(),
    }
    prepared = _prepared(str(file), _text(tree))
    assert isinstance(prepared.pipeline, App)
    app = msgspec.structs.replace(prepared.pipeline, fallback=UNMARKED)
    return msgspec.structs.replace(prepared, pipeline=app)


class _Twice(msgspec.Struct, frozen=True):
    """Two runs of a scenario in one process, as beside others of the app."""

    trace: Trace
    findings: Sequence[Finding]
    """The findings of the first."""
    holds_again: bool = True
    """Whether the second has none."""


class _Runs:
    """The runs of an app, each in a copy of a process that has imported it."""

    def __init__(self, processes: OwnProcesses, app: App, file: str) -> None:
        self._processes, self._app = processes, app
        self.file = file

    def first(self, prepared: Prepared, source: ScaffoldedReplies | None) -> FirstRun:
        """Return the app's first run; raise SimkitError if it fails.

        The source has then noted what it decided.
        """
        with placed(prepared):
            result, replies = self._call(_first_run, prepared, source)
            if source is not None:
                vars(source).update(vars(replies))
            if isinstance(result, SimkitError):
                raise result
        run: FirstRun = result
        return run

    def twice(self, prepared: Prepared) -> _Twice:
        """Run a scenario twice in one process; raise SimkitError if it cannot be run."""
        result: _Twice = self._call(_twice, prepared)
        return result

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        messages: list[Any] = []
        try:
            return self._processes.call(self._app, function, *arguments, hear=messages.append)
        except WorkerDied as death:
            how = next((fact for fact in messages if isinstance(fact, str)), death.how)
            raise SimkitError(f"the app's process ended: {how}") from None


@contextlib.contextmanager
def _running(app: App, file: str, keeps_keys: bool) -> Iterator[_Runs]:
    """Give the runs of an app, and show meanwhile that it runs."""
    with contextlib.closing(OwnProcesses([app], keeps_keys)) as processes, Progress() as progress:
        progress.begin(f"running {app.entry}")
        yield _Runs(processes, app, file)


def _holding(
    runs: _Runs, tree: Mapping[str, Any], redactor: Redactor, *, with_contexts: bool = True
) -> tuple[str, _Twice]:
    """Return a scenario's text with claims, and its runs.

    Lints that the app breaks are turned off in the text: the app is not simkit's.
    """
    claimed = partial(_claimed, runs, redactor=redactor, with_contexts=with_contexts)
    text, ran = claimed(_text(tree))
    lints = [finding.id for finding in ran.findings if finding.id != CLAIM and not finding.breaks]
    if lints:
        reasons = {finding: f"the first run did so: {LINTS[finding].name}" for finding in lints}
        text, ran = claimed(_text({**tree, "lints": reasons}))
    return text, ran


def _claimed(
    runs: _Runs, text: str, redactor: Redactor, *, with_contexts: bool
) -> tuple[str, _Twice]:
    """Return the text with claims for each turn, and its runs.

    After a claimed error there are claims for the next turn, too.
    """
    names = _CLAIMS if with_contexts else ()
    while True:
        prepared = _prepared(runs.file, text)
        ran = runs.twice(prepared)
        view = view_of(ran.trace.events)
        proposal = additions(prepared, view, redactor, with_contexts=with_contexts, names=names)
        longer, _ = changed_text(runs.file, text, [proposal])
        if longer == text:
            return text, ran
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
    return Library().assembled(item, document)


# In the copies


def _first_run(
    prepared: Prepared, source: ScaffoldedReplies | None
) -> tuple[FirstRun | SimkitError, ScaffoldedReplies | None]:
    try:
        return first_run(prepared, source), source
    except SimkitError as problem:
        return problem, source


def _twice(prepared: Prepared) -> _Twice:
    """Run a scenario twice. Its output is dropped: the first run has printed the same."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        once = simulate(prepared)
        # If its modules cannot be imported twice, `fresh` would not help.
        with contextlib.suppress(SimkitError):
            again = simulate(prepared).judgement.findings
            return _Twice(once.trace, once.judgement.findings, not again)
    return _Twice(once.trace, once.judgement.findings)
