"""Arrivals: where each value of a handoff's payload, or of an update, reached an agent.

A text that would be there without it (a message from before it, the agent's own instructions,
what any model was sent before) is no proof that a value arrived, and neither is a short value in
other words. So the answer has three parts: arrived, lost, or not observable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import msgspec

from simkit.core.messages import JsonValue, Message
from simkit.language.paths import as_text, is_array
from simkit.language.recognition import Sought
from simkit.trace.events import InlinePart
from simkit.trace.views.contexts import ContextView, HistoryView

if TYPE_CHECKING:
    from simkit.trace.views.turns_and_calls import HandoffView, RunView
    from simkit.trace.views.view import View

State: TypeAlias = Literal["arrived", "lost", "unknown"]

VALUES_MAX: Final = 1000
"""The number of values of a payload that are looked for."""
SETTLED_MAX: Final = 100
"""The number of messages of earlier turns that are searched, from the newest on."""
_FRONT: Final = 10
"""The number of first messages of a long context that code made which are searched, too."""
_OWN_KEYS: Final = ("source_agent", "handoff_type")
"""Keys that simkit adds to a payload."""
_HANDOFF: Final = "handoff"
_INSTRUCTIONS: Final = "instructions"


class Arrival(NamedTuple):
    """One value of a payload, and what became of it."""

    key: str
    """The payload's key under which it stands; empty if the payload has none."""
    path: str
    value: JsonValue
    state: State
    sections: tuple[str, ...] = ()
    """The sections that brought it, by name; where a context has none, the message's role."""
    reason: str = ""
    """Why it is not observable."""
    is_somewhere: bool = False
    """Whether a text that the target is sent shows it, also one that proves nothing."""


class Payload(NamedTuple):
    """A value on its way to agents, and how much was there before it."""

    value: JsonValue
    turn: int
    calls_before: int
    first_new: int
    """The number of the first message that it can have brought."""
    address: tuple[str, ...] = ()
    """The agents that a handoff names."""
    is_taken: bool = False


class Line(NamedTuple):
    """One text of a context."""

    section: str
    text: str
    is_old: bool
    """Whether it would be there without the payload."""
    template: str = ""
    """The text from which it was made before the handoff was known."""


class Arrivals:
    """The arrivals of each handoff, computed once, when they are first asked for."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._turn, self._call, self._calls = 0, 0, 0
        self._first_calls: dict[str, int] = {}
        """A text that was made for a context, to the number of calls before the first with it."""
        self._results: dict[str, tuple[Arrival, ...]] = {}

    def of(self, run: RunView) -> tuple[Arrival, ...]:
        """Return the values of the payload with which a run was started, as far as it ran."""
        handoff = self._view.handoffs.get(run.handoff)
        if handoff is None or not run.calls:
            return ()
        result = self._results.get(run.id)
        if result is None:
            result = tuple(self.in_run(self._payload_of(handoff), run))
            if run.finished:
                self._results[run.id] = result
        return result

    def in_run(self, payload: Payload, run: RunView) -> Iterator[Arrival]:
        """Yield the values of what was sent, and what became of each in a run."""
        self._read()
        # Texts of earlier turns are read only for a value that no newer text brought.
        is_all_new = payload.turn == run.turn
        new = [line for line in self._lines(payload, run, not is_all_new) if not line.is_old]
        all_lines = cache(lambda: [*dict.fromkeys(self._lines(payload, run))])
        values = list(islice(_values_of(payload.value), VALUES_MAX))
        longer = [value for _, _, value in values if isinstance(value, str)]
        message = self._view.turns[run.turn - 1].message
        longer += [message.content] if message is not None else []
        for key, path, value in values:
            name = path.rpartition(".")[2].partition("[")[0]
            sought = Sought(value, name)
            if payload.address and (key in _OWN_KEYS or (path == key and value in payload.address)):
                yield Arrival(key, path, value, "unknown", reason="it names the handoff itself")
            elif sought.is_empty:
                yield Arrival(key, path, value, "unknown", reason="an empty value")
            else:
                whole = str(value)
                around = [text for text in longer if len(text) > len(whole) and whole in text]
                yield _arrival(key, path, sought, new, all_lines, around, payload.is_taken)

    def _read(self) -> None:
        """Note the texts that were made for contexts since the last handoff."""
        for turn in self._view.turns[max(0, self._turn - 1) :]:
            read = self._call if turn.number == self._turn else 0
            for call in turn.calls[read:]:
                for _, text, _ in _made_texts(call.context):
                    self._first_calls.setdefault(text, self._calls)
                self._calls += 1
            self._turn, self._call = turn.number, len(turn.calls)

    def _lines(self, payload: Payload, run: RunView, with_settled: bool = True) -> Iterator[Line]:
        """Yield the texts that a run was sent, once or more often.

        Without ``with_settled``, those are left out that a history shows of turns that are over.
        """
        facts = self._view.pipeline.agents.get(run.agent)
        template = "" if facts is None else facts.instructions
        for call in run.calls:
            context = call.context
            if context.named is not None:
                messages = context.sectioned()
                first = max(len(messages) - 2 * SETTLED_MAX, 0)
                for message in (*messages[: min(first, _FRONT)], *messages[first:]):
                    yield from self._of_message(message, message.section, payload, run)
                continue
            if call is run.calls[0] or context.parts is not run.calls[0].context.parts:
                for section, text, of in _made_texts(context):
                    is_old = self._was_sent_before(text, payload)
                    if 0 < of < payload.first_new:
                        is_old = is_old or text == self._view.messages[of].content
                    source = template if section == _INSTRUCTIONS else ""
                    yield Line(section, text, is_old and section != _HANDOFF, source)
                for section, message in _shown_messages(context, with_settled):
                    yield from self._of_message(message, section, payload, run)
            for message in context.own_messages:
                yield from self._of_message(message, "run", payload, run)

    def _of_message(
        self, message: Message, section: str, payload: Payload, run: RunView
    ) -> Iterator[Line]:
        """Yield the texts of a message; what the target says itself was not sent to it."""
        is_logged = bool(message.id)
        is_old = is_logged and message.number < payload.first_new
        if not is_logged:
            is_old = self._was_sent_before(message.content, payload)
        is_own = is_logged and message.role == "assistant" and message.agent == run.agent
        yield Line(section or message.role, message.content, is_old or is_own)
        for call in message.calls:
            text = msgspec.json.encode(call.args).decode()
            yield Line(section or message.role, text, is_old or is_own)

    def _was_sent_before(self, text: str, payload: Payload) -> bool:
        return self._first_calls.get(text, payload.calls_before) < payload.calls_before

    def _payload_of(self, handoff: HandoffView) -> Payload:
        """Return what a handoff sends: the message that asks for it, or the one after, is new."""
        event, messages = handoff.event, self._view.messages
        newest = handoff.messages_before

        def asks(number: int) -> bool:
            calls = messages[number].calls if number in messages else ()
            key = event.call_id or event.to_agent
            return any((call.id if event.call_id else call.target) == key for call in calls)

        first = next(filter(asks, range(newest, max(0, newest - 20), -1)), newest + 1)
        return Payload(
            handoff.payload,
            handoff.turn,
            handoff.calls_before,
            first,
            (event.to_agent, event.from_agent),
            event.is_taken,
        )


def _arrival(
    key: str,
    path: str,
    sought: Sought,
    new: Sequence[Line],
    all_lines: Callable[[], Sequence[Line]],
    around: Sequence[str],
    is_taken: bool,
) -> Arrival:
    fresh = [line for line in new if sought.is_in(line.text) and not _is_of_template(sought, line)]
    brought_by = dict.fromkeys(line.section for line in fresh if _is_brought(sought, line, around))
    if brought_by:
        return Arrival(key, path, sought.value, "arrived", tuple(brought_by), is_somewhere=True)
    if reason := _why_unknown(sought, fresh, all_lines()):
        return Arrival(key, path, sought.value, "unknown", (), reason, is_somewhere=True)
    if is_taken:
        reason = "in no message, but a function of the application received it"
        return Arrival(key, path, sought.value, "unknown", (), reason)
    if isinstance(sought.value, bool):
        return Arrival(key, path, sought.value, "unknown", (), "texts say yes and no in many words")
    return Arrival(key, path, sought.value, "lost")


def _why_unknown(sought: Sought, fresh: Sequence[Line], lines: Sequence[Line]) -> str:
    """Return in which sections a value stands that proves nothing; empty if in none."""
    lines = [line for line in lines if sought.is_in(line.text)]
    old = [line for line in lines if line.is_old or _is_of_template(sought, line)]
    for some, why in ((old, "with or without the handoff"), (fresh, "maybe by chance")):
        if some:
            return f"in {', '.join(dict.fromkeys(line.section for line in some))}, {why}"
    return ""


def _is_of_template(sought: Sought, line: Line) -> bool:
    if not line.template:
        return False
    return len([*sought.places(line.text)]) <= len([*sought.places(line.template)])


def _is_brought(sought: Sought, line: Line, around: Sequence[str]) -> bool:
    """Return whether a new text shows a value by more than chance."""
    text = line.text
    for longer in around:
        text = text.replace(longer, "\0")
    if sought.is_keyed(text):
        return True
    is_whole = text.strip().strip("\"'") == str(sought.value)
    is_by_place = is_whole or line.section == _HANDOFF or sought.is_distinctive
    return is_by_place and not isinstance(sought.value, bool) and sought.is_in(text)


def _values_of(value: JsonValue) -> Iterator[tuple[str, str, JsonValue]]:
    """Yield the values in a payload, each with its key and its path."""
    if not isinstance(value, Mapping):
        yield from (("", path, inner) for path, inner in _leaves(value, ""))
        return
    for key, part in value.items():
        yield from ((key, path, inner) for path, inner in _leaves(part, key))


def _leaves(value: JsonValue, at: str) -> Iterator[tuple[str, JsonValue]]:
    if isinstance(value, Mapping) and value:
        for key, part in value.items():
            yield from _leaves(part, f"{at}.{key}" if at else str(key))
    elif is_array(value) and len(value):
        for index, part in enumerate(value):
            yield from _leaves(part, f"{at}[{index}]")
    elif isinstance(value, Message):
        yield at, value.content
    else:
        is_container = isinstance(value, Mapping) or is_array(value)
        yield at, "" if is_container else value


def _made_texts(context: ContextView) -> Iterator[tuple[str, str, int]]:
    """Yield (section, text, number of the logged message in it) of what was made for a context."""
    for part in context.parts:
        if isinstance(part, InlinePart):
            for piece in part.pieces:
                yield piece.section, piece.content, part.of
            if not part.pieces:
                section = part.section or part.message.role
                yield section, part.message.content, part.of
                for call in part.message.calls:
                    yield section, as_text(call.args), 0
        elif part.rendered is not None:
            yield part.section, part.rendered.content, 0
        elif part.summary is not None:
            yield part.section, part.summary.content, 0


def _shown_messages(context: ContextView, with_settled: bool) -> Iterator[tuple[str, Message]]:
    """Yield logged messages with their section: this turn's, then the newest of earlier turns."""
    for part in context.parts:
        if isinstance(part, HistoryView) and part.rendered is None:
            messages = part.tail[max(0, part.lo - part.hi) :]
            if with_settled:
                messages += part.stream.entries[max(part.lo, part.hi - SETTLED_MAX) : part.hi]
            yield from ((part.section, message) for message in messages)
