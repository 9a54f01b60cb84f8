"""Plain writes: an agent's writes as functions of what is at hand when a straight run ends.

Most writes put the reply, the output or the final message into channels that only append or merge.
Then one template makes both the update and its record in the trace: the record from messages and
values in their recorded forms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from simkit.core.messages import JsonValue, Message
from simkit.language.references import compile_of, references_in
from simkit.runtime.state import Channel
from simkit.trace.events import StateUpdated
from simkit.trace.reducers import Reducer
from simkit.trace.store import REFERENCES, canonical

if TYPE_CHECKING:
    from simkit.runtime.turn import Turn

AT_HAND: Final = ("agent", "user", "run.reply", "run.output", "run.final_message")
"""The references whose values a straight run has at hand."""
_TEXTS: Final = frozenset(("agent", "user", "run.reply"))
_FINAL_MESSAGE: Final = "${run.final_message}"


Write: TypeAlias = Callable[["Turn", str, str, Any, JsonValue, Message, int], None]
"""Writes for a run: its text, its output, the same as it is recorded, its message and the number of
that. The run is in no branch."""


class PlainWrites(msgspec.Struct, frozen=True):
    """Writes that refer to nothing but what is at hand."""

    write: Write
    is_direct: bool
    """Whether the trace records what the template gives for the recorded forms of its values."""


def plain_writes(
    writes: Any, agent: str, channels: Mapping[str, Channel], conversation: str
) -> PlainWrites | None:
    """Return an agent's writes; None if they refer to what is not at hand."""
    resolve = compile_of(writes, AT_HAND)
    if resolve is None:
        return None
    is_direct = (
        type(writes) is dict
        and agent not in REFERENCES
        and canonical(writes) == writes
        and all(_is_direct(channels.get(name), writes[name]) for name in writes)
    )
    if not is_direct:
        return PlainWrites(_write_of(resolve, agent), is_direct)
    reducers = tuple((name, channels[name].reduce) for name in writes)
    commits = bool(writes.get(conversation))
    return PlainWrites(_direct_write_of(resolve, agent, reducers, commits), is_direct)


def _write_of(resolve: Callable[..., Any], agent: str) -> Write:
    """Return the function for writes of which `Turn.write` finds out what is recorded."""

    def write(
        turn: Turn,
        run: str,
        text: str,
        output: Any,
        recorded: JsonValue,
        message: Message,
        number: int,
    ) -> None:
        update = resolve(agent, turn.input, text, output, message)
        if update:
            turn.write(update, "writes", agent, run)

    return write


def _direct_write_of(
    resolve: Callable[..., Any],
    agent: str,
    reducers: tuple[tuple[str, Reducer], ...],
    commits: bool,
) -> Write:
    """Return the function for direct writes; ``commits``: the message joins the conversation."""

    def write(
        turn: Turn,
        run: str,
        text: str,
        output: Any,
        recorded: JsonValue,
        message: Message,
        number: int,
    ) -> None:
        user, values, recorder = turn.input, turn.conversation.values, turn.recorder
        update = resolve(agent, user, text, output, message)
        # Nothing is written unless all can be.
        reduced: dict[str, Any] = {}
        for channel, reduce in reducers:
            reduced[channel] = reduce(values[channel], update[channel])
        values |= reduced
        if commits:
            turn.state.committed |= {message.id}
        record = resolve(agent, user, text, recorded, {"$message": number})
        recorder.emit(
            StateUpdated(
                recorder.clock.now, turn.session, turn.number, agent, run,
                update=record, cause="writes",
            )
        )  # fmt: skip

    return write


def _is_direct(channel: Channel | None, value: Any) -> bool:
    """Return whether a channel only takes, and records, what a template gives."""
    if channel is None or not channel.is_simple:
        return False
    if channel.holds_messages:
        return type(value) is list and all(item == _FINAL_MESSAGE for item in value)
    return _keeps_form(value)


def _keeps_form(value: Any) -> bool:
    """Return whether a template of values in recorded form has a value in recorded form."""
    if isinstance(value, str):
        references = [text for _, text in references_in(value)]
        is_whole = len(references) == 1 and value == f"${{{references[0]}}}"
        return (is_whole and references[0] in AT_HAND) or _TEXTS.issuperset(references)
    if isinstance(value, Mapping):
        return all(
            {"agent"}.issuperset(text for _, text in references_in(key)) and _keeps_form(value[key])
            for key in value
        )
    return not isinstance(value, list) or all(map(_keeps_form, value))
