"""Records state, and the log of messages.

A message is recorded once: it is recognized when it appears again, and has the number of its place
in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from msgspec import MsgspecError
from msgspec.json import decode
from msgspec.structs import replace

from simkit.adapters.recorder.calls import CallRecorder
from simkit.adapters.recorder.histories import MessageHistory, Print, cuts_between, print_of
from simkit.adapters.recorder.left_values import Modules, NamedModules
from simkit.adapters.recorder.sessions import Run, ToolRequest
from simkit.core.messages import JsonValue, Message, ToolCall, call_of, without_thinking
from simkit.language.paths import with_inner_texts
from simkit.providers.attachments import is_failed
from simkit.runtime.context.rendering import Counter, tokens_of
from simkit.runtime.scheduler import VirtualClock
from simkit.spec.pipeline.model import Limits
from simkit.trace import changes
from simkit.trace import events as e
from simkit.trace.recorder import Sink
from simkit.trace.store import References, canonical


class LogRecorder(CallRecorder):
    """Records messages and state at the current session, turn and run.

    Each message is recorded once; a tool's result that appears in the log answers its call.
    """

    def __init__(self, sink: Sink, clock: VirtualClock, count: Counter, limits: Limits) -> None:
        super().__init__(sink, clock, limits)
        self.count = count
        self._partial_channels: dict[str, frozenset[str]] = {}
        """State to its channels of which an update is only what joins their value."""
        self._checkpoints: dict[str, str] = {}
        """Session to its last checkpoint."""
        self.modules: Modules = NamedModules()
        """The pipeline's."""

    def _plain(self, value: Any) -> JsonValue:
        """Return a value with foreign call ids replaced by simkit's."""
        names = self._session.as_served
        if not names and (type(value) is str or value is None):
            return value
        plain = canonical(value)
        return with_inner_texts(plain, lambda text: names.get(text, text)) if names else plain

    # State

    def wrote(
        self,
        update: Mapping[str, Any],
        agent: str = "",
        run: Run | None = None,
        *,
        values: Mapping[str, Any] | None = None,
        cause: str = "writes",
        group: str = "",
        branch: str = "",
        state: str = "",
    ) -> None:
        """Emit a write of channels.

        ``values`` are the new values of channels without a built-in reducer.
        """
        new_update, new_values = self.events.last_values.shorten_all(
            self.session, state, update, values,
            self._partial_channels.get(state, ()),
            self._plain if self._session.as_served else canonical,
        )  # fmt: skip
        self.events.record_state_update(
            self.at(run, agent),
            update=new_update,
            values=new_values,
            cause=cause,
            group=group,
            branch=branch,
            state=state,
        )

    def learn_channels(self, channels: Mapping[str, e.ChannelFacts]) -> None:
        """Learn the channels of sessions before the first is written."""
        self._partial_channels[""] = changes.partial_channels(channels)

    def state_opened(
        self, channels: Mapping[str, e.ChannelFacts], around: str, shares: tuple[str, ...]
    ) -> str:
        """Emit that an inner graph begins; return the name of its state."""
        self.numbers.states += 1
        name = f"x{self.numbers.states}"
        self._partial_channels[name] = changes.partial_channels(channels)
        self.events.record_inner_state(
            self.at(), state=name, channels=channels, around=around, shares=shares
        )
        return name

    def saved(self, run: Run | None = None) -> None:
        """Emit that a session's state was saved, after ``run`` if that caused it."""
        self.numbers.checkpoints += 1
        checkpoint = self._checkpoints[self.session] = f"k{self.numbers.checkpoints}"
        self.events.record_checkpoint(self.at(run), checkpoint=checkpoint)

    def restored(self) -> None:
        """Emit that the session's last saved state was restored."""
        checkpoint = self._checkpoints.get(self.session, "")
        self.events.record_restore(self.at(), checkpoint=checkpoint)

    def read(self, channel: str, scope: str, agent: str = "", run: Run | None = None) -> None:
        """Emit that a long-lived channel was read from its store."""
        self.events.record_store_read(self.at(run, agent), channel=channel, scope=scope)

    def stored(self, channel: str, scope: str, agent: str = "", run: Run | None = None) -> None:
        """A long-lived channel was written to its store."""
        self.events.record_store_write(self.at(run, agent), channel=channel, scope=scope)

    # Messages

    def log(self, message: Message, run: Run | None = None, agent: str | None = None) -> Message:
        """Append a message to the session's log, under the next number; ``agent`` has said it."""
        return self._append(message, print_of(message), run, agent)

    def _append(
        self, message: Message, mark: Print, run: Run | None, agent: str | None = None
    ) -> Message:
        """Append a message whose print is known."""
        self.numbers.messages = number = self.numbers.messages + 1
        agent = message.agent if agent is None else agent
        message = replace(message, id=f"m{number}", turn=self.turn, agent=agent, name="")
        self._session.add(message, mark, number)
        self.events.record_message(
            self.at(run, agent or ""), message=message, tokens=tokens_of(message, self.count)
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

    def _joined(
        self, ours: Message, mark: Print, run: Run | None, writer: Run | None = None
    ) -> Message:
        """Append a message to the log that first appears in a request.

        The framework wrote it, for example.
        """
        return self._arrived(_said_by(ours, run), mark, run, writer or run)

    def logged(
        self, messages: Sequence[Message], run: Run | None = None, writer: Run | None = None
    ) -> list[Message]:
        """Return messages as they are in the log; append new ones, which ``writer`` has written."""
        latest, results = self._session.latest, list[Message]()
        for message in [*map(self._ours, messages)]:
            mark = print_of(message)
            results.append(
                latest[mark] if mark in latest else self._joined(message, mark, run, writer)
            )
        return results

    def references_of(
        self, messages: Sequence[Message], channel: str, run: Run | None = None
    ) -> References:
        """Return references to the messages of a list that is reported repeatedly.

        The list has mostly grown since: its old front is not looked up again.
        """
        history = self._history(("list", channel), messages, self._ours)
        session, references = self._session, history.references
        # A repeated message means its last occurrence, in all places.
        renumbered = session.renumbered_since(history.repeats)
        for index, reference in enumerate(cast(list[Any], references) if renumbered else ()):
            if number := renumbered.get(reference["$message"]):
                references[index] = {"$message": number}
        history.repeats, start = len(session.repeated), len(references)
        for message, mark in zip(history.messages[start:], history.prints[start:], strict=True):
            if mark not in session.latest:
                self._joined(message, mark, run)
            number = session.number_of(mark) or self.numbers.messages
            references.append({"$message": number})
        return References(references)

    def _history(
        self,
        owner: tuple[str, str],
        messages: Sequence[Message],
        ours: Callable[[Message], Message],
    ) -> MessageHistory:
        """Return the next history of an owner, an agent or a list; it has mostly grown."""
        words = self.handoff_tools.version
        history, size = self._session.histories.find(owner, messages, words)
        history.go_on(messages, size, ours, words, self.count)
        return history

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
        for index, number in enumerate(numbers):
            if not number:
                self._arrived(messages[start + index], prints[start + index], run)
                numbers[index] = self.numbers.messages
        return [*known, *numbers]

    def _arrived(
        self, message: Message, mark: Print, run: Run | None, writer: Run | None = None
    ) -> Message:
        """Append a message that first appears in a context: mostly a tool result."""
        request = self._request_answered_by(message, run)
        if request is None:
            message = self._with_author(message, mark)
            return self._append(self.note_edits_in(message, writer), mark, run)
        own_message = replace(message, agent=request.agent, tool=request.call.name)
        if not request.call.is_handoff:
            is_value = own_message.data is not None
            value = own_message.data if is_value else _value(own_message.content)
            has_failed = is_failed(own_message)
            self.tool_answered(
                request, None if has_failed else value, own_message.content if has_failed else ""
            )
        elif run is not None and not run.is_over and self._goes_on(request.run, run):
            # The agent that asked continues, and has an answer instead of a successor.
            for handoff in [*self.requested]:
                if handoff.call_id == request.call.id:
                    self.answered(handoff, own_message)
        return self.log(own_message, request.run)

    def _goes_on(self, first: Run, run: Run) -> bool:
        """Return whether a run is the one that asked, or goes on with it after an answer."""
        return run is first or (run.agent == first.agent and first not in self.runs)

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
        numbered = [
            replace(message, id=f"m{number}")
            for message, number in zip(own_messages, numbers, strict=True)
        ]
        cuts = cuts_between(numbered, [self._ours(message) for message in after], by)
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
