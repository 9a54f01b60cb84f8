"""Tool calls and handoffs as they usually are: a part of the proof that no lint finds anything.

A plain call has an id of its own, is executed with the arguments that the model wrote, and has one
result before anything else is said. A plain handoff is requested, made as requested, and followed
by the start of its target, whose first context shows the request and the payload.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from simkit.checks.lints.contracts import Payloads, contract_of, required_keys, texts_by_key
from simkit.core.messages import JsonValue, ToolCall
from simkit.trace import events as e

REPEATED_MIN: Final = 3
"""The number of equal calls with equal results that is too many."""
WHOLE_MIN: Final = 80
"""A text of this many characters counts as a document if the query contains all of it."""
_encode = msgspec.json.Encoder(order="sorted").encode


class Calls:
    """The tool calls of a trace."""

    def __init__(self) -> None:
        self.open: dict[str, ToolCall] = {}
        """The calls of one message that no message has answered."""
        self.following: dict[int, int] = {}
        """The messages with calls or results, to the result that comes next; 0 after the last."""
        self._asking: set[int] = set()
        """The messages with calls."""
        self._newest = 0
        """The newest message with calls or a result."""
        self.times: dict[tuple[str, str, bytes], int] = {}
        """The number of the turn's calls by agent, tool and arguments."""
        self._known: set[str] = set()
        """All calls of the trace."""
        self._results: dict[str, JsonValue] = {}
        """The open calls' results, if their message has several calls."""
        self._are_several = False
        """Whether the message of the open calls has several."""
        self._session = self._run = ""
        """The session of the open calls, and the run that asks for them."""

    def ask(self, event: e.MessageAdded, number: int) -> bool:
        """Return whether a message with calls, and its number, is plain."""
        message, known = event.message, self._known
        calls = message.calls
        if self.open or message.role != "assistant" or message.call_id:
            return False
        for call in calls:
            if call.id in known or (calls[1:] and call.is_handoff):
                return False
            known.add(call.id)
            self.open[call.id] = call
        self._session, self._run = event.session, event.run
        self._are_several, self._results = len(calls) > 1, {}
        self._newest = number
        self._asking.add(number)
        self.following[number] = 0
        return True

    def execute(self, event: e.ToolCalled) -> bool:
        """Return whether a call waits for this, and has not been made twice with its arguments."""
        identity, args, open_calls = event.call_id, event.args, self.open
        if (
            identity not in open_calls
            or open_calls[identity].args != args
            or event.session != self._session
        ):
            return False
        key = event.agent, event.tool, _encode(args)
        times = self.times[key] = self.times[key] + 1 if key in self.times else 1
        return times < REPEATED_MIN

    def take(self, event: e.ToolReturned) -> bool:
        """Return whether a call waits for this result; note it if the call has siblings."""
        if self._are_several:
            self._results.setdefault(event.call_id, event.result)
        return event.call_id in self.open

    def answer(self, event: e.MessageAdded, number: int) -> bool:
        """Return whether a message, with its number, is the result of an open call."""
        message, results = event.message, self._results
        identity = message.call_id
        if (
            message.role != "tool"
            or identity not in self.open
            or event.session != self._session
            or event.run != self._run  # Else one run says the call, and another one the result.
        ):
            return False
        del self.open[identity]
        following = self.following
        following[self._newest], following[number] = number, 0
        self._newest = number
        if identity not in results:
            return True
        result = results[identity]
        return message.content == result or (message.data is not None and message.data == result)

    def are_whole(self, numbers: Iterable[int]) -> bool:
        """Return whether messages of a history leave no call without its results right after it."""
        following, expected = self.following, 0
        for number in numbers:
            if expected:
                if number != expected:
                    return False
                expected = following[number]
            elif number in following:
                if number not in self._asking:
                    return False
                expected = following[number]
        return not expected


class Handoffs:
    """The handoffs of a trace; at most one is on its way."""

    def __init__(self, facts: e.PipelineFacts) -> None:
        self._facts = facts
        self.open_request: e.HandoffRequested | None = None
        """The one that is on its way."""
        self._delivery: tuple[e.HandoffRequested, e.HandoffMade] | None = None
        """The same, once it is made."""
        self.targets: dict[str, tuple[str, e.HandoffRequested]] = {}
        """Runs without a context so far, to their agent and the handoff that started them."""
        self._known: set[str] = set()
        """All handoffs of the trace."""
        self._payloads = Payloads()

    def request(self, event: e.HandoffRequested) -> bool:
        """Return whether a handoff may be requested."""
        facts = self._facts
        if self.open_request is not None or not event.handoff or event.handoff in self._known:
            return False
        self._known.add(event.handoff)
        self.open_request = event
        source = facts.agents.get(event.from_agent)
        return (
            facts.is_open
            or (source is not None and event.to_agent in source.handoffs)
            or contract_of(event, facts) is not None
        )

    def make(self, event: e.HandoffMade) -> bool:
        """Return whether a handoff is made as it was requested, and as its contract demands."""
        request = self.open_request
        if request is None or self._delivery is not None or event.handoff != request.handoff:
            return False
        self._delivery = request, event
        return len(event.query or "") < WHOLE_MIN and not self._payloads.problems_of(
            event, request.payload, self._facts
        )

    def start(self, event: e.AgentStarted) -> bool:
        """Return whether a handoff was made for just this start."""
        if self._delivery is None:
            return False
        request, delivery = self._delivery
        self._delivery = self.open_request = None
        self.targets[event.run] = event.agent, request
        return (
            event.handoff == delivery.handoff
            and event.agent == delivery.to_agent
            and event.handoff_from == delivery.from_agent
            and event.session == delivery.session
        )

    def write(self, event: e.StateUpdated) -> bool:
        """Return whether the handoff that is on its way writes."""
        request = self.open_request
        return request is not None and event.handoff == request.handoff

    def show(self, event: e.ContextBuilt, users: int) -> bool:
        """Return whether a target's first context shows the request, and the payload.

        ``users`` is the number of the user's message.
        """
        agent, request = self.targets.pop(event.run)
        if event.agent != agent or not _shows_request(event.parts, request.query, users):
            return False
        if request.payload is None or request.is_taken:
            return True
        expected = texts_by_key(request)
        if not expected:
            return True
        texts = [part.message.content for part in event.parts if type(part) is e.Made]
        keys_shown = {
            key
            for key, leaves in expected.items()
            if any(leaf in text for leaf in leaves for text in texts)
        }
        required = required_keys(request, self._facts) or ()
        return bool(keys_shown) and not expected.keys() & set(required) - keys_shown


def _shows_request(parts: Iterable[e.Part], query: str | None, users: int) -> bool:
    """Return whether parts show the query, or the user's message."""
    for part in parts:
        if type(part) is e.Made:
            if (query and query in part.message.content) or (users and part.of == users):
                return True
        elif users in part.tail and not part.lo:
            return True
    return False
