"""Lints on the order of a context's messages, as providers require it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from simkit.checks.findings import Hit
from simkit.checks.lints.pairing import Odd, Pairing
from simkit.checks.lints.runner import reads
from simkit.core.messages import JsonValue
from simkit.core.text import counted
from simkit.trace import events as e
from simkit.trace.views import View

NAMED_MAX: Final = 5
"""The number of calls or messages that a finding names; its data has all of them."""


def _hit(
    identity: str,
    event: e.ContextBuilt,
    view: View,
    problem: str,
    named: Sequence[str],
    data: dict[str, JsonValue],
) -> Hit:
    more = ", …" if len(named) > NAMED_MAX else ""
    sentence = (
        f"agent {event.agent!r} is sent {problem} in turn {event.turn}: "
        f"{', '.join(named[:NAMED_MAX])}{more}"
    )
    index = view.calls[event.call].index
    return Hit(identity, sentence, event.turn, event.agent, index, data=data)


class OrphanResult:
    """CTX-01: every tool result in a context comes after the call that it answers.

    The call is identified by its id. A window that begins between the two, or a filter that drops
    the call alone, leaves an orphan. Each is reported once for each agent. Seen in langgraph#7129,
    #5582 and langchain#33245.
    """

    id = "CTX-01"

    def __init__(self, pairing: Pairing | None = None) -> None:
        self.reader = pairing or Pairing()
        self._reported: set[tuple[str, str]] = set()

    @reads(e.ContextBuilt, waits="reader.oddities")
    def look(self, event: e.ContextBuilt, view: View) -> Iterable[Hit]:
        """Check for results without a call in the context."""
        results = self.reader.oddities[0].results
        if not results:
            return ()
        fresh = {
            odd.message.call_id: odd.message
            for odd in results
            if (event.agent, odd.message.call_id) not in self._reported
        }
        if not fresh:
            return ()
        self._reported.update((event.agent, call) for call in fresh)
        problem = f"{counted(len(fresh), 'tool result')} without the call"
        named = [f"{call} ({result.tool})" for call, result in fresh.items()]
        data: dict[str, JsonValue] = {"calls": list(fresh)}
        return (_hit(self.id, event, view, problem, named, data),)


class OrphanCall:
    """CTX-02: every tool call in a context is answered once, before the conversation continues.

    It continues when the user, or the agent that asked, says something; agents that run in parallel
    may speak in between. If a recipe built the context, calls at its end may wait if none of them
    is answered: a handoff is a call too, and open while a delegate works. In requests of code to a
    provider they may not, since no provider accepts them. Each is reported once for each agent.
    Seen in langgraph-swarm#105 and #83, langgraph-supervisor#67, pydantic-ai#722.
    """

    id = "CTX-02"

    def __init__(self, pairing: Pairing | None = None) -> None:
        self.reader = pairing or Pairing()
        self._reported: set[tuple[str, str]] = set()

    @reads(e.ContextBuilt, waits="reader.oddities")
    def look(self, event: e.ContextBuilt, view: View) -> Iterable[Hit]:
        """Check for calls without an answer, and for those with two."""
        odd = self.reader.oddities[0]
        if not odd.unanswered and not odd.twice:
            return ()
        unanswered = {
            pending_call.call.id: f"{pending_call.call.id} ({pending_call.call.name})"
            for pending_call in odd.unanswered
        }
        twice = {
            odd_.message.call_id: f"{odd_.message.call_id} ({odd_.message.tool})"
            for odd_ in odd.twice
        }
        hits = []
        for odd_calls, how in ((unanswered, "without an answer"), (twice, "with two answers")):
            fresh = {
                call: named
                for call, named in odd_calls.items()
                if (event.agent, call) not in self._reported
            }
            if fresh:
                self._reported.update((event.agent, call) for call in fresh)
                problem = f"{counted(len(fresh), 'tool call')} {how}"
                data: dict[str, JsonValue] = {"calls": list(fresh)}
                hits.append(_hit(self.id, event, view, problem, list(fresh.values()), data))
        return hits


class IllegalSequence:
    """CTX-12: no message of a context is empty: each has a text, or calls.

    A tool may answer with nothing. Other rules for the order of roles depend on the provider, and
    are checked for the one in use. Each message is reported once for each agent. Seen in
    langgraphjs#2499 and llama_index#19487.
    """

    id = "CTX-12"

    def __init__(self, pairing: Pairing | None = None) -> None:
        self.reader = pairing or Pairing()
        self._reported: set[tuple[str, str]] = set()

    @reads(e.ContextBuilt, waits="reader.oddities")
    def look(self, event: e.ContextBuilt, view: View) -> Iterable[Hit]:
        """Check for empty messages."""
        empty = self.reader.oddities[0].empty
        fresh = _not_reported(empty, event.agent, self._reported)
        if not fresh:
            return ()
        problem = counted(len(fresh), "empty message")
        data: dict[str, JsonValue] = {"sections": list(fresh.values())}
        return (_hit(self.id, event, view, problem, list(fresh), data),)


class SystemNotFirst:
    """CTX-15: instructions, and system messages of a history, come first.

    Other sections that a recipe places after the history (notes, a summary) belong there; without a
    known recipe, every system message counts. System messages within an agent's own run do not.
    Each is reported once for each agent. From providers that accept system messages at the
    beginning only (Anthropic, Gemini).
    """

    id = "CTX-15"

    def __init__(self, pairing: Pairing | None = None) -> None:
        self.reader = pairing or Pairing()
        self._reported: set[tuple[str, str]] = set()

    @reads(e.ContextBuilt, waits="reader.oddities")
    def look(self, event: e.ContextBuilt, view: View) -> Iterable[Hit]:
        """Check for late system messages."""
        late = self.reader.oddities[0].late
        fresh = _not_reported(late, event.agent, self._reported)
        if not fresh:
            return ()
        problem = f"{counted(len(fresh), 'system message')} after what was said"
        data: dict[str, JsonValue] = {"sections": list(fresh.values())}
        return (_hit(self.id, event, view, problem, list(fresh), data),)


def _not_reported(
    odds: Iterable[Odd], agent: str, reported: set[tuple[str, str]]
) -> dict[str, str]:
    """Return the messages that are new for an agent, by name, with their sections."""
    fresh: dict[str, str] = {}
    for message, section, _ in odds:
        where = f"section {section}" if section else f"the {message.role} message"
        if (agent, message.id or where) not in reported:
            reported.add((agent, message.id or where))
            fresh[f"{message.id} ({where})" if message.id else where] = section
    return fresh
