"""A recorder's knowledge of one session: its agent runs, its tool calls and its log."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from types import MappingProxyType
from typing import Any, Final

import msgspec

from simkit.adapters.recorder.handoffs import with_targets
from simkit.adapters.recorder.histories import (
    GrowingLists,
    MessageHistory,
    Print,
    SentStream,
    print_of,
)
from simkit.core.messages import JsonValue, Message, ToolCall
from simkit.trace.events import Cut, HandoffRequested

NO_TOOLS: Final[Mapping[str, str]] = MappingProxyType({})


class CallFacts(msgspec.Struct, frozen=True):
    """The input of a run, if it is not the session's state."""

    state: str = ""
    """The name of the graph's state in which it runs; empty for the session's."""
    received: JsonValue = None
    """Input that no channel holds."""
    channels: tuple[str, ...] | None = None
    """The channels that it can read; None for all."""


@dataclass(slots=True, eq=False)
class Run:
    """One agent run, current or ended."""

    id: str
    agent: str
    is_node: bool = False
    is_over: bool = False
    ends_with_span: bool = False
    """Whether a framework's span shows its end."""
    call_facts: CallFacts = field(default_factory=CallFacts)
    model_calls: int = 0
    final: Message | None = None
    """Its last message without a tool call; None if there is none."""
    has_replied: bool = False
    output_tools: Mapping[str, str] = field(default_factory=lambda: NO_TOOLS)
    """Tool that the model calls to give the run's output to the argument that holds it; an empty
    text if the arguments are the output."""
    cuts: tuple[Cut, ...] = ()
    """Messages that filters dropped from the next context."""
    lasting_cuts: tuple[Cut, ...] = ()
    """Messages that filters dropped from all later contexts."""


class ToolRequest(msgspec.Struct):
    """A tool call that a model has asked for."""

    call: ToolCall
    agent: str
    run: Run
    is_told: bool = False
    """Whether ToolCalled has been emitted."""
    is_answered: bool = False
    executed: JsonValue = None
    """The arguments with which it was executed, once it was."""


_encode: Final = msgspec.json.Encoder(order="sorted").encode
_LATEST: Final = 16
"""The number of groups of calls that are searched for one that comes back."""


class Group(msgspec.Struct, frozen=True):
    """The calls of one message, as a model asked for them."""

    run: str
    ids: tuple[str, ...]
    args: tuple[bytes, ...]


class Session:
    """The log, the calls and the histories of one session."""

    def __init__(self) -> None:
        self.project = ""
        self.initial_state: Mapping[str, JsonValue] = {}
        """The initial state."""
        self._numbers: dict[Print, int] = {}
        """Print of a logged message to the number of its last one."""
        self._several: dict[Print, list[int]] = {}
        """All numbers of messages that were logged several times, or that have two prints."""
        self.latest: dict[Print, Message] = {}
        """The last logged message with a print."""
        self.repeated: list[Print] = []
        """Prints of messages that repeat earlier ones, in the order of the log."""
        self.authors: dict[str, str] = {}
        """Text to its author, to recognize a message whose calls a filter removed."""
        self.streams: dict[str, SentStream] = {}
        self.histories = GrowingLists(MessageHistory)
        """The last context of each agent, and the last content of each list."""
        self.requests: dict[str, ToolRequest] = {}
        """Tool calls by id."""
        self.pending: list[HandoffRequested] = []
        """The handoffs about which the user decides in the next turn."""
        self.ids: dict[str, str] = {}
        """Foreign ids of calls to simkit's."""
        self._alike: dict[tuple[str, bytes], list[str]] = {}
        """Simkit's ids of requested calls, by name and arguments."""
        self._served: dict[str, str] = {}
        """Simkit's ids to those in served responses."""
        self.as_served: dict[str, str] = {}
        """Ids of calls in served responses to simkit's."""
        self._returned_ids: set[str] = set()
        """Calls that came back under the served id."""
        self._renamed: dict[str, int] = {}
        """Call to the number of other ids that came for it."""
        self.groups: dict[tuple[str, ...], list[Group]] = {}
        """Calls of one message that have not come back, by agent and tools."""

    def add(self, message: Message, mark: Print, number: int) -> None:
        """Add a message to the log under a number; ``mark`` is its print."""
        numbers = self._numbers
        if mark in numbers:
            self.repeated.append(mark)
            if mark not in self._several:
                self._several[mark] = [numbers[mark]]
            self._several[mark].append(number)
        numbers[mark] = number
        self.latest[mark] = message

    def number_of(self, mark: Print) -> int:
        """Return the number of the last logged message with a print; 0 if there is none."""
        if mark in self._several:
            return self._several[mark][-1]
        return self._numbers.get(mark, 0)

    def renumbered_since(self, repeats: int) -> dict[int, int]:
        """Return what were the last numbers of messages that were repeated since, and what are."""
        counts = Counter(self.repeated[repeats:])
        several = ((self._several[mark], count) for mark, count in counts.items())
        return {numbers[-1 - count]: numbers[-1] for numbers, count in several}

    def numbers_of(self, prints: Sequence[Print], before: int) -> list[int]:
        """Return the messages' numbers in the log, all below ``before``; 0 for a new message.

        If the log has the same message several times, the latest one that keeps the order counts.
        """
        result = [*map(self._numbers.get, prints, repeat(0))]
        if not self.repeated:
            return result
        several = self._several
        for place in range(len(result) - 1, -1, -1):
            mark = prints[place]
            if mark in several:
                # The last one below `before`; if there is none, the last of all.
                numbers = several[mark]
                last = numbers[-1]
                result[place] = last if last < before else numbers[bisect_left(numbers, before) - 1]
            before = result[place] or before
        return result

    def served(self, ours: str, prefix: str) -> str:
        """Return the id of a call in the provider's format, by which it is recognized."""
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
        """Record that a logged call turned out to be a handoff to an agent."""
        ours = {request.call.id: agent}
        for mark, message in [*self.latest.items()]:
            if any(call.id in ours for call in message.calls):
                message = with_targets(message, ours)
                other = print_of(message)
                self.latest[other] = message
                if mark not in self._several:
                    self._several[mark] = [self._numbers[mark]]
                self._several[other] = self._several[mark]
                self._numbers[other] = self._numbers[mark]
                request.call = next(call for call in message.calls if call.id in ours)

    def ask_together(self, agent: str, run: str, calls: Sequence[ToolCall]) -> None:
        """Record the calls of one message, to recognize them when they come back."""
        group = Group(run, tuple(c.id for c in calls), tuple(_args_bytes(c.args) for c in calls))
        self.groups.setdefault(_tools(agent, calls), []).append(group)

    def come_back(self, agent: str, run: str, messages: Sequence[Message]) -> None:
        """Match the calls that a request answers for the first time, whatever their ids.

        Clients that number the calls of each request or session use one id for many calls: an
        agent's last calls are at the end of its next context.
        """
        if not self.groups:
            return
        calls = next((message.calls for message in reversed(messages) if message.calls), ())
        waiting = self.groups.get(_tools(agent, calls))
        if not calls or not waiting:
            return
        served = tuple(self._ours_served(call.id) for call in calls)
        args = tuple(_args_bytes(call.args) for call in calls)
        latest = waiting[: -_LATEST - 1 : -1]
        group = next((message for message in latest if message.ids == served), None)
        if group is None and not any(served):
            group = _group_of(run, args, latest)
            for call, ours in zip(calls, group.ids if group is not None else (), strict=False):
                self._rename(call.id, ours)
        if group is not None:
            waiting.remove(group)

    def _ours_served(self, foreign: str) -> str:
        """Return simkit's id for an id in a served response; empty for any other."""
        ours = self.ids.get(foreign, "")
        return ours if ours and self._served.get(ours) == foreign else ""

    def _rename(self, foreign: str, ours: str) -> None:
        self._renamed[ours] = self._renamed.get(ours, 0) + 1
        self.ids[foreign] = ours

    def _unreturned_alike(self, name: str, args_key: bytes, agent: str) -> list[str]:
        """Return the ids of calls that look the same: the agent's, or all if it has none."""
        candidates = self._alike.get((name, args_key), ())
        alike = [candidate for candidate in candidates if candidate not in self._returned_ids]
        own = [ours for ours in alike if agent and self.requests[ours].agent == agent]
        return own or alike

    def known_again(self, foreign: str, name: str, args: JsonValue, agent: str = "") -> str:
        """Return simkit's id for a foreign one; empty for a new call.

        Clients of protocols without ids make their own. Such a call is recognized by its name,
        arguments and order, first among those of the ``agent`` whose context it is in. An id that
        stood for another call now stands for this one.
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
        if alike := self._unreturned_alike(name, args_key, agent):
            ours = min(alike, key=lambda candidate: self._renamed.get(candidate, 0))
            self._rename(foreign, ours)
            return ours
        if request is not None and request.call.name == name:
            return ours
        self.ids.pop(foreign, None)
        return ""


def _group_of(run: str, args: tuple[bytes, ...], latest: Sequence[Group]) -> Group | None:
    """Return the group of calls that come back under other ids, by arguments, then by run."""
    alike = [group for group in latest if group.args == args]
    own = [group for group in alike or latest if group.run == run]
    # Clients may add arguments: then only the run identifies the calls.
    return next(iter(own or alike), None)


def _tools(agent: str, calls: Sequence[ToolCall]) -> tuple[str, ...]:
    return agent, *(call.name for call in calls)


def _args_bytes(args: JsonValue) -> bytes:
    """Return arguments as bytes; ``3.0`` equals ``3``, because some clients have no integers."""
    encoded = _encode(args)
    return _encode(_whole(args)) if b".0" in encoded else encoded


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole(inner) for key, inner in value.items()}
    return [*map(_whole, value)] if isinstance(value, list) else value
