"""The types of the page's data: what `viewer/src/document.ts` reads.

Large texts stand once in ``texts``, and messages once in ``messages``; everything else refers to
them by index. A context is a list of parts as in the trace: ranges of streams, so that the data of
10,000 turns are linear in the turns. Numbers of turns count from 1, all indices from 0; -1 is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from simkit.checks.coverage import PlacedItem
from simkit.checks.findings import Finding
from simkit.core.messages import JsonValue
from simkit.report.results import Result
from simkit.report.wording import place_words

VERSION: Final = 1
"""The version of the data, which the page checks."""


class MessageData(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One message as a context, or the log, has it."""

    role: str
    text: int
    """Index in ``texts``."""
    id: str = ""
    agent: str = ""
    turn: int = 0
    tool: str = ""
    call_id: str = ""
    calls: tuple[CallLine, ...] = ()


class CallLine(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A tool call that a message contains."""

    id: str
    name: str
    args: JsonValue = None
    to: str = ""
    """The agent that gets control; empty for a plain call."""


class CutData(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A message, or a part of one, that a filter dropped from a history."""

    message: int
    """Index in ``messages``."""
    by: str
    what: str = "message"


class StreamData(msgspec.Struct, frozen=True, gc=False):
    """The settled part of a filtered history, in order."""

    name: str
    entries: list[int]
    tokens: list[int]
    cuts: list[CutData]


class PartData(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A part of a context: one message (``message`` ≥ 0), or a range of a stream."""

    section: str
    message: int = -1
    tokens: int = 0
    pieces: tuple[tuple[str, int, int], ...] = ()
    """The texts of sections that share the message: section, index in ``texts``, tokens."""
    inner: tuple[PartData, ...] = ()
    """The histories that are rendered in the message."""
    stream: int = -1
    lo: int = 0
    hi: int = 0
    cuts: int = 0
    """The number of the stream's cuts that concern this context."""
    tail: tuple[int, ...] = ()
    tail_tokens: tuple[int, ...] = ()
    tail_cuts: tuple[CutData, ...] = ()
    summary: int = -1
    summary_tokens: int = 0
    rendered: int = -1


class LeftOutData(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Items that a section read and did not show; at most some of them as text."""

    section: str
    by: str
    channel: str = ""
    count: int = 1
    items: tuple[int, ...] = ()
    """Indices in ``texts``."""
    note: str = ""


class PrefixData(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The front of a request that equals the agent's request before."""

    messages: int
    tokens: int
    total: int
    """The tokens of the request, tools included."""
    where: str = ""
    """The place of the first difference; empty if all of the other request is in front."""
    before: str = ""
    after: str = ""


class WireData(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The request and the response of a model call of code, or of a server of the scenario."""

    url: str
    """Method, host and path."""
    where: str
    """The application's code that called the client; empty if only libraries did."""
    body: JsonValue
    """As changes of the request before it of the same agent, as in the trace."""
    status: int = 0
    response: JsonValue = None
    server: str = ""
    turn: int = 0
    """For a server."""


class CallData(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One model call."""

    id: str
    agent: str
    run: str
    turn: int
    at: int
    base: int = -1
    """The call of the same run with whose parts this context begins."""
    parts: tuple[PartData, ...] = ()
    own: tuple[int, ...] = ()
    """The run's own messages after the parts."""
    own_tokens: tuple[int, ...] = ()
    named: tuple[tuple[str, int], ...] = ()
    """For code whose sections a file names: section and number of messages, in order."""
    tools: int = -1
    settings: int = -1
    tokens: int = 0
    budget: int = 0
    hidden: str = ""
    prefix: PrefixData | None = None
    left_out: tuple[LeftOutData, ...] = ()
    handoffs: tuple[str, ...] = ()
    reply: int = -1
    kind: str = ""
    thinking: int = -1
    usage: Mapping[str, int] = {}
    error: str = ""
    until: int = -1
    """When its reply, or its failure, came; -1 if none did."""
    wire: WireData | None = None


class AgentRunData(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One run of an agent."""

    id: str
    agent: str
    turn: int
    at: int
    status: str
    until: int = 0
    handoff: str = ""
    handoff_from: str = ""
    group: str = ""
    """Its parallel group, or that of the branch in which it is."""
    after: tuple[str, ...] = ()
    """The runs before it, where an edge or a route led from them to it."""
    input: int = -1
    output: int = -1


class ArrivalData(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One value of a payload, and the sections that brought it to the target."""

    path: str
    value: str
    state: str
    """``arrived``, ``lost``, or ``unknown``: not observable, for a reason."""
    sections: tuple[str, ...] = ()
    reason: str = ""


class HandoffData(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One requested handoff, and what became of it."""

    id: str
    source: str
    target: str
    turn: int
    at: int
    outcome: str
    type: str = ""
    mode: str = ""
    query: int = -1
    payload: int = -1
    reason: str = ""
    run: str = ""
    """The run of the target that it started."""
    by: str = ""
    """The run that asked for it."""
    arrivals: tuple[ArrivalData, ...] = ()
    """The values of its payload, if its target made a model call."""


class ToolData(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One call of a tool."""

    id: str
    tool: str
    agent: str
    turn: int
    at: int
    run: str = ""
    args: int = -1
    result: int = -1
    error: str = ""
    until: int = -1
    server: str = ""
    """The scenario's server that answered; empty if none did."""


class ReaderData(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A later call that was sent what a channel was written."""

    call: int
    sections: tuple[str, ...]
    arrived: int
    values: int
    """The number of values in what was written, of which ``arrived`` were sent."""


class WriteData(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Channels that were written at once."""

    turn: int
    at: int
    cause: str
    update: Mapping[str, int]
    """Channel to the index of the update in ``texts``."""
    agent: str = ""
    run: str = ""
    group: str = ""
    handoff: str = ""
    state: str = ""
    impure: Mapping[str, str] = {}
    idle: tuple[str, ...] = ()
    """The channels whose reducer joins such an update without a change."""
    readers: Mapping[str, tuple[ReaderData, ...]] = {}
    """Channel to the calls up to the next turn that were sent its update, where that is known."""


class MarkData(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One thing that happened, for the timeline, in the order of the trace."""

    kind: str
    """``user``, ``call``, ``tool``, ``handoff``, ``write``, ``route``, ``fault``, ``failure``,
    ``retry``, ``interrupt``, ``resume``, ``restart``, ``limit``, ``guardrail``, ``summary``,
    ``rule``, ``log``, ``effect``, ``unread``, ``error`` or ``end``."""
    turn: int
    at: int
    agent: str = ""
    run: str = ""
    ref: int = -1
    """The index in ``calls``, ``tools``, ``handoffs`` or ``writes``; of a user, in ``messages``."""
    text: str = ""


class TurnData(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One turn; its state as changes of the state before."""

    number: int
    session: str
    at: int
    user: int = -1
    """Index in ``messages``."""
    reply: int = -1
    error: str = ""
    before: Mapping[str, JsonValue] = {}
    after: Mapping[str, JsonValue] = {}
    """Channel to ``["=", value]``, ``["+", items, number cut off the front]`` or
    ``["~", {key: change}]``."""


class FindingData(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A finding, with the event to which it is pinned."""

    level: str
    """``failing``, ``warning``, ``noted`` or ``skipped``."""
    id: str
    what: str
    where: str
    turn: int = 0
    agent: str = ""
    call: int = -1
    """Index in ``calls``; -1 if it is pinned to no call."""
    mark: int = -1
    """Index in ``marks`` of the event to which it is pinned; -1 if nothing happened."""
    handoff: bool = False
    differences: tuple[tuple[str, str, str, str], ...] = ()
    """Place, wanted, found, note."""
    context: tuple[str, ...] = ()
    excerpt: str = ""
    fix: str = ""
    follows: str = ""


class Node(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One agent; the page lays the nodes out."""

    name: str
    runs: int = 0
    calls: int = 0
    tokens: int = 0
    findings: int = 0
    is_start: bool = False
    is_function: bool = False
    tools: tuple[str, ...] = ()


class Edge(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A way from one agent to another; ``label`` is its type of handoff, if it is one."""

    source: str
    target: str
    label: str = ""
    kind: str = "edge"
    """``handoff``, ``route`` or ``edge``."""
    count: int = 0
    rejected: int = 0
    findings: int = 0
    is_declared: bool = False


class Graph(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A pipeline as nodes and edges, with what runs used."""

    name: str
    flow: str = ""
    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()
    runs: int = 0
    """The number of scenarios that were counted."""


class ClaimLine(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One claim at its line of the scenario's file."""

    line: int
    state: str
    """``held``, ``failing`` or ``skipped``."""
    path: str
    differences: tuple[tuple[str, str, str, str], ...] = ()
    what: str = ""


class OfferData(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A tool as a model is offered it."""

    name: str
    description: str = ""
    parameters: int = -1
    """Index in ``texts``."""
    strict: bool = False


class RunData(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """All about one run."""

    texts: list[str]
    messages: list[MessageData]
    streams: list[StreamData]
    toolsets: list[list[int]]
    """Lists of indices in ``offers``."""
    offers: list[OfferData]
    turns: list[TurnData]
    calls: list[CallData]
    runs: list[AgentRunData]
    handoffs: list[HandoffData]
    tools: list[ToolData]
    writes: list[WriteData]
    marks: list[MarkData]
    findings: list[FindingData]
    agents: list[str]
    channels: Mapping[str, tuple[str, str]]
    """Channel to reducer and scope."""
    flow: str
    graph: Graph
    observes: tuple[str, ...] = ()
    """Aspects of the pipeline that are observed: a page must not call the others empty."""
    counter: str = ""
    exchanges: list[WireData] = []
    """Requests to servers of the scenario, and of them, in the order of the trace."""
    claims: list[ClaimLine] = []
    error: str = ""


class ScenarioData(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the overview."""

    key: str
    """Its part of links, which is the same in every report."""
    id: str
    file: str
    line: int
    name: str
    outcome: str
    """As in `Result`; ``unjudged`` for a trace whose scenario is not there."""
    pipeline: str = ""
    turns: int = 0
    calls: int = 0
    tokens: int = 0
    virtual_ms: int = 0
    seed: int | None = None
    digest: str = ""
    findings: tuple[str, ...] = ()
    """The ids and headlines of what fails it."""
    warnings: int = 0
    noted: int = 0
    skipped: int = 0
    """The number of claims that were not looked at."""
    error: str = ""
    reason: str = ""
    reproduce: str = ""
    agents: tuple[str, ...] = ()
    run: int = -1
    """Index of its run in the page; -1 if there is none."""
    diff: JsonValue = None
    """The differences, as in `simkit diff --format json`; None without a base."""
    base: ScenarioData | None = None
    """The same scenario on the other side, with its own run; None without one."""


class CoverageData(msgspec.Struct, frozen=True, omit_defaults=True):
    """Coverage: the first view of a page that shows it."""

    measured: str
    """The runs that were measured: ``5 scenarios``."""
    kinds: tuple[str, ...] = ()
    """All kinds, in the order of reports."""
    parts: tuple[PlacedItem, ...] = ()
    """In the order of reports: by file, line and kind; with a hint only if it did not happen."""
    graphs: tuple[Graph, ...] = ()
    notes: tuple[str, ...] = ()


class Index(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of the data that the page reads first."""

    version: int
    simkit: str
    title: str
    scenarios: list[ScenarioData]
    graphs: list[Graph]
    files: Mapping[str, str] = {}
    """Scenario file to its text."""
    sides: tuple[str, str] = ("", "")
    """The names of the two sides of a comparison; empty without one."""
    coverage: CoverageData | None = None
    """Of a page that shows what was covered, and no scenario."""


def scenario_data(result: Result, key: str, agents: tuple[str, ...] = ()) -> ScenarioData:
    """Return the overview's line of a result."""
    return ScenarioData(
        **copied(result, "id", "file", "line", "outcome", "pipeline", "turns", "tokens", "seed"),
        **copied(result, "virtual_ms", "digest", "error", "reason", "reproduce"),
        key=key,
        name=result.name or result.id,
        calls=result.model_calls,
        findings=tuple(f"{finding.id}: {finding.what}" for finding in result.findings),
        warnings=len(result.warnings),
        noted=len(result.noted),
        skipped=len(result.passed_over),
        agents=agents,
    )


def copied(source: object, *names: str) -> dict[str, Any]:
    """Return the values of attributes, for data with fields of the same names."""
    return {name: getattr(source, name) for name in names}


def difference_data(finding: Finding) -> tuple[tuple[str, str, str, str], ...]:
    """Return the differences of a finding: place, wanted, found, note."""
    return tuple(
        (place_words(d.at, finding.path), d.expected, d.actual, d.note) for d in finding.differences
    )
