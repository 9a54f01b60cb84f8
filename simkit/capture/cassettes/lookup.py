"""Lookup: find the recording that answers a request.

Keys are computed once, when the player is made; an answer then takes one dictionary lookup and one
step in a queue, however many interactions there are. Each interaction answers once.
"""

from __future__ import annotations

import json
import re
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import msgspec

from simkit.capture.cassettes.keys import Keying, Question
from simkit.capture.cassettes.missing import POLICIES, Asking, PlayState, Policy, miss_text, missed
from simkit.capture.cassettes.redacting import redacted_request
from simkit.capture.cassettes.values import NOBODY, Cassette, Interaction, lane_of, with_body
from simkit.core.errors import CassetteMissed
from simkit.providers import streams
from simkit.providers.http import HttpRequest, HttpResponse


class Rewriting:
    """The current values for recorded ones, as far as a session has sent them."""

    def __init__(self) -> None:
        self._now: dict[str, str] = {}

    def learn(self, recorded: Question, question: Question) -> None:
        """Pair the values of two requests that ask the same."""
        for name, values in recorded.captured.items():
            now = question.captured.get(name, ())
            self._now.update(zip(values, now, strict=False))

    def rewritten(self, response: HttpResponse) -> HttpResponse:
        """Return the response with recorded values replaced; a stream, event by event."""
        forms = dict(_forms(self._now))
        if not forms:
            return response
        # The longest first: a folder before its parent folder.
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
        pattern = re.compile(b"|".join(re.escape(form) for form in longest_first))
        body = streams.rewritten(response, partial(pattern.sub, lambda match: forms[match[0]]))
        return with_body(response, body)


def _forms(now: Mapping[str, str]) -> Iterator[tuple[bytes, bytes]]:
    """Yield pairs of values as they appear in text, in JSON, and in JSON inside JSON."""
    for recorded, live in now.items():
        if recorded == live:
            # A value without a pair is kept as it is, so that a shorter value does not match inside
            # it.
            yield recorded.encode(), live.encode()
            continue
        for _ in range(3):
            yield recorded.encode(), live.encode()
            recorded, live = _escaped(recorded), _escaped(live)


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


# Lookup: find the recording that answers a request


class Drift(msgspec.Struct, frozen=True, gc=False):
    """A recording that answered a request different from the recorded one."""

    agent: str
    turn: int
    number: int
    """The interaction's index in the cassette."""
    request: HttpRequest
    """The current request, redacted."""


class Player:
    """Answers requests from one cassette; any number of threads may call it."""

    def __init__(
        self,
        cassette: Cassette,
        keying: Keying,
        policy: Policy = "content",
        again: str = "simkit record",
        name: str = "",
    ) -> None:
        """``again`` is the command that records the cassette again, for messages.

        ``name`` is the file's name in messages; if empty, its path.
        """
        if policy not in POLICIES:
            raise ValueError(f"{policy!r} is no policy; known: {', '.join(POLICIES)}")
        self.cassette = cassette
        self._keying, self._policy, self._again = keying, policy, again
        self._name = name or str(cassette.path)
        self._questions = [keying.question(item.request) for item in cassette.interactions]
        self._keys = [
            question.key(item.agent)
            for question, item in zip(self._questions, cassette.interactions, strict=True)
        ]
        self._by_key = _queues(self._keys)
        self._by_session = _queues(
            [
                (item.session, key)
                for item, key in zip(cassette.interactions, self._keys, strict=True)
            ]
        )
        self._by_lane = _queues([lane_of(item) for item in cassette.interactions])
        self._has_nobody = any(not item.agent for item in cassette.interactions)
        self._played = bytearray(len(cassette.interactions))
        self._drifts: list[Drift] = []
        self._rewriting: dict[str, Rewriting] = {}
        self._lock = threading.RLock()  # Finalizers may call this again.

    def take(self, agent: str, turn: int, request: HttpRequest, session: str = "") -> HttpResponse:
        """Return the recorded response; raise CassetteMissed if there is none."""
        question = self._keying.question(request)
        with self._lock:
            number = self._number(agent, turn, session, question)
            if number is not None:
                self._played[number] = 1
                if self._policy == "per-agent" and not self._is_same(number, agent, question):
                    self._drifts.append(Drift(agent, turn, number, self._redacted(request)))
                return self._response(number, session, question)
            played = bytes(self._played)
        call = Asking(agent, turn, session, self._redacted(request), question)
        state = PlayState(self.cassette, self._name, self._questions, played)
        miss = missed(call, state, self._policy)
        raise CassetteMissed(miss_text(miss, self._again), miss)

    def unplayed(self) -> tuple[tuple[int, Interaction], ...]:
        """Return the interactions that answered nothing, with their indices in the cassette."""
        items = enumerate(self.cassette.interactions)
        return tuple((number, item) for number, item in items if not self._played[number])

    def drifts(self) -> tuple[Drift, ...]:
        """Return the recordings that answered different requests, in order."""
        return tuple(self._drifts)

    def _number(self, agent: str, turn: int, session: str, question: Question) -> int | None:
        """Take an interaction out of its queue, as the policy says."""
        if self._policy == "content":
            return self._by_content(agent, session, question)
        queue = self._by_lane.get((session, turn, agent))
        if queue is None and self._has_nobody:
            queue = self._by_lane.get(NOBODY)
        if not queue:
            return None
        if self._policy == "strict" and not self._is_same(queue[0], agent, question):
            return None
        return queue.popleft()

    def _by_content(self, agent: str, session: str, question: Question) -> int | None:
        """Take an interaction from the same session, or else from any session.

        So sessions with equal requests get their own answers, in whichever order they come, and
        also alone.
        """
        for name in (agent, "") if self._has_nobody else (agent,):
            key = question.key(name)
            for queue in (self._by_session.get((session, key)), self._by_key.get(key)):
                while queue:
                    number = queue.popleft()
                    if not self._played[number]:
                        return number
        return None

    def _is_same(self, number: int, agent: str, question: Question) -> bool:
        return self._keys[number] in (question.key(agent), question.key(""))

    def _response(self, number: int, session: str, question: Question) -> HttpResponse:
        response = self.cassette.interactions[number].response
        if not question.captured and session not in self._rewriting:
            return response
        rewriting = self._rewriting.setdefault(session, Rewriting())
        rewriting.learn(self._questions[number], question)
        return rewriting.rewritten(response)

    def _redacted(self, request: HttpRequest) -> HttpRequest:
        return redacted_request(request, self._keying.redactor)


def _queues(names: Sequence[object]) -> Mapping[object, deque[int]]:
    queues: dict[object, deque[int]] = {}
    for number, name in enumerate(names):
        queues.setdefault(name, deque()).append(number)
    return queues
