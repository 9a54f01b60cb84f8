"""Subjects of exploration by name: simulations, scenarios, pipelines and code; and profiles."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from simkit.core.errors import SimkitError
from simkit.core.text import counted
from simkit.explore.users import Voices
from simkit.language.paths import leaves
from simkit.language.yaml import load_text, packed
from simkit.spec.fields import FUNCTION_NAME, METHOD_NAME
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.code_names import parted_method
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.items import (
    PIPELINE_SUFFIX,
    SCENARIO_SUFFIX,
    SIMULATION_SUFFIX,
    ScenarioCase,
    items_in,
    items_named,
    missing,
    parted,
    scenario_files,
    simulations_in,
)
from simkit.spec.scenario.model import RunSetup
from simkit.spec.scenario.simulated_users import SimulatedUser
from simkit.spec.scenario.simulations import Simulation, prepare_simulation
from simkit.spec.scenario.writing import block

if TYPE_CHECKING:
    from simkit.explore.user_models import RecordedVoices


from simkit.spec.scenario.moments import EXHAUSTIVE
from simkit.spec.scenario.simulations import (
    CANCELLED_TURN,
    CRASH,
    DUPLICATE_TURN,
    MISBEHAVIOURS,
    RESTART,
    SimulatedTool,
)

USER_TEXTS: Final = (
    "Hello.",
    "My order is A-1042.",
    "Please cancel it.",
    "Why?",
    "Can you help me with order B-7, and with A-1042 too?",
)
"""A user's texts where none are known."""
_UNUSED_KEYS: Final = ("version", "pipeline", "tags", "skip")
"""The shared keys of a scenario that do not say how its pipeline is run."""
MADE_UP_FILE: Final = f"explored{SCENARIO_SUFFIX}"
"""The name of the scenario of a pipeline that no file holds."""
_TURNS: Final = [{"user": "Hello."}]


class Subject(msgspec.Struct, frozen=True):
    """A pipeline to be explored, and the events that may happen in its conversations."""

    prepared: Prepared
    simulation: Simulation
    always: Mapping[str, Any] = {}
    """The claims on turns, as data with references to personas."""
    finally_: Mapping[str, Any] = {}
    """The claims on whole conversations, as data."""
    never: Sequence[Mapping[str, Any]] = ()
    """The things that must never happen, as data with references to personas."""
    lines: Mapping[str, Sequence[Any]] = {}
    """Agent to the lines of its model, as data."""
    is_made_up: bool = False
    """Whether no file holds the simulation."""
    voices: Voices | None = None
    """The recorded answers of users with a model; None if there are no such users."""
    notes: Sequence[str] = ()
    """The sentences to be said before it is explored: what its conversations leave out, or how it
    is that they can be run."""
    of_profile: frozenset[str] = frozenset()
    """The faults that a profile asks for, and no file."""
    found_agents: Mapping[str, Any] = {}
    """The rules of agents that no file holds: they were found in conversations."""
    stand_ins: tuple[str, ...] = ()
    """The tools that need the network, in whose place simkit answers."""

    @property
    def has_claims(self) -> bool:
        """Return whether anything is claimed."""
        return bool(self.always or self.finally_ or self.never)

    @property
    def names_function(self) -> bool:
        """Return whether a text in the files' data may be the name of a user's function.

        Parallel agents of a declared pipeline do not see each other's writes, so that only what a
        function keeps can depend on the order of their calls.
        """
        texts = leaves((self.prepared.pipeline_document.data, self.lines))
        return any(isinstance(text, str) and FUNCTION_NAME.fullmatch(text) for text in texts)

    @property
    def rare(self) -> tuple[str, ...]:
        """Return the names of all rare events."""
        return (*self.simulation.misbehaves, *self.simulation.faults)


def subjects_named(library: Library, name: str) -> Iterator[tuple[str, Subject | SimkitError]]:
    """Yield what a name stands for, each with a name of its own; raise SimkitError.

    ``name`` is that of a simulation, a scenario, a pipeline's file, a folder, or ``module:name``.
    Scenarios of one pipeline in a file, or below a folder, are one subject, `FOLDER::PIPELINE`. Of
    several, one that cannot be run is an error in its place, so that the others can be explored.
    """
    if is_pipeline(name):
        yield name, pipeline_subject(library, name)
        return
    file, chosen = parted(name)
    if not os.path.exists(file):
        raise missing(file)
    if Path(file).is_dir() or file.endswith(SIMULATION_SUFFIX):
        yield from _several(library, name, file, chosen)
        return
    items = items_in(file, library.cache) if scenario_files(file) else []
    if len(items) > 1:
        parts = dict(_scenario_subjects(library, file))
        part = f"{os.path.normpath(file)}::{chosen}"
        if not chosen or part in parts:
            yield from parts.items() if not chosen else [(part, parts[part])]
            return
    if chosen:
        items = items_named(file, items, chosen)
    if len(items) != 1:
        listed = "\n".join(f"  {item.id}" for item in items[:12])
        raise SimkitError(
            f"{name}: holds {counted(len(items), 'scenario')}; name one to start from:\n{listed}"
        )
    yield name, scenario_subject(library.prepared(items[0]))


def _several(
    library: Library, name: str, file: str, chosen: str
) -> Iterator[tuple[str, Subject | SimkitError]]:
    """Yield the subjects of a folder, or of a file of simulations; only the chosen one, if any."""
    entries = _simulations(library, file)
    known = [own for own, _, subject in entries if isinstance(subject, ScenarioCase)]
    if Path(file).is_dir():
        scenarios = _scenario_subjects(library, file)
        entries += [(own, parted(own)[1], subject) for own, subject in scenarios]
    picked = [(own, subject) for own, part, subject in entries if chosen in ("", part)]
    if not picked:
        problems = (subject for _, _, subject in entries if isinstance(subject, SimkitError))
        raise next(problems, SimkitError(_nothing_there(name, known)))
    for own, subject in picked:
        explored = _explored(library, subject)
        if len(picked) == 1:
            if isinstance(explored, SimkitError):
                raise explored
            own = name if isinstance(subject, ScenarioCase) else own
        yield own, explored


def _explored(
    library: Library, subject: ScenarioCase | Subject | SimkitError
) -> Subject | SimkitError:
    if not isinstance(subject, ScenarioCase):
        return subject
    try:
        return simulation_subject(library, subject)
    except SimkitError as problem:
        return problem


def _simulations(
    library: Library, file: str
) -> list[tuple[str, str, ScenarioCase | Subject | SimkitError]]:
    """Return the simulations of a folder or a file, each with its name, and the part to choose."""
    entries: list[tuple[str, str, ScenarioCase | Subject | SimkitError]] = []
    files = sorted(map(str, Path(file).rglob(f"*{SIMULATION_SUFFIX}")))
    for simulation_file in files if Path(file).is_dir() else [file]:
        try:
            cases = simulations_in(simulation_file, library.cache)
            entries += [(case.id, case.name, case) for case in cases]
        except SimkitError as problem:
            entries.append((simulation_file, "", problem))
    return entries


def _setup_of(prepared: Prepared, file: str) -> tuple[str, bytes]:
    """Return the pipeline of a scenario in a file, and how it runs, as a key."""
    data = prepared.document.data
    keys = [key for key in RunSetup.model_fields if key not in _UNUSED_KEYS]
    setup = packed({key: data[key] for key in keys if key in data})
    if isinstance(prepared.pipeline, App):
        return f"{Path(file).parent}/{prepared.scenario.pipeline}", setup
    document = prepared.pipeline_document
    return f"{os.path.normpath(document.file)}#{document.index}", setup


def _scenario_subjects(
    library: Library, folder: str
) -> Iterator[tuple[str, Subject | SimkitError]]:
    """Yield the scenarios below a folder: those that run the same pipeline in the same way as one.

    Their users' texts are drawn together, since no reply and no claim of theirs is used. A scenario
    or a file that is broken is its error.
    """
    groups: dict[tuple[str, bytes], list[Prepared]] = {}
    for file in scenario_files(folder):
        try:
            items = items_in(file, library.cache)
        except SimkitError as problem:
            yield file, problem
            continue
        for item in items:
            try:
                prepared = library.prepared(item)
            except SimkitError as problem:
                yield item.id, problem
                continue
            if prepared.skip is not None:
                yield item.id, scenario_subject(prepared)
                continue
            groups.setdefault(_setup_of(prepared, file), []).append(prepared)
    names: Counter[str] = Counter()
    for group in groups.values():
        label = group[0].scenario.pipeline
        if not isinstance(group[0].pipeline, App):
            label = str(group[0].pipeline_document.data["pipeline"])
        names[label] += 1
        number = "" if names[label] == 1 else f" {names[label]}"
        texts = dict.fromkeys(text for prepared in group for text in _texts_of(prepared))
        yield (
            f"{os.path.normpath(folder)}::{label}{number}",
            made_up_subject(group[0], tuple(texts) or USER_TEXTS),
        )


def _nothing_there(name: str, known: Sequence[str]) -> str:
    if known:
        listed = "\n".join(f"  {each}" for each in known)
        return f"{name}: there is no such simulation. Known:\n{listed}"
    if os.path.isfile(name):
        return (
            f"{name}: it holds no simulation\n"
            "  A simulation has `simulation:`, with its name, and `pipeline:`."
        )
    return (
        f"{name}: there is no simulation and no scenario below. Name a simulation, a scenario, a "
        "pipeline file, or `module:name`."
    )


def simulation_subject(library: Library, case: ScenarioCase, *, is_live: bool = False) -> Subject:
    """Return a simulation of a file, to be explored; raise SourceError.

    Only if ``is_live`` may it ask a judge: else no model is asked, and users with a model say what
    is recorded.
    """
    document = library.documents(case.file)[case.index]
    ready = prepare_simulation(library, case, document)
    for key, claims in (("always", ready.always), ("finally", ready.finally_)):
        if "judge" in claims and not is_live:
            raise document.error(
                (key, "judge"),
                "a judge is a model, and none is asked here",
                advice="`simkit live` asks it. Write these claims into a simulation of their own.",
                key=True,
            )
    simulation = ready.simulation
    if not simulation.users:
        simulation = _with_user(simulation, USER_TEXTS)
    voices: RecordedVoices | None = None
    if not is_live and any(user.model is not None for user in simulation.users.values()):
        # Few users have a model.
        from simkit.explore.user_models import recorded_voices

        voices = recorded_voices(ready.prepared, simulation)
    return Subject(
        ready.prepared,
        simulation,
        ready.always,
        ready.finally_,
        ready.never,
        ready.lines,
        voices=voices,
        notes=() if voices is None else tuple(voices.notes()),
    )


def scenario_subject(prepared: Prepared) -> Subject:
    """Return a scenario to be varied: only the texts of its users are used."""
    return made_up_subject(prepared, _texts_of(prepared) or USER_TEXTS)


def _texts_of(prepared: Prepared) -> tuple[str, ...]:
    """Return what the users of a scenario say, each text once."""
    texts = (turn.user.text for turn in prepared.scenario.turns if turn.user is not None)
    return tuple(dict.fromkeys(text for text in texts if text))


def pipeline_subject(library: Library, name: str, agents: Mapping[str, Any] = {}) -> Subject:
    """Return a pipeline by the name of its file, or code by ``module:name``; raise SourceError.

    Of ``module:Class.method``, the class makes the object, and the method takes the message.
    ``agents`` are rules that say which call of code is whose, as under ``agents:``.
    """
    if not METHOD_NAME.fullmatch(name) and not os.path.isfile(name):
        raise missing(name)
    entry, method = parted_method(name)
    tree: dict[str, Any] = {"scenario": "explored", "pipeline": entry, "turns": _TURNS}
    tree |= {"app": {"call": method}} if method else {}
    tree |= {"agents": agents} if agents else {}
    (document,) = load_text("\n".join([*block(tree, 0), ""]), MADE_UP_FILE)
    case = ScenarioCase(MADE_UP_FILE, "explored", 0, 1)
    subject = made_up_subject(library.assembled(case, document), USER_TEXTS)
    return msgspec.structs.replace(subject, found_agents=agents)


def with_stand_ins(subject: Subject, tools: Sequence[str]) -> Subject:
    """Return a subject in which simkit answers in place of tools that need the network."""
    if not tools:
        return subject
    simulation = subject.simulation
    all_tools = {**simulation.tools, **{tool: SimulatedTool() for tool in tools}}
    return msgspec.structs.replace(
        subject,
        simulation=simulation.model_copy(update={"tools": all_tools}),
        stand_ins=(*subject.stand_ins, *tools),
    )


def is_pipeline(name: str) -> bool:
    """Return whether a name is that of a pipeline's file, or of code."""
    return name.endswith(PIPELINE_SUFFIX) or METHOD_NAME.fullmatch(name) is not None


def made_up_subject(prepared: Prepared, texts: Sequence[str]) -> Subject:
    """Return a scenario's pipeline, with a user who says one of some texts in each turn."""
    scenario = prepared.scenario
    simulation = Simulation.model_validate(
        {"simulation": scenario.scenario, "pipeline": scenario.pipeline}
    )
    # A written scenario has no cassette: the models answer by choice.
    scenario = scenario.model_copy(update={"cassette": None})
    added = msgspec.structs.replace(prepared, scenario=scenario)
    return Subject(added, _with_user(simulation, texts), is_made_up=True)


def _with_user(simulation: Simulation, texts: Sequence[str]) -> Simulation:
    user = SimulatedUser.model_validate({"says": list(texts)})
    return simulation.model_copy(update={"users": {"user": user}})


class Profile(NamedTuple):
    """Failures that happen beside ordinary conversations."""

    faults: Mapping[str, float] = {}
    misbehaves: Mapping[str, float] = {}
    sessions: int = 1
    """The number of conversations at once that each user has."""
    schedule: str | None = None
    """The order in which waiting model calls are answered; None for the simulation's."""
    turns: int = 0
    """The number of turns that a conversation may have at least."""


OVERLOAD: Final = {"rate_limit": 0.1, "overloaded": 0.05, "timeout": 0.05, "server_error": 0.05}
PROFILES: Final[Mapping[str, Profile]] = {
    "overload": Profile(faults=OVERLOAD),
    "chaos": Profile(faults={**OVERLOAD, "connection": 0.05, "cut_stream": 0.1}),
    "models": Profile(misbehaves=dict.fromkeys(MISBEHAVIOURS, 0.05)),
    "users": Profile(faults={DUPLICATE_TURN: 0.1, CANCELLED_TURN: 0.15}, sessions=3),
    "races": Profile(schedule="pct"),
    "restarts": Profile(faults={RESTART: 0.3, CRASH: 0.1}),
    "long": Profile(turns=16),
}


def with_profile(subject: Subject, name: str) -> Subject:
    """Return a subject to which a profile's failures happen, too; its own shares stay."""
    profile, simulation = PROFILES[name], subject.simulation
    users = {
        name: user.model_copy(update={"sessions": max(user.sessions, profile.sessions)})
        for name, user in simulation.users.items()
    }
    schedule = simulation.schedule
    if profile.schedule is not None and schedule != EXHAUSTIVE:  # It has every order already.
        schedule = profile.schedule
    changed = simulation.model_copy(
        update={
            "faults": {**profile.faults, **simulation.faults},
            "misbehaves": {**profile.misbehaves, **simulation.misbehaves},
            "users": users,
            "schedule": schedule,
            "turns": max(simulation.turns, profile.turns),
        }
    )
    added = profile.faults.keys() - simulation.faults.keys()
    return msgspec.structs.replace(subject, simulation=changed, of_profile=frozenset(added))
