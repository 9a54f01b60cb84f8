"""Subjects of exploration by name: simulations, scenarios, pipelines and code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from simkit.core.errors import SimkitError, SourceError
from simkit.core.text import counted
from simkit.explore.conversations import Subject
from simkit.language.yaml import load_text
from simkit.spec.fields import FUNCTION_NAME
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.items import (
    PIPELINE_SUFFIX,
    SCENARIO_SUFFIX,
    SIMULATION_SUFFIX,
    ScenarioCase,
    items_in,
    items_named,
    parted,
    scenario_files,
    simulations_in,
)
from simkit.spec.scenario.simulated_users import SimulatedUser
from simkit.spec.scenario.simulations import Simulation, prepare_simulation
from simkit.spec.scenario.writing import scalar

USER_TEXTS: Final = (
    "Hello.",
    "My order is A-1042.",
    "Please cancel it.",
    "Why?",
    "Can you help me with order B-7, and with A-1042 too?",
)
"""A user's texts where none are known."""
_HEAD: Final = "scenario: explored\nturns: [{user: Hello.}]\n"


def subjects_named(library: Library, name: str) -> Iterator[tuple[str, Subject]]:
    """Yield what a name stands for, each with a name of its own; raise SimkitError.

    ``name`` is that of a simulation, a scenario, a pipeline's file, a folder, or ``module:name``.
    """
    if is_pipeline(name):
        yield name, pipeline_subject(library, name)
        return
    file, chosen_name = parted(name)
    if file.endswith(SIMULATION_SUFFIX) or Path(name).is_dir():
        cases = list(simulations_of(library, _simulation_files(file)))
        known = [case for case in cases if chosen_name in ("", case.name)]
        if not known:
            raise SimkitError(_no_simulation(name, cases))
        for case in known:
            yield name if len(known) == 1 else case.id, simulation_subject(library, case)
        return
    items = [item for path in scenario_files(file) for item in items_in(path, library.cache)]
    if chosen_name:
        items = items_named(file, items, chosen_name)
    if len(items) != 1:
        listed = "\n".join(f"  {item.id}" for item in items[:12])
        raise SimkitError(
            f"{name}: holds {counted(len(items), 'scenario')}; name one to start from:\n{listed}"
        )
    yield name, scenario_subject(library.prepared(items[0]))


def _simulation_files(path: str) -> list[str]:
    if not Path(path).is_dir():
        if not Path(path).is_file():
            raise SimkitError(f"{path}: there is no such file")
        return [path]
    return sorted(map(str, Path(path).rglob(f"*{SIMULATION_SUFFIX}")))


def _no_simulation(name: str, cases: Sequence[ScenarioCase]) -> str:
    if cases:
        listed = "\n".join(f"  {case.id}" for case in cases)
        return f"{name}: there is no such simulation. Known:\n{listed}"
    return (
        f"{name}: there is no `*{SIMULATION_SUFFIX}` file below. Name a simulation, a scenario, a "
        "pipeline file, or `module:name`."
    )


def simulation_subject(library: Library, case: ScenarioCase) -> Subject:
    """Return a simulation of a file, to be explored; raise SourceError."""
    document = library.documents(case.file)[case.index]
    ready = prepare_simulation(library, case, document)
    simulation = ready.simulation
    if not simulation.users:
        simulation = _with_user(simulation, USER_TEXTS)
    return Subject(
        ready.prepared, simulation, ready.always, ready.finally_, ready.never, ready.lines
    )


def simulations_of(library: Library, files: Sequence[str]) -> Iterator[ScenarioCase]:
    """Yield the simulations of files; raise SourceError."""
    for file in files:
        yield from simulations_in(file, library.cache)


def scenario_subject(prepared: Prepared) -> Subject:
    """Return a scenario to be varied: only the texts of its users are used."""
    texts = (turn.user.text for turn in prepared.scenario.turns if turn.user is not None)
    own = tuple(dict.fromkeys(text for text in texts if text))
    return _subject(prepared, own or USER_TEXTS)


def pipeline_subject(library: Library, name: str) -> Subject:
    """Return a pipeline by the name of its file, or code by ``module:name``; raise SourceError."""
    if FUNCTION_NAME.fullmatch(name):
        text = f"{_HEAD}pipeline: {name}\napp: {{path: [.]}}\n"
    elif Path(name).is_file():
        text = f"{_HEAD}pipeline: {scalar(name)}\n"
    else:
        raise SourceError(name, "there is no such file")
    file = f"explored{SCENARIO_SUFFIX}"
    (document,) = load_text(text, file)
    case = ScenarioCase(file, "explored", 0, 1)
    return _subject(library.assembled(case, document), USER_TEXTS)


def is_pipeline(name: str) -> bool:
    """Return whether a name is that of a pipeline's file, or of code."""
    return name.endswith(PIPELINE_SUFFIX) or FUNCTION_NAME.fullmatch(name) is not None


def _subject(prepared: Prepared, texts: Sequence[str]) -> Subject:
    scenario = prepared.scenario
    simulation = Simulation.model_validate(
        {"simulation": scenario.scenario, "pipeline": scenario.pipeline}
    )
    return Subject(prepared, _with_user(simulation, texts), is_made_up=True)


def _with_user(simulation: Simulation, texts: Sequence[str]) -> Simulation:
    user = SimulatedUser.model_validate({"says": list(texts)})
    return simulation.model_copy(update={"users": {"user": user}})
