"""Lints on clients: what a pipeline's code does after a failure of a model provider.

Only drivers of real code see attempts: declared agents do not retry.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from simkit.checks.findings import Hit
from simkit.checks.lints.runner import reads
from simkit.core.messages import JsonValue
from simkit.core.text import short
from simkit.trace import events as e
from simkit.trace.views import CallView, View

WORTH_RETRYING: Final = (408, 409, 425, 429)
"""Client errors that may be temporary: RFC 9110, RFC 8470, RFC 6585."""
ATTEMPTS_MOST: Final = 5
"""More attempts than the clients of OpenAI, Anthropic and Google make by default."""
ROUNDED_MS: Final = 10
"""The tolerance of a wait in milliseconds, because each of its parts is rounded."""
_SHOWN_MAX: Final = 60


class _Again:
    """A search for calls that are repeated exactly: same messages, tools and settings.

    Another model, or other tools, make another question.
    """

    def __init__(self) -> None:
        self._retried: dict[tuple[str, str], e.ModelRetried] = {}

    @reads(e.ModelRetried)
    def retry(self, event: e.ModelRetried, view: View) -> Iterable[Hit]:
        """Wait for the context that repeats the call."""
        self._retried[event.session, event.agent] = event
        return ()

    def failed(self, event: e.ContextBuilt, view: View) -> tuple[CallView, e.ModelFailed] | None:
        """Return the call that a context repeats, with its failure; None for all others."""
        retried = self._retried.pop((event.session, event.agent), None)
        if retried is None:
            return None
        call = view.calls[retried.call]
        is_same = (
            call.turn == event.turn
            and call.context.tools == event.tools
            and call.context.settings == event.settings
        )
        return (call, call.error) if is_same and call.error is not None else None


class RetriedInVain(_Again):
    """NET-01: a request that the provider refuses for good is not sent again unchanged.

    Refused for good is a status from 400 to 499, except those of `WORTH_RETRYING`. Seen in
    llama_index#12947 and mini-swe-agent#921.
    """

    id = "NET-01"

    @reads(e.ContextBuilt, waits="_retried")
    def look(self, event: e.ContextBuilt, view: View) -> Iterable[Hit]:
        """Check every repeated call."""
        failure = self.failed(event, view)
        if failure is None:
            return ()
        call, failed = failure
        if not 400 <= failed.status < 500 or failed.status in WORTH_RETRYING:
            return ()
        problem = (
            f"agent {call.agent!r} sends call {call.id} again in turn {call.turn}, unchanged, "
            f"after {failed.error} with status {failed.status}: the provider will refuse it again"
        )
        data: dict[str, JsonValue] = {"error": failed.error, "status": failed.status}
        return (Hit(self.id, problem, call.turn, call.agent, call.index, data=data),)


class RetriedTooEarly(_Again):
    """NET-02: no call is repeated before the provider's ``Retry-After`` is over.

    Time is virtual, and every sleep of the pipeline moves it; the sleeps of a program that simkit
    only serves are not seen. The header is RFC 9110, 10.2.3. Seen in pi#9595 and smolagents#2107.
    """

    id = "NET-02"

    @reads(e.ContextBuilt, waits="_retried")
    def look(self, event: e.ContextBuilt, view: View) -> Iterable[Hit]:
        """Check every repeated call."""
        failure = self.failed(event, view)
        if failure is None or view.started is None or view.started.driver == "served":
            return ()
        call, failed = failure
        waited_ms, asked_ms = event.at - failed.at, failed.retry_after_ms
        if waited_ms + ROUNDED_MS >= asked_ms:
            return ()
        problem = (
            f"agent {call.agent!r} sends call {call.id} again in turn {call.turn} after "
            f"{waited_ms} ms, but the provider asks for {asked_ms} ms"
        )
        data: dict[str, JsonValue] = {"waited_ms": waited_ms, "retry_after_ms": asked_ms}
        return (Hit(self.id, problem, call.turn, call.agent, call.index, data=data),)


class CutReplyTaken:
    """NET-03: the beginning of a reply that broke off is not used as the reply.

    It is used if it is the turn's reply, or appears in a later context as an assistant message with
    something after it; as the last message, it asks the model to continue. Seen in
    hermes-agent#67616.
    """

    id = "NET-03"

    def __init__(self) -> None:
        self._partial: dict[tuple[str, str], e.ModelFailed] = {}
        """Session and text to the failure that left only this text."""
        self._suspects: dict[int, e.ModelFailed] = {}
        """Messages with such a text that no model is known to have written."""

    @reads(e.ModelFailed)
    def fail(self, event: e.ModelFailed, view: View) -> Iterable[Hit]:
        """Remember a broken reply, which later events may use."""
        if event.partial.strip():
            self._partial[event.session, event.partial.strip()] = event
        return ()

    @reads(e.MessageAdded, waits="_partial")
    def suspect(self, event: e.MessageAdded, view: View) -> Iterable[Hit]:
        """Remember a message with the text of a broken reply."""
        message = event.message
        failed = self._partial.get((event.session, message.content.strip()))
        if message.role == "assistant" and failed is not None:
            self._suspects[message.number] = failed
        return ()

    @reads(e.ModelReplied, waits="_partial")
    def clear(self, event: e.ModelReplied, view: View) -> Iterable[Hit]:
        """Forget a reply that was complete after all."""
        self._suspects.pop(event.message, None)
        message = view.messages.get(event.message)
        if message is not None:
            self._partial.pop((event.session, message.content.strip()), None)
        return ()

    @reads(e.TurnFinished, waits="_partial")
    def end(self, event: e.TurnFinished, view: View) -> Iterable[Hit]:
        """Check the turn's reply."""
        if isinstance(event.reply, str):
            failed = self._partial.get((event.session, event.reply.strip()))
            if failed is not None and failed.turn == event.turn:
                where = f"is the reply of turn {event.turn}"
                return (self._hit(failed, event.turn, where, view),)
        return ()

    @reads(e.ContextBuilt, waits="_suspects")
    def look(self, event: e.ContextBuilt, view: View) -> Iterable[Hit]:
        """Search a context for the suspects."""
        if not self._partial:
            return ()
        messages = view.calls[event.call].context.messages
        hits = []
        for place, message in enumerate(messages, 1):
            failed = self._suspects.pop(message.number, None)
            if failed is not None and place < len(messages):
                where = f"stands in a context of agent {event.agent!r} in turn {event.turn}"
                hits.append(self._hit(failed, event.turn, where, view))
        return hits

    def _hit(self, failed: e.ModelFailed, turn: int, where: str, view: View) -> Hit:
        text = short(failed.partial.strip(), _SHOWN_MAX)
        problem = (
            f"what came of call {failed.call} of agent {failed.agent!r} in turn {failed.turn} "
            f"before {failed.error}, {text!r}, {where}"
        )
        data: dict[str, JsonValue] = {"error": failed.error, "partial": failed.partial}
        index = view.calls[failed.call].index if failed.turn == turn else None
        return Hit(self.id, problem, turn, failed.agent, index, data=data)


class RetryStorm:
    """NET-04: a call is not repeated many times.

    Retries multiply if several layers make them. Seen in mini-swe-agent#921: ten attempts.
    """

    id = "NET-04"

    @reads(e.ModelRetried)
    def look(self, event: e.ModelRetried, view: View) -> Iterable[Hit]:
        """Report a call at the first attempt above the limit."""
        if event.attempt != ATTEMPTS_MOST + 1:
            return ()
        call = view.calls[event.call]
        problem = (
            f"agent {event.agent!r} makes one call for the {event.attempt}th time in turn "
            f"{event.turn}; it last failed with {call.error.error if call.error else 'nothing'}"
        )
        data: dict[str, JsonValue] = {"attempt": event.attempt}
        return (Hit(self.id, problem, event.turn, event.agent, call.index, data=data),)
