"""Steps for pytest-bdd: a feature is a scenario, and every Then is checked as a claim.

A test module binds features and takes the steps::

    from pytest_bdd import scenarios
    from simkit.bdd import *

    scenarios("fitness_coach.feature")

pytest-bdd finds steps by fixtures in the module that binds the feature, under names that are no
Python names, so that the star is the only way to import them; ``__all__`` lists them. You can add
your own steps, with the fixture ``story``.

**How a story runs.** The steps build the values of a scenario file, for the same loader, runtime
and checks, so that a feature means exactly what a file would:

- *Given* sets the pipeline, the seed, the state, and the answers of models and tools to the user's
  next message.
- *When* the user says something, a turn begins; further When lines give the answers in it.
- *Then* adds one claim to that turn.
- At its end the whole story is run once, and all claims *and lints* are checked: a failure shows
  every line that does not hold, in the order of the run.

A finding points to the step's own line in the feature file. A table or text under a step that takes
none is an error, because pytest-bdd would silently drop it.

**One table.** Every phrase is a row of ``steps.yaml``, with a template of the value that it stands
for: pytest-bdd, ``simkit bdd steps``, and the tests that compare phrases with the registry of
claims and operators all read these rows. pytest-bdd gets three steps, one for each keyword: it
tries every step on every line, so two hundred steps would cost more than a run.

From the bottom up: ``cells`` (words, names and tables as values), ``phrases`` (words with typed
holes, templates, and the kinds of holes), ``conditions`` (the matching language in words),
``assembling`` (the line of each value, claims put together, and the scenario), ``exploring``
(conversations that nobody says), ``story``, ``claims`` (the phrases) and
``vocabulary`` (which phrase a line says, and the list of them).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from pytest_bdd import given, then, when
from pytest_bdd.exceptions import NoScenariosFound
from pytest_bdd.parsers import StepParser

from simkit.bdd.assembling import FeatureText, Lines, Places
from simkit.bdd.cells import Flaw, TableInvalid, flaw_of, texts_in_quotes
from simkit.bdd.story import Story
from simkit.bdd.vocabulary import VOCABULARIES, Line, Vocabulary, hint
from simkit.checks.judge import strictly
from simkit.core.errors import SimkitError, SourceError
from simkit.core.output import clean, current_redactor, without_secrets
from simkit.core.text import near, shell_word
from simkit.report.last_run import KEPT_AS, STORY_AS
from simkit.report.text import failure_text, note_unfailing
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import missing
from simkit.spec.scenario.model import unmet

_LIBRARY: Final[pytest.StashKey[Library]] = pytest.StashKey()
_STORY: Final[pytest.StashKey[Story]] = pytest.StashKey()
_TELLER: Final = "simkit-bdd"


@pytest.fixture
def story(request: pytest.FixtureRequest) -> Story:
    """Return the story of the current scenario."""
    config = request.config
    root = config.rootpath
    story = Story(
        config.stash.setdefault(_LIBRARY, Library()),
        root=root,
        folders=[
            root / folder for folder in dict.fromkeys([*config.getini("testpaths"), "scenarios"])
        ],
        seed=config.getoption("--simkit-seed", None),
    )
    request.node.stash[_STORY] = story
    setattr(request.node, KEPT_AS, "")
    # Only a session with stories listens to pytest-bdd.
    if not config.pluginmanager.has_plugin(_TELLER):
        config.pluginmanager.register(_Teller(), _TELLER)
    return story


class _Teller:
    """Passes the current step to each story, and checks the story at its end."""

    def __init__(self) -> None:
        self._last: Any = None
        self._features: dict[str, FeatureText] = {}

    def pytest_bdd_before_step_call(
        self, feature: Any, scenario: Any, step: Any, step_func: Any, step_func_args: dict[str, Any]
    ) -> None:
        story = step_func_args.get("story")
        if not isinstance(story, Story):
            return
        if "scenario" not in story.values:
            line = scenario.line_number
            story.begin(Places(self._feature(feature.filename), (line, line)), scenario.name)
        story.lines = _lines_of(step)
        story.text = step.docstring
        story.table = None if step.datatable is None else step.datatable.raw()

    def _feature(self, file: str) -> FeatureText:
        if file not in self._features:
            text = Path(file).read_text(encoding="utf-8")
            self._features[file] = FeatureText(os.path.relpath(file), text)
        return self._features[file]

    def pytest_bdd_after_step(self, step: Any) -> None:
        self._last = step

    def pytest_bdd_after_scenario(self, request: pytest.FixtureRequest, scenario: Any) -> None:
        story = request.node.stash.get(_STORY, None)
        if story is None:
            return
        # The item lives as long as the session, and a story has a trace.
        del request.node.stash[_STORY]
        # This is also called when a step failed, and its exception is already being raised.
        if self._last is not scenario.steps[-1]:
            return
        with _as_failure(request):
            ending = story.end()
        judgement = ending.judgement
        if request.config.getoption("--simkit-strict", default=False):
            judgement = strictly(judgement)
        if ending.prepared is not None and ending.outcome is not None:
            outcome = msgspec.structs.replace(ending.outcome, judgement=judgement)
            setattr(request.node, STORY_AS, (ending.prepared, outcome))
        note_unfailing(request.node, judgement.warnings, judgement.passed_over)
        if not judgement.passed:
            redactor, view = current_redactor(), None
            if ending.prepared is not None and ending.outcome is not None:
                redactor = ending.prepared.redactor(os.environ)
                view = ending.outcome.redacted(redactor).view
            text = failure_text(without_secrets(judgement, redactor), view)
            pytest.fail(_again(clean(text, redactor), request), pytrace=False)


def read_outline(request: pytest.FixtureRequest, feature: Any, scenario: Any) -> None:
    """Fail for what pytest-bdd would pass over in a scenario; read its cells as texts.

    Scenarios without a step of simkit's are left alone.
    """
    line = scenario.line_number
    template = next(each for each in feature.scenarios.values() if each.line_number == line)
    row = getattr(request.node, "callspec", None)
    cells = {} if row is None else row.params.get("_pytest_bdd_example", {})
    ours = False
    for step, original in zip(scenario.steps, template.steps, strict=True):
        (vocabulary,) = (each for each in VOCABULARIES if each.keyword.lower() == step.type)
        text = texts_in_quotes(original.name, cells)
        if vocabulary.line(text) is not None:
            step.name, ours = text, True
    flaw = _step_in(template) or (flaw_of(feature, template) if ours else None)
    if flaw is not None:
        text = Path(feature.filename).read_text(encoding="utf-8")
        places = Places(FeatureText(os.path.relpath(feature.filename), text), (line, line))
        with _as_failure(request):
            raise flaw.error(places.position)


def _step_in(template: Any) -> Flaw | None:
    """Return the flaw that Gherkin reads a step as a scenario's description: a misspelt keyword."""
    for line in template.description.splitlines():
        word, _, phrase = line.strip().partition(" ")
        keyword = near(word, _STEPS)
        if keyword and any(each.line(phrase) is not None for each in VOCABULARIES):
            problem = f"`{word} {phrase}` is no step, so Gherkin takes it for a description"
            return Flaw(template.line_number, problem, keyword, _STEPS)
    return None


def fail_unknown_step(request: pytest.FixtureRequest, feature: Any, step: Any) -> None:
    """Fail with the nearest phrase, or with the import that is missing if the phrase is simkit's;
    for other people's steps, do nothing."""
    try:
        story = request.getfixturevalue("story")
    except pytest.FixtureLookupError:
        story = None
    phrases = next(each for each in VOCABULARIES if each.keyword.lower() == step.type)
    is_missing = story is None and phrases.line(step.name) is not None
    if not is_missing and not isinstance(story, Story):
        return
    where = f"{os.path.relpath(feature.filename)}:{step.line_number}:{_column(feature, step)}"
    line = f"`{str(step.keyword).strip()} {step.name}`"
    if is_missing:
        module = os.path.relpath(request.path)
        text = f"{where}: {line} is a step of simkit, and {module} does not import simkit's steps"
        text += "\n  Write `from simkit.bdd import *` there, or in a conftest.py."
    else:
        nearest = hint(step.type, step.name)
        text = f"{where}: there is no step {line}"
        text += f"\n  {nearest}" if nearest else ""
        text += "\n  `simkit bdd steps WORD` lists those with a word."
        text += f"\n  {_WITHOUT_PHRASE[step.type]}"
    raise pytest.fail.Exception(_again(text, request), pytrace=False)


_WITHOUT_PHRASE: Final = {
    "given": "What no phrase says: `the scenario has:`, with keys of a scenario file in YAML.",
    "when": "What no phrase says: `the turn has:` or `NAME answers with this line:`, in YAML.",
    "then": "What no phrase says: `all of this holds:`, with claims in YAML.",
}


def parse_error_text(problem: Any) -> str:
    """Return the error about an unreadable feature file, with its place."""
    if isinstance(problem, FileNotFoundError):
        return str(missing(os.path.relpath(problem.filename), ".feature"))
    if isinstance(problem, NoScenariosFound):
        files = ", ".join(map(os.path.relpath, problem.args[0]))
        return clean(f"{files}: no feature here has a scenario\n  → {_FORM}")
    errors = getattr(problem.__cause__, "errors", ())
    place = getattr(errors[0], "location", {}) if errors else {}
    column = place.get("column") or 1
    problem_text = str(errors[0] if errors else problem.message).strip().splitlines()[-1]
    problem_text = re.sub(r"^\(\d+:\d+\): ", "", problem_text)
    if not errors or type(problem).__name__ != "GherkinParseError":
        problem_text = str(problem.message).strip()
    file = os.path.relpath(problem.filename)
    nearest = near(problem.line_content.strip().partition(" ")[0], _KEYWORDS)
    advice = f"Did you mean `{nearest}`?" if nearest else _FORM
    advice = next((hint for word, hint in _ADVICE.items() if word in problem_text), advice)
    where = f"{file}:{problem.line}:{column}"
    return clean(f"{where}: {problem_text}\n    {problem.line_content.strip()}\n  → {advice}")


_FORM: Final = "Write `Feature: NAME`, below it `Scenario: NAME`, below that Given, When, Then."
_ADVICE: Final = {
    "cell count": "Give every row of the table as many cells, also empty ones: `| a |  |`.",
    "DocStringSeparator": 'Close the text with `"""` on a line of its own.',
}
_STEPS: Final = ("Given", "When", "Then", "And", "But")
_KEYWORDS: Final = (*_STEPS, "Feature:", "Scenario:", "Background:")


def _column(feature: Any, step: Any) -> int:
    lines = Path(feature.filename).read_text(encoding="utf-8").splitlines()
    line = lines[step.line_number - 1] if step.line_number <= len(lines) else ""
    return len(line) - len(line.lstrip()) + 1


def _lines_of(step: Any) -> Lines:
    """Return the lines of the step, with its table or text."""
    first = last = step.line_number
    if step.datatable is not None:
        last = step.datatable.rows[-1].location.line
    elif step.docstring is not None:
        last = first + 2 + step.docstring.count("\n") + 1
    return first, last


def _check_what_stands_below(story: Story, line: Line) -> None:
    """Raise for a table or text that a step does not take, since pytest-bdd would drop it."""
    forms = {"table": story.table is not None, "text": story.text is not None}
    for form, is_there in forms.items():
        if is_there and form not in line.takes:
            raise story.error(f"this step takes no {form} under it")
    if line.takes and not any(forms[form] for form in line.takes):
        raise story.error(f"this step needs a {' or a '.join(line.takes)} under it")


@contextmanager
def _as_failure(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test, without a traceback, for an error in the story itself."""
    try:
        yield
    except SourceError as problem:
        # The author of a feature does not see the path in the values.
        failure = SourceError(
            problem.where, problem.what, "", problem.near, problem.known, problem.advice
        )
        raise pytest.fail.Exception(_again(str(failure), request), pytrace=False) from None
    except SimkitError as problem:
        raise pytest.fail.Exception(_again(str(problem), request), pytrace=False) from None


def _again(text: str, request: pytest.FixtureRequest) -> str:
    seed = request.config.getoption("--simkit-seed", None)
    option = "" if seed is None else f" --simkit-seed {seed}"
    if request.config.getoption("--simkit-strict", default=False):
        option += " --simkit-strict"
    return clean(f"{text}\n\nreproduce: pytest {shell_word(request.node.nodeid)}{option}")


class _Parser(StepParser):
    """pytest-bdd's parser, which recognizes simkit's steps."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(f"simkit {vocabulary.keyword}")
        self._vocabulary = vocabulary

    def is_matching(self, name: str) -> bool:
        return self._vocabulary.line(name) is not None

    def parse_arguments(self, name: str) -> dict[str, Any] | None:
        line = self._vocabulary.line(name)
        return None if line is None else {"line": line}


def _tell(story: Story, request: pytest.FixtureRequest, line: Line) -> None:
    """Add a line to the story."""
    story.last_turn = line.owner
    with _as_failure(request):
        _check_what_stands_below(story, line)
        try:
            line.step.tell(story, line.holes)
        except TableInvalid as problem:
            raise story.error(str(problem)) from None
    _skip_what_cannot_run(story, request)


def _skip_what_cannot_run(story: Story, request: pytest.FixtureRequest) -> None:
    reason = unmet(story.values.get("needs", ()))
    if reason and not request.config.getoption("--simkit-needs-met", False):
        pytest.skip(clean(reason))


_before = set(globals())
for _keyword, _vocabulary in zip((given, when, then), VOCABULARIES, strict=True):
    _keyword(_Parser(_vocabulary))(_tell)

# pytest-bdd has put every step into this module, under a generated name.
__all__ = ["story", *sorted(name for name in globals().keys() - _before if name[0] != "_")]
