"""Filling: resolve references to columns, variables, Faker and `given`; draw what users say."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from random import Random
from typing import Any, Final, NamedTuple

from simkit.core.errors import FakeInvalid, ReferenceInvalid
from simkit.core.messages import ABSENT
from simkit.core.rng import Chance
from simkit.language.paths import compile as compile_references
from simkit.language.paths import head_of, lookup, references_in
from simkit.language.yaml import Document, SourcePath
from simkit.spec.fields import shown_value
from simkit.spec.loading import validated_at
from simkit.spec.scenario.fakes import Fakes, Person, TakenNames, Words, made_up, written_out
from simkit.spec.scenario.model import DEFAULT_START, Given, UserMessage
from simkit.spec.scenario.moments import (
    MOST,
    WHOLE,
    Spot,
    as_written,
    check_earlier,
    spots,
    waiting,
)
from simkit.spec.scenario.simulated_users import END, SimulatedUser, sample
from simkit.spec.scenario.wrong_references import (
    OF_TURNS,
    ROOTS,
    absent_target,
    check_name,
    forms_of,
    invalid_fake,
)

_PLACES: Final = (("app", "config"), ("app", "store"))
_REQUEST: Final = (("app", "headers"), ("app", "input"), ("app", "post"))
_AT_WORK: Final = {"user": _REQUEST, "session": (*_PLACES, *_REQUEST), "project": _PLACES}
"""References that are resolved while the pipeline runs, and the keys that may contain them."""
_PERSONA: Final = "persona"
"""The reference to the simulated user of a turn."""
_OF_SIMULATIONS: Final[Mapping[str, str]] = {
    "sessions": "Write `session:` beside `user:`, in each turn that has another one.",
    "answers": "Write a turn with `resume:` for the answer.",
    "says_of": "Write what the user says, or a simulation with `says_of:`.",
    "model": "Write what the user says, or a simulation whose user has a `model:`.",
}
"""Keys of simulated users that have a meaning only in simulations, and what scenarios have."""
_APART: Final = ("examples", "pipeline")
"""Keys of a scenario with references that are resolved separately."""
_FAKES: Final = ("given", "fakes")


class Speech(NamedTuple):
    """The messages of one simulated user."""

    persona: Mapping[str, Any]
    turns: tuple[Mapping[str, Any], ...]
    """The message of each turn under `user`, with the pause before it, as written."""


def speech_of(user: SimulatedUser, random: Random, most: int) -> Speech:
    """Return at most so many turns of a user, drawn by chance."""
    persona = {name: sample(value, random.choice) for name, value in user.persona.items()}
    turns: list[Mapping[str, Any]] = []
    if user.says is not None:
        messages = [random.choice(user.says) for _ in range(most)]
        return Speech(persona, tuple({"user": message.as_turn} for message in messages))
    name, pauses = user.start or next(iter(user.states)), list[str]()
    while name != END and len(turns) < most:
        state = user.states[name]
        pauses += [random.choice(state.pause)] if state.pause is not None else []
        if state.says is not None:
            pause = {"pause": " ".join(pauses)} if pauses else {}
            turns.append({"user": random.choice(state.says).as_turn, **pause})
            pauses = []
        name = random.choices([*state.then], [*state.then.values()])[0]
    return Speech(persona, tuple(turns))


def _is_simulated(turn: Mapping[str, Any]) -> bool:
    """Return whether a simulated user says what a turn's user says."""
    user = turn.get("user")
    return type(user) is not str and isinstance(user, Mapping) and [*user] == ["simulate"]


def _has_repeats(turns: Any) -> bool:
    """Return whether a turn stands for several, or for what a simulated user says."""
    return isinstance(turns, list) and any(
        isinstance(turn, dict) and ("repeat" in turn or _is_simulated(turn)) for turn in turns
    )


class Filling:
    """The values for references in a scenario's document and in the files under `use`."""

    def __init__(
        self,
        document: Document,
        row: int | None,
        seed: int | None = None,
        used: Sequence[Document] = (),
        unresolved: Mapping[str, Any] = {},
        personas: Mapping[str, Any] = {},
    ) -> None:
        """``used`` are the files under `use`, the nearest last; ``seed`` replaces the scenario's.

        ``unresolved`` has references that stay, by their paths; ``personas`` are such references of
        simulated users by name, where each has its own.
        Raise SourceError for invalid fakes.
        """
        data = document.data
        if not isinstance(data, dict):
            raise document.error((), "a document must be a mapping")
        seed_found = data.get("seed", 0) if seed is None else seed
        self._seed = seed_found if isinstance(seed_found, int) else 0
        self.waiting: dict[int, Any] = {}
        """Turn index, or WHOLE, to the source that waits for replies of earlier turns."""
        self._speeches: dict[int, tuple[Any, Speech]] = {}
        """Turn index to its user as written, and what that one says."""
        self._data, self._unresolved, self._personas = data, unresolved, personas
        self._entries: tuple[str, ...] = ()
        self._heads: dict[str, Any] = {}
        """The entries under `given.fakes` without their values."""
        cells = _cells(data, row)
        if cells:
            self._root["column"] = {k: cell for k, cell in cells.items() if not _refers(cell)}
        self._make_up([*used, document])
        if cells:
            at: SourcePath = ("examples", row or 0)
            self._root["column"] = {
                k: self._filled(document, cell, (*at, k)) if _refers(cell) else cell
                for k, cell in cells.items()
            }

    @cached_property
    def _words(self) -> Words:
        """Faker's words; most scenarios need none."""
        return Words(_start_of(self._data))

    @cached_property
    def _root(self) -> dict[str, Any]:
        """The values by the first words of references."""
        # A graph's input is resolved turn by turn, and its config session by session.
        return {
            "column": {},
            "env": _variables(self._data),
            "user": "${user}",
            "session": "${session}",
            "project": "${project}",
            "fake": Fakes(self._words, Chance(self._seed).child("fake")),
            **self._unresolved,
        }

    @property
    def people(self) -> Mapping[str, Person]:
        """Return the made-up people and things by name."""
        return {name: self._root[name] for name in self._entries}

    def filled(self, document: Document) -> Document:
        """Return a document with its references resolved; raise SourceError for wrong ones.

        A repeated turn becomes several turns. A reference to the reply of an earlier turn stays,
        and is added to `waiting`.
        """
        data = document.data
        if not isinstance(data, dict):
            return document
        turns = data.get("turns") if "scenario" in data else None
        if not document.mentions("${") and not _has_repeats(turns):
            return document
        apart = (*_APART, "turns", "expect") if isinstance(turns, list) else _APART
        filled = self._filled_body(
            document, {key: value for key, value in data.items() if key not in apart}
        )
        if isinstance(turns, list):
            return self._with_turns(document, turns, filled)
        whole = {**data, **filled}
        return document if whole == data else document.with_data(whole)

    def _filled_body(self, document: Document, body: dict[str, Any]) -> dict[str, Any]:
        """Return the part of a document that is no turn with its references resolved."""
        fakes = _fakes_in(document.data)
        if fakes:
            body["given"] = {k: v for k, v in body["given"].items() if k != "fakes"}
        users = body.pop("users") if self._personas else {}
        filled: dict[str, Any] = self._filled(document, body)
        if users:
            filled["users"] = {
                name: self._filled(document, user, ("users", name), self._root_of_user(name))
                for name, user in users.items()
            }
        if fakes:
            filled["given"] = {**filled["given"], "fakes": self._with_heads(fakes)}
        return filled

    def _root_of_user(self, name: str) -> Mapping[str, Any]:
        """Return what a simulated user may refer to."""
        return {**self._root, _PERSONA: self._personas.get(name, {})}

    def _with_turns(
        self, document: Document, turns: Sequence[Any], filled: dict[str, Any]
    ) -> Document:
        data = document.data
        times = [self._times(document, index, turn) for index, turn in enumerate(turns)]
        spots_taken = list(spots(times))
        which: list[tuple[int, str]] = []
        if max(times, default=1) > 1:
            which = [
                (
                    spot.index,
                    f"repetition {spot.repetition} of {spot.times}" if spot.times > 1 else "",
                )
                for spot in spots_taken
            ]
        document_with_turns = document.with_turns(data, which)
        filled["turns"] = [
            self._turn(document_with_turns, ("turns", index), turns[spot.index], spot)
            for index, spot in enumerate(spots_taken)
        ]
        if "expect" in data:
            number = len(spots_taken) + 1
            filled["expect"] = self._later(
                document_with_turns, data["expect"], ("expect",), WHOLE, number, {}
            )
        if {**data, **filled} == data:
            return document
        return document.with_turns({**data, **filled}, which)

    def _speech(self, document: Document, index: int, turn: Any, most: int) -> Speech:
        """Return the messages of a turn's simulated user; raise SourceError."""
        source, cached = self._speeches.get(index, (None, None))
        # Fewer messages of a user are the first ones of more.
        if cached is not None and source is turn["user"] and len(cached.turns) >= most:
            return cached
        at: SourcePath = ("turns", index, "user", "simulate")
        user = validated_at(UserMessage, turn["user"], document, at[:-1]).simulate
        assert user is not None
        for key, advice in _OF_SIMULATIONS.items():
            if key in user.model_fields_set:
                problem = f"`{key}` says nothing in a scenario"
                raise document.error((*at, key), problem, key=True, advice=advice)
        speech = speech_of(user, Chance(self._seed).child(f"user/{index}").random, most)
        if not speech.turns:
            raise document.error(at, "this user may end without a word")
        self._speeches[index] = turn["user"], speech
        return speech

    def _times(self, document: Document, index: int, turn: Any) -> int:
        """Return the number of repetitions of a turn."""
        if isinstance(turn, dict) and _is_simulated(turn):
            times = self._times(document, index, {k: v for k, v in turn.items() if k != "user"})
            return len(self._speech(document, index, turn, times).turns)
        if not isinstance(turn, dict) or "repeat" not in turn:
            return 1
        times = self._filled(document, turn["repeat"], ("turns", index, "repeat"))
        if not isinstance(times, int) or isinstance(times, bool) or not 1 <= times <= MOST:
            raise document.error(
                ("turns", index, "repeat"),
                f"must be a whole number from 1 to {MOST:,}, not {shown_value(times)}",
            )
        return int(times)

    def _turn(self, document: Document, at: SourcePath, turn: Any, spot: Spot) -> Any:
        root = {**self._root, "turn": spot.root}
        if isinstance(turn, dict) and (spot.times > 1 or _is_simulated(turn)):
            turn = {key: value for key, value in turn.items() if key != "repeat"}
        if isinstance(turn, dict) and _is_simulated(turn):
            speech = self._speech(document, spot.index, turn, spot.times)
            at_persona = (*at, "user", "simulate", _PERSONA)
            root[_PERSONA] = self._filled(document, speech.persona, at_persona)
            turn = {**turn, **speech.turns[spot.repetition - 1]}
        return self._later(document, turn, at, spot.number - 1, spot.number, root)

    def _later(
        self,
        document: Document,
        value: Any,
        at: SourcePath,
        key: int,
        number: int,
        root: Mapping[str, Any],
    ) -> Any:
        """Return a value with references to turns before ``number`` kept, and record it."""
        root = root or self._root
        try:
            references = references_in(value)
        except ReferenceInvalid:
            references = []
        stay = {name: waiting(name) for _, name in references if head_of(name) == "turns"}
        for inside, reference in references:
            if reference in stay:
                check_earlier(document, (*at, *inside), reference, number)
        filled = self._filled(document, value, at, {**root, **stay})
        if not stay:
            return filled
        self.waiting[key] = filled
        return as_written(filled)

    def _with_heads(self, fakes: Mapping[str, Any]) -> dict[str, Any]:
        """Return fakes with number and language resolved; their values stay as written."""
        return {
            name: {**entry, **self._heads[name]} if isinstance(entry, dict) else self._heads[name]
            for name, entry in fakes.items()
        }

    def _make_up(self, documents: Sequence[Document]) -> None:
        """Make up people and things; the entry in the nearest file wins."""
        entries: dict[str, tuple[Document, Any]] = {}
        for document in documents:
            fakes = _fakes_in(document.data)
            entries |= {name: (document, entry) for name, entry in fakes.items()}
        if not entries:
            return
        names_taken, self._entries = TakenNames(), tuple(entries)
        for name, (document, entry) in entries.items():
            self._root[name] = self._make_person(document, name, entry, names_taken)

    def _make_person(
        self, document: Document, name: str, entry: Any, names_taken: TakenNames
    ) -> Person:
        at: SourcePath = (*_FAKES, name)
        check_name(document, at, name)
        values, head = {}, entry
        if isinstance(entry, dict):
            head = {key: value for key, value in entry.items() if key != "values"}
            values = {"values": entry["values"]} if "values" in entry else {}
        head = self._heads[name] = self._filled(document, head, at)
        whole = {**head, **values} if isinstance(entry, dict) else head
        fake = validated_at(Given, {"fakes": {name: whole}}, document, ("given",)).fakes[name]

        def fill(key: str, value: Any, root: Mapping[str, Any]) -> Any:
            path = (*at, "values", key)
            return self._filled(document, value, path, {**self._root, **root})

        try:
            return made_up(name, fake, self._words, self._seed, names_taken, fill)
        except FakeInvalid as problem:
            where = (*at, "locale") if isinstance(entry, dict) and "locale" in entry else at
            raise invalid_fake(document, where, problem) from None

    def _filled(
        self,
        document: Document,
        value: Any,
        at: SourcePath = (),
        root: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the value at a path with its references resolved."""
        root = self._root if root is None else root
        try:
            references = references_in(value)
            template = compile_references(value)
        except ReferenceInvalid as problem:
            inside = problem.args[1] if len(problem.args) > 1 else ()
            raise document.error((*at, *inside), str(problem)) from None
        for inside, reference in references:
            path = (*at, *inside)
            is_out_of_place = path[:2] not in _AT_WORK.get(reference, (path[:2],))
            if reference not in root or is_out_of_place:
                self._check(document, path, reference, root)
        resolved = template.resolve(root)
        return written_out(resolved) if self._entries else resolved

    def _check(
        self, document: Document, path: SourcePath, reference: str, root: Mapping[str, Any]
    ) -> None:
        """Raise SourceError for a reference without a target."""
        head = head_of(reference)
        if head in self._entries and head not in root:
            raise document.error(
                path, f"`{head}` is made up after this entry: move this entry below it"
            )
        if head in OF_TURNS and head not in root:
            raise document.error(
                path,
                f"`${{{reference}}}` is in a place without turns",
                advice="It can stand in a turn, and `turns` in claims on the whole run too.",
            )
        is_known = head in (*ROOTS, *OF_TURNS, *self._unresolved) or (
            head in (*self._entries, _PERSONA) and head in root
        )
        if not is_known:
            raise document.error(
                path,
                f"unknown reference `${{{reference}}}`",
                advice=forms_of(head, root, [name for name in self._entries if name in root]),
            )
        try:
            if lookup(root, reference) is not ABSENT:
                return
        except FakeInvalid as problem:
            raise invalid_fake(document, path, problem) from None
        except ReferenceInvalid as problem:
            raise document.error(path, str(problem)) from None
        raise absent_target(document, path, reference, root)


def _fakes_in(data: Any) -> Mapping[str, Any]:
    """Return what is written about who is made up; what is no mapping is refused later."""
    given = data.get("given") if isinstance(data, dict) else None
    fakes = given.get("fakes") if isinstance(given, dict) else None
    return fakes if isinstance(fakes, dict) else {}


def root_of_files(document: Document, row: int | None) -> Mapping[str, Any]:
    """Return the values to which the names of files under `use` may refer."""
    data = document.data if isinstance(document.data, dict) else {}
    return {"column": _cells(data, row), "env": _variables(data)}


def used_files(document: Document, root: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Yield the files under `use` with their places, but for those with a reference to nothing."""
    use = document.data.get("use") if isinstance(document.data, dict) else None
    for index, name in enumerate(use if isinstance(use, list) else ()):
        with suppress(ReferenceInvalid):
            targets = [lookup(root, reference) for _, reference in references_in(name)]
            if not any(target is ABSENT or target is None for target in targets):
                yield index, str(compile_references(name).resolve(root))


def _refers(value: Any) -> bool:
    """Return whether a value contains a reference, or an unreadable one."""
    try:
        return bool(references_in(value))
    except ReferenceInvalid:
        return True


def _cells(data: Mapping[str, Any], row: int | None) -> dict[str, Any]:
    rows = data.get("examples")
    if row is None or not isinstance(rows, list) or not isinstance(rows[row], dict):
        return {}
    cells: dict[str, Any] = rows[row]
    return cells


def _variables(data: Mapping[str, Any]) -> dict[str, str | None]:
    allowed = data.get("env")
    names = allowed if isinstance(allowed, list) else ()
    return {name: os.environ.get(name) for name in names if isinstance(name, str)}


def _start_of(data: Mapping[str, Any]) -> str:
    """Return a scenario's start before it is validated; the default for an invalid one."""
    try:
        moment = datetime.fromisoformat(data.get("start", DEFAULT_START))
    except (TypeError, ValueError):
        return DEFAULT_START
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()
