"""CTX-18: a tool's result is shown under the call that it answers."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, Literal, NamedTuple

import msgspec

from simkit.checks.findings import Hit
from simkit.checks.lints.facts import Facts
from simkit.checks.lints.registry import lint
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


class _Results:
    """The results of calls that share a message with others."""

    def __init__(self) -> None:
        self.siblings: dict[str, tuple[str, ...]] = {}
        """Call to the calls of its message, if there are several."""
        self.returned: dict[str, JsonValue] = {}
        """Call to its result."""
        self.odd: dict[str, _ResultMessage] = {}
        """Call to the message that shows another result than its own."""
        self.swapped: list[tuple[str, ...]] = []
        """Calls with exchanged results that no context has shown so far."""

    def ring_of(self, first: str) -> tuple[str, ...]:
        """Return the ring of calls back to the first, each with the next one's result."""
        ring = [first]
        while True:
            result_shown = self.odd.get(ring[-1])
            owners = [
                call_id
                for call_id in self.siblings[first]
                if call_id != ring[-1]
                and result_shown
                and call_id in self.returned
                and _is_of(result_shown, self.returned[call_id])
            ]
            if len(owners) != 1:
                return ()
            if owners[0] == first:
                return tuple(ring)
            if owners[0] in ring:
                return ()
            ring.append(owners[0])


@lint("CTX-18", e.MessageAdded, when="is_tool_message")
def _compare_result(event: e.MessageAdded, facts: Facts) -> None:
    """Compare each shown result with the returned one."""
    message = event.message
    if len(message.calls) > 1:
        ids = tuple([call.id for call in message.calls])
        facts.notes_of(_Results).siblings.update((call_id, ids) for call_id in ids)
    if message.calls or not message.call_id or _Results not in facts.notes:
        return
    results, call = facts.notes_of(_Results), message.call_id
    if call not in results.returned:
        return
    result = results.returned[call]
    results.odd.pop(call, None)
    if message.content == result or (message.data is not None and message.data == result):
        return
    result_shown = _ResultMessage(message, tuple(_readings(message)))
    if not _is_of(result_shown, result):
        results.odd[call] = result_shown
        ring = results.ring_of(call)
        if ring:
            results.swapped.append(ring)


@lint("CTX-18", e.ToolReturned, when=_Results)
def _note_result(event: e.ToolReturned, facts: Facts) -> None:
    results = facts.notes_of(_Results)
    if event.call_id in results.siblings:
        results.returned.setdefault(event.call_id, event.result)


@lint("CTX-18", e.ContextBuilt, when=_Results)
def results_swapped(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """CTX-18: results of one message's calls are not under each other's ids.

    Only certain cases are reported: under each of some calls of one message is exactly the result
    of another of them, as a text, as JSON or as Python prints it, and none has its own. Results
    that an application cuts, edits or sums up do not count, nor equal results, nor calls for which
    the driver had to guess which one was executed. For booleans, and numbers of few digits, code
    may exchange the values on purpose: there the hit is a warning.
    """
    results, view = facts.notes_of(_Results), facts.view
    if not results.swapped:
        return
    numbers = {message.number for message in view.calls[event.call].context.messages}
    for ring in tuple(results.swapped):
        shown_numbers = [results.odd[call].message.number for call in ring if call in results.odd]
        if len(shown_numbers) < len(ring):
            results.swapped.remove(ring)  # It was corrected before any model got it.
        elif numbers.issuperset(shown_numbers):
            results.swapped.remove(ring)
            if _are_certain(ring, view):
                yield _hit(event, ring, results, view)


def _hit(event: e.ContextBuilt, ring: tuple[str, ...], results: _Results, view: View) -> Hit:
    order = sorted(ring, key=results.siblings[ring[0]].index)
    tools = {
        event_.call_id: event_.tool
        for event_ in view.events[: view.hi]
        if isinstance(event_, e.ToolReturned)
    }
    places = ", ".join(
        f"{call} ({tools[call]}) has what {ring[(ring.index(call) + 1) % len(ring)]} returned"
        for call in order
    )
    problem = (
        f"agent {event.agent!r} is sent in turn {event.turn} tool results under each other's "
        f"calls: {places}"
    )
    index = view.calls[event.call].index
    is_telling = all(_is_telling(results.returned[call]) for call in ring)
    severity: Literal["W"] | None = None if is_telling else "W"
    data: dict[str, JsonValue] = {"calls": list(order)}
    return Hit("CTX-18", problem, event.turn, event.agent, index, severity=severity, data=data)


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
