"""Scenarios whose pipeline is code, written inside tests: YAML text in, what came of it out."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from textwrap import dedent

from simkit.core.errors import SourceError
from simkit.language.yaml import load_text
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library, Prepared, ScenarioCase
from simkit.trace.views import view_of
from tests.building import Ran, refuse_misfits
from tests.conftest import IS_NIGHTLY

APPS = Path(__file__).parent.parent / "apps"
"""The scenarios stand here, so that `app: {path: [.]}` finds the modules beside them."""
RUNS = 10 if IS_NIGHTLY else 4
FILE = str(APPS / "test.scenario.yaml")


def prepared(pipeline: str, scenario: str, folder: Path = APPS) -> Prepared:
    """Returns a scenario of a pipeline that is code, ready to run."""
    head = f"version: 1\nscenario: s\npipeline: {pipeline}\n"
    text = dedent(scenario).strip("\n")
    if "app:" not in text:
        head += "app: {path: [.]}\n"
    file = str(folder / "test.scenario.yaml")
    library = Library()
    library._changed[file] = load_text(head + text, file)
    return library.prepared(ScenarioCase(file, "s", 0, 1))


def run_app(pipeline: str, scenario: str, folder: Path = APPS, *, fits: bool = True) -> Ran:
    """Runs a scenario of a pipeline that is code, and judges it.

    What the scenario says and the code does not do raises SourceError, unless nothing else
    is looked for: ``fits=False``.
    """
    outcome = simulate(prepared(pipeline, scenario, folder))
    ran = Ran(outcome.trace, view_of(outcome.trace.events), outcome.judgement)
    if fits:
        refuse_misfits(ran)
    return ran


def check_app(pipeline: str, scenario: str) -> Ran:
    """Runs a scenario of a pipeline that is code, which must hold."""
    ran = run_app(pipeline, scenario)
    assert [finding.what for finding in ran.judgement.findings] == []
    return ran


@cache
def scenarios(*files: Path) -> tuple[Prepared, ...]:
    """Returns all scenarios of files, ready to run."""
    results = []
    for file in files:
        library = Library()
        for place, document in enumerate(library.documents(str(file))):
            item = ScenarioCase(str(file), document.data["scenario"], place, 1)
            results.append(library.prepared(item))
    return tuple(results)


def scenario_in(start: str, *files: Path) -> Prepared:
    """Returns the one scenario of files whose name starts so."""
    (result,) = [case for case in scenarios(*files) if case.item.name.startswith(start)]
    return result


def digests_of(case: Prepared) -> set[str]:
    """Returns the digests of many runs of a scenario: there must be one."""
    return {simulate(case).trace.digest() for _ in range(RUNS)}


def passes(case: Prepared) -> bool:
    """Whether a scenario holds; one that cannot be served does not."""
    try:
        return simulate(case).passed
    except SourceError:
        return False
