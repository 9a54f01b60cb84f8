"""Simulated users: who speaks next, what is said, and how users answer questions of agents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from simkit.core.messages import JsonValue
from simkit.explore.choices import Choices, Source
from simkit.explore.claims import STATE, Part
from simkit.language.paths import as_text, walk
from simkit.spec.scenario.moments import ANY_TOOL, AT_END, AT_START
from simkit.spec.scenario.simulated_users import END, SimulatedUser, sample, session_name
from simkit.spec.scenario.simulations import (
    CANCELLED_TURN,
    CRASH,
    DUPLICATE_TURN,
    RESTART,
    Simulation,
    with_persona,
)
from simkit.trace.events import Event, TurnFinished, TurnInterrupted

if TYPE_CHECKING:
    from simkit.session.simulate import Conversation

_NUMBER: Final = re.compile(r"R-\d{4,}")
"""The numbers that drawn answers bring up."""
YES: Final = "Yes."
"""The answer to a question that says nothing of its form."""
_NO: Final = "No."
_IGNORING_ODDS: Final = 8
"""One of so many questions gets no answer: the user says something else."""
_IGNORES: Final = _IGNORING_ODDS - 1
_INBOX: Final = {"accept": "accept", "ignore": "ignore", "respond": "response", "edit": "edit"}
"""Word in ``allow_…`` of an agent inbox's request, to the type of the answer that it allows."""


def answer_to(question: JsonValue, choices: Choices) -> JsonValue:
    """Return an answer that a question permits.

    Three forms are known: requests to review calls of tools, as LangChain's middleware makes them
    (``action_requests``), those that an agent inbox shows (a list with ``action_request``), and
    calls that wait for approval (``tool`` and ``args``).
    """
    for _, part in walk(question):
        if isinstance(part, Mapping) and isinstance(part.get("action_requests"), (list, tuple)):
            return {"decisions": [*_decisions(part, choices)]}
        if isinstance(part, (list, tuple)) and part and all(map(_is_of_inbox, part)):
            return [_response(request, choices) for request in part]
        if isinstance(part, Mapping) and {"tool", "args"} <= {*part}:
            return choices.below(2) == 0
    return YES


def question_in(events: Sequence[Event]) -> JsonValue:
    """Return the last question that events hold; None if they hold none."""
    questions = (event.question for event in reversed(events) if type(event) is TurnInterrupted)
    return next(questions, None)


def _decisions(request: Mapping[str, Any], choices: Choices) -> Iterator[JsonValue]:
    allowed = {
        config.get("action_name"): config.get("allowed_decisions") or ()
        for config in request.get("review_configs") or ()
    }
    for action in request["action_requests"]:
        decisions = {
            "approve": {"type": "approve"},
            "reject": {"type": "reject", "message": _NO},
            "edit": {
                "type": "edit",
                "edited_action": {key: action.get(key) for key in ("name", "args")},
            },
        }
        names = [name for name in decisions if name in allowed.get(action.get("name"), ())]
        yield decisions[choices.one_of(names or ["approve"])]


def _is_of_inbox(request: JsonValue) -> bool:
    return isinstance(request, Mapping) and "action_request" in request


def _response(request: Mapping[str, Any], choices: Choices) -> JsonValue:
    config = request.get("config") or {}
    kinds = [kind for word, kind in _INBOX.items() if config.get(f"allow_{word}")]
    kind = choices.one_of(kinds or ["accept"])
    args = {"response": YES, "edit": request["action_request"]}
    return {"type": kind, "args": args.get(kind)}


FIRST_SESSION: Final = "s1"
"""The session of turns that name none."""
CUT_CALLS: Final[Mapping[int, int]] = {1: 4, 2: 3, 3: 2, 4: 1}
"""The model calls of a turn at which it may be cut, each with its weight: most turns make few."""
CUT_TOOLS: Final[Mapping[tuple[int, str], int]] = {
    (1, AT_START): 2, (1, AT_END): 3, (2, AT_START): 1, (2, AT_END): 2,
}  # fmt: skip
"""The tool calls of a turn at which it may be cut, and when, each with its weight. After its effect
a tool is cut more often: another try then makes it twice."""
_AT_CALLS: Final = tuple(({"call": number}, weight) for number, weight in CUT_CALLS.items())
_AT_TOOLS: Final = tuple(
    ({"tool": ANY_TOOL, "call": number, "at": at}, weight)
    for (number, at), weight in CUT_TOOLS.items()
)
CUT_KEYS: Final[Mapping[str, str]] = {CANCELLED_TURN: "cancel", CRASH: "crash"}
"""Fault that ends a turn before its reply, to the key of the turn that says so."""


class UserAnswer(NamedTuple):
    """An answer of a user's model: the next message, and whether it is the last one."""

    message: str
    """Empty if the user leaves without a word."""
    is_last: bool = False


START: Final = "The conversation begins."
"""The text that a user's model gets before the user's first message."""


class UserConversation:
    """The part of a conversation that one user sees."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        """The messages that its model gave."""
        self.prompts: list[str] = [START]
        """The texts that its model gets before each of them, and before the next one."""

    def say(self, message: str) -> None:
        """Add a message of the model."""
        self.messages.append(message)
        self.prompts.append("")

    def show(self, line: str) -> None:
        """Add what the user sees before its next message."""
        before = self.prompts[-1]
        self.prompts[-1] = f"{before}\n{line}" if before else line


class Voices(Protocol):
    """The models of users, or their recorded answers."""

    def persona(self, name: str, choices: Choices) -> Mapping[str, Any]:
        """Return the persona of a user in a conversation."""

    def answer(self, speaker: UserSession, choices: Choices) -> UserAnswer | None:
        """Return what a user says next; None if that is not known."""


class UserSession:
    """One conversation of a simulated user."""

    def __init__(
        self,
        name: str,
        user: SimulatedUser,
        choices: Choices,
        *,
        user_name: str = "",
        voices: Voices | None = None,
    ) -> None:
        """``voices`` speak for a user with a model, whose name in the file is ``user_name``."""
        self.name, self._user = name, user
        self.user_name, self._voices = user_name, voices
        self.talk = UserConversation()
        """The part of the conversation that a user with a model sees."""
        self.states: set[str] = set()
        """The states in which the user spoke."""
        self.persona: Mapping[str, Any] = (
            sample(user.persona, choices.one_of)
            if voices is None
            else voices.persona(user_name, choices)
        )
        self._pauses: list[str] = []
        """The pauses before the user speaks again."""
        self._state = ""
        self._enter(user.start or next(iter(user.states), ""), choices)
        self.is_asked = False
        """Whether an agent has asked the user something, and waits."""
        self.question: JsonValue = None
        """The last question, if there was one."""
        self.number = ""
        """A number that the last answer has brought up, if users refer to it; else empty."""
        self.may_ignore = False
        """Whether the user may say something else while a question waits."""

    @property
    def is_over(self) -> bool:
        """Return whether the user says nothing more."""
        return self._state == END and not self.is_asked

    @property
    def has_model(self) -> bool:
        """Return whether a model speaks for the user."""
        return self._voices is not None

    def turn(self, choices: Choices) -> dict[str, Any] | None:
        """Return the user's next turn, as a scenario writes it; None if it says nothing more."""
        if self._voices is not None and not (self.is_asked and self._user.answers is not None):
            return self._turn_of_model(self._voices, choices)
        is_asked, self.is_asked = self.is_asked, False
        if is_asked and not (self.may_ignore and choices.below(_IGNORING_ODDS) == _IGNORES):
            answers = self._user.answers
            answer = choices.one_of(answers) if isinstance(answers, (list, tuple)) else answers
            answer = sample(answer, choices.one_of)
            if answer is None:
                answer = answer_to(self.question, choices)
            answer = with_persona(answer, self.persona)
            self.talk.show(f"You answered: {as_text(answer)}")
            return {"resume": answer}
        if self._user.says is not None:
            text = with_persona(choices.one_of(self._user.says).as_turn, self.persona)
            if self.number and choices.below(2):
                text = f"Tell me more about {self.number}."
            return {"user": text}
        state = self._user.states[self._state]
        self.states.add(self._state)
        assert state.says is not None
        turn = {"user": with_persona(choices.one_of(state.says).as_turn, self.persona)}
        if self._pauses:
            turn["pause"], self._pauses = " ".join(self._pauses), []
        self._enter(choices.weighted(state.then), choices)
        return turn

    def _turn_of_model(self, voices: Voices, choices: Choices) -> dict[str, Any] | None:
        key = "resume" if self.is_asked else "user"
        answer = voices.answer(self, choices)
        self.is_asked = False
        if answer is None or answer.is_last:
            self._state = END
        if answer is None or not answer.message:
            return None
        self.talk.say(answer.message)
        return {key: answer.message}

    def _enter(self, name: str, choices: Choices) -> None:
        """Go to a state, and on from states in which the user only waits."""
        while (state := self._user.states.get(name)) is not None:
            if state.pause is not None:
                self._pauses.append(choices.one_of(state.pause))
            if state.says is not None:
                break
            name = choices.weighted(state.then)
        self._state = name


class SimulatedUsers:
    """All users of one conversation with the pipeline, and the order in which they speak."""

    def __init__(
        self,
        simulation: Simulation,
        source: Source,
        shares: Mapping[str, float],
        voices: Voices | None = None,
        *,
        may_use_tools: bool = False,
        may_refer: bool = False,
    ) -> None:
        """``shares`` are those of what may happen to a turn; ``voices`` speak for users with a
        model.

        If the pipeline ``may_use_tools``, turns are also cut at these. Users ``may_refer`` to
        numbers in answers, if no file says what they say.
        """
        self._may_refer = may_refer
        self._source, self._shares = source, shares
        self._moments = (*_AT_CALLS, *_AT_TOOLS) if may_use_tools else _AT_CALLS
        """The moments at which a turn may be cut, each with its weight."""
        choices = source.personas
        self._users = simulation.users
        count = sum(user.sessions for user in self._users.values())
        self._sessions_of = {
            name: [
                UserSession(
                    FIRST_SESSION if count == 1 else session_name(name, number, user.sessions),
                    user,
                    choices,
                    user_name=name,
                    voices=None if user.model is None else voices,
                )
                for number in range(user.sessions)
            ]
            for name, user in self._users.items()
        }
        self._sessions = [session for each in self._sessions_of.values() for session in each]
        for session in self._sessions:
            session.may_ignore = may_refer and not source.is_each
        self.turns: list[dict[str, Any]] = []
        """The turns so far, as a scenario writes them."""
        self.speakers: list[UserSession] = []
        """The session of each turn."""

    @property
    def personas(self) -> list[Mapping[str, Any]]:
        """Return the persona of the user who speaks in each turn."""
        return [session.persona for session in self.speakers]

    def states(self) -> tuple[set[Part], set[Part]]:
        """Return the states in which users may speak, and those in which they did."""
        may = {
            Part(STATE, f"{state} of {name}")
            for name, user in self._users.items()
            for state, facts in user.states.items()
            if facts.says is not None
        }
        did = {
            Part(STATE, f"{state} of {name}")
            for name, sessions in self._sessions_of.items()
            for session in sessions
            for state in session.states
        }
        return may, did

    def ends_process(self) -> list[bool]:
        """Return for each turn that may come whether a process may end before it, or in it."""
        fates = [self._fate(index) for index in range(self._source.turns)]
        return [
            fate == CRASH or (fate == RESTART and index > 0) for index, fate in enumerate(fates)
        ]

    def speak(self) -> bool:
        """Add the next turn; return whether there is one."""
        index = len(self.turns)
        if index == self._source.turns:
            return False
        self._source.begin_turn(index)
        choices = self._source.user()
        fate = self._fate(index)
        if fate == DUPLICATE_TURN and self.say_again():
            return True
        open_sessions = [session for session in self._sessions if not session.is_over]
        turn: dict[str, Any] | None = None
        while turn is None:
            if not open_sessions:
                return False
            session = choices.one_of(open_sessions)
            turn = session.turn(choices)
            if turn is None:
                open_sessions.remove(session)
        if session.name != FIRST_SESSION:
            turn["session"] = session.name
        if fate == RESTART and index:
            turn["restart"] = True
        if fate in CUT_KEYS:
            turn[CUT_KEYS[fate]] = choices.weighted(self._moments)
        self._add(session, turn)
        return True

    def hear(self, conversation: Conversation) -> TurnFinished:
        """Let the speaker of the last turn see how it ended; return that."""
        ends = (e for e in reversed(conversation.events) if type(e) is TurnFinished)
        end, session = next(ends), self.speakers[-1]
        session.is_asked = bool(end.waits_for)
        if self._may_refer and isinstance(end.reply, str):
            session.number = next(iter(_NUMBER.findall(end.reply)), "")
        if end.waits_for:
            session.question = question_in(conversation.events)
        if session.has_model:
            # Few users have a model.
            from simkit.session.execution.judging import application_line

            session.talk.show(application_line(conversation.view.turns[-1]))
        return end

    def say_again(self) -> bool:
        """Add the last turn's message once more; return whether there is one."""
        if not self.turns or "user" not in self.turns[-1]:
            return False
        before = self.turns[-1]
        again: dict[str, Any] = {key: before[key] for key in ("user", "session") if key in before}
        self._add(self.speakers[-1], again)
        return True

    def _add(self, session: UserSession, turn: dict[str, Any]) -> None:
        self.turns.append(turn)
        self.speakers.append(session)

    def _fate(self, index: int) -> str:
        return self._source.fate(index, self._shares)
