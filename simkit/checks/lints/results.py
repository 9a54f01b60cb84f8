"""CTX-18: a tool's result is shown under the call that it answers."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, Literal, NamedTuple

import msgspec

from simkit.checks.findings import Hit
from simkit.checks.lints.runner import ToolMessage, reads
from simkit.core.messages import JsonValue, Message
from simkit.language.json_schema.coercion import is_same
from simkit.trace import events as e
from simkit.trace.views import View

_TELLING_MIN: Final = 4
"""The length of a result that distinguishes it from other values of code."""


class _ResultMessage(NamedTuple):
    """A result in a history that differs from what its call returned."""

    message: Message
    values: tuple[Any, ...]
    """The values that it may be parsed as."""


class ResultsSwapped:
    """CTX-18: results of one message's calls are not under each other's ids.

    Only certain cases are reported: under each of some calls of one message is exactly the result
    of another of them, as a text, as JSON or as Python prints it, and none has its own. Results
    that an application cuts, edits or sums up do not count, nor equal results, nor calls for which
    the driver had to guess which one was executed. For booleans, and numbers of few digits, code
    may exchange the values on purpose: there the hit is a warning.
    """

    id = "CTX-18"

    def __init__(self) -> None:
        self._siblings: dict[str, tuple[str, ...]] = {}
        """Call to the calls of its message, if there are several."""
        self._returned: dict[str, JsonValue] = {}
        """Call to its result."""
        self._odd: dict[str, _ResultMessage] = {}
        self._swapped: list[tuple[str, ...]] = []
        """Calls with exchanged results that no context has shown so far."""

    @reads(e.ToolReturned, waits="_siblings")
    def take(self, event: e.ToolReturned, view: View) -> Iterable[Hit]:
        """Remember what a call returned."""
        if event.call_id in self._siblings:
            self._returned.setdefault(event.call_id, event.result)
        return ()

    @reads(ToolMessage)
    def hear(self, event: e.MessageAdded, view: View) -> Iterable[Hit]:
        """Compare each shown result with the returned one."""
        message = event.message
        if message.calls:
            if len(message.calls) > 1:
                ids = tuple([call.id for call in message.calls])
                self._siblings.update((call_id, ids) for call_id in ids)
        elif message.call_id in self._returned:
            self._arrived(message)
        return ()

    def _arrived(self, message: Message) -> None:
        call, result = message.call_id, self._returned[message.call_id]
        self._odd.pop(call, None)
        if message.content == result or (message.data is not None and message.data == result):
            return
        result_shown = _ResultMessage(message, tuple(_readings(message)))
        if _is_of(result_shown, result):
            return
        self._odd[call] = result_shown
        ring = self._ring_of(call)
        if ring:
            self._swapped.append(ring)

    def _ring_of(self, first: str) -> tuple[str, ...]:
        """Return the ring of calls back to the first, each with the next one's result."""
        ring = [first]
        while True:
            result_shown = self._odd.get(ring[-1])
            others = [call_id for call_id in self._siblings[first] if call_id != ring[-1]]
            owners = [
                call_id
                for call_id in others
                if result_shown
                and call_id in self._returned
                and _is_of(result_shown, self._returned[call_id])
            ]
            if len(owners) != 1:
                return ()
            if owners[0] == first:
                return tuple(ring)
            if owners[0] in ring:
                return ()
            ring.append(owners[0])

    @reads(e.ContextBuilt, waits="_swapped")
    def look(self, event: e.ContextBuilt, view: View) -> Iterable[Hit]:
        """Report exchanged results when a context shows them."""
        numbers = {message.number for message in view.calls[event.call].context.messages}
        hits = []
        for ring in tuple(self._swapped):
            shown_numbers = [self._odd[call].message.number for call in ring if call in self._odd]
            if len(shown_numbers) < len(ring):
                self._swapped.remove(ring)  # It was corrected before any model got it.
            elif numbers.issuperset(shown_numbers):
                self._swapped.remove(ring)
                if _are_certain(ring, view):
                    hits.append(self._hit(event, ring, view))
        return hits

    def _hit(self, event: e.ContextBuilt, ring: tuple[str, ...], view: View) -> Hit:
        order = sorted(ring, key=self._siblings[ring[0]].index)
        tools = {
            event_.call_id: event_.tool
            for event_ in view.events[: view.hi]
            if isinstance(event_, e.ToolReturned)
        }
        places = ", ".join(
            f"{event_} ({tools[event_]}) has what {ring[(ring.index(event_) + 1) % len(ring)]} "
            "returned"
            for event_ in order
        )
        problem = (
            f"agent {event.agent!r} is sent in turn {event.turn} tool results under each other's "
            f"calls: {places}"
        )
        index = view.calls[event.call].index
        is_telling = all(_is_telling(self._returned[event_]) for event_ in ring)
        severity: Literal["W"] | None = None if is_telling else "W"
        return Hit(
            self.id,
            problem,
            event.turn,
            event.agent,
            index,
            severity=severity,
            data={"calls": order},
        )


def _readings(message: Message) -> Iterator[Any]:
    """Yield the values that a result's message may show.

    They are its data, its text, the text as JSON or Python, and a single value under one key.
    """
    readings = [message.content.strip(), message.data]
    try:
        readings.append(msgspec.json.decode(message.content))
    except msgspec.DecodeError:
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            readings.append(ast.literal_eval(message.content.strip()))
    for value in readings:
        if value is None and message.content.strip() not in ("null", "None"):
            continue
        yield value
        if isinstance(value, Mapping) and len(value) == 1:
            yield from value.values()


def _is_of(result_shown: _ResultMessage, result: JsonValue) -> bool:
    """Return whether a message shows a result."""
    plain = result.strip() if isinstance(result, str) else result
    return any(type(value) is not tuple and value == plain for value in result_shown.values)


def _is_telling(result: JsonValue) -> bool:
    """Return whether a result is so specific that it must come from its tool."""
    text = result if isinstance(result, str) else msgspec.json.encode(result).decode()
    return len(text) >= _TELLING_MIN and text.lower() not in ("true", "false", "null", "none")


def _are_certain(ring: Iterable[str], view: View) -> bool:
    """Return whether each of some calls is known to be the executed one.

    If code executes tools, a call is identified by the tool's name and the arguments: it is certain
    if it is the only one of its tool, or has arguments of its own that arrived.
    """
    requests: dict[str, list[tuple[str, JsonValue]]] = {}
    called: dict[str, list[e.ToolCalled]] = {}
    for event in view.events[: view.hi]:
        if isinstance(event, e.MessageAdded):
            for call in event.message.calls:
                requests.setdefault(call.name, []).append((call.id, call.args))
        elif isinstance(event, e.ToolCalled):
            called.setdefault(event.tool, []).append(event)
    tool_of = {call: tool for tool, calls in requests.items() for call, _ in calls}
    return all(
        call_id in tool_of
        and _is_certain(call_id, requests[tool_of[call_id]], called.get(tool_of[call_id], []))
        for call_id in ring
    )


def _is_certain(
    call: str, requests: list[tuple[str, JsonValue]], called: list[e.ToolCalled]
) -> bool:
    known = {call_: args for call_, args in requests}
    if any(call_.call_id not in known for call_ in called):
        return False  # Code calls the tool on its own, too.
    mine = [call_ for call_ in called if call_.call_id == call]
    if len(mine) != 1:
        return False
    if len(known) == 1:
        return True
    args = known[call]
    return mine[0].args == args and not any(
        call_ != call and is_same(other, args) for call_, other in known.items()
    )
