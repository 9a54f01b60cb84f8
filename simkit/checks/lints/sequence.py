"""Lints on the order of a context's messages, as providers require it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from simkit.checks.findings import Hit
from simkit.checks.lints.facts import Facts
from simkit.checks.lints.order import Odd, oddities_of
from simkit.checks.lints.registry import lint
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


@lint("CTX-01", e.ContextBuilt, when="is_odd")
def orphan_result(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """CTX-01: every tool result in a context comes after the call that it answers.

    The call is identified by its id. A window that begins between the two, or a filter that drops
    the call alone, leaves an orphan. Each is reported once for each agent. Seen in langgraph#7129,
    #5582 and langchain#33245.
    """
    named = {
        odd.message.call_id: f"{odd.message.call_id} ({odd.message.tool})"
        for odd in oddities_of(event, facts).results
    }
    return _hits_on_calls("CTX-01", event, facts, named, "tool result", "without the call")


@lint("CTX-02", e.ContextBuilt, when="is_odd")
def orphan_call(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """CTX-02: every tool call in a context is answered once, before the conversation continues.

    It continues when the user, or the agent that asked, says something; agents that run in parallel
    may speak in between. If a recipe built the context, calls at its end may wait if none of them
    is answered: a handoff is a call too, and open while a delegate works. In requests of code to a
    provider they may not, since no provider accepts them. Each is reported once for each agent.
    Seen in langgraph-swarm#105 and #83, langgraph-supervisor#67, pydantic-ai#722.
    """
    odd = oddities_of(event, facts)
    unanswered = {
        pending_call.call.id: f"{pending_call.call.id} ({pending_call.call.name})"
        for pending_call in odd.unanswered
    }
    twice = {
        odd_.message.call_id: f"{odd_.message.call_id} ({odd_.message.tool})" for odd_ in odd.twice
    }
    yield from _hits_on_calls("CTX-02", event, facts, unanswered, "tool call", "without an answer")
    yield from _hits_on_calls("CTX-02", event, facts, twice, "tool call", "with two answers")


def _hits_on_calls(
    identity: str,
    event: e.ContextBuilt,
    facts: Facts,
    named: Mapping[str, str],
    noun: str,
    how: str,
) -> Iterator[Hit]:
    """Yield a hit on the calls that were not reported for the agent before."""
    fresh = [call for call in named if facts.is_new(identity, event.agent, call)]
    if fresh:
        problem = f"{counted(len(fresh), noun)} {how}"
        data: dict[str, JsonValue] = {"calls": list(fresh)}
        yield _hit(identity, event, facts.view, problem, [named[call] for call in fresh], data)


@lint("CTX-12", e.ContextBuilt, when="is_odd")
def illegal_sequence(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """CTX-12: no message of a context is empty: each has a text, or calls.

    A tool may answer with nothing. Other rules for the order of roles depend on the provider, and
    are checked for the one in use. Each message is reported once for each agent. Seen in
    langgraphjs#2499 and llama_index#19487.
    """
    empty = oddities_of(event, facts).empty
    return _hits_on_messages("CTX-12", event, facts, empty, "empty message", "")


@lint("CTX-15", e.ContextBuilt, when="is_odd")
def system_not_first(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """CTX-15: instructions, and system messages of a history, come first.

    Other sections that a recipe places after the history (notes, a summary) belong there; without a
    known recipe, every system message counts. System messages within an agent's own run do not.
    Each is reported once for each agent. From providers that accept system messages at the
    beginning only (Anthropic, Gemini).
    """
    late = oddities_of(event, facts).late
    return _hits_on_messages("CTX-15", event, facts, late, "system message", " after what was said")


def _hits_on_messages(
    identity: str,
    event: e.ContextBuilt,
    facts: Facts,
    odds: Iterable[Odd],
    noun: str,
    how: str,
) -> Iterator[Hit]:
    """Yield a hit on the messages that were not reported for the agent before."""
    fresh: dict[str, str] = {}
    for message, section, _ in odds:
        where = f"section {section}" if section else f"the {message.role} message"
        if facts.is_new(identity, event.agent, message.id or where):
            fresh[f"{message.id} ({where})" if message.id else where] = section
    if fresh:
        problem = f"{counted(len(fresh), noun)}{how}"
        data: dict[str, JsonValue] = {"sections": list(fresh.values())}
        yield _hit(identity, event, facts.view, problem, list(fresh), data)
