"""Lints on clients: failures of a model provider, and what code does after them; slow servers.

Only drivers of real code see attempts: declared agents do not retry.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from simkit.checks.findings import Hit
from simkit.checks.lints.facts import SHOWN_MAX, Facts, lint
from simkit.core.messages import JsonValue
from simkit.core.text import short
from simkit.trace import events as e
from simkit.trace.views import CallView, View

WORTH_RETRYING: Final = (408, 409, 425, 429)
"""Client errors that may be temporary: RFC 9110, RFC 8470, RFC 6585."""
ATTEMPTS_MOST: Final = 5
"""More attempts than the clients of OpenAI, Anthropic and Google make by default."""
SLOW_MS: Final = 60_000
"""As long as a real server may be silent, and as some official clients wait for an answer."""
ROUNDED_MS: Final = 10
"""The tolerance of a wait in milliseconds, because each of its parts is rounded."""


def _failed_call(event: e.ContextBuilt, facts: Facts) -> tuple[CallView, e.ModelFailed] | None:
    """Return the call that a context repeats exactly, with its failure; None for all others.

    Messages, tools and settings are the same: another model, or other tools, make another question.
    """
    assert facts.retried is not None
    call = facts.view.calls[facts.retried.call]
    before = call.turn, call.context.tools, call.context.settings
    is_same = before == (event.turn, event.tools, event.settings)
    return (call, call.error) if is_same and call.error is not None else None


@lint("NET-01", e.ContextBuilt, when="retried")
def retried_in_vain(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """NET-01: a request that the provider refuses for good is not sent again unchanged.

    Refused for good is a status from 400 to 499, except those of `WORTH_RETRYING`. Seen in
    llama_index#12947 and mini-swe-agent#921.
    """
    failure = _failed_call(event, facts)
    if failure is None:
        return
    call, failed = failure
    if not 400 <= failed.status < 500 or failed.status in WORTH_RETRYING:
        return
    problem = (
        f"agent {call.agent!r} sends call {call.id} again in turn {call.turn}, unchanged, "
        f"after {failed.error} with status {failed.status}: the provider will refuse it again"
    )
    yield Hit.at("NET-01", call, problem, error=failed.error, status=failed.status)


@lint("NET-02", e.ContextBuilt, when="retried")
def retried_too_early(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """NET-02: no call is repeated before the provider's ``Retry-After`` is over.

    Time is virtual, and every sleep of the pipeline moves it; the sleeps of a program that simkit
    only serves are not seen. The header is RFC 9110, 10.2.3. Seen in pi#9595 and smolagents#2107.
    """
    failure, started = _failed_call(event, facts), facts.view.started
    if failure is None or started is None or started.driver == "served":
        return
    call, failed = failure
    waited_ms, asked_ms = event.at - failed.at, failed.retry_after_ms
    if waited_ms + ROUNDED_MS >= asked_ms:
        return
    problem = (
        f"agent {call.agent!r} sends call {call.id} again in turn {call.turn} after "
        f"{waited_ms} ms, but the provider asks for {asked_ms} ms"
    )
    yield Hit.at("NET-02", call, problem, waited_ms=waited_ms, retry_after_ms=asked_ms)


class _BrokenReplies:
    """The beginnings of replies that broke off, and the messages that may use them."""

    def __init__(self) -> None:
        self.partial: dict[tuple[str, str], e.ModelFailed] = {}
        """Session and text to the failure that left only this text."""
        self.suspects: dict[int, e.ModelFailed] = {}
        """Messages with such a text that no model is known to have written."""

    def __bool__(self) -> bool:
        return bool(self.partial)


@lint("NET-03", e.ModelFailed)
def _note_broken_reply(event: e.ModelFailed, facts: Facts) -> None:
    if event.partial.strip():
        facts.notes_of(_BrokenReplies).partial[event.session, event.partial.strip()] = event


@lint("NET-03", e.MessageAdded, when=_BrokenReplies)
def _note_suspect(event: e.MessageAdded, facts: Facts) -> None:
    message, broken = event.message, facts.notes_of(_BrokenReplies)
    failed = broken.partial.get((event.session, message.content.strip()))
    if message.role == "assistant" and failed is not None:
        broken.suspects[message.number] = failed


@lint("NET-03", e.ModelReplied, when=_BrokenReplies)
def _forget_whole_reply(event: e.ModelReplied, facts: Facts) -> None:
    broken = facts.notes_of(_BrokenReplies)
    broken.suspects.pop(event.message, None)
    message = facts.view.messages.get(event.message)
    if message is not None:
        broken.partial.pop((event.session, message.content.strip()), None)


@lint("NET-03", e.TurnFinished, when=_BrokenReplies)
def _cut_reply_of_turn(event: e.TurnFinished, facts: Facts) -> Iterable[Hit]:
    if isinstance(event.reply, str):
        broken = facts.notes_of(_BrokenReplies)
        failed = broken.partial.get((event.session, event.reply.strip()))
        if failed is not None and failed.turn == event.turn:
            yield _hit_of_cut(failed, event.turn, f"is the reply of turn {event.turn}", facts.view)


@lint("NET-03", e.ContextBuilt, when=_BrokenReplies)
def cut_reply_taken(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """NET-03: the beginning of a reply that broke off is not used as the reply.

    It is used if it is the turn's reply, or appears in a later context as an assistant message with
    something after it; as the last message, it asks the model to continue. Seen in
    hermes-agent#67616.
    """
    suspects = facts.notes_of(_BrokenReplies).suspects
    if not suspects:
        return
    messages = facts.view.calls[event.call].context.messages
    for index, message in enumerate(messages, 1):
        failed = suspects.pop(message.number, None)
        if failed is not None and index < len(messages):
            where = f"stands in a context of agent {event.agent!r} in turn {event.turn}"
            yield _hit_of_cut(failed, event.turn, where, facts.view)


def _hit_of_cut(failed: e.ModelFailed, turn: int, where: str, view: View) -> Hit:
    text = short(failed.partial.strip(), SHOWN_MAX)
    problem = (
        f"the half reply {text!r} {where}: {failed.error} ended call {failed.call} of agent "
        f"{failed.agent!r} in turn {failed.turn}"
    )
    data: dict[str, JsonValue] = {"error": failed.error, "partial": failed.partial}
    index = view.calls[failed.call].index if failed.turn == turn else None
    return Hit("NET-03", problem, turn, failed.agent, index, data=data)


@lint("NET-04", e.ModelRetried)
def retry_storm(event: e.ModelRetried, facts: Facts) -> Iterable[Hit]:
    """NET-04: a call is not repeated many times.

    Retries multiply if several layers make them. Seen in mini-swe-agent#921: ten attempts.
    """
    if event.attempt != ATTEMPTS_MOST + 1:
        return
    call = facts.view.calls[event.call]
    problem = (
        f"agent {event.agent!r} makes one call for the {event.attempt}th time in turn "
        f"{event.turn}; it last failed with {call.error.error if call.error else 'nothing'}"
    )
    yield Hit.at("NET-04", call, problem, attempt=event.attempt)


@lint("NET-05", e.TurnFinished)
def slow_server(event: e.TurnFinished, facts: Facts) -> Iterable[Hit]:
    """NET-05: no server takes a minute of virtual time to answer.

    The error of a turn has such a server among its causes.
    """
    for tool in facts.view.turns[-1].tools if event.error is None else ():
        took_ms = (tool.returned_at or tool.at) - tool.at
        if tool.server and took_ms >= SLOW_MS:
            problem = (
                f"agent {tool.agent!r} called {tool.tool!r} in turn {event.turn}, and server "
                f"`{tool.server}` took {took_ms / 1_000:g} s to answer"
            )
            yield Hit.at("NET-05", event, problem, agent=tool.agent, server=tool.server)
