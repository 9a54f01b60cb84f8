"""Steps for pytest-bdd: a feature tells a scenario, and every Then is judged as a claim.

A test module binds features and takes the steps::

    from pytest_bdd import scenarios
    from simkit.bdd import *

    scenarios("fitness_coach.feature")

pytest-bdd finds steps by fixtures in the module that binds the feature, under names that are no
Python names, so that the star is the only way to import them; ``__all__`` lists them. A step of
one's own stands beside them, and may ask for the fixture ``story``.

**How a story runs.** The steps add to the same values that a scenario file holds, and the same
loader, runtime and judge read them, so that a feature cannot mean anything that a file could not:

- *Given* a line says what is so before the user speaks: pipeline, seed, state, and what models and
  tools will answer to the user's next message.
- *When* the user says something, a turn begins; further When lines say what is answered in it.
- *Then* adds one claim to that turn. The first Then after something was told runs the whole story
  so far, from its first turn, and the others read the same trace: a run costs less than a
  millisecond, and so no step ever meets a half-finished turn.
- Each Then judges all claims so far *and all lints*, so a story fails at the first line that does
  not hold. A story that ends without a Then is judged at its end, for its lints.

A finding points to the step's own line in the feature file. A table or text under a step that
takes none is an error, where pytest-bdd would drop it in silence.

From the ground up: ``phrases`` (words with typed holes), ``places`` (which line said what),
``telling`` (the scenario told so far), ``steps`` (what each phrase adds to the story: a table, so
that more can be made from the claims' own registry).
"""

from __future__ import annotations

import inspect
import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from pytest_bdd import given, then, when

from simkit.bdd.phrases import Phrase
from simkit.bdd.places import Lines, Places
from simkit.bdd.steps import GIVEN, THEN, WHEN
from simkit.bdd.telling import Story
from simkit.errors import SimkitError, SourceError
from simkit.expect.judge import Judgement
from simkit.report.text import findings_text
from simkit.scenario.files import Library

_LIBRARY: Final[pytest.StashKey[Library]] = pytest.StashKey()
_STORY: Final[pytest.StashKey[Story]] = pytest.StashKey()
_TELLER: Final = "simkit-bdd"
WARNINGS: Final = "simkit warnings"
"""The section of a report that shows what failed nothing; the property that counts it."""


@pytest.fixture
def story(request: pytest.FixtureRequest) -> Story:
    """The scenario that is being told."""
    config = request.config
    root = config.rootpath
    told = Story(
        config.stash.setdefault(_LIBRARY, Library()),
        root=root,
        folders=[root / folder for folder in config.getini("testpaths") or ["scenarios"]],
        seed=config.getoption("--simkit-seed", None),
    )
    request.node.stash[_STORY] = told
    # Only a session that tells stories listens to pytest-bdd.
    if not config.pluginmanager.has_plugin(_TELLER):
        config.pluginmanager.register(_Teller(), _TELLER)
    return told


class _Teller:
    """Tells each story which step is being told, and judges it at its end."""

    def __init__(self) -> None:
        self._last: Any = None

    def pytest_bdd_before_step_call(
        self, feature: Any, scenario: Any, step: Any, step_func: Any, step_func_args: dict[str, Any]
    ) -> None:
        told = step_func_args.get("story")
        if not isinstance(told, Story):
            return
        if not told.has_begun:
            text = Path(feature.filename).read_text(encoding="utf-8")
            line = scenario.line_number
            told.begin(Places(os.path.relpath(feature.filename), text, (line, line)), scenario.name)
        told.lines = _lines_of(step)
        if step_func in _OURS:
            _check_what_stands_below(told, step, step_func)

    def pytest_bdd_after_step(self, step: Any) -> None:
        self._last = step

    def pytest_bdd_after_scenario(self, request: pytest.FixtureRequest, scenario: Any) -> None:
        told = request.node.stash.get(_STORY, None)
        # It is also called when a step failed, whose exception is then on its way.
        if told is None or self._last is not scenario.steps[-1]:
            return
        with _as_failure(request):
            judgement = told.judgement()
        if judgement.warnings:
            request.node.add_report_section("call", WARNINGS, findings_text(judgement.warnings))
            request.node.user_properties.append((WARNINGS, len(judgement.warnings)))
        _hold(judgement, request)


def _lines_of(step: Any) -> Lines:
    """The lines of a step with the table or the text under it."""
    first = last = step.line_number
    if step.datatable is not None:
        last = step.datatable.rows[-1].location.line
    elif step.docstring is not None:
        last = first + 2 + step.docstring.count("\n") + 1
    return first, last


def _check_what_stands_below(told: Story, step: Any, step_func: Callable[..., Any]) -> None:
    """pytest-bdd drops a table or text that a step does not take."""
    takes = inspect.signature(step_func).parameters
    for name, what in (("datatable", "table"), ("docstring", "text")):
        if (name in takes) == (getattr(step, name) is not None):
            continue
        verb = "needs a" if name in takes else "takes no"
        pytest.fail(str(told.error(f"this step {verb} {what} under it")), pytrace=False)


@contextmanager
def _as_failure(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails the test, without a traceback, for what is wrong with the story itself."""
    try:
        yield
    except SourceError as problem:
        # Where it stands in the values is no concern of who wrote a feature.
        told = SourceError(
            problem.where, problem.what, "", problem.near, problem.known, problem.advice
        )
        raise pytest.fail.Exception(_again(str(told), request), pytrace=False) from None
    except SimkitError as problem:
        raise pytest.fail.Exception(_again(str(problem), request), pytrace=False) from None


def _hold(judgement: Judgement, request: pytest.FixtureRequest) -> None:
    """Fails the test for what does not hold."""
    if not judgement.passed:
        pytest.fail(_again(findings_text(judgement.findings), request), pytrace=False)


def _again(text: str, request: pytest.FixtureRequest) -> str:
    seed = request.config.getoption("--simkit-seed", None)
    option = "" if seed is None else f" --simkit-seed {seed}"
    return f"{text}\n\nreproduce: pytest {shlex.quote(request.node.nodeid)}{option}"


def _step(function: Callable[..., Judgement | None]) -> Callable[..., None]:
    """Returns the function that pytest-bdd calls: it fails for what does not hold."""

    def tell(story: Story, request: pytest.FixtureRequest, **said: Any) -> None:
        with _as_failure(request):
            judgement = function(story, **said)
        if judgement is not None:
            _hold(judgement, request)

    # pytest-bdd passes what the signature asks for.
    asked = inspect.Parameter("request", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = inspect.signature(function)
    parameters = [asked, *signature.parameters.values()]
    tell.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return tell


_OURS: Final[set[Callable[..., None]]] = set()
_before = set(globals())
for _keyword, _steps in ((given, GIVEN), (when, WHEN), (then, THEN)):
    for _phrase, _function in _steps.items():
        _OURS.add(_keyword(Phrase(_phrase))(_step(_function)))

# pytest-bdd has put every step into this module, under a name of its own making.
__all__ = ["story", *sorted(name for name in globals().keys() - _before if name[0] != "_")]
