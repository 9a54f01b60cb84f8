"""The files that ``simkit init --app`` writes for an app: a scenario, and how the app is run.

The app is run once. Its models are answered by scaffolded replies, or with ``--record`` by their
providers. The run becomes the scenario; a new process holds all before simkit says that it holds.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from simkit.adapters.environment import DUMMY_KEY
from simkit.adapters.input_shapes import input_advised
from simkit.cli.console import Progress
from simkit.cli.init import files as folder_files
from simkit.cli.init.files import replayed_alone
from simkit.cli.init.first_scenario import (
    AppRequest,
    FirstScenario,
    first_scenario,
    text_without_contexts,
)
from simkit.cli.init.found_tests import FoundTests, binders_for, tests_below
from simkit.cli.init.project import COMMENTS, NAMES, TEXTS, Project, look_at
from simkit.core.answers import answer
from simkit.core.errors import ProgramNamed, SimkitError, SourceError
from simkit.core.output import echo
from simkit.core.text import counted, shell_word, short
from simkit.language.yaml import load_text
from simkit.providers.protocols import PROTOCOLS
from simkit.session.execution.first_run import MANNERS, ScaffoldedReplies
from simkit.spec.lint_catalogue import LINTS
from simkit.spec.scenario import code_names
from simkit.spec.scenario.items import PIPELINE_SUFFIX, SCENARIO_SUFFIX
from simkit.spec.scenario.writing import block, flow

DEFAULT_MESSAGE: Final = "Hello"
_VARIABLES_MAX: Final = 6
"""Missing environment variables for which a dummy is tried."""
_VARIABLE: Final = re.compile(
    r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:KEY|TOKEN|SECRET|(BASE_URL|API_BASE|ENDPOINT))\b",
    re.IGNORECASE,
)
"""A variable of which any value will do; the group is in the name of an address."""
_DUMMY_ADDRESS: Final = "http://localhost/v1"
_NO_PROGRAM: Final = "ended without reading a message"
_YAML: Final = re.compile(r"[\[{].*|-?\d+(\.\d+)?|true|false", re.DOTALL)
_POST: Final = re.compile(r"app: \{post: \"?(/[^`\"]*)\"?\}`")


def options_of(pairs: Sequence[str]) -> dict[str, Any]:
    """Return the options of an app from texts such as ``env.SHOP=test``: a path below ``app:``,
    and a value, in YAML if it is a number, a boolean or in brackets. Raise SimkitError.

    >>> options_of(["env.SHOP=1", "call=ask", "config.limit=40", "run_options={state: 1}"])
    {'env': {'SHOP': '1'}, 'call': 'ask', 'config': {'limit': 40}, 'run_options': {'state': 1}}
    """
    options: dict[str, Any] = {}
    for pair in pairs:
        path, equals, value = pair.partition("=")
        *above, key = path.split(".")
        if not equals or not all((*above, key)):
            raise SimkitError(
                f"--option {pair}: this is no KEY=VALUE\n  Write `--option env.SHOP=test`."
            )
        place = options
        for name in above:
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                raise SimkitError(f"--option {pair}: `{name}` has a value already")
        if _YAML.fullmatch(value) and above != ["env"]:
            (document,) = load_text(value, f"--option {path}")
            place[key] = document.data
        else:
            place[key] = value
    return options


def write_for_app(request: AppRequest, project: Project) -> Iterator[str]:
    """Write what is not there yet; yield what was done, file by file.

    The working directory is the project's. Raises SimkitError if the app cannot be run or tested.
    """
    _refuse_other_files(request.name)
    says_more = bool(request.messages or request.replies)
    request = _by_its_name(request, project)
    for stem in _stems(request.name):
        scenario = Path(project.scenarios, f"{stem}{SCENARIO_SUFFIX}")
        if not os.path.lexists(scenario):
            break
        text = scenario.read_text(encoding="utf-8", errors="replace")
        if request.name in text and not says_more:
            yield (
                f"{scenario}: there already: edit it, or delete it to have it written anew\n"
                "  --say or --reply writes another one beside it."
            )
            return
    request = msgspec.structs.replace(request, messages=request.messages or (DEFAULT_MESSAGE,))
    models_text = "its models are asked" if request.is_recorded else "no model is asked"
    yield f"running {request.name}: {models_text}"
    first = _first_scenario(request, scenario)
    files = _Files(scenario)
    with Progress() as progress:
        progress.begin(f"checking {scenario} in a new process")
        document = _write_what_holds(files, first, request)
    if files.pipeline in files.new_files:
        yield f"{files.pipeline}: written: how the app is run, and which calls are whose"
    agents = {agent for turn in document["turns"] for agent in turn.get("replies", {})}
    turns = counted(len(document["turns"]), "turn")
    yield f"{scenario}: written: {turns}; agents {', '.join(sorted(agents))}"
    for code in document.get("lints", {}):
        yield f"  {code} is found in this run: {LINTS[code].name}. It is off in the scenario."
    yield from (f"  {note}" for note in first.notes)


def _refuse_other_files(name: str) -> None:
    """Raise SimkitError for the name of a notebook, or of a file that is no Python."""
    is_notebook = name.partition(":")[0].endswith(".ipynb")
    if is_notebook and (advice := code_names.advice_on(name)):
        raise SimkitError(f"{name}: is a notebook\n  {advice}")
    if other := code_names.advice_on_other_files(name):
        raise SimkitError(f"{name}: {other}")


def _write_what_holds(
    files: _Files, first: FirstScenario, request: AppRequest
) -> Mapping[str, Any]:
    """Write the files; return the scenario's document.

    In a new process the scenario must hold, else raise SimkitError, as for one that is there by
    now.
    """
    document = files.write(first.text, request)
    failure = replayed_alone(str(files.scenario))
    if failure:
        # Some part of the contexts is new in every process.
        files.remove()
        document = files.write(text_without_contexts(first, files.scenario), request)
        failure = replayed_alone(str(files.scenario))
    if failure:
        files.remove()
        raise SimkitError(
            f"{files.scenario}: not written, since it does not hold in a new process:\n"
            f"{failure}\n"
            "  Say with --path from which folder the app's modules are imported."
        )
    return document


class _Files:
    """The files of a first test, of which some may be there already."""

    def __init__(self, scenario: Path) -> None:
        self.scenario = scenario
        self.pipeline = scenario.with_name(scenario.name.replace(SCENARIO_SUFFIX, PIPELINE_SUFFIX))
        self.new_files: list[Path] = []

    def write(self, text: str, request: AppRequest) -> Mapping[str, Any]:
        """Write those that are not there; return the scenario's document.

        Raise SimkitError if the scenario is there.
        """
        document = _document(text, self.scenario)
        if "app" in document or "agents" in document:
            tree = {"pipeline": self.pipeline.name.removesuffix(PIPELINE_SUFFIX)}
            tree |= {"code": document["pipeline"]}
            tree |= {key: document[key] for key in ("app", "agents") if key in document}
            if self._write(self.pipeline, "\n".join([*block(tree, 0), ""])):
                text = _without_app(text, document, self.pipeline.name)
        how = (
            "Its models were asked, and answered so."
            if request.is_recorded
            else "No model was asked: write what yours would reply."
        )
        head = TEXTS["head"].format(request.name, how)
        if not self._write(self.scenario, f"{head}{text}"):
            raise SimkitError(
                f"{self.scenario}: there is such a file, and nothing is written over it"
            )
        return document

    def remove(self) -> None:
        """Remove what was written."""
        for file in self.new_files:
            file.unlink()
        self.new_files.clear()

    def _write(self, file: Path, text: str) -> bool:
        for pattern, comment in COMMENTS.items():
            text = re.sub(pattern, rf"\1# {comment}\n\g<0>", text, count=1, flags=re.MULTILINE)
        if is_new := folder_files.write_new(file, text):
            self.new_files.append(file)
        return is_new


# The scenario


def _by_its_name(request: AppRequest, project: Project) -> AppRequest:
    """Return the request with the app's name as Python imports it, and the folder of its module.

    Of ``module:Class.method`` it has the class as its name, and the method to call.
    """
    entry, method = code_names.parted_method(request.name)
    if inner := code_names.advice_on_inner(request.name):
        raise SimkitError(f"{request.name}: {inner}")
    if method:
        request = msgspec.structs.replace(request, name=entry, call=request.call or method)
    module, colon, attribute = request.name.partition(":")
    known = {app.name: app for app in project.apps}
    if module.endswith(".py") or "/" in module:
        file = Path(module if module.endswith(".py") else f"{module}.py").resolve()
        if not file.is_file():
            raise SimkitError(f"{module}: there is no such file\n  `simkit init` finds apps here.")
        place = project.name_of(file)
        name = f"{place.module}{colon}{attribute}"
        return msgspec.structs.replace(request, name=name, folders=(str(place.folder),))
    found_app = known.get(request.name)
    if found_app is not None:
        folders = (*request.folders, str(found_app.folder))
        return msgspec.structs.replace(request, folders=folders)
    return request


def _stems(name: str) -> Iterator[str]:
    """Yield what an app's files may be called, the shortest first."""
    words = [word.lower() for word in re.split(r"\W+", name) if word]
    own = (word for word in words if word not in NAMES["usual"] and not word[0].isdigit())
    yield next(own, words[0])
    yield "_".join(words)
    yield from (f"{'_'.join(words)}_{number}" for number in itertools.count(2))


def _first_scenario(request: AppRequest, scenario: Path) -> FirstScenario:
    """Return the scenario; try the next likely way where one does not run."""
    options = _with_variables(request.options, _own_keys())
    is_program = ":" not in request.name
    request = msgspec.structs.replace(request, options=options, is_program=is_program)
    manners = list(MANNERS)
    while True:
        source = None if request.is_recorded else ScaffoldedReplies(manners[0], request.replies)
        try:
            first = first_scenario(request, scenario, source)
        except SimkitError as problem:
            if (next_request := _with_what_lacks(request, problem)) is not None:
                request = next_request
            elif source is not None and (others := [*filter(source.differs_in, manners[1:])]):
                manners = others
            else:
                # The place is in a file that is not there.
                place = f"{problem.where}: " if isinstance(problem, SourceError) else ""
                text = str(problem).removeprefix(place)
                last = source.last if source is not None else ""
                raise SimkitError(_advised(text, request.name, last)) from problem
        else:
            for text in source.texts if source is not None else ():
                echo(f"--reply {shell_word(text)}: no request of this run takes it")
            return first


def _with_what_lacks(request: AppRequest, problem: SimkitError) -> AppRequest | None:
    """Return the request with what an error says that it lacks; None if it says nothing new."""
    env = request.options.get("env", {})
    variable = _missing_variable(str(problem), env)
    is_program = isinstance(problem.__cause__ or problem, ProgramNamed)
    if is_program and not request.is_program:
        return msgspec.structs.replace(request, is_program=True)
    if variable and len(env) < _VARIABLES_MAX:
        options = _with_variables(request.options, {variable: _dummy_of(variable)})
        return msgspec.structs.replace(request, options=options)
    if "post" not in request.options and len(paths := _posts_in(problem)) == 1:
        return msgspec.structs.replace(request, options={**request.options, "post": paths[0]})
    return None


def _posts_in(problem: object) -> list[str]:
    """Return the paths of an ASGI application that an error names."""
    return _POST.findall(str(problem))


def _own_keys() -> dict[str, str]:
    """Return dummies for the keys in `.env`, which the app reads and nobody else has."""
    try:
        text = Path(".env").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return {}
    names = re.findall(r"^\s*(?:export\s+)?(\w+)\s*=", text, re.MULTILINE)
    return {name: DUMMY_KEY for name in names if _dummy_of(name) == DUMMY_KEY}


def _dummy_of(variable: str) -> str:
    """Return a value for a variable of which any value will do; empty for all others, and for the
    keys for which simkit has a dummy of its own."""
    known = {key for protocol in PROTOCOLS.values() for key in protocol.keys}
    match = _VARIABLE.fullmatch(variable)
    if match is None or variable in known:
        return ""
    return _DUMMY_ADDRESS if match[1] else DUMMY_KEY


def _missing_variable(problem: str, env: Mapping[str, str]) -> str:
    """Return the variable that an error names, that is not set, and that has a dummy."""
    names = (match[0].upper() for match in _VARIABLE.finditer(problem))
    return next((n for n in names if n not in env and n not in os.environ and _dummy_of(n)), "")


def _with_variables(options: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, Any]:
    """Return an app's options with environment variables that they do not set."""
    variables = {**env, **options.get("env", {})}
    return {**options, **({"env": variables} if variables else {})}


def _advised(problem: str, name: str, last: str) -> str:
    """Return an error with what to type here, where it says what to write in a scenario.

    ``last`` is the last reply that stood in for a model.
    """
    if _NO_PROGRAM in problem and (advice := code_names.advice_on(name)):
        return f"{problem}\n  {advice}"
    if typed := _typed(problem):
        return f"{problem}\n  Here: {typed}."
    # No option mends an app's syntax.
    if "SyntaxError: " not in problem and re.search(r"\braised\b|\bfailed\b", problem):
        replies = f"{TEXTS['replies_advised'].format(short(last, 100))}\n" if last else ""
        return f"{problem}\n{replies}{TEXTS['options_advised']}"
    return problem


def _typed(problem: str) -> str:
    """Return the options of `init` for what an error says to write under `app:`."""
    options = [f"post={path}" for path in _posts_in(problem)]
    options += [f"input={given}"] if (given := input_advised(problem)) else []
    typed = [f"--option {shell_word(option)}" for option in options]
    typed += [f"--call {method}" for method in re.findall(r"app: \{call: (\w+)\}", problem)]
    typed += [text for key, text in NAMES["options"].items() if f"app: {{{key}:" in problem]
    return " or ".join(f"`{each}`" for each in typed)


def _document(text: str, file: Path) -> Mapping[str, Any]:
    (document,) = load_text(text, str(file))
    data: Mapping[str, Any] = document.data
    return data


def _without_app(text: str, document: Mapping[str, Any], pipeline: str) -> str:
    """Return a scenario's text without what its pipeline's file says, where a feature finds it."""
    # The document is cut before each of its keys.
    parts = re.split(r"^(?=[a-z])", text, flags=re.MULTILINE)
    parts = [part for part in parts if not part.startswith(("app:", "agents:"))]
    line = f"pipeline: {flow(document['pipeline'])}\n"
    return "".join(parts).replace(line, f"pipeline: {pipeline}\n", 1)


_APPS_MAX: Final = 8


def write_skill(folder: str, request: AppRequest) -> int:
    """Write the skill for coding agents into a folder; return 0. Raises SimkitError."""
    if request.name:
        raise click.UsageError("--skill writes the skill alone; leave out --app.")
    text = folder_files.SKILL.read_text(encoding="utf-8")
    _write(Path(folder), {".claude/skills/simkit/SKILL.md": text})
    answer(app="", folder=folder, next=["simkit init --sample", "simkit mcp"])
    return 0


def start(folder: str, request: AppRequest, *, is_sample: bool) -> int:
    """Write a first test into a folder; return the exit code. Raises SimkitError."""
    if is_sample and request.name:
        raise click.UsageError("--sample writes another app; leave out --app.")
    root = Path(folder)
    folder_files.make_folder(root)
    with contextlib.chdir(root):
        project = look_at(Path.cwd())
        tests = tests_below(Path())
        if not request.name and not is_sample and not tests.are_there:
            request = _with_app(request, project)
        is_bare = request == AppRequest(name="", messages=())
        if not request.name and not is_bare:
            raise click.UsageError("name the app that is to be run: --app MODULE:NAME.")
    if request.name:
        with contextlib.chdir(root):
            for line in write_for_app(request, project):
                echo(line)
    else:
        _write_without_app(root, tests, is_sample)
    _write(root, binders_for(root))
    _write(root, folder_files.files_around(project))
    echo(f"Next, in {folder}:" if folder != "." else "Next:")
    commands = tests_below(root).commands()
    answer(app=request.name, folder=folder, next=commands)
    echo("\n".join(f"  {command}" for command in commands))
    return 0


_NAMES_APP: Final = "--app MODULE:NAME names yours"


def _write_without_app(root: Path, tests: FoundTests, is_sample: bool) -> None:
    """Write the sample, unless the project has tests, or a pipeline for some."""
    files = (*tests.scenarios, *tests.features)
    if files and not is_sample:
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        echo(f"{files[0]}{more}: there already: edit or delete; for another app, {_NAMES_APP}")
    elif tests.pipelines and not is_sample:
        echo(f"{tests.pipelines[0]}: no scenario runs it yet: write one, and call this again")
    else:
        if not is_sample:
            echo(f"no code of agents was found here: a sample to edit is written; {_NAMES_APP}")
        _write(root, folder_files.SAMPLE)


def _write(root: Path, files: Mapping[str, str | bytes]) -> None:
    for line in folder_files.written_files(root, files):
        echo(line)


def _with_app(request: AppRequest, project: Project) -> AppRequest:
    """Return the request with the one app that is there; raise SimkitError for several."""
    apps = [app for app in project.apps if app.is_certain] or [*project.apps]
    if not apps and not project.parts:
        return request
    if len(apps) != 1:
        problem = "there are several apps here\n  Name one:" if apps else TEXTS["no_app"]
        apps = apps or [*project.parts]
        raise SimkitError(
            f"{problem}\n"
            + "".join(
                f"    simkit init --app {shell_word(app.name)}   # {app.why}\n"
                for app in apps[:_APPS_MAX]
            )
            + ("    …\n" if len(apps) > _APPS_MAX else "")
            + "  Or write a sample project: `simkit init --sample`."
        )
    echo(f"app: {apps[0].name} ({apps[0].why})")
    return msgspec.structs.replace(request, name=apps[0].name)
