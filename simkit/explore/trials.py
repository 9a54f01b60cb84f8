"""Trials beside a campaign: whether any conversation comes to a model, and findings hold alone.

All conversations of a process share the modules of the pipeline. A value that one of them leaves in
a module may make a later one fail. Alone that one would not fail, so its scenario would hold.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import product
from types import ModuleType
from typing import Any, Final

import msgspec

from simkit.adapters.modules import OwnModules
from simkit.explore.causes import label_of
from simkit.explore.choices import SIMPLEST, ChoiceLog, TurnLog
from simkit.explore.conversations import ExploredRun, with_turns
from simkit.explore.scenarios import conversation_data, shows_apart
from simkit.explore.search import Campaign, Discovery
from simkit.explore.subjects import Subject
from simkit.language.paths import leaves
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.model import Turn

_USER_DIGITS: Final = tuple(product(range(5), range(3)))
"""The choices of who speaks first, and of what is said, that are tried."""


def first_turns_that_fail(
    first: ExploredRun, run: Callable[[ChoiceLog], ExploredRun]
) -> Sequence[ChoiceLog]:
    """Return conversations of one turn, if each one ends with the same error before a model call.

    They differ in what the user says; ``first`` is the simplest. Return none if the pipeline can be
    called.
    """
    if not _fails_at_once(first):
        return ()
    tapes = {_message_of(first): SIMPLEST}
    for user in _USER_DIGITS:
        tape = ChoiceLog((TurnLog(user=user),))
        record = run(tape)
        if not _fails_at_once(record) or {*record.causes} != {*first.causes}:
            return ()
        tapes.setdefault(_message_of(record), tape)
    return [*tapes.values()]


def _fails_at_once(record: ExploredRun) -> bool:
    is_short = len(record.turns) == 1 and not record.model_calls
    return is_short and any(label_of(cause) == "error" for cause in record.causes)


def _message_of(record: ExploredRun) -> bytes:
    return msgspec.json.encode(record.turns[0].get("user"))


_NAMES_MAX: Final = 5
"""The number of places of state that are named."""
_DEEP: Final = 2
"""How many objects deep state is looked for: in a module, and in an object of the module."""
_ENDS_PROCESS: Final = frozenset(("restart", "crash"))
"""Keys of turns after which, or before which, a new process begins."""
_CONTAINERS: Final = (list, dict, set, bytearray)
_SCALARS: Final = (int, float, str)


def checked_alone(subject: Subject, campaign: Campaign, run: Callable[..., object]) -> Campaign:
    """Return a campaign whose findings say whether their conversations show them alone.

    Only user code can keep anything from one conversation to the next. ``run`` runs a conversation
    in this process.
    """
    if campaign.is_stopped or not (
        isinstance(subject.prepared.pipeline, App) or subject.names_function
    ):
        return campaign
    discoveries = tuple(
        msgspec.structs.replace(each, is_alone=_is_alone(subject, each))
        for each in campaign.discoveries
    )
    if all(each.is_alone for each in discoveries):
        return campaign
    growing = tuple(_growing(subject, run))
    return msgspec.structs.replace(campaign, discoveries=discoveries, growing=growing)


def _is_alone(subject: Subject, discovery: Discovery) -> bool:
    """Return whether a new process that runs the smallest conversation alone shows the cause."""
    data = conversation_data(discovery, subject)
    if isinstance(subject.prepared.pipeline, App) and any(
        map(_ENDS_PROCESS.intersection, data["turns"])
    ):
        # Replay restarts code within its process, where modules of others outlive it.
        return discovery.is_repeatable
    turns = [Turn.model_validate(turn) for turn in data["turns"]]
    prepared = with_turns(subject.prepared, data["turns"], turns, data.get("expect", {}))
    return shows_apart(prepared, discovery.cause)


def _growing(subject: Subject, run: Callable[..., object]) -> Iterator[str]:
    """Yield the names in modules whose values one more conversation changes."""
    pipeline = subject.prepared.pipeline
    own = OwnModules(pipeline).has if isinstance(pipeline, App) else _is_of_functions(subject)
    modules = {
        name: module
        for name, module in [*sys.modules.items()]
        if isinstance(module, ModuleType) and own(name, getattr(module, "__file__", None) or "")
    }
    before = dict(_sizes(modules))
    run(SIMPLEST)
    after = dict(_sizes(modules))
    changed = [name for name in after if name in before and before[name] != after[name]]
    yield from changed[:_NAMES_MAX]


def _is_of_functions(subject: Subject) -> Callable[[str, str], bool]:
    """Return whether a module, by name and file, holds a function of a declared pipeline."""
    data = (subject.prepared.pipeline_document.data, subject.lines)
    homes = {text.partition(":")[0] for text in leaves(data) if isinstance(text, str)}
    return lambda name, file: name in homes


def _sizes(modules: Mapping[str, ModuleType]) -> Iterator[tuple[str, object]]:
    """Yield names in modules, each with what changes if something is kept there."""
    for name, module in modules.items():
        yield from _sizes_in(name, vars(module), {*modules}, _DEEP)


def _sizes_in(
    owner: str, values: Mapping[str, Any], homes: Collection[str], depth: int
) -> Iterator[tuple[str, object]]:
    for name, value in [*values.items()]:
        place = f"{owner}.{name}"
        if name.startswith("__"):
            continue
        if isinstance(value, _SCALARS):
            yield place, value
        elif isinstance(value, _CONTAINERS):
            yield place, len(value)
        elif depth > 1 and (_home(value) in homes) and hasattr(value, "__dict__"):
            yield from _sizes_in(place, vars(value), homes, depth - 1)


def _home(value: object) -> str:
    """Return the module that defines a class, or the class of an object."""
    kind = value if isinstance(value, type) else type(value)
    return str(getattr(kind, "__module__", ""))
