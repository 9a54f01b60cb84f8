"""FLW-06: questions to the user, and the agents that get the answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from simkit.checks.findings import Hit
from simkit.core.messages import JsonValue
from simkit.core.text import short
from simkit.trace import events as e
from simkit.trace.views import View

SHOWN_MAX: Final = 60
"""Characters of a question that a hit shows."""

Followed: TypeAlias = e.TurnInterrupted | e.TurnResumed | e.AgentStarted | e.StateUpdated


class _Question(NamedTuple):
    """A question of an agent to the user."""

    turn: int
    agent: str
    text: JsonValue


class _Session:
    """The questions of one session."""

    __slots__ = ("answered", "has_answer", "open", "resumed")

    def __init__(self) -> None:
        self.open: list[_Question] = []
        self.answered: list[tuple[str, JsonValue]] = []
        """Agent and question of answered questions since the last write."""
        self.resumed = 0
        """The last turn that began with an answer."""
        self.has_answer = False
        """Whether an answer has come, and no run has started with it yet."""


class AskedAgain:
    """FLW-06: an answered question is not asked again, and its answer goes to the agent that asked.

    Asked again is the same question of the same agent after its answer, if no run wrote anything
    and the user said nothing else in between. The first run of a resumed turn must be of an agent
    that waits for an answer. Seen in deepchat#2292 and openai-agents#1815.
    """

    id = "FLW-06"
    kinds: tuple[type, ...] = (e.TurnInterrupted, e.TurnResumed, e.AgentStarted, e.StateUpdated)

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}

    def look(self, event: Followed, view: View) -> Iterable[Hit]:
        """Follow each question to its answer."""
        if isinstance(event, e.TurnInterrupted):
            return self._interrupted(event, self._sessions.setdefault(event.session, _Session()))
        session = self._sessions.get(event.session) if self._sessions else None
        if session is None:
            return ()
        if isinstance(event, e.TurnResumed):
            session.resumed, session.has_answer = event.turn, True
        elif isinstance(event, e.AgentStarted):
            return self._started(event, session)
        elif event.cause not in ("given", "user"):
            session.answered.clear()
        return ()

    def _interrupted(self, event: e.TurnInterrupted, session: _Session) -> Iterable[Hit]:
        session.open.append(_Question(event.turn, event.agent, event.question))
        if (event.agent, event.question) not in session.answered:
            return ()
        problem = (
            f"agent {event.agent!r} asks again in turn {event.turn} what the user has answered: "
            f"{short(str(event.question), SHOWN_MAX)!r}"
        )
        return (Hit(self.id, problem, event.turn, event.agent, data={"question": event.question}),)

    def _started(self, event: e.AgentStarted, session: _Session) -> Iterable[Hit]:
        if event.turn != session.resumed:
            # The user said something else: earlier questions are dropped.
            session.open = [question for question in session.open if question.turn == event.turn]
            session.answered.clear()
            return ()
        if not session.has_answer:
            return ()
        session.has_answer = False
        mine = [question for question in session.open if question.agent == event.agent]
        waiting = [question.agent for question in session.open]
        session.open = [question for question in session.open if question.agent != event.agent]
        session.answered += [(question.agent, question.text) for question in mine]
        if mine or not waiting:
            return ()
        questions = list(dict.fromkeys(waiting))
        problem = (
            f"the user's answer went to agent {event.agent!r} in turn {event.turn}, but "
            f"{' and '.join(map(repr, questions))} asked"
        )
        return (Hit(self.id, problem, event.turn, event.agent, data={"asked": questions}),)
