"""Records the log: recognizes messages that are in it, numbers new ones, says whose they are."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

from msgspec import MsgspecError
from msgspec.json import decode
from msgspec.structs import replace

from simkit.adapters.recorder.base import RecorderBase
from simkit.adapters.recorder.histories import Print, print_of
from simkit.adapters.recorder.sessions import Run, ToolRequest
from simkit.core.messages import JsonValue, Message, ToolCall, call_of, without_thinking
from simkit.providers.attachments import is_failed
from simkit.runtime.context.tokens import tokens_of
from simkit.trace.events import Cut
from simkit.trace.recorder import Position
from simkit.trace.store import References


def cuts_between(before: Sequence[Message], after: Sequence[Message], by: str) -> list[Cut]:
    """Return what the filter ``by`` did to numbered messages.

    A message that is missing in the output was dropped; or it was changed, if the output has as
    many new messages of its role as are missing. Linear in both.
    """
    left = Counter(print_of(message) for message in after)
    dropped_messages: list[Message] = []
    for message in reversed(before):  # Filters mostly keep the latest messages.
        mark = print_of(message)
        if left[mark]:
            left[mark] -= 1
        else:
            dropped_messages.append(message)
    dropped_messages.reverse()
    new: dict[str, deque[Message]] = {}
    for message in reversed(after):
        mark = print_of(message)
        if left[mark]:
            left[mark] -= 1
            new.setdefault(message.role, deque()).appendleft(message)
    missing = Counter(message.role for message in dropped_messages)
    cuts = []
    for message in dropped_messages:
        fresh = new.get(message.role, deque())
        is_changed = fresh and len(fresh) == missing[message.role]
        cuts.append(_changed(message, fresh, by) if is_changed else Cut(message.number, by))
        if is_changed:
            missing[message.role] -= 1
    return cuts


def _changed(message: Message, fresh: deque[Message], by: str) -> Cut:
    becomes = fresh.popleft()
    if becomes.content == message.content and message.calls:
        return Cut(message.number, by, "tool_calls", becomes=becomes)
    return Cut(message.number, by, "content", becomes=replace(becomes, id=message.id))


class LogRecorder(RecorderBase):
    """Records messages, each once; a tool's result that appears in the log answers its call."""

    def log(self, message: Message, run: Run | None = None, agent: str | None = None) -> Message:
        """Append a message to the session's log, under the next number; ``agent`` has said it."""
        return self._append(message, print_of(message), run, agent)

    def _append(
        self, message: Message, mark: Print, run: Run | None, agent: str | None = None
    ) -> Message:
        """Append a message whose print is known."""
        self.numbers.messages = number = self.numbers.messages + 1
        agent = message.agent if agent is None else agent
        message = replace(message, id=f"m{number}", turn=self.turn, agent=agent)
        self._session.add(message, mark, number)
        self.events.record_message(
            Position(self.session, self.turn, agent or "", run.id if run is not None else ""),
            message=message,
            tokens=tokens_of(message, self.count),
        )
        return message

    def known(self, message: Message, run: Run | None = None) -> Message:
        """Return a message as it is in the log; append it if it is new."""
        ours = self._ours(message)
        mark = print_of(ours)
        number = self._session.number_of(mark)
        if number:
            return replace(_said_by(ours, run), id=f"m{number}")
        return self._joined(ours, mark, run)

    def _joined(self, ours: Message, mark: Print, run: Run | None) -> Message:
        """Append a message to the log that first appears in a request.

        The framework wrote it, for example.
        """
        return self._arrived(_said_by(ours, run), mark, run)

    def logged(self, messages: Sequence[Message], run: Run | None = None) -> list[Message]:
        """Return messages as they are in the log; append new ones."""
        latest, results = self._session.latest, list[Message]()
        for message in [*map(self._ours, messages)]:
            mark = print_of(message)
            results.append(latest[mark] if mark in latest else self._joined(message, mark, run))
        return results

    def references_of(
        self, messages: Sequence[Message], channel: str, run: Run | None = None
    ) -> References:
        """Return references to the messages of a list that is reported repeatedly.

        The list has mostly grown since: its old front is not looked up again.
        """
        session = self._session
        reading = session.readings.of(
            ("list", channel), messages, self._ours, self.handoff_tools.version, self.count
        )
        references = reading.references
        if reading.repeats != session.repeats:
            # A repeated message means its last occurrence, in all places.
            references.clear()
        reading.repeats, start = session.repeats, len(references)
        new, prints = reading.messages[start:], reading.prints[start:]
        latest, counters = session.latest, self.numbers
        for message, mark in zip(new, prints, strict=True):
            if mark in latest:
                number = session.number_of(mark)
            else:
                self._joined(message, mark, run)
                number = counters.messages
            references.append({"$message": number})
        return References(references)

    def _ours(self, message: Message, agent: str = "") -> Message:
        """Return a message with simkit's ids, and with its handoffs marked."""
        if not message.calls and not message.call_id:
            return message
        calls = tuple(self._our_call(call, agent) for call in message.calls)
        call_id = self.call_id(message.call_id) if message.call_id else ""
        return replace(message, calls=calls, call_id=call_id)

    def _our_call(self, call: ToolCall, agent: str) -> ToolCall:
        target = self.handoff_tools.target_of(call.name, call.args) or ""
        ours = self._session.known_again(call.id, call.name, call.args, agent)
        return call_of(ours or self.call_id(call.id), call.name, call.args, target)

    def _numbered(
        self, messages: Sequence[Message], prints: Sequence[Print], run: Run, known: list[int]
    ) -> list[int]:
        """Return each message's number in the log; add new messages."""
        start = len(known)
        numbers = self._session.numbers_of(prints[start:], self.numbers.messages + 1)
        if 0 not in numbers:
            return [*known, *numbers]
        for place, number in enumerate(numbers):
            if not number:
                self._arrived(messages[start + place], prints[start + place], run)
                numbers[place] = self.numbers.messages
        return [*known, *numbers]

    def _arrived(self, message: Message, mark: Print, run: Run | None) -> Message:
        """Append a message that first appears in a context: mostly a tool result."""
        request = self._request_answered_by(message, run)
        if request is None:
            return self._append(self._with_author(message, mark), mark, run)
        own_message = replace(message, agent=request.agent, tool=request.call.name)
        if not request.call.is_handoff:
            is_value = own_message.data is not None
            value = own_message.data if is_value else _value(own_message.content)
            has_failed = is_failed(own_message)
            self.tool_answered(
                request,
                None if has_failed else value,
                own_message.content if has_failed else "",
            )
        elif run is request.run and not run.is_over:
            # The agent that asked continues, and has an answer instead of a successor.
            for handoff in [*self.requested]:
                if handoff.call_id == request.call.id:
                    self.refused(handoff, own_message.content)
        return self.log(own_message, request.run)

    def _request_answered_by(self, message: Message, run: Run | None) -> ToolRequest | None:
        """Return the tool call that a message answers; None for any other message."""
        if message.role != "tool":
            return None
        if message.call_id or run is None:
            return self._session.requests.get(message.call_id)
        # Clients may leave out a call that equals another, and send both results.
        pending = (request for request in self.pending(message.tool) if request.run is run)
        return next((request for request in pending if not request.call.is_handoff), None)

    def _with_author(self, message: Message, mark: Print) -> Message:
        """Return a model's message with its author, if an agent has said the same."""
        if message.role != "assistant":
            return message
        # One that comes back with its thinking differs from the one that others see.
        bare_mark = mark if message.data is None else print_of(without_thinking(message))
        bare = self._session.latest.get(bare_mark)
        author = self._session.authors.get(message.content) or (bare.agent if bare else None)
        return replace(message, agent=author) if author else message

    def filtered(
        self,
        run: Run,
        before: Sequence[Message],
        after: Sequence[Message],
        by: str,
        *,
        lasting: bool = False,
    ) -> None:
        """Record that the filter ``by`` changed a history for the run's next model call.

        ``lasting``: for all its later calls. Consecutive filters are reported one by one. System
        messages are no part of a history.
        """
        own_messages = [self._ours(message) for message in before if message.role != "system"]
        numbers = self._numbered(
            own_messages, [print_of(message) for message in own_messages], run, []
        )
        known = [
            replace(message, id=f"m{number}")
            for message, number in zip(own_messages, numbers, strict=True)
        ]
        cuts = cuts_between(known, [self._ours(message) for message in after], by)
        if lasting:
            run.lasting_cuts = (*run.lasting_cuts, *cuts)
        else:
            run.cuts = (*run.cuts, *cuts)


def _said_by(message: Message, run: Run | None) -> Message:
    """Return a model's message with the current agent as its author, if it has none."""
    if message.role == "assistant" and not message.agent and run is not None:
        return replace(message, agent=run.agent)
    return message


def _value(text: str) -> JsonValue:
    """Return a tool's text parsed as JSON, or the text."""
    if not text.startswith(("{", "[", '"')):
        return text
    try:
        return decode(text)
    except MsgspecError:
        return text
