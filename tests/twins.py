"""Code that implements a declared pipeline: what comes of its scenarios on both, and of mutants.

A twin is a `*.pipeline.yaml` under `scenarios/` with `code:` and `implements:`. A file
`*.mutants.yaml` beside it plants faults in its source: the twin's folder is copied, the text is
replaced in the copy, and a scenario is run there; so its lines are those of the real files.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from simkit.checks.judge import Outcome
from simkit.cli.selection import named_for, on_pipeline, other_pipeline, pipeline_in
from simkit.core.errors import SimkitError
from simkit.session.simulate import simulate
from simkit.spec.pipeline.mutants import Edit, apply_edits
from simkit.spec.scenario.apps import App, check_left_out, scenarios_of
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import ScenarioCase, items_in
from simkit.spec.scenario.model import unmet
from simkit.trace.diff.traces import TraceDiff, trace_diff, without
from simkit.trace.views import view_of
from tests.building import load

ROOT: Final = Path(__file__).resolve().parent.parent
SCENARIOS: Final = ROOT / "scenarios"
MUTANTS: Final = "*.mutants.yaml"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault in the source of a twin, and the claim that it turns red."""

    id: str
    twin: str
    """The twin's file, from the repository's root."""
    why: str
    file: str
    """The source file, from the twin's folder."""
    replace: str
    by: str
    scenario: str
    """`file::name`, from the twin's folder."""
    red: tuple[str, ...]
    edit_scenario: tuple[Edit, ...]
    """Edits of the script, where the broken code asks for other replies."""
    rules: tuple[int, ...]
    """The rules that it breaks which nothing but code can show, by their number in the tables."""

    @property
    def folder(self) -> str:
        """The folder of its twin, below ``scenarios``."""
        return Path(self.twin).parent.name


@dataclass(frozen=True, slots=True)
class Both:
    """A scenario's two runs."""

    own: Outcome
    other: Outcome
    undeclared: TraceDiff
    """Where they differ, and that is not declared."""
    known: frozenset[str]
    """The declared differences that are there."""


@cache
def library() -> Library:
    """Returns the one library of the files as they are."""
    return Library()


@cache
def twins() -> tuple[str, ...]:
    """Returns the files of all twins, from the repository's root, of what is installed here."""
    with chdir(ROOT):
        files = sorted(SCENARIOS.rglob("*.pipeline.yaml"))
        return tuple(str(f.relative_to(ROOT)) for f in files if _is_twin(f))


def _is_twin(file: Path) -> bool:
    documents = load(file)
    return all("implements" in document.data for document in documents)


def app_of(twin: str) -> App:
    """Returns what a twin's file says."""
    subject, _ = pipeline_in(twin, library())
    assert isinstance(subject, App)
    return subject


@cache
def scenarios(twin: str) -> tuple[ScenarioCase, ...]:
    """Returns the scenarios that are about what a twin implements, those left out among them."""
    with chdir(ROOT):
        subject, document = pipeline_in(twin, library())
        assert isinstance(subject, App)
        check_left_out(document, subject, library().cache)
        return tuple(scenarios_of(subject, library().cache).values())


def claims_in(item: ScenarioCase) -> int:
    """Return how many claims a scenario makes; each one on a context or a run counts."""
    data = library().documents(item.file)[item.index].data
    expects = [data.get("expect") or {}, *(turn.get("expect") or {} for turn in data["turns"])]
    return sum(
        sum(len(value) for value in claims.values()) if name in ("context", "runs") else 1
        for expect in expects
        for name, claims in expect.items()
    )


def reason_left_out(twin: str, item: ScenarioCase) -> str:
    """Returns why a twin leaves a scenario out; empty if it does not."""
    named = named_for(item.file, twin)
    return other_pipeline(item, named, library()).standing.left_out


@cache
def on_both(twin: str, item: ScenarioCase) -> Both:
    """Runs a scenario on its own pipeline and on a twin."""
    app = app_of(twin)
    assert app.implements is not None
    own = simulate(library().prepared(item))
    other = on_twin(twin, item)
    diff = trace_diff(*(view_of(outcome.trace.events) for outcome in (own, other)))
    return Both(own, other, *without(diff, app.implements.differs))


@cache
def on_twin(twin: str, item: ScenarioCase) -> Outcome:
    """Runs a scenario on a twin: one of its design, or one that names the twin itself."""
    return simulate(on_pipeline(item, named_for(item.file, twin), library()))


def scenario_of(mutant: Mutant) -> ScenarioCase:
    """Returns the scenario that a mutant turns red."""
    file, _, name = mutant.scenario.partition("::")
    (result,) = [
        item for item in items_in(str(Path(mutant.twin).parent / file)) if item.name == name
    ]
    return result


def holds_on(twin: str, item: ScenarioCase) -> bool:
    """Whether a scenario can be put together on a twin, runs, and holds."""
    try:
        return simulate(on_pipeline(item, named_for(item.file, twin), library())).passed
    except SimkitError:
        return False


def needs_unseen(twin: str, item: ScenarioCase, kind: str) -> bool:
    """Whether a scenario holds no longer where a twin is said to show one thing more."""
    _, document = pipeline_in(twin, library())
    rules = document.data["implements"]
    unseen = {name: reason for name, reason in rules["unseen"].items() if name != kind}
    stricter = document.with_data({**document.data, "implements": {**rules, "unseen": unseen}})
    files = library().with_document(stricter)
    return not simulate(on_pipeline(item, named_for(item.file, twin), files)).passed


def lacks(item: ScenarioCase, twin: str = "") -> str:
    """Returns what a scenario, or the twin that it is asked of, needs and is not installed."""
    program = app_of(twin).program[:1] if twin else ()
    missing = [name for name in program if shutil.which(name) is None]
    return unmet(item.needs) or "".join(f"`{name}` is not installed" for name in missing)


# Mutants


@cache
def mutants() -> tuple[Mutant, ...]:
    """Returns every mutant of every folder, in the order of the files."""
    result: list[Mutant] = []
    for file in sorted(SCENARIOS.rglob(MUTANTS)):
        (document,) = load(file)
        twin = (file.parent / document.data["twin"]).relative_to(ROOT)
        result += [_mutant(str(twin), entry) for entry in document.data["mutants"]]
    return tuple(result)


def _mutant(twin: str, entry: Mapping[str, Any]) -> Mutant:
    red = entry["red"]
    return Mutant(
        entry["id"], twin, entry["why"], entry["file"], entry["replace"], entry["by"],
        entry["scenario"], tuple(red if isinstance(red, list) else [red]),
        tuple(entry.get("edit_scenario", ())), tuple(int(rule) for rule in entry.get("rules", ())),
    )  # fmt: skip


def mutated(mutant: Mutant, folder: Path) -> Outcome:
    """Returns what comes of the mutant's scenario on its twin, copied into a folder.

    Raises ValueError where the text that is replaced is not there exactly once.
    """
    home = Path(mutant.twin).parent
    ignored = shutil.ignore_patterns("__pycache__", ".*")
    shutil.copytree(ROOT / home, folder / home, ignore=ignored)
    source = folder / home / mutant.file
    text = source.read_text(encoding="utf-8")
    if text.count(mutant.replace) != 1:
        raise ValueError(f"{mutant.id}: the text is {text.count(mutant.replace)} times there")
    source.write_text(text.replace(mutant.replace, mutant.by), encoding="utf-8")
    file, _, name = mutant.scenario.partition("::")
    with chdir(folder), _modules_of_the_copy(folder):
        (item,) = [case for case in items_in(str(home / file)) if case.name == name]
        files = Library()
        document = files.documents(item.file)[item.index]
        edited = document.with_data(apply_edits(document.data, mutant.edit_scenario))
        named = named_for(item.file, mutant.twin)
        return simulate(on_pipeline(item, named, files.with_document(edited)))


@contextmanager
def _modules_of_the_copy(folder: Path) -> Iterator[None]:
    """Lets modules be imported from a folder; takes away afterwards what came from there."""
    sys.path.insert(0, str(folder))
    before = dict(sys.modules)
    for name in [
        item for item in sys.modules if item == "scenarios" or item.startswith("scenarios.")
    ]:
        del sys.modules[name]
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(str(folder)):
                del sys.modules[name]
        sys.modules.update(
            {name: module for name, module in before.items() if name not in sys.modules}
        )
