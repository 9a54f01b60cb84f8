"""The events of a run: a closed union.

Every event is one frozen fact, named in the past tense. It carries the virtual time in milliseconds
since the scenario's start, and, where they apply, session, turn (from 1), agent and run; never a
wall clock, a uuid or an object's address. Events refer to messages by number: message ``m12`` was
added by the twelfth ``MessageAdded``. The order of fields is that of the encoded JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from simkit.core.messages import JsonValue, Message, Usage
from simkit.trace.asides import RequestSent as RequestSent
from simkit.trace.asides import ResponseReceived as ResponseReceived
from simkit.trace.event_parts import AgentFacts as AgentFacts
from simkit.trace.event_parts import ChannelFacts as ChannelFacts
from simkit.trace.event_parts import ContractFacts as ContractFacts
from simkit.trace.event_parts import EditedCall as EditedCall
from simkit.trace.event_parts import ErrorFacts as ErrorFacts
from simkit.trace.event_parts import Event as Event
from simkit.trace.event_parts import HandoffEvent as HandoffEvent
from simkit.trace.event_parts import HistoryPart as HistoryPart
from simkit.trace.event_parts import InlinePart as InlinePart
from simkit.trace.event_parts import LeftOut as LeftOut
from simkit.trace.event_parts import Misfit as Misfit
from simkit.trace.event_parts import Omission as Omission
from simkit.trace.event_parts import Part as Part
from simkit.trace.event_parts import Piece as Piece
from simkit.trace.event_parts import PipelineFacts as PipelineFacts
from simkit.trace.event_parts import Shortened as Shortened
from simkit.trace.event_parts import ToolAnswered as ToolAnswered
from simkit.trace.event_parts import ToolEvent as ToolEvent
from simkit.trace.event_parts import Unshown as Unshown
from simkit.trace.event_parts import UnusedLines as UnusedLines
from simkit.trace.event_parts import UnusedResults as UnusedResults


class RunStarted(Event, frozen=True, gc=False, kw_only=True, tag="RunStarted"):
    """A scenario began."""

    scenario: str = ""
    seed: int = 0
    start: str = ""
    """The date and time of ``at: 0``, ISO 8601."""
    driver: str = ""
    pipeline: PipelineFacts = PipelineFacts(name="", agents={})


class SessionStarted(Event, frozen=True, gc=False, kw_only=True, tag="SessionStarted"):
    """A conversation began."""

    project: str = ""


class TurnStarted(Event, frozen=True, gc=False, kw_only=True, tag="TurnStarted"):
    """The user sent a message."""

    message: int = 0


class MessageAdded(Event, frozen=True, gc=False, kw_only=True, tag="MessageAdded"):
    """A message was appended to its session's log."""

    message: Message = Message(role="user")
    tokens: int = 0


class RouteChosen(Event, frozen=True, gc=False, kw_only=True, tag="RouteChosen"):
    """A router, or a graph's decision node, chose the next agents."""

    targets: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    """The labels that matched."""
    parallel: bool = False


class AgentStarted(Event, frozen=True, gc=False, kw_only=True, tag="AgentStarted"):
    """An agent run began."""

    input: JsonValue = None
    handoff: str = ""
    """The handoff that started it: ``h1``, ``h2``, …; empty if none."""
    handoff_from: str = ""
    group: str = ""
    """Its parallel group: ``g1``, ``g2``, …; empty if none."""
    channels: tuple[str, ...] | None = None
    """The channels that it can read; None means all except those of scope agent_run."""
    branch: str = ""
    """The run that opened its parallel branch (possibly itself), else empty. The run sees the state
    at the beginning of that branch, and the branch's own writes since."""
    outer: str = ""
    """For a run that opens a branch: the branch in which its group began; empty if none."""
    after: tuple[str, ...] = ()
    """The runs that it follows: on a graph's incoming edges, or a supervisor's previous step."""
    task: str = ""
    """The supervisor's task text."""
    parent: str = ""
    """The run inside which it runs, and which continues after it; empty if none."""
    call_id: str = ""
    """The tool call that this run executes, if a model asked for it."""
    state: str = ""
    """The state that it uses: empty for the session's, else the name from `StateOpened`. If it
    is set, or ``received`` is given, branches do not determine what the run received."""
    received: JsonValue = None
    """Its input beside its ``channels``: values that no channel holds in this form. If it is no
    mapping, it is the whole input."""
    is_unseen: bool = False
    """Whether the code showed nothing of the state that it gave the run."""
    goal: str = ""
    """The goal that it works for, from a supervisor or from a program."""


class ToolDefined(Event, frozen=True, gc=False, kw_only=True, tag="ToolDefined"):
    """Models are offered this tool in these words.

    It is written once, for code before the first context with it; contexts have its number.
    """

    number: int = 0
    """From 1, in the order of these events."""
    tool: str = ""
    description: str = ""
    parameters: JsonValue = None
    """The JSON Schema of its arguments; None for a tool that the provider runs itself."""
    strict: bool = False
    """Whether the provider holds the model to the schema."""
    server: str = ""
    """The scenario's server that has it; empty if none or several."""
    shared: tuple[str, ...] = ()
    """Several that have it."""


class ContextBuilt(Event, frozen=True, gc=False, kw_only=True, tag="ContextBuilt"):
    """The context of one model call was built."""

    call: str = ""
    """The model call: ``c1``, ``c2``, … counted over the whole run."""
    parts: tuple[Part, ...] = ()
    base: str = ""
    """For later calls of one agent run: the call with whose parts this context begins."""
    said: tuple[int, ...] = ()
    """The agent run's own messages since the base: section ``run``."""
    tools: tuple[str, ...] = ()
    """The tools offered; for code, all of them, under the names that the model received."""
    settings: JsonValue = None
    tokens: int = 0
    budget: int = 0
    """The largest number of tokens that the recipe allows; 0 if there is no budget."""
    left_out: tuple[Unshown, ...] = ()
    """Items that sections read and did not show, in the order of the recipe; histories report
    them in their parts. Like ``parts``, given only for the first call of an agent run."""
    handoffs: tuple[str, ...] | None = ()
    """The agents that it may pass control to; None if an offered tool does not name them."""
    handoff_tools: tuple[tuple[str, str], ...] = ()
    """For code: the offered tools that pass control, each with its target agent; the agent is
    empty if only the arguments of a call name it."""
    hidden: str = ""
    """A part of the context that only the provider knows: ``cachedContents/abc``. Empty if none."""
    definitions: tuple[int, ...] = ()
    """For each of ``tools``, the number of its `ToolDefined`; empty in traces of format 2."""
    marks: tuple[tuple[int, int], ...] = ()
    """Where the provider shall keep the front: whole messages, and characters, before a mark."""


class ModelCalled(Event, frozen=True, gc=False, kw_only=True, tag="ModelCalled"):
    """The context was sent to the model."""

    call: str = ""


class ModelReplied(Event, frozen=True, gc=False, kw_only=True, tag="ModelReplied"):
    """The model answered with ``message``."""

    call: str = ""
    message: int = 0
    reply: str = ""
    """``text``, ``json``, ``calls``, ``handoff`` or ``interrupt``."""
    usage: Usage | None = None
    thinking: str = ""
    """The model's thinking, as far as its provider shows it."""


class ReplyParsed(Event, frozen=True, gc=False, kw_only=True, tag="ReplyParsed"):
    """A text was parsed as a value."""

    call: str = ""
    how: str = ""
    """``json``, ``json_in_text``, or ``text`` if it contains no JSON."""
    value: JsonValue = None


class ModelFailed(Event, frozen=True, gc=False, kw_only=True, tag="ModelFailed"):
    """The model did not answer."""

    call: str = ""
    error: str = ""
    """A name of the error vocabulary, ``no_reply_line`` or ``no_recording``."""
    status: int = 0
    message: str = ""
    retry_after_ms: int = 0
    """The time that the provider asks the client to wait before a retry."""
    partial: str = ""
    """The text that came before a stream broke off."""


class ModelRetried(Event, frozen=True, gc=False, kw_only=True, tag="ModelRetried"):
    """The same call was made again after a failure."""

    call: str = ""
    """The call that failed."""
    attempt: int = 0
    """The number of this attempt: 2 for the first retry."""


class ToolCalled(ToolEvent, frozen=True, gc=False, kw_only=True, tag="ToolCalled"):
    """A tool was called."""

    args: JsonValue = None
    """The arguments that the function received, if seen; the model's own are in its message."""


class ToolReturned(ToolAnswered, frozen=True, gc=False, kw_only=True, tag="ToolReturned"):
    """A tool answered."""

    result: JsonValue = None


class ToolFailed(ToolAnswered, frozen=True, gc=False, kw_only=True, tag="ToolFailed"):
    """A tool failed, and the agent received the error."""

    error: str = ""


class CallEdited(Event, frozen=True, gc=False, kw_only=True, tag="CallEdited"):
    """A person, or code, changed a call after its model had asked for it."""

    call_id: str = ""
    by: str = ""
    """``user``, if the user's answer says the new values; the agent that did it; else ``code``."""
    before: EditedCall = EditedCall()
    after: EditedCall = EditedCall()


class HandoffRequested(HandoffEvent, frozen=True, gc=False, kw_only=True, tag="HandoffRequested"):
    """An agent asked to pass control."""

    call_id: str = ""
    is_taken: bool = False
    """Whether the application's code took the payload, which then need not be in any context."""


class HandoffRejected(HandoffEvent, frozen=True, gc=False, kw_only=True, tag="HandoffRejected"):
    """A requested handoff was not made."""

    reason: str = ""


class HandoffMade(HandoffEvent, frozen=True, gc=False, kw_only=True, tag="HandoffMade"):
    """One agent passed control, and a payload, to another."""

    depth: int = 1
    """The number of handoffs from the turn's first agent to the target."""


class StateOpened(Event, frozen=True, gc=False, kw_only=True, tag="StateOpened"):
    """A graph inside another one began, with a state of its own for its nodes."""

    state: str = ""
    """Its name: ``x1``, ``x2``, …"""
    channels: Mapping[str, ChannelFacts] = {}
    around: str = ""
    """The surrounding state; empty for the session's."""
    shares: tuple[str, ...] = ()
    """The channels that begin with the values of the surrounding state; all others begin empty."""


class StateUpdated(Event, frozen=True, gc=False, kw_only=True, tag="StateUpdated"):
    """Channels were written, all at once."""

    update: Mapping[str, JsonValue] = {}
    """Channel to update; messages are written as ``{"$message": number}``, a declared reset as
    ``{"$set": value}``. A large value that comes from the one in the channel's last update is
    ``{"$more": items}``, or ``{"$with": {key: value}}``."""
    values: Mapping[str, JsonValue] | None = None
    """Channel to new value, for reducers that are the user's functions."""
    cause: str = "writes"
    """``given``, ``user``, ``writes``, ``before``, ``after`` or ``handoff``."""
    impure: Mapping[str, str] | None = None
    """Channel to the error of its reducer (it changed its argument, or gives another result on a
    second call)."""
    group: str = ""
    """The parallel group of the writing run; empty outside branches."""
    branch: str = ""
    """The run that opened the branch of the writing run."""
    branch_values: Mapping[str, Mapping[str, JsonValue]] | None = None
    """Branch to channel to its new value there, for reducers that are the user's functions."""
    handoff: str = ""
    """The handoff whose contract wrote it, if the cause is ``handoff``."""
    state: str = ""
    """The state that the channels belong to: empty for the session's, else that of an inner
    graph."""


class HistorySummarised(Event, frozen=True, gc=False, kw_only=True, tag="HistorySummarised"):
    """The part of a stream before its window was summarized."""

    stream: str = ""
    text: str = ""
    covers: int = 0
    """The newest message that the summary covers."""
    missed: tuple[int, ...] = ()
    """Older messages that it does not cover: the context showed them elsewhere, or they come
    later in the stream, as one parallel branch comes after the other."""


class StoreRead(Event, frozen=True, gc=False, kw_only=True, tag="StoreRead"):
    """A session read a long-lived channel from its store."""

    channel: str = ""
    scope: str = ""


class StoreWritten(Event, frozen=True, gc=False, kw_only=True, tag="StoreWritten"):
    """A long-lived channel was written to its store."""

    channel: str = ""
    scope: str = ""


class GuardrailTripped(Event, frozen=True, gc=False, kw_only=True, tag="GuardrailTripped"):
    """A guardrail of the pipeline stopped the agent or the turn."""

    guardrail: str = ""
    reason: str = ""


class TurnInterrupted(Event, frozen=True, gc=False, kw_only=True, tag="TurnInterrupted"):
    """An agent asked the user a question and waits."""

    question: JsonValue = None


class TurnResumed(Event, frozen=True, gc=False, kw_only=True, tag="TurnResumed"):
    """The user answered an interrupt."""

    value: JsonValue = None


class CheckpointSaved(Event, frozen=True, gc=False, kw_only=True, tag="CheckpointSaved"):
    """A session's state was saved."""

    checkpoint: str = ""


class CheckpointRestored(Event, frozen=True, gc=False, kw_only=True, tag="CheckpointRestored"):
    """A session's state was restored."""

    checkpoint: str = ""


class AgentFinished(Event, frozen=True, gc=False, kw_only=True, tag="AgentFinished"):
    """An agent run ended."""

    status: str = "done"
    """``done``, ``handed_off``, ``stood_in`` (a ``before`` rule answered), ``failed``,
    ``interrupted``, ``timed_out`` or ``cancelled``."""
    output: JsonValue = None
    message: int = 0
    """The number of the agent's final message; 0 if there is none."""
    changed_in_place: tuple[str, ...] = ()
    """Channels that a function agent changed in the state that it received."""


class TurnFinished(Event, frozen=True, gc=False, kw_only=True, tag="TurnFinished"):
    """The pipeline waits for the user again."""

    reply: JsonValue = None
    error: ErrorFacts | None = None
    unused: tuple[UnusedLines, ...] = ()
    waits_for: str = ""
    """The run whose question the user answers next; empty if the turn is over."""
    unused_results: tuple[UnusedResults, ...] = ()


class FaultInjected(Event, frozen=True, gc=False, kw_only=True, tag="FaultInjected"):
    """A planned fault took place, or a server failed."""

    fault: str = ""


class LimitReached(Event, frozen=True, gc=False, kw_only=True, tag="LimitReached"):
    """A limit stopped a repetition."""

    limit: str = ""
    allowed: int = 0


class LogRecorded(Event, frozen=True, gc=False, kw_only=True, tag="LogRecorded"):
    """The pipeline's code made a log record."""

    level: str = ""
    """``DEBUG``, ``INFO``, ``WARNING``, ``ERROR``, ``CRITICAL``, or a name of the code's."""
    logger: str = ""
    message: str = ""
    error: str = ""
    """The logged exception, as ``Type: message``; empty if none."""


class UncontrolledEffect(Event, frozen=True, gc=False, kw_only=True, tag="UncontrolledEffect"):
    """User code used a clock, random numbers, a thread or the network beyond simkit's control."""

    effect: str = ""
    where: str = ""


class ErrorLost(Event, frozen=True, gc=False, kw_only=True, tag="ErrorLost"):
    """An error ended a thread or a task of the pipeline's code, and no code took it."""

    ended: str = ""
    """``thread`` or ``task``."""
    error: ErrorFacts = ErrorFacts(type="", message="")


class TextCarriedOver(Event, frozen=True, gc=False, kw_only=True, tag="TextCarriedOver"):
    """A request, or a turn's reply, held a text of an earlier scenario of the same process."""

    call: str = ""
    """The request's call; empty for the reply."""
    text: str = ""
    said_by: str = ""
    """``user`` or ``assistant``, in that scenario."""
    scenario: str = ""
    """The earlier scenario."""
    others: int = 0
    """The number of further texts of earlier scenarios in the request."""
    variable: str = ""
    """The variable of the pipeline's modules that holds the text; empty if none was found."""


class RequestUnread(Event, frozen=True, gc=False, kw_only=True, tag="RequestUnread"):
    """A request went to a model provider in an interface that simkit does not read."""

    method: str = ""
    url: str = ""
    """Host and path."""
    interface: str = ""


class JudgeAnswered(Event, frozen=True, gc=False, kw_only=True, tag="JudgeAnswered"):
    """A judge was asked a question about a turn, or, with turn 0, about the whole run."""

    question: str = ""
    form: str = ""
    """The kind of its answer: ``boolean``, ``number``, ``text``, or ``choice``."""
    choices: tuple[str, ...] = ()
    """The possible answers of a choice."""
    model: str = ""
    """Provider and model that were asked; empty for an answer that the scenario says."""
    shown: str = ""
    """The text that the judge saw; empty for an answer that the scenario says."""
    answer: JsonValue = None
    """The answer; None if there is none."""
    reason: str = ""
    """The reason that the judge gives."""
    error: str = ""
    """Why there is no answer; empty if there is one."""


class RunFinished(Event, frozen=True, gc=False, kw_only=True, tag="RunFinished"):
    """The scenario ended."""

    error: ErrorFacts | None = None
    unplayed: tuple[str, ...] = ()
    """Recorded interactions that answered nothing, one text each."""
    drifted: tuple[str, ...] = ()
    """Requests that differ from the recorded one that answered them, one text each."""
    misfits: tuple[Misfit, ...] = ()
    """Parts of the scenario that the pipeline did not do."""


AnyEvent: TypeAlias = (
    RunStarted | SessionStarted | TurnStarted | MessageAdded | RouteChosen | AgentStarted
    | ToolDefined | ContextBuilt | ModelCalled | ModelReplied | ReplyParsed | ModelFailed
    | ModelRetried | ToolCalled | ToolReturned | ToolFailed | HandoffRequested | HandoffRejected
    | HandoffMade | CallEdited | StateOpened | StateUpdated | HistorySummarised | StoreRead
    | StoreWritten | GuardrailTripped | TurnInterrupted | TurnResumed | CheckpointSaved
    | CheckpointRestored | AgentFinished | TurnFinished | FaultInjected | LimitReached
    | LogRecorded | ErrorLost | TextCarriedOver | RequestUnread | UncontrolledEffect | RequestSent
    | ResponseReceived | JudgeAnswered | RunFinished
)  # fmt: skip

KINDS: Final = tuple(str(kind.__struct_config__.tag) for kind in AnyEvent.__args__)
"""The names of all events, in the order of a run."""


def kind_of(event: AnyEvent) -> str:
    """Return an event's name as in the trace."""
    return str(type(event).__struct_config__.tag)
