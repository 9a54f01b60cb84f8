"""Simulated users with a model: the request for a user's next message, and its answer.

The model gets the persona and the goal, and the part of the conversation that the user sees: its
own messages, and the replies to them.
The last line of its instructions is the user as JSON, by which recorded answers are found again.

Offline, users say what a cassette has recorded of live conversations. A conversation that nobody
wrote has other replies than the recorded ones, so an answer is found in two steps: by all that the
user saw, else by what the user said itself before it. So it follows one recorded conversation, or
changes to another one that was the same up to there. Where the recordings end, it says no more.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from simkit.capture.cassettes import Cassette, Interaction, Keying, absent, load
from simkit.capture.cassettes.redacting import redacted_request
from simkit.capture.cassettes.traffic import Terms, Traffic, TrafficObserver
from simkit.core.errors import ModelError, OutputInvalid, UserSilent, WireInvalid
from simkit.core.messages import Fails, JsonValue, Message
from simkit.core.redact import Redactor
from simkit.core.text import counted, shell_word
from simkit.explore.choices import Choices
from simkit.explore.users import UserAnswer, UserConversation, UserSession
from simkit.language.paths import as_text, parts_of
from simkit.providers.http import HttpAnswer, HttpRequest
from simkit.providers.protocols import PROTOCOLS
from simkit.providers.values import ParsedRequest
from simkit.runtime.models.recorded import Outgoing, parse_answer
from simkit.runtime.running import parsed
from simkit.session.execution.judging import Answering
from simkit.session.execution.recorded import check_inside, user_cassettes
from simkit.spec.pipeline.models import ModelOptions
from simkit.spec.scenario.files import Prepared
from simkit.spec.scenario.simulated_users import SAMPLE, SimulatedUser, sample
from simkit.spec.scenario.simulations import Simulation, with_persona
from simkit.trace.store import canonical

DONE: Final = "done"
MESSAGE: Final = "message"
ATTEMPTS: Final = 2
"""How often a model is asked for one message: few answers are of another form twice."""
_PROMPT: Final = Path(__file__).with_name("user_prompt.txt").read_text("utf-8")
_USER_LINE: Final = "The user, and what the user wants:"
_SCHEMA: Final[JsonValue] = {
    "type": "object",
    "properties": {DONE: {"type": "boolean"}, MESSAGE: {"type": "string"}},
    "required": [DONE, MESSAGE],
    "additionalProperties": False,
}


def identity_of(user: SimulatedUser, persona: Mapping[str, Any]) -> str:
    """Return who a user is and what it wants, as one line of JSON."""
    facts = {"goal": with_persona(user.goal, persona), "persona": persona}
    return msgspec.json.encode(canonical(facts), order="sorted").decode()


def identity_in(request: ParsedRequest) -> str:
    """Return who the user of a request is, as one line of JSON; empty if it is for no user."""
    first = request.messages[0].content if request.messages else ""
    before, _, line = first.rpartition("\n")
    if not before.endswith(_USER_LINE):
        return ""
    try:
        facts = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return ""
    is_known = isinstance(facts, dict) and isinstance(facts.get("persona"), dict)
    return line if is_known else ""


def request_to_user(
    user: SimulatedUser, persona: Mapping[str, Any], talk: UserConversation
) -> ParsedRequest:
    """Return the request for the next message of a user with a model."""
    options = user.model
    assert options is not None
    system = f"{_PROMPT}\n{_USER_LINE}\n{identity_of(user, persona)}"
    messages = [Message("system", system)]
    for index, prompt in enumerate(talk.prompts):
        messages.append(Message("user", prompt))
        if index < len(talk.messages):
            # Its earlier answers have the form that the next one must have.
            answer = {DONE: False, MESSAGE: talk.messages[index]}
            messages.append(Message("assistant", msgspec.json.encode(answer).decode()))
    return ParsedRequest(
        options.protocol,
        options.name,
        tuple(messages),
        output=_SCHEMA,
        settings=canonical(options.settings),
        is_streamed=options.stream,
    )


def http_request_of(request: ParsedRequest) -> HttpRequest:
    """Return a request in its provider's protocol."""
    return PROTOCOLS[request.protocol].build_request(request)


def answer_in(answer: HttpAnswer, request: ParsedRequest) -> UserAnswer | str:
    """Return the answer of a user's model, or why it is none; raise UserSilent if it failed."""
    try:
        response = parse_answer(answer, request)
    except ModelError as problem:
        raise UserSilent(f"{problem.kind}: {problem}") from problem
    if isinstance(response, Fails):
        raise UserSilent(f"{response.kind}: {response.message}".removesuffix(": "))
    text = response.message.content
    user_answer = answer_of_text(text)
    if user_answer is None:
        form = f'{{"{DONE}": …, "{MESSAGE}": …}}'
        return f"it answered {as_text(text)!r}, which is not {form}"
    if not user_answer.message.strip() and not user_answer.is_last:
        return "its message is empty, and it is not done"
    return user_answer


class _Choice(msgspec.Struct, frozen=True):
    done: bool
    message: str


def answer_of_text(text: str) -> UserAnswer | None:
    """Return the answer in a text; None if it is of another form."""
    try:
        value = msgspec.convert(parsed(text, "json_in_text", "")[0], _Choice)
    except (OutputInvalid, msgspec.ValidationError):
        return None
    return UserAnswer(value.message if value.message.strip() else "", value.done)


def models_of(simulation: Simulation) -> list[ModelOptions]:
    """Return the models of a simulation's users."""
    return [user.model for user in simulation.users.values() if user.model is not None]


def check_cassettes(prepared: Prepared, simulation: Simulation) -> None:
    """Raise SimkitError for a cassette of a user that cannot be written, or not be read."""
    for name, path in user_cassettes(prepared, simulation).items():
        check_inside(path, prepared.document, ("users", name, "cassette"))
        if os.path.lexists(path):
            load(path)


class LiveUsers(AbstractContextManager["LiveUsers"]):
    """The models of one live conversation's users. Their answers are recorded.

    A context manager: if it ends without an error, the answers are written into the users'
    cassettes, in the place of those of an earlier run with this name. A conversation that breaks
    off is no recording: users would fall silent in its middle.
    """

    def __init__(
        self,
        prepared: Prepared,
        simulation: Simulation,
        run: str,
        observer: TrafficObserver,
        now: str,
    ) -> None:
        """``run`` is the run's name in cassettes; ``now`` the time of recording, ISO 8601."""
        self._simulation, self._paths = simulation, user_cassettes(prepared, simulation)
        self._document = prepared.document
        keying = Keying(prepared.redactor(os.environ))
        terms = Terms(scenario=run, mode="all", now=now, observer=observer)
        self._traffics = {
            path: Traffic(absent(path), keying, terms) for path in self._paths.values()
        }
        self._answering = {path: Answering(traffic) for path, traffic in self._traffics.items()}

    def __exit__(self, kind: type[BaseException] | None, *problem: object) -> None:
        try:
            if kind is None:
                for path, traffic in self._traffics.items():
                    traffic.save(path)
        finally:
            for answering in self._answering.values():
                answering.close()

    def persona(self, name: str, choices: Choices) -> Mapping[str, Any]:
        """Return the persona of a user."""
        chosen: Mapping[str, Any] = sample(self._simulation.users[name].persona, choices.one_of)
        return chosen

    def answer(self, speaker: UserSession, choices: Choices) -> UserAnswer:
        """Ask a user's model for its next message, again if it gives none; raise UserSilent."""
        name, talk = speaker.user_name, speaker.talk
        request = request_to_user(self._simulation.users[name], speaker.persona, talk)
        number = len(talk.messages) + 1
        call = Outgoing(f"user {name}", number, speaker.name, http_request_of(request))
        answering, why = self._answering[self._paths[name]], ""
        try:
            for _ in range(ATTEMPTS):
                reply = answer_in(answering.answer(call), request)
                if isinstance(reply, UserAnswer) and (reply.message or talk.messages):
                    return reply
                why = reply if isinstance(reply, str) else "it is done before it said anything"
        except UserSilent as problem:
            why = str(problem)
        where = self._document.position(("users", name))
        raise UserSilent(f"{where}: the model of user {name!r} gave no message {number}: {why}")


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
            first_request = request_to_user(user, persona, UserConversation())
            http_request = redacted_request(http_request_of(first_request), self._redactor)
            expected = PROTOCOLS[first_request.protocol].parse_request(http_request)
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

    def answer(self, speaker: UserSession, choices: Choices) -> UserAnswer | None:
        """Return a recorded answer; None where the recordings end."""
        return self._users[speaker.user_name].answer(speaker.persona, speaker.talk, choices)

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
    if isinstance(possible, Mapping) and possible.keys() == {SAMPLE}:
        return any(may_be(option, value) for option in possible[SAMPLE])
    if isinstance(possible, Mapping) and isinstance(value, Mapping):
        is_same = possible.keys() == value.keys()
        return is_same and all(may_be(inner, value[key]) for key, inner in possible.items())
    if isinstance(possible, (list, tuple)) and isinstance(value, list):
        return len(possible) == len(value) and all(map(may_be, possible, value))
    return bool(possible == value) and isinstance(possible, bool) == isinstance(value, bool)


def persona_count(possible: Any) -> int:
    """Return the number of values that a persona permits."""
    if isinstance(possible, Mapping) and possible.keys() == {SAMPLE}:
        return sum(map(persona_count, possible[SAMPLE]))
    return math.prod(map(persona_count, parts_of(possible)))


def _key(persona: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(canonical(persona), order="sorted")
