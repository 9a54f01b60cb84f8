"""Plain writes: an agent's writes as functions of what is at hand when a straight run ends.

Most writes put the reply, the output or the final message into channels that only append or merge.
Then one template makes both the update and its record in the trace: the record from messages and
values in their recorded forms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from simkit.language.references import compile_of, references_in
from simkit.runtime.state import Channel
from simkit.trace.reducers import Reducer
from simkit.trace.store import REFERENCES, canonical

AT_HAND: Final = ("agent", "user", "run.reply", "run.output", "run.final_message")
"""The references whose values a straight run has at hand."""
_TEXTS: Final = frozenset(("agent", "user", "run.reply"))
_FINAL_MESSAGE: Final = "${run.final_message}"


class PlainWrites:
    """Writes that refer to nothing but what is at hand."""

    __slots__ = ("commits", "reducers", "resolve")

    def __init__(
        self,
        resolve: Callable[..., Any],
        reducers: tuple[tuple[str, Reducer], ...] | None,
        commits: bool,
    ) -> None:
        self.resolve = resolve
        """Returns the update for the values of `AT_HAND`."""
        self.reducers = reducers
        """The written channels, each with its reducer, if `resolve` also returns what the trace
        records, for the recorded forms of these values. Else None: `Turn.write` finds it out."""
        self.commits = commits
        """Whether the final message becomes part of the conversation."""


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
        return PlainWrites(resolve, None, commits=False)
    reducers = tuple((name, channels[name].reduce) for name in writes)
    return PlainWrites(resolve, reducers, commits=bool(writes.get(conversation)))


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
