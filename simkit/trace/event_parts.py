"""The parts of events: of contexts, of ends of turns and runs, and of the pipeline's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, final

import msgspec

from simkit.core.messages import JsonValue, Message

# A context in ContextBuilt: shown histories, made messages, and what is left out


class Piece(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One section's text in a message that several sections share."""

    section: str
    content: str
    tokens: int = 0


class Omission(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A message, or a part of one, that a filter dropped from a history."""

    message: int
    by: str
    what: str = "message"
    """``message``, ``tool_calls``, or ``content`` (``becomes`` is then the new content)."""
    saved: int = 0
    """The number of tokens saved."""
    becomes: Message | None = None


class HistoryPart(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="shown"):
    """A range of a filtered history.

    A stream is what one agent's filters leave of a log. Its settled part holds the finished turns:
    the first event after a turn adds ``kept`` and ``cuts`` to it, once for all contexts. ``tail``
    and ``tail_cuts`` are of the current turn, whose messages are filtered again for each context.
    The context shows settled + tail from index ``lo`` on; the window dropped the messages before.
    """

    section: str
    stream: str
    lo: int = 0
    kept: tuple[int, ...] = ()
    cuts: tuple[Omission, ...] = ()
    tail: tuple[int, ...] = ()
    tail_cuts: tuple[Omission, ...] = ()
    restarts: bool = False
    """Whether the settled part of the stream is discarded first, because its source was
    replaced."""
    summary: Message | None = None
    """The message in place of those that the window dropped."""
    summary_tokens: int = 0
    rendered: Message | None = None
    """The one message that the context shows instead (``as: text`` and ``as: json``)."""
    rendered_tokens: int = 0
    names: tuple[str, ...] = ()
    """The ``name`` of each message in ``kept``, then ``tail``; empty if none has one."""


@final
class InlinePart(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="made"):
    """A message that was made for one context."""

    section: str
    message: Message
    tokens: int = 0
    pieces: tuple[Piece, ...] = ()
    of: int = 0
    """The number of the logged message that it shows (the current message); 0 if none."""
    shown: tuple[HistoryPart, ...] = ()
    """The histories that are rendered in its pieces."""


Part: TypeAlias = InlinePart | HistoryPart


class LeftOut(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="items"):
    """Items of a channel that a section read and did not show."""

    section: str
    channel: str
    by: str
    """The first of the section's options that excluded them: ``scopes``, ``since_days``,
    ``time_ranges``, ``tags``, ``threshold``, ``max`` or ``tokens``."""
    places: tuple[tuple[int, int], ...] = ()
    """Their indices in the channel as ranges: first, end."""


class Shortened(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="value"):
    """A value that a section shortened; without a size, a section that is left out whole."""

    section: str
    by: str
    """``tokens``, ``preview`` or ``truncate``; ``when`` leaves out the section."""
    channel: str = ""
    """The channel that holds the value; empty if none does."""
    path: str = ""
    """The path of the cut in the value; empty for the whole value."""
    items: int = 0
    """The number of items cut off the end of a list."""
    characters: int = 0
    """The number of characters cut off the end of a text."""


Unshown: TypeAlias = LeftOut | Shortened


# How a turn or a run ended: the pipeline's error, and the parts of the scenario without use


class UnusedLines(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Reply lines that no model call used."""

    agent: str
    lines: tuple[int, ...]
    """Their indices under the agent."""
    calls: int
    """The number of model calls of the agent in the turn."""


class UnusedResults(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Results of a tool that no call used."""

    tool: str
    answers: tuple[int, ...]
    """Their indices."""
    calls: int
    """The number of calls of the tool in the turn."""
    is_list: bool = False
    """Whether they answer one call each."""


class ErrorFacts(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The error of the pipeline."""

    type: str
    message: str
    agent: str = ""
    status: int = 0


class EditedCall(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A tool call before or after an edit."""

    tool: str = ""
    args: JsonValue = None


class Misfit(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A part of the scenario that fits nothing in the run."""

    what: str
    path: tuple[str | int, ...] = ()
    """Its place in the scenario's document."""


# Metadata of the pipeline in RunStarted, as far as the driver knows it


class ChannelFacts(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One channel."""

    reducer: str
    """``replace``, ``append``, ``merge``, ``merge_deep``, ``add``, ``union``, ``by_id`` or
    ``module:function``."""
    scope: str
    default: JsonValue = None
    last: int = 0
    """The number of items that an ``append`` keeps; 0 keeps all."""


class AgentFacts(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One agent, as the pipeline declares it."""

    instructions: str = ""
    tools: tuple[str, ...] = ()
    handoffs: tuple[str, ...] = ()
    sees: tuple[str, ...] | None = None
    """The agents whose messages are relevant to it; None means all."""
    requires: tuple[JsonValue, ...] = ()
    private: tuple[str, ...] = ()
    is_function: bool = False
    ends_on_tools: bool = False
    """Whether its tool's result is its output: where only model calls are seen, no message then
    answers the call."""
    sections: Mapping[str, JsonValue] | None = None
    """For code: matchers that assign the messages of its contexts to sections."""


class ContractFacts(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One type of handoff between two agents; the source ``*`` is any agent."""

    from_agents: tuple[str, ...]
    to_agent: str
    type: str
    mode: str
    history: str
    payload: JsonValue = None
    """The JSON Schema of the payload, or None."""
    on_invalid: str = "reject"


class PipelineFacts(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The metadata of the pipeline that checks need."""

    name: str
    agents: Mapping[str, AgentFacts]
    channels: Mapping[str, ChannelFacts] = {}
    contracts: tuple[ContractFacts, ...] = ()
    edges: tuple[tuple[str, str], ...] = ()
    """The declared edges of a graph."""
    flow: str = ""
    """``router``, ``handoffs``, ``graph`` or ``supervisor``."""
    decider: str = ""
    """The agent whose output is a routing decision; empty if the flow has none."""
    starts: tuple[str, ...] = ()
    """The agents that a turn may start with; empty if any may."""
    conversation: str = ""
    """The channel that holds the conversation."""
    tokens: str = "chars/4"
    """The token counter of budgets and claims."""
    observes: tuple[str, ...] = ()
    """Aspects beyond messages that this driver observes: sections, state, runs, handoffs,
    filters."""
    unseen: tuple[str, ...] = ()
    """Aspects that are declared as not observable: claims that need them are skipped."""
    unseen_reasons: Mapping[str, str] = {}
    """The reason for each, in the words of the file that declares it."""
    is_open: bool = False
    """Whether control may go anywhere, because nobody declared where it goes."""
    limits: Mapping[str, JsonValue] = {}
    """Limits that only checks use: ``irrelevant_share``, ``context_tokens``."""
    schemas: Mapping[str, JsonValue] = {}
    """JSON Schemas by the names that ``{$ref: Name}`` uses."""

    @property
    def is_code(self) -> bool:
        """Return whether the pipeline is code, so that there is no recipe to change."""
        return "sections" not in self.observes

    @property
    def has_adapter(self) -> bool:
        """Return whether an adapter of the framework observes the pipeline."""
        return any(aspect not in ("runs", "handoffs") for aspect in self.observes)


class Event(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="kind"):
    """The fields of all events."""

    at: int
    """Virtual milliseconds since the scenario's start."""
    session: str = ""
    turn: int = 0
    """Counted from 1 over all sessions; 0 outside turns."""
    agent: str = ""
    run: str = ""
    """The agent run: ``r1``, ``r2``, …"""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the stored form, so that what comes from another process is stored as it was.

        msgspec 0.22 leaves out a default by identity, and an unpickled text is another object.
        """
        return _unpickled, (type(self), msgspec.json.encode(self))


class ToolEvent(Event, frozen=True, gc=False, kw_only=True):
    """The fields of events of one tool call."""

    call_id: str = ""
    tool: str = ""


class ToolAnswered(ToolEvent, frozen=True, gc=False, kw_only=True):
    """The fields of a tool call's end, with a result or an error."""

    server: str = ""
    """The scenario's server that answered; empty if none did."""


class HandoffEvent(Event, frozen=True, gc=False, kw_only=True):
    """The fields of all events of a handoff."""

    handoff: str = ""
    """The handoff: ``h1``, ``h2``, …"""
    from_agent: str = ""
    to_agent: str = ""
    type: str = ""
    mode: str = ""
    query: str | None = None
    payload: JsonValue = None


def _unpickled(kind: type[Event], stored: bytes) -> Event:
    return msgspec.json.decode(stored, type=kind)
