"""Lints on channels of code that reach nobody, or that outlive the input they were written for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec

from simkit.checks.findings import Hit
from simkit.checks.lints.facts import SHOWN_MAX, Facts, TurnNotes, lint, texts_of
from simkit.checks.lints.turns import texts_brought
from simkit.core.text import short
from simkit.language.json_schema import is_number
from simkit.language.paths import as_text, leaves
from simkit.language.recognition import Sought
from simkit.trace import events as e
from simkit.trace.events import InlinePart
from simkit.trace.views import CallView, TurnView, View

LABEL_WORDS: Final = 3
"""Numbers, and texts of so few words, may be what a route was chosen by."""


class _Write(NamedTuple):
    """A value that an agent has written to a channel."""

    channel: str
    agent: str
    turn: int
    values: tuple[Sought, ...]
    calls: int
    """The number of the turn's calls before it."""
    events_before: int
    """The number of events before it."""


class _Writes(list[_Write], TurnNotes):
    """The writes of the current turn."""


class _Unread(dict[str, list[_Write]]):
    """Session to the writes of its last turn that nobody has read there."""


@lint("STA-12", e.StateUpdated, when="is_code")
def _note_write(event: e.StateUpdated, facts: Facts) -> None:
    view, channels = facts.view, facts.pipeline.channels
    run = view.runs.get(event.run)
    if event.cause != "writes" or event.state or run is None or not run.calls:
        return
    reply = run.calls[-1].reply
    texts = [*texts_of(reply)] if reply is not None else []
    for channel, value in event.update.items():
        if channel in channels and channel != facts.pipeline.conversation:
            values = _clear_values(value)
            # Other values are made by code, for whatever it does with them.
            if values and all(any(each.is_in(text) for text in texts) for each in values):
                calls = len(view.turns[-1].calls)
                write = _Write(channel, event.agent, event.turn, values, calls, view.hi)
                facts.notes_of(_Writes).append(write)


def _clear_values(value: Any) -> tuple[Sought, ...]:
    sought = (Sought(leaf) for leaf in leaves(value) if isinstance(leaf, (str, int, float)))
    return tuple(each for each in sought if each.is_distinctive)


@lint("STA-12", e.TurnFinished, when=_Writes)
@lint("STA-12", e.TurnFinished, when=_Unread)
def _look_for_writes(event: e.TurnFinished, facts: Facts) -> Iterable[Hit]:
    """Report the writes that one more turn has not read either; keep those of this turn."""
    view, unread = facts.view, facts.notes_of(_Unread)
    turn, writes = view.turns[-1], facts.notes.pop(_Writes, [])
    for write in unread.pop(event.session, []):
        if not _is_read(write, turn, 0, event):
            yield from _report(write, facts)
    if event.error is None and not event.waits_for:
        writes = [write for write in writes if _is_unread(write, turn, event, view)]
        if writes:
            unread[event.session] = writes


def _is_unread(write: _Write, turn: TurnView, event: e.TurnFinished, view: View) -> bool:
    """Return whether another agent's model was asked after a write, and nobody can have read it."""
    later = turn.calls[write.calls :]
    if all(call.agent == write.agent for call in later):
        return False
    is_label = all(
        is_number(each.value) or len(str(each.value).split()) <= LABEL_WORDS
        for each in write.values
    )
    for other in view.events[write.events_before : view.hi]:
        if type(other) is e.ToolCalled or (type(other) is e.RouteChosen and is_label):
            return False  # A tool or a route may read the state.
        if type(other) is e.AgentStarted and not view.runs[other.run].calls:
            return False  # So may a node of plain code.
    return not _is_read(write, turn, write.calls, event)


def _is_read(write: _Write, turn: TurnView, first: int, event: e.TurnFinished) -> bool:
    """Return whether a value of a write stands in what a turn brought to anybody."""
    texts = texts_brought(turn, first, event, write.channel)
    return any(sought.is_in(text) for text in texts for sought in write.values)


@lint("STA-12", e.RunFinished, when=_Unread)
def channel_unread(event: e.RunFinished, facts: Facts) -> Iterable[Hit]:
    """STA-12: what a model brings up and an agent writes to the state reaches somebody.

    Looked for are texts of several words and numbers of three digits, that stand in the answer of
    the agent's own model and that its node writes to a channel beside the conversation. Another
    agent's model is asked later in the turn. The value is in no later request of this turn and the
    session's next one, no reply, no other channel and no argument of a tool; no node without a
    model and no tool ran after the write, and numbers and short texts have chosen no route. One
    value of a mapping that arrives is enough.
    """
    for writes in facts.notes[_Unread].values():
        for write in writes:
            yield from _report(write, facts)


def _report(write: _Write, facts: Facts) -> Iterable[Hit]:
    if facts.is_new("STA-12", write.agent, write.channel):
        value = short(as_text(write.values[0].value), SHOWN_MAX)
        problem = (
            f"`{write.channel}` was written by {write.agent!r} in turn {write.turn}, and no later "
            f"request of any agent contains it: {value!r}"
        )
        call = facts.view.turns[write.turn - 1].calls[write.calls]
        yield Hit.at("STA-12", call, problem, channel=write.channel, by=write.agent)


def _new_texts(call: CallView) -> Iterator[str]:
    """Yield the texts of a request that no earlier turn has settled."""
    parts = ([p.message] if isinstance(p, InlinePart) else p.tail for p in call.context.parts)
    for message in chain(call.context.own_messages, *parts):
        yield from texts_of(message)


class _Work(msgspec.Struct):
    """A text in a channel, with the turn in which it was written."""

    turn: int
    text: Sought
    is_read: bool = False
    """Whether a model was sent it in that turn."""


class _Working:
    """The texts of each session that agents have written to channels."""

    def __init__(self) -> None:
        self.inputs: set[str] = set()
        """The channels that hold the user's input."""
        self.texts: dict[str, dict[str, _Work]] = {}
        """Session to channels and their texts."""

    def __bool__(self) -> bool:
        return bool(self.texts)


@lint("STA-13", e.StateUpdated, when="is_code")
def _note_text(event: e.StateUpdated, facts: Facts) -> None:
    channels = facts.pipeline.channels
    if facts.pipeline.conversation or event.state or not channels:
        return
    working = facts.notes_of(_Working)
    if event.cause == "user":
        working.inputs.update(event.update)
    texts = working.texts.setdefault(event.session, {})
    for channel, value in event.update.items():
        texts.pop(channel, None)
        is_plain = channel in channels and channels[channel].reducer == "replace"
        is_long, sought = isinstance(value, str) and len(value) >= 20, Sought(value)
        if is_plain and event.cause == "writes" and is_long and sought.is_distinctive:
            texts[channel] = _Work(event.turn, sought)


@lint("STA-13", e.ContextBuilt, when=_Working)
def channel_left_over(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """STA-13: a new input begins without what the work on the input before has written.

    Only states without a conversation count, in which each input replaces the one before. A text
    that an agent wrote to another channel, and that a model was sent in the same turn, is working
    state: found is a request of a later turn that has it before anybody writes it again. A memory,
    which is written for the next turn and not read in its own, is none. Seen in deer-flow#532.
    """
    working, call = facts.notes_of(_Working), facts.view.calls[event.call]
    texts = working.texts.get(event.session)
    if not texts or not working.inputs:
        return
    message = facts.view.turns[-1].message
    words = message.content if message is not None else ""
    request = [*_new_texts(call)]
    for channel, work in texts.items():
        if channel in working.inputs or (work.is_read and work.turn == event.turn):
            continue
        if not any(work.text.is_in(text.replace(words, "") if words else text) for text in request):
            continue
        if work.turn == event.turn:
            work.is_read = True
        elif work.is_read and facts.is_new("STA-13", event.agent, channel):
            problem = (
                f"agent {event.agent!r} is sent in turn {event.turn} what turn {work.turn} left in "
                f"`{channel}`, though the user's input is new: "
                f"{short(str(work.text.value), SHOWN_MAX)!r}"
            )
            yield Hit.at("STA-13", call, problem, channel=channel, earlier_turn=work.turn)
