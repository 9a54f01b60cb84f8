"""Users with a model, offline: they say what a cassette has recorded of live conversations.

A conversation that nobody wrote has other replies than the recorded ones, so an answer is found in
two steps: by all that the user saw, else by what the user said itself before it. So it follows one
recorded conversation, or changes to another one that was the same up to there, and says nothing
more where the recordings end.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from simkit.capture.cassettes import Cassette, Interaction, load
from simkit.capture.cassettes.redacting import redacted_request
from simkit.core.errors import UserSilent, WireInvalid
from simkit.core.redact import Redactor
from simkit.core.text import counted, shell_word
from simkit.explore.choices import Choices
from simkit.explore.user_models import (
    answer_in,
    answer_of_text,
    http_request_of,
    identity_in,
    request_to_user,
)
from simkit.explore.users import UserAnswer, UserConversation
from simkit.providers.protocols import PROTOCOLS
from simkit.providers.values import ParsedRequest
from simkit.session.execution.recorded import user_cassettes
from simkit.spec.scenario.files import Prepared
from simkit.spec.scenario.simulated_users import SAMPLE, SimulatedUser
from simkit.spec.scenario.simulations import Simulation

_Words: TypeAlias = tuple[str, ...]


class _Recorded(NamedTuple):
    """One recorded answer."""

    identity: str
    """The user's persona and goal, as one line of JSON."""
    messages: _Words
    """The user's messages before it."""
    prompts: _Words
    """The texts that the user was shown before each of them, and before the answer."""
    answer: UserAnswer


class RecordedUser:
    """The recorded answers of one user's model."""

    def __init__(self, user: SimulatedUser, cassette: Cassette, redactor: Redactor) -> None:
        self._redactor = redactor
        self._answers: dict[tuple[str, _Words], list[_Recorded]] = {}
        self._identities: dict[bytes, str] = {}
        """Persona as JSON to the identity that the cassette has for it."""
        self._personas: list[Mapping[str, Any]] = []
        possible = redactor.value(user.persona)
        for recorded in self._read(user, cassette.interactions):
            persona = msgspec.json.decode(recorded.identity)["persona"]
            if not may_be(possible, persona):
                continue
            self._answers.setdefault((recorded.identity, recorded.messages), []).append(recorded)
            if not recorded.messages and persona not in self._personas:
                self._personas.append(persona)
                self._identities[_key(persona)] = recorded.identity
        self._possible = persona_count(user.persona)

    @property
    def personas(self) -> Sequence[Mapping[str, Any]]:
        """Return the recorded personas, in the order of the file."""
        return self._personas

    @property
    def unrecorded(self) -> str:
        """Return how many personas have no conversation; empty if all have one."""
        recorded = len(self._personas)
        if recorded >= self._possible:
            return ""
        return f"{recorded} of {counted(self._possible, 'persona')} recorded"

    def answer(
        self, persona: Mapping[str, Any], talk: UserConversation, choices: Choices
    ) -> UserAnswer | None:
        """Return one of the answers that fit what the user saw, or at least what it said."""
        messages = tuple(talk.messages)
        fitting = self._answers.get((self._identities[_key(persona)], messages), [])
        prompts = tuple(map(self._redactor.text, talk.prompts))
        same = [recorded for recorded in fitting if recorded.prompts == prompts]
        answers = list(dict.fromkeys(recorded.answer for recorded in same or fitting))
        return choices.one_of(answers) if answers else None

    def _read(self, user: SimulatedUser, items: Iterable[Interaction]) -> Iterator[_Recorded]:
        """Yield the answers that were recorded of this user, as the file now describes it."""
        for item in items:
            request = _parsed(item)
            identity = "" if request is None else identity_in(request)
            if request is None or not identity:
                continue
            persona = msgspec.json.decode(identity)["persona"]
            # A recording is redacted, so that only a redacted request can be equal.
            own = request_to_user(user, persona, UserConversation())
            http_request = redacted_request(http_request_of(own), self._redactor)
            expected = PROTOCOLS[own.protocol].parse_request(http_request)
            if _compared_parts(expected) != _compared_parts(request):
                continue
            try:
                answer = answer_in(item.response, request)
            except UserSilent:
                continue
            messages, prompts = _talk_of(request)
            # A user without a first message begins no conversation.
            if isinstance(answer, UserAnswer) and (messages or answer.message):
                yield _Recorded(identity, messages, prompts, answer)


def _compared_parts(request: ParsedRequest) -> tuple[Any, ...]:
    """Return the part of a request that must be as it was recorded."""
    return request.protocol, request.model, identity_in(request), request.settings


def _parsed(item: Interaction) -> ParsedRequest | None:
    """Return a recorded request; None if it is no model call."""
    if item.protocol not in PROTOCOLS:
        return None
    try:
        return PROTOCOLS[item.protocol].parse_request(item.request)
    except WireInvalid:
        return None


def _talk_of(request: ParsedRequest) -> tuple[_Words, _Words]:
    """Return a user's messages, and the texts it was shown, in a request for its next one."""
    messages, prompts = [], []
    for message in request.messages:
        if message.role == "user":
            prompts.append(message.content)
        elif message.role == "assistant":
            answer = answer_of_text(message.content)
            messages.append(message.content if answer is None else answer.message)
    return tuple(messages), tuple(prompts)


class RecordedVoices:
    """The recorded answers of all users with a model."""

    def __init__(self, users: Mapping[str, RecordedUser]) -> None:
        self._users = users

    def persona(self, name: str, choices: Choices) -> Mapping[str, Any]:
        """Return one of the recorded personas."""
        return choices.one_of(self._users[name].personas)

    def answer(
        self,
        name: str,
        session: str,
        persona: Mapping[str, Any],
        talk: UserConversation,
        choices: Choices,
    ) -> UserAnswer | None:
        """Return a recorded answer; None where the recordings end."""
        return self._users[name].answer(persona, talk, choices)

    def notes(self) -> Iterator[str]:
        """Yield what the recordings leave out, a line for each user."""
        for name, user in self._users.items():
            if user.unrecorded:
                yield (
                    f"user {name!r}: {user.unrecorded}; `simkit live` records more with more --runs"
                )


def recorded_voices(prepared: Prepared, simulation: Simulation) -> RecordedVoices:
    """Return the recorded answers of a simulation's users.

    Raise SourceError for a user of whom nothing is recorded, CassetteInvalid for a broken file.
    """
    redactor = prepared.redactor(os.environ)
    document = prepared.document
    users = {}
    for name, path in user_cassettes(prepared, simulation).items():
        user, at = simulation.users[name], ("users", name, "cassette")
        advice = f"Record some: simkit live {shell_word(document.file)} --runs 10"
        if not os.path.lexists(path):
            raise document.error(at, f"there is no cassette `{path.name}`", advice=advice)
        recorded = RecordedUser(user, load(path), redactor)
        if not recorded.personas:
            raise document.error(
                at,
                f"`{path.name}` has no conversation of user `{name}` with this model, these "
                "settings, this goal and one of these personas",
                advice=advice,
            )
        users[name] = recorded
    return RecordedVoices(users)


def may_be(possible: Any, value: Any) -> bool:
    """Return whether a value is one of those that a persona permits."""
    if isinstance(possible, Mapping):
        if len(possible) == 1 and SAMPLE in possible:
            return any(may_be(option, value) for option in possible[SAMPLE])
        return (
            isinstance(value, Mapping)
            and possible.keys() == value.keys()
            and all(may_be(inner, value[key]) for key, inner in possible.items())
        )
    if isinstance(possible, (list, tuple)):
        return (
            isinstance(value, list)
            and len(possible) == len(value)
            and all(map(may_be, possible, value))
        )
    return bool(possible == value) and isinstance(possible, bool) == isinstance(value, bool)


def persona_count(possible: Any) -> int:
    """Return the number of values that a persona permits."""
    if isinstance(possible, Mapping):
        if len(possible) == 1 and SAMPLE in possible:
            return sum(map(persona_count, possible[SAMPLE]))
        return math.prod(map(persona_count, possible.values()))
    if isinstance(possible, (list, tuple)):
        return math.prod(map(persona_count, possible))
    return 1


def _key(persona: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(persona, order="sorted")
