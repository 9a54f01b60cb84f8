"""What a recorder knows of one conversation."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from simkit.adapters.activations import ToolRequest
from simkit.adapters.history_reader import Readings
from simkit.adapters.late_handoffs import with_targets
from simkit.adapters.streams import Print, SentStream, print_of
from simkit.core.messages import JsonValue, Message, ToolCall

_encode: Final = msgspec.json.Encoder(order="sorted").encode
_LATEST: Final = 16
"""Among how many groups of calls one that comes back is looked for."""


class Group(msgspec.Struct, frozen=True):
    """The calls of one message, as a model asked for them."""

    run: str
    ids: tuple[str, ...]
    args: tuple[bytes, ...]


class Session:
    """What is known of one conversation."""

    def __init__(self) -> None:
        self.project = ""
        self.initial_state: Mapping[str, JsonValue] = {}
        """What its state began with."""
        self.log: dict[Print, list[int]] = {}
        """What was said, by what makes it the same."""
        self.latest: dict[Print, Message] = {}
        """Of those that are the same, the one that was said last."""
        self.repeats = 0
        """How many were said that had been said before."""
        self.voices: dict[str, str] = {}
        """Who said a text, so that one of which a filter took the calls is known again."""
        self.streams: dict[str, SentStream] = {}
        self.readings = Readings()
        """What each agent was sent last, and what each list held when it was told whole."""
        self.requests: dict[str, ToolRequest] = {}
        """Tool calls by id."""
        self.ids: dict[str, str] = {}
        """Foreign ids of calls to ours."""
        self._alike: dict[tuple[str, bytes], list[str]] = {}
        """Our ids of the calls that models asked for, by name and arguments."""
        self._served: dict[str, str] = {}
        """Our ids to those under which the calls were served."""
        self.as_served: dict[str, str] = {}
        """Ids under which calls were served, as a provider writes them, to ours."""
        self._returned_ids: set[str] = set()
        """Calls that came back under the id under which they were served."""
        self._renamed: dict[str, int] = {}
        """How many other ids came for a call."""
        self._waiting: dict[tuple[str, ...], list[Group]] = {}
        """What was asked for in one message and did not come back yet, by agent and tools."""

    def add(self, message: Message, number: int) -> None:
        """Add a message to the log, under a number."""
        mark = print_of(message)
        self.repeats += mark in self.log
        self.log.setdefault(mark, []).append(number)
        self.latest[mark] = message

    def numbers_of(self, prints: Sequence[Print], before: int) -> list[int]:
        """Return the messages' numbers in the log, all below ``before``; 0 for one that is new.

        Of several that are the same, the latest that keeps the order is meant.
        """
        result = [0] * len(prints)
        for place in range(len(prints) - 1, -1, -1):
            numbers = self.log.get(prints[place])
            if numbers:
                # Of those below `before` the last; where there is none, the last of all.
                last = numbers[-1]
                before = last if last < before else numbers[bisect_left(numbers, before) - 1]
                result[place] = before
        return result

    def served(self, ours: str, prefix: str) -> str:
        """Return the id of our call as a provider writes it, by which it is known again."""
        own_id = f"{prefix}{ours.removeprefix('call'):0>24}" if prefix else ours
        self.ids[own_id], self._served[ours] = ours, own_id
        if prefix:
            self.as_served[own_id] = ours
        return own_id

    def ask(self, request: ToolRequest) -> None:
        """Record a call that a model asks for."""
        call = request.call
        self.requests[call.id] = request
        self._alike.setdefault((call.name, _args_bytes(call.args)), []).append(call.id)

    def turn_out(self, request: ToolRequest, agent: str) -> None:
        """Record that a call passes control to an agent, as was not known when it was logged."""
        ours = {request.call.id: agent}
        for mark, message in [*self.latest.items()]:
            if any(call.id in ours for call in message.calls):
                message = with_targets(message, ours)
                self.latest[print_of(message)] = message
                self.log[print_of(message)] = self.log[mark]
                request.call = next(call for call in message.calls if call.id in ours)

    def ask_together(self, agent: str, run: str, calls: Sequence[ToolCall]) -> None:
        """Record the calls of one message, by which it is known when it comes back."""
        group = Group(run, tuple(c.id for c in calls), tuple(_args_bytes(c.args) for c in calls))
        self._waiting.setdefault(_tools(agent, calls), []).append(group)

    def come_back(self, agent: str, run: str, messages: Sequence[Message]) -> None:
        """Find the calls that a request answers for the first time, whatever their ids are.

        Clients that number the calls of each request or of each conversation use one id for many
        calls: what an agent asked for last stands at the end of what it is sent next.
        """
        calls = next((message.calls for message in reversed(messages) if message.calls), ())
        waiting = self._waiting.get(_tools(agent, calls))
        if not calls or not waiting:
            return
        served = tuple(self._ours_served(call.id) for call in calls)
        args = tuple(_args_bytes(call.args) for call in calls)
        latest = waiting[: -_LATEST - 1 : -1]
        group = next((message for message in latest if message.ids == served), None)
        if group is None and not any(served):
            alike = [message for message in latest if message.args == args]
            own = [message for message in alike or latest if message.run == run]
            # Clients may fill in arguments: then only the run says which calls they are.
            group = next(iter(own or alike), None)
            for call, ours in zip(calls, group.ids if group is not None else (), strict=False):
                self._rename(call.id, ours)
        if group is not None:
            waiting.remove(group)

    def _ours_served(self, foreign: str) -> str:
        """Return our id of a call that comes under the id under which it was served, or empty."""
        ours = self.ids.get(foreign, "")
        return ours if ours and self._served.get(ours) == foreign else ""

    def _rename(self, foreign: str, ours: str) -> None:
        self._renamed[ours] = self._renamed.get(ours, 0) + 1
        self.ids[foreign] = ours

    def known_again(self, foreign: str, name: str, args: JsonValue, agent: str = "") -> str:
        """Return our id of a call that comes under a foreign one; empty for a call that is new.

        Clients of protocols that need no ids make their own. Such a call is told by its name,
        arguments and order, first among those of the ``agent`` that is sent it. An id that stood
        for another call now stands for this one.
        """
        ours, args_key = self.ids.get(foreign, ""), _args_bytes(args)
        request = self.requests.get(ours)
        if ours and request is None:
            return ours
        if self._ours_served(foreign) and request is not None and request.call.name == name:
            self._returned_ids.add(ours)
            return ours
        if request is not None and (request.call.name, _args_bytes(request.call.args)) == (
            name,
            args_key,
        ):
            return ours
        alike = [
            candidate
            for candidate in self._alike.get((name, args_key), ())
            if candidate not in self._returned_ids
        ]
        if alike:
            own = [
                candidate
                for candidate in alike
                if agent and self.requests[candidate].agent == agent
            ]
            ours = min(own or alike, key=lambda candidate: self._renamed.get(candidate, 0))
            self._rename(foreign, ours)
            return ours
        if request is not None and request.call.name == name:
            return ours
        self.ids.pop(foreign, None)
        return ""


def _tools(agent: str, calls: Sequence[ToolCall]) -> tuple[str, ...]:
    return agent, *(call.name for call in calls)


def _args_bytes(args: JsonValue) -> bytes:
    """Return arguments as bytes; ``3.0`` is ``3``, for some clients know no whole numbers."""
    encoded = _encode(args)
    return _encode(_whole(args)) if b".0" in encoded else encoded


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole(inner) for key, inner in value.items()}
    return [*map(_whole, value)] if isinstance(value, list) else value
