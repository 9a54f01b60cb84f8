"""CTX-18: results of one message's calls that are under each other's ids."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Final

import msgspec

from simkit.checks.findings import Hit
from simkit.checks.lints.facts import Facts, lint
from simkit.checks.lints.turns import texts_sent
from simkit.core.messages import JsonValue, Message, ToolCall
from simkit.language.json_schema.coercion import is_same
from simkit.language.paths import leaves
from simkit.trace import events as e
from simkit.trace.views import View

_TELLING_MIN: Final = 4
"""The length of a result that distinguishes it from other values of code."""


class _Results:
    """The results of calls that share a message with others."""

    def __init__(self) -> None:
        self.siblings: list[Message] = []
        """The messages with several calls whose results no context has shown so far."""
        self.returned: dict[str, JsonValue] = {}
        """Call to its result."""
        self.answers: dict[str, str] = {}
        """Run to its answer."""


@lint("CTX-18", e.MessageAdded, when="is_tool_message")
def _note_siblings(event: e.MessageAdded, facts: Facts) -> None:
    if len(event.message.calls) > 1:
        facts.notes_of(_Results).siblings.append(event.message)


@lint("CTX-18", e.ToolReturned, e.AgentFinished, when=_Results)
def _note_result(event: e.ToolReturned | e.AgentFinished, facts: Facts) -> None:
    results = facts.notes_of(_Results)
    if isinstance(event, e.ToolReturned):
        results.returned.setdefault(event.call_id, event.result)
    elif isinstance(event.output, str) and event.output.strip():
        results.answers[event.run] = event.output.strip()


@lint("CTX-18", e.ContextBuilt, when=_Results)
def results_swapped(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """CTX-18: results of one message's calls are not under each other's ids.

    Only certain cases are reported: under each of some calls of one message is exactly the result
    of another of them, as a text, as JSON or as Python prints it, and none has its own. Results
    that an application cuts, edits or sums up do not count, nor equal results, nor calls for which
    the driver had to guess which one was executed. For booleans, and numbers of few digits, code
    may exchange the values on purpose: there the hit is a warning. So are answers of agents that
    were sent the arguments. Seen in claude-code#89849.
    """
    results, view = facts.notes_of(_Results), facts.view
    if not results.siblings:
        return
    call = view.calls[event.call]
    shown_results = {each.call_id: each for each in call.context.messages if each.call_id}
    for message in [*results.siblings]:
        if not all(each.id in shown_results for each in message.calls):
            continue
        results.siblings.remove(message)
        if swapped := _swapped_in(message, shown_results, results, view):
            names = {each.id: each.name for each in message.calls}
            places = (f"{c} ({names[c]}) has what {swapped[c]} returned" for c in swapped)
            problem = (
                f"agent {event.agent!r} is sent in turn {event.turn} tool results under each "
                f"other's calls: {', '.join(places)}"
            )
            is_telling = all(_is_telling(results.returned.get(each)) for each in swapped)
            is_error = is_telling and not _owners_of(message, results, view)
            yield Hit.at("CTX-18", call, problem, is_warning=not is_error, calls=[*swapped])


def _swapped_in(
    message: Message, shown_results: Mapping[str, Message], results: _Results, view: View
) -> Mapping[str, str]:
    """Return calls that have each other's results, each with the one whose result it has."""
    ids = [each.id for each in message.calls]
    is_under = _comparison(message, shown_results, results, view)
    others = {call: [other for other in ids if is_under(call, other)] for call in ids}
    swapped = {
        call: each[0] for call, each in others.items() if len(each) == 1 and call not in each
    }
    while swapped.keys() != {*swapped.values()}:
        swapped = {c: o for c, o in swapped.items() if c in {*swapped.values()} and o in swapped}
    return swapped if _are_certain(swapped, message, results, view) else {}


def _comparison(
    message: Message, shown_results: Mapping[str, Message], results: _Results, view: View
) -> Callable[[str, str], bool]:
    """Return whether one call has another one's result, by what is known of that."""
    owners = _owners_of(message, results, view)

    def is_under(call: str, other: str) -> bool:
        if owners:
            return shown_results[call].content.strip() == owners.get(other)
        if call not in results.returned or other not in results.returned:
            return False
        result = results.returned[other]
        stripped = result.strip() if isinstance(result, str) else result
        readings = _readings(shown_results[call])
        return any(type(value) is not tuple and value == stripped for value in readings)

    return is_under


def _own_texts(message: Message) -> Mapping[str, Sequence[str]]:
    """Return for each call the texts of its arguments that no other call of the message has."""
    args = {
        call.id: [leaf for leaf in leaves(call.args) if isinstance(leaf, str) and leaf.strip()]
        for call in message.calls
    }
    rest = {call: " ".join(t for o in args if o != call for t in args[o]) for call in args}
    return {call: [text for text in args[call] if text not in rest[call]] for call in args}


def _owners_of(message: Message, results: _Results, view: View) -> Mapping[str, str]:
    """Return calls to the answers of runs that were sent their arguments alone."""
    texts = _own_texts(message)
    owners: dict[str, str] = {}
    for run, answer in results.answers.items():
        request = "\n".join(text for call in view.runs[run].calls[:1] for text in texts_sent(call))
        calls = [call for call in texts if any(text in request for text in texts[call])]
        if len(calls) == 1 and owners.setdefault(calls[0], answer) != answer:
            return {}
    return owners


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


def _is_telling(result: JsonValue) -> bool:
    """Return whether a result is so specific that it must come from its tool."""
    text = result if isinstance(result, str) else msgspec.json.encode(result).decode()
    return len(text) >= _TELLING_MIN and text.lower() not in ("true", "false", "null", "none")


def _are_certain(swapped: Iterable[str], message: Message, results: _Results, view: View) -> bool:
    """Return whether each of some calls is known to be the executed one.

    If code executes tools, a call is identified by the tool's name and the arguments: it is certain
    if it is the only one of its tool, or has arguments of its own that arrived.
    """
    calls = [call for call in message.calls if call.id in swapped and call.id in results.returned]
    return all(_is_certain(call, view) for call in calls)


def _is_certain(call: ToolCall, view: View) -> bool:
    calls = chain.from_iterable(message.calls for message in view.messages.values())
    same_tool = {each.id: each.args for each in calls if each.name == call.name}
    results = chain.from_iterable(turn.tools for turn in view.turns)
    tools = [each for each in results if each.tool == call.name]
    carried_out = [each.args for each in tools if each.call_id == call.id]
    if len(carried_out) != 1 or any(each.call_id not in same_tool for each in tools):
        return False  # Code calls the tool on its own, too.
    is_alone = sum(is_same(args, call.args) for args in same_tool.values()) == 1
    return len(same_tool) == 1 or (is_alone and carried_out[0] == call.args)
