"""The closed union of everything that can happen in a run.

Every event is one frozen fact in the past tense. It carries the virtual time in milliseconds since
the scenario's start, and, where they apply, session, turn (from 1), agent and run; never a wall
clock, a uuid or an object's address. Events refer to messages by number: message ``m12`` was added
by the twelfth ``MessageAdded``. Field order is the order of the encoded JSON, hence canonical.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from simkit.core.messages import JsonValue, Message, Usage
from simkit.trace.pipeline_metadata import AgentFacts as AgentFacts
from simkit.trace.pipeline_metadata import ChannelFacts as ChannelFacts
from simkit.trace.pipeline_metadata import ContractFacts as ContractFacts
from simkit.trace.pipeline_metadata import PipelineFacts as PipelineFacts

FORMAT: Final = 1
"""The trace format's version; written into every trace's header."""


class Event(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="kind"):
    """What all events carry."""

    at: int
    """Virtual milliseconds since the scenario's start."""
    session: str = ""
    turn: int = 0
    """Counted from 1 over all sessions; 0 outside turns."""
    agent: str = ""
    run: str = ""
    """One activation of an agent: ``r1``, ``r2``, …"""


class RunStarted(Event, frozen=True, gc=False, kw_only=True, tag="RunStarted"):
    """A scenario began."""

    scenario: str = ""
    seed: int = 0
    start: str = ""
    """The virtual time of ``at: 0``, ISO 8601."""
    driver: str = ""
    pipeline: PipelineFacts = PipelineFacts(name="", agents={})


class SessionStarted(Event, frozen=True, gc=False, kw_only=True, tag="SessionStarted"):
    """A conversation began."""

    project: str = ""


class TurnStarted(Event, frozen=True, gc=False, kw_only=True, tag="TurnStarted"):
    """The user said something."""

    message: int = 0


class MessageAdded(Event, frozen=True, gc=False, kw_only=True, tag="MessageAdded"):
    """A message joined its session's log."""

    message: Message = Message(role="user")
    tokens: int = 0


class RouteChosen(Event, frozen=True, gc=False, kw_only=True, tag="RouteChosen"):
    """A router, or a graph's decision, named who runs next."""

    targets: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    """The labels that matched."""
    parallel: bool = False


class AgentStarted(Event, frozen=True, gc=False, kw_only=True, tag="AgentStarted"):
    """An agent was activated."""

    input: JsonValue = None
    handoff: str = ""
    """The handoff that started it: ``h1``, ``h2``, …"""
    handoff_from: str = ""
    group: str = ""
    """The parallel group it belongs to: ``g1``, ``g2``, …"""
    channels: tuple[str, ...] | None = None
    """The channels it can read; None is all but those of scope agent_run."""
    branch: str = ""
    """The run that opened the parallel branch it is in (itself, if it did): it sees the state as
    it was when that branch began, and what the branch wrote since."""
    outer: str = ""
    """For a run that opens a branch: the branch in which its group began."""
    after: tuple[str, ...] = ()
    """The runs whose end led to it: on a graph's incoming edges, a supervisor's step before."""
    task: str = ""
    """The supervisor's words."""
    parent: str = ""
    """The run inside which it works, and which goes on when it is over."""
    call_id: str = ""
    """The tool call that is carried out by running it, where a model asked for one."""
    state: str = ""
    """The state in which it works: empty for the session's, else the `StateOpened` that names it.
    Then, and where ``received`` is given, branches say nothing of what it received."""
    received: JsonValue = None
    """What it received beside its ``channels``: values that no channel holds so. What is no mapping
    is all that it received."""
    goal: str = ""
    """The goal that it works for: a supervisor's, or what a program says."""


class Piece(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One section's part of a message that several sections share."""

    section: str
    content: str
    tokens: int = 0


class Cut(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One thing that a filter took out of a history."""

    message: int
    by: str
    what: str = "message"
    """``message``, ``tool_calls``, or ``content`` (then ``becomes`` is what is shown)."""
    saved: int = 0
    """Tokens taken out."""
    becomes: Message | None = None


class Shown(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="shown"):
    """A range of a filtered history.

    A stream is what one agent's filters leave of a log, in order. Turns that are over are settled:
    ``kept`` and ``cuts`` are what this event adds to the settled part, once, however many contexts
    show it. ``tail`` and ``tail_cuts`` are the current turn's messages, filtered anew each time.
    The context shows settled + tail from place ``lo`` on; what stands before ``lo`` was dropped
    by the window.
    """

    section: str
    stream: str
    lo: int = 0
    kept: tuple[int, ...] = ()
    cuts: tuple[Cut, ...] = ()
    tail: tuple[int, ...] = ()
    tail_cuts: tuple[Cut, ...] = ()
    restarts: bool = False
    """The source was replaced, so the stream's settled part is forgotten first."""
    summary: Message | None = None
    """Stands for what the window dropped."""
    summary_tokens: int = 0
    rendered: Message | None = None
    """The one message that stands in the context instead (``as: text`` and ``as: json``)."""
    rendered_tokens: int = 0


class Made(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="made"):
    """A message made for one context."""

    section: str
    message: Message
    tokens: int = 0
    pieces: tuple[Piece, ...] = ()
    of: int = 0
    """The logged message that it shows, where it shows one (the current message)."""
    shown: tuple[Shown, ...] = ()
    """The histories that are rendered in its pieces."""


Part: TypeAlias = Made | Shown


class LeftOut(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="items"):
    """Items of a channel that a section read and does not show."""

    section: str
    channel: str
    by: str
    """``scopes``, ``since_days``, ``time_ranges``, ``tags``, ``threshold``, ``max`` or ``tokens``:
    the first of the section's options that speaks against them."""
    places: tuple[tuple[int, int], ...] = ()
    """Their places in the channel as ranges: the first one, and the one behind the last."""


class Shortened(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="value"):
    """What a section cut out of a value that it shows."""

    section: str
    by: str
    """``tokens``, ``preview`` or ``truncate``."""
    channel: str = ""
    """Where the value stands, if in a channel."""
    path: str = ""
    """Where in the value it was cut; empty for the whole."""
    items: int = 0
    """How many items are missing at the end of a list."""
    characters: int = 0
    """How many characters are missing at the end of a text."""


Unshown: TypeAlias = LeftOut | Shortened


class ContextBuilt(Event, frozen=True, gc=False, kw_only=True, tag="ContextBuilt"):
    """One model call's context was put together."""

    call: str = ""
    """``c1``, ``c2``, … counted over the whole run."""
    parts: tuple[Part, ...] = ()
    base: str = ""
    """For later calls of one agent run: the call whose parts stand first, unchanged."""
    said: tuple[int, ...] = ()
    """What the agent run itself said and heard since the base: section ``run``."""
    tools: tuple[str, ...] = ()
    """The tools offered; of code all of them, under the names that the model was sent."""
    settings: JsonValue = None
    tokens: int = 0
    budget: int = 0
    """The most tokens it may have; 0 is no budget."""
    left_out: tuple[Unshown, ...] = ()
    """What sections read and do not show, in the order of the recipe; histories say it in their
    parts. Like ``parts``, only the first call of an agent run tells it."""
    handoffs: tuple[str, ...] | None = ()
    """The agents that it may pass control to; None where a tool offered does not name them."""
    handoff_tools: tuple[tuple[str, str], ...] = ()
    """Of code: the tools offered that pass control, each with the agent that gets it; empty where
    only the arguments of a call say that. Declared pipelines pass control without a tool."""
    hidden: str = ""
    """What the provider adds to the context, where no request shows it: ``cachedContents/abc``."""


class ModelCalled(Event, frozen=True, gc=False, kw_only=True, tag="ModelCalled"):
    """The context was sent."""

    call: str = ""


class ModelReplied(Event, frozen=True, gc=False, kw_only=True, tag="ModelReplied"):
    """The model answered; ``message`` is what it said."""

    call: str = ""
    message: int = 0
    reply: str = ""
    """``text``, ``json``, ``calls``, ``handoff`` or ``interrupt``."""
    usage: Usage | None = None
    thinking: str = ""
    """What it thought first, as far as its provider shows that."""


class ReplyParsed(Event, frozen=True, gc=False, kw_only=True, tag="ReplyParsed"):
    """A text was read as a value."""

    call: str = ""
    how: str = ""
    """``json``, ``json_in_text``, or ``text``: JSON was looked for in it and none was there."""
    value: JsonValue = None


class ModelFailed(Event, frozen=True, gc=False, kw_only=True, tag="ModelFailed"):
    """The model did not answer."""

    call: str = ""
    error: str = ""
    """A name of the error vocabulary, or ``no_reply_line``, or ``no_recording``."""
    status: int = 0
    message: str = ""
    retry_after_ms: int = 0
    """How long the provider asks the client to wait before it tries again."""
    partial: str = ""
    """The text that had come before a stream broke off."""


class ModelRetried(Event, frozen=True, gc=False, kw_only=True, tag="ModelRetried"):
    """The same call is made again after a failure."""

    call: str = ""
    """The one that failed."""
    attempt: int = 0
    """Which attempt this is: 2 for the first that is made again."""


class ToolCalled(Event, frozen=True, gc=False, kw_only=True, tag="ToolCalled"):
    """A tool was called."""

    call_id: str = ""
    tool: str = ""
    args: JsonValue = None
    """With which it was called, where that was seen; the model's words stand in its message."""


class ToolReturned(Event, frozen=True, gc=False, kw_only=True, tag="ToolReturned"):
    """A tool answered."""

    call_id: str = ""
    tool: str = ""
    result: JsonValue = None


class ToolFailed(Event, frozen=True, gc=False, kw_only=True, tag="ToolFailed"):
    """A tool failed; the agent was told."""

    call_id: str = ""
    tool: str = ""
    error: str = ""


class HandoffEvent(Event, frozen=True, gc=False, kw_only=True):
    """What the events of one handoff share."""

    handoff: str = ""
    """``h1``, ``h2``, …"""
    from_agent: str = ""
    to_agent: str = ""
    type: str = ""
    mode: str = ""
    query: str | None = None
    payload: JsonValue = None


class HandoffRequested(HandoffEvent, frozen=True, gc=False, kw_only=True, tag="HandoffRequested"):
    """An agent asked to pass control."""

    call_id: str = ""
    is_taken: bool = False
    """A function of the application is given the payload, which need not be in any context."""


class HandoffRejected(HandoffEvent, frozen=True, gc=False, kw_only=True, tag="HandoffRejected"):
    """A requested handoff was not made."""

    reason: str = ""


class HandoffMade(HandoffEvent, frozen=True, gc=False, kw_only=True, tag="HandoffMade"):
    """One agent passed control, and a payload, to another."""

    depth: int = 1
    """The number of handoffs between the turn's first agent and the target."""


class StateOpened(Event, frozen=True, gc=False, kw_only=True, tag="StateOpened"):
    """A graph that another one runs began: its nodes work in a state of its own."""

    state: str = ""
    """Its name: ``x1``, ``x2``, …"""
    channels: Mapping[str, ChannelFacts] = {}
    around: str = ""
    """The state around it; empty is the session's."""
    shares: tuple[str, ...] = ()
    """The channels that begin as the state around holds them; all others begin empty."""


class StateUpdated(Event, frozen=True, gc=False, kw_only=True, tag="StateUpdated"):
    """Channels were written, all at once."""

    update: Mapping[str, JsonValue] = {}
    """Channel to delta; messages stand as ``{"$message": number}``, a declared reset as
    ``{"$set": value}``."""
    values: Mapping[str, JsonValue] | None = None
    """Channel to new value, for reducers that are the user's own functions."""
    cause: str = "writes"
    """``given``, ``user``, ``writes``, ``before``, ``after`` or ``handoff``."""
    impure: Mapping[str, str] | None = None
    """Channel to what its reducer did wrong (changed its argument, differs when called again)."""
    group: str = ""
    """The parallel group in one of whose branches the run was that wrote."""
    branch: str = ""
    """The run that opened that branch."""
    branch_values: Mapping[str, Mapping[str, JsonValue]] | None = None
    """Branch to channel to its new value there, for reducers that are the user's own functions."""
    handoff: str = ""
    """The handoff whose contract wrote it, where the cause is ``handoff``."""
    state: str = ""
    """The state whose channels they are: empty for the session's, else that of a graph inside."""


class HistorySummarised(Event, frozen=True, gc=False, kw_only=True, tag="HistorySummarised"):
    """What a window leaves out of a stream was summarised."""

    stream: str = ""
    text: str = ""
    covers: int = 0
    """The newest message that the summary covers."""
    missed: tuple[int, ...] = ()
    """Older ones that it does not cover: the context showed them elsewhere, or they stand behind
    it, as one parallel branch does behind the other."""


class StoreRead(Event, frozen=True, gc=False, kw_only=True, tag="StoreRead"):
    """A session began with what its store holds of a long-lived channel."""

    channel: str = ""
    scope: str = ""


class StoreWritten(Event, frozen=True, gc=False, kw_only=True, tag="StoreWritten"):
    """A long-lived channel was written to its store."""

    channel: str = ""
    scope: str = ""


class GuardrailTripped(Event, frozen=True, gc=False, kw_only=True, tag="GuardrailTripped"):
    """A guardrail of the pipeline stopped something."""

    guardrail: str = ""
    reason: str = ""


class TurnInterrupted(Event, frozen=True, gc=False, kw_only=True, tag="TurnInterrupted"):
    """An agent asked the user and waits."""

    question: JsonValue = None


class TurnResumed(Event, frozen=True, gc=False, kw_only=True, tag="TurnResumed"):
    """The user answered an interrupt."""

    value: JsonValue = None


class CheckpointSaved(Event, frozen=True, gc=False, kw_only=True, tag="CheckpointSaved"):
    """A session's state was saved."""

    checkpoint: str = ""


class CheckpointRestored(Event, frozen=True, gc=False, kw_only=True, tag="CheckpointRestored"):
    """A session's state was read back."""

    checkpoint: str = ""


class AgentFinished(Event, frozen=True, gc=False, kw_only=True, tag="AgentFinished"):
    """An agent's activation ended."""

    status: str = "done"
    """``done``, ``handed_off``, ``stood_in`` (a ``before`` rule answered), ``failed``,
    ``interrupted``, ``timed_out`` or ``cancelled``."""
    output: JsonValue = None
    message: int = 0
    """The final message, if the agent said one."""
    changed_in_place: tuple[str, ...] = ()
    """Channels that a function agent changed in the state it received."""


class UnusedLines(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Reply lines that nobody asked for."""

    agent: str
    lines: tuple[int, ...]
    """Their places under the agent, from 0."""
    calls: int
    """How many model calls the agent made in the turn."""


class UnusedResults(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Results of a tool that no call had."""

    tool: str
    answers: tuple[int, ...]
    """Their places, from 0."""
    calls: int
    """How often the tool was called in the turn."""
    is_list: bool = False
    """They answer one call each."""


class ErrorFacts(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What went wrong in the pipeline."""

    type: str
    message: str
    agent: str = ""
    status: int = 0


class TurnFinished(Event, frozen=True, gc=False, kw_only=True, tag="TurnFinished"):
    """The pipeline waits for the user again."""

    reply: JsonValue = None
    error: ErrorFacts | None = None
    unused: tuple[UnusedLines, ...] = ()
    waits_for: str = ""
    """The run whose question the user answers next; empty where the turn is over."""
    unused_results: tuple[UnusedResults, ...] = ()


class FaultInjected(Event, frozen=True, gc=False, kw_only=True, tag="FaultInjected"):
    """A planned misbehaviour took place."""

    fault: str = ""


class LimitReached(Event, frozen=True, gc=False, kw_only=True, tag="LimitReached"):
    """Something that repeats was stopped."""

    limit: str = ""
    allowed: int = 0


class LogRecorded(Event, frozen=True, gc=False, kw_only=True, tag="LogRecorded"):
    """The pipeline's own code made a log record."""

    level: str = ""
    """``DEBUG``, ``INFO``, ``WARNING``, ``ERROR``, ``CRITICAL``, or a name of the code's own."""
    logger: str = ""
    message: str = ""
    error: str = ""
    """The exception that it was made with, as ``Type: message``."""


class UncontrolledEffect(Event, frozen=True, gc=False, kw_only=True, tag="UncontrolledEffect"):
    """User code reached a clock, chance, thread or network that simkit does not control."""

    effect: str = ""
    where: str = ""


class RequestUnread(Event, frozen=True, gc=False, kw_only=True, tag="RequestUnread"):
    """A request went to a model's provider in an interface that is not read."""

    method: str = ""
    url: str = ""
    """Host and path."""
    interface: str = ""


class Misfit(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Something that the scenario says, and to which nothing in the run answers."""

    what: str
    path: tuple[str | int, ...] = ()
    """Its place in the scenario's document."""


class RunFinished(Event, frozen=True, gc=False, kw_only=True, tag="RunFinished"):
    """A scenario ended."""

    error: ErrorFacts | None = None
    unplayed: tuple[str, ...] = ()
    """Recorded interactions that answered nothing, a line for each."""
    drifted: tuple[str, ...] = ()
    """Requests that were answered although another one was recorded, a line for each."""
    misfits: tuple[Misfit, ...] = ()
    """What the scenario says and the pipeline does not do."""


AnyEvent: TypeAlias = (
    RunStarted | SessionStarted | TurnStarted | MessageAdded | RouteChosen | AgentStarted
    | ContextBuilt | ModelCalled | ModelReplied | ReplyParsed | ModelFailed | ModelRetried
    | ToolCalled | ToolReturned | ToolFailed | HandoffRequested | HandoffRejected | HandoffMade
    | StateOpened | StateUpdated | HistorySummarised | StoreRead | StoreWritten | GuardrailTripped
    | TurnInterrupted | TurnResumed | CheckpointSaved | CheckpointRestored | AgentFinished
    | TurnFinished | FaultInjected | LimitReached | LogRecorded | RequestUnread | UncontrolledEffect
    | RunFinished
)  # fmt: skip

KINDS: Final[tuple[str, ...]] = tuple(kind.__struct_config__.tag for kind in AnyEvent.__args__)
"""Every event's name, in the order of a run."""


def kind_of(event: AnyEvent) -> str:
    """Return an event's name, as the trace writes it."""
    return str(type(event).__struct_config__.tag)
