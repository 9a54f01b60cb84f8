"""The data of one run: every event that a person asks about, in the order of the trace."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any, Final

from msgspec.structs import asdict, replace

from simkit.checks.findings import Finding
from simkit.core.messages import Message
from simkit.core.text import short
from simkit.language.paths import as_text
from simkit.report.results import Result
from simkit.report.wording import TEXTS, error_text
from simkit.trace import events as e
from simkit.trace.reducers import changes_nothing
from simkit.trace.views import RunView, ToolView, View
from simkit.trace.views.arrivals import Payload
from simkit.viewer.document import (
    AgentRunData,
    ArrivalData,
    CallData,
    ClaimLine,
    FindingData,
    HandoffData,
    MarkData,
    ReaderData,
    RunData,
    ToolData,
    TurnData,
    WireData,
    WriteData,
    copied,
    difference_data,
)
from simkit.viewer.pipeline_graph import graph_of
from simkit.viewer.tables import Contexts, StateChanges, Tables

_ENDS: Final = (e.TurnFinished, e.RunFinished)


class Pins:
    """Finds the mark of each finding."""

    def __init__(
        self, events: Sequence[e.AnyEvent], marks: Sequence[MarkData], event_indices: Sequence[int]
    ) -> None:
        """``event_indices`` are the indices of the marks' events, in order."""
        self._events, self._marks, self._places = events, marks, event_indices

    def mark_of(self, finding: Finding) -> int:
        """Return the index of a finding's mark, the last one if it has no event; -1 for no mark."""
        if finding.event is None or finding.event >= len(self._events) or not self._marks:
            return len(self._marks) - 1
        event = self._events[finding.event]
        if not isinstance(event, _ENDS) or event.error is not None:
            return self._near(finding.event)
        before = range(bisect_left(self._places, finding.event))
        calls = (index for index in reversed(before) if self._marks[index].kind == "call")
        return next(calls, len(before) - 1)

    def _near(self, index: int) -> int:
        """Return the mark of an event, else the nearest one of its run: before it, then after."""
        marks, event = self._marks, self._events[index]
        at = bisect_left(self._places, index)
        if at < len(marks) and self._places[at] == index:
            return at
        before, after = range(at - 1, -1, -1), range(at, len(marks))
        for step in (before, after) if event.run else ():
            for other in takewhile(lambda other: marks[other].turn == event.turn, step):
                if marks[other].run == event.run:
                    return other
        return max(0, at - 1)


MARK_MAX: Final = 300
"""The length of a mark's own text; what it refers to is whole."""
HANDOFF_LINTS: Final = "HND-"


def run_data(view: View, result: Result | None, claims: Sequence[ClaimLine] = ()) -> RunData:
    """Return the data of a run; ``view`` and ``result`` hold no secrets."""
    return _Reader(view).data(result, claims)


class _Reader:
    def __init__(self, view: View) -> None:
        self._view = view
        self._tables = Tables()
        self._contexts = Contexts(view, self._tables)
        self._calls: list[CallData] = []
        self._tools: dict[str, ToolData] = {}
        self._writes: list[WriteData] = []
        self._payloads: list[dict[str, Payload]] = []
        """The values of each write, by channel."""
        self._newest_message = 0
        self._marks: list[MarkData] = []
        self._tool_views = {
            tool.call_id: tool for turn in view.turns for tool in turn.tools if tool.call_id
        }
        self._handoffs_seen = 0
        self._usage: dict[str, e.ModelReplied] = {}
        self._ends: dict[str, int] = {}
        self._branches: dict[str, str] = {}
        """Run to the run that opened the branch in which it is."""
        self._route: e.RouteChosen | None = None
        self._after: dict[str, tuple[str, ...]] = {}
        """Run to the runs before it."""
        self._untils: dict[str, int] = {}
        """Call to the time of its reply, or of its failure."""
        self._wires: dict[str, WireData] = {}
        self._event = 0
        """The index of the event at hand."""
        self._places: list[int] = []
        """The indices of the marks' events."""

    def data(self, result: Result | None, claims: Sequence[ClaimLine]) -> RunData:
        view, tables = self._view, self._tables
        for index, event in enumerate(view.events):
            self._event = index
            if mark := _MARKS.get(type(event)):
                self._mark(mark, event, text=TEXTS[type(event)](event))
            handler = getattr(self, f"on_{type(event).__name__}", None)
            if handler is not None:
                handler(event)
        states = StateChanges()
        findings = [] if result is None else list(self._findings(result))
        for message in view.messages.values():  # Those that no agent was sent, too.
            tables.message(message)
        agents = dict.fromkeys([*view.pipeline.agents, *(run.agent for run in view.runs.values())])
        channels = {n: (c.reducer, c.scope) for n, c in view.pipeline.channels.items()}
        return RunData(
            **copied(tables, "texts", "messages", "toolsets", "offers"),
            streams=self._contexts.streams,
            turns=[self._turn(turn, states) for turn in view.turns],
            calls=[self._with_reply(call) for call in self._calls],
            runs=[self._run(run) for run in view.runs.values()],
            handoffs=list(self._handoffs()),
            tools=list(self._tools.values()),
            writes=list(map(self._with_readers, self._writes, self._payloads)),
            marks=self._marks,
            findings=findings,
            agents=[agent for agent in agents if agent],
            channels=channels,
            observes=view.pipeline.observes,
            flow=view.pipeline.flow,
            graph=graph_of(view.pipeline, view, findings),
            counter=view.pipeline.tokens,
            exchanges=[wire for wire in self._wires.values() if wire.server],
            claims=list(claims),
            error=error_text(view.error),
        )

    # The tables of the data.

    def _turn(self, turn: Any, states: StateChanges) -> TurnData:
        before, after = states.of(turn)
        # A turn that answers a question has the message of the turn that asked.
        message = turn.message if turn.resumes is None else None
        return TurnData(
            number=turn.number,
            session=turn.session,
            at=turn.at,
            user=-1 if message is None else self._tables.message(message),
            reply=self._tables.value(turn.reply),
            error=error_text(turn.error),
            before=before,
            after=after,
        )

    def _run(self, run: Any) -> AgentRunData:
        return AgentRunData(
            **copied(run, "id", "agent", "turn", "at", "status", "handoff", "handoff_from"),
            until=self._ends.get(run.id, run.at),
            group=run.group or self._group_around(run.id),
            after=self._after.get(run.id, ()),
            # The user's message is shown by its turn.
            input=-1 if isinstance(run.input, Message) else self._tables.value(run.input),
            output=self._tables.value(
                run.output.content if isinstance(run.output, Message) else run.output
            ),
        )

    def _group_around(self, run: str) -> str:
        """Return the parallel group of the branch in which a run is; empty if there is none."""
        branch = self._view.runs.get(self._branches.get(run, ""))
        return "" if branch is None else branch.group

    def _with_reply(self, call: CallData) -> CallData:
        call = replace(call, wire=self._wires.get(call.id))
        replied = self._usage.get(call.id)
        until = self._untils.get(call.id, -1)
        if replied is None:
            return call if until < 0 else replace(call, until=until)
        usage = {} if replied.usage is None else asdict(replied.usage)
        return replace(
            call,
            kind=replied.reply,
            thinking=self._tables.text(replied.thinking),
            usage={name: count for name, count in usage.items() if count is not None},
            until=-1 if until == call.at else until,
        )

    def _handoffs(self) -> Iterable[HandoffData]:
        runs = {run.handoff: run for run in self._view.runs.values() if run.handoff}
        for handoff in self._view.handoffs.values():
            event, run = handoff.event, runs.get(handoff.id)
            yield HandoffData(
                **copied(handoff, "id", "turn", "outcome", "mode", "reason"),
                **copied(event, "at", "type"),
                source=event.from_agent,
                target=event.to_agent,
                query=self._tables.value(event.query),
                payload=self._tables.value(handoff.payload),
                run="" if run is None else run.id,
                by=event.run,
                arrivals=() if run is None else tuple(self._arrivals(run)),
            )

    def _arrivals(self, run: RunView) -> Iterable[ArrivalData]:
        for arrival in self._view.arrivals.of(run):
            facts = copied(arrival, "state", "sections", "reason")
            yield ArrivalData(arrival.path or "payload", as_text(arrival.value), **facts)

    def _with_readers(self, write: WriteData, payloads: Mapping[str, Payload]) -> WriteData:
        turns = self._view.turns[max(0, write.turn - 1) :]
        near = islice((turn for turn in turns if turn.session == turns[0].session), 2)
        later = [run for turn in near for run in turn.runs if run.calls and run.id != write.run]
        readers = {
            channel: self._readers(payload, later)
            for channel, payload in payloads.items()
            if channel not in write.idle and not _is_said(payload.value)
        }
        known = {name: calls for name, calls in readers.items() if calls is not None}
        return replace(write, readers=known)

    def _readers(self, payload: Payload, later: Sequence[RunView]) -> tuple[ReaderData, ...] | None:
        """Return the calls that were sent a payload; None if nobody can tell."""
        states, readers = set(), []
        for run in later:
            call = self._contexts.places[run.calls[0].id]
            if call < payload.calls_before:
                continue
            values = list(self._view.arrivals.in_run(payload, run))
            arrived = [value for value in values if value.state == "arrived"]
            sections = dict.fromkeys(name for value in arrived for name in value.sections)
            states |= {value.state for value in values}
            if arrived:
                readers.append(ReaderData(call, tuple(sections), len(arrived), len(values)))
        return tuple(readers) if readers or states == {"lost"} else None

    def _findings(self, result: Result) -> Iterable[FindingData]:
        levels = (
            ("failing", result.findings),
            ("warning", result.warnings),
            ("noted", result.noted),
            ("skipped", result.passed_over),
        )
        pins = Pins(self._view.events, self._marks, self._places)
        for level, findings in levels:
            for finding in findings:
                yield self._finding(level, finding, pins)

    def _finding(self, level: str, finding: Finding, pins: Pins) -> FindingData:
        mark = pins.mark_of(finding)
        pinned = self._marks[mark] if mark >= 0 else None
        return FindingData(
            **copied(finding, "id", "what", "where", "turn", "context", "excerpt"),
            **copied(finding, "fix", "follows"),
            level=level,
            agent=_agent_of(finding, pinned),
            call=pinned.ref if pinned is not None and pinned.kind == "call" else -1,
            mark=mark,
            handoff=finding.id.startswith(HANDOFF_LINTS) or "handoffs" in finding.path,
            differences=difference_data(finding),
        )

    # Events, in the order of a run: `on_` and the event's class.

    def _mark(self, kind: str, event: e.Event, ref: int = -1, text: str = "") -> None:
        self._places.append(self._event)
        self._marks.append(
            MarkData(kind, event.turn, event.at, event.agent, event.run, ref, short(text, MARK_MAX))
        )

    def on_TurnStarted(self, event: e.TurnStarted) -> None:
        message = self._view.messages.get(event.message)
        self._mark("user", event, -1 if message is None else self._tables.message(message))

    def on_ContextBuilt(self, event: e.ContextBuilt) -> None:
        self._mark("call", event, len(self._calls))
        self._calls.append(self._contexts.call_of(event))

    def on_ModelReplied(self, event: e.ModelReplied) -> None:
        self._usage[event.call] = event
        self._untils[event.call] = event.at

    def on_ModelFailed(self, event: e.ModelFailed) -> None:
        self._untils[event.call] = event.at
        self._mark("failure", event, text=f"{event.error} {event.message}".strip())

    def on_ToolCalled(self, event: e.ToolCalled) -> None:
        tool = self._tool_views.get(event.call_id)
        self._mark("tool", event, len(self._tools), event.tool)
        self._tools[event.call_id or f"#{len(self._tools)}"] = self._tool(event, tool)

    def _tool(self, event: e.ToolCalled, tool: ToolView | None) -> ToolData:
        value = self._tables.value
        arguments = event.args if tool is None or event.args is not None else tool.request
        return ToolData(
            **copied(event, "tool", "agent", "turn", "at", "run"),
            id=event.call_id,
            args=value(arguments),
            result=-1 if tool is None else value(tool.result),
            error="" if tool is None else tool.error or "",
            until=-1 if tool is None or tool.returned_at is None else tool.returned_at,
            server="" if tool is None else tool.server or "",
        )

    def on_RequestSent(self, event: e.RequestSent) -> None:
        url = f"{event.method} {event.url}"
        self._wires[event.call] = WireData(
            url, event.where, event.body, **copied(event, "server", "turn")
        )

    def on_ResponseReceived(self, event: e.ResponseReceived) -> None:
        self._wires[event.call] = replace(
            self._wires[event.call], status=event.status, response=event.body
        )

    def on_HandoffRequested(self, event: e.HandoffRequested) -> None:
        # The view keeps handoffs in the order of their requests.
        self._mark("handoff", event, self._handoffs_seen, f"{event.from_agent} → {event.to_agent}")
        self._handoffs_seen += 1

    def on_StateUpdated(self, event: e.StateUpdated) -> None:
        update, _ = self._view.new_parts(event)
        value = self._tables.value
        values = {name: _without_reset(self._view.resolved(raw)) for name, raw in update.items()}
        channels = {} if event.state else self._view.pipeline.channels
        pairs = ((name, channels[name].reducer) for name in update if name in channels)
        idle = tuple(name for name, reducer in pairs if changes_nothing(reducer, update[name]))
        names = (f"{name} (unchanged)" if name in idle else name for name in update)
        self._mark("write", event, len(self._writes), ", ".join(names))
        before = len(self._calls), self._newest_message + 1
        self._payloads.append({n: Payload(raw, event.turn, *before) for n, raw in values.items()})
        self._writes.append(
            WriteData(
                **copied(event, "turn", "at", "cause", "agent", "run", "group", "handoff", "state"),
                update={name: value('""' if raw == "" else raw) for name, raw in values.items()},
                impure=dict(event.impure or {}),
                idle=idle,
            )
        )

    def on_MessageAdded(self, event: e.MessageAdded) -> None:
        self._newest_message = event.message.number

    def on_RouteChosen(self, event: e.RouteChosen) -> None:
        self._route = event
        self._mark("route", event, text=", ".join(event.targets))

    def on_TurnInterrupted(self, event: e.TurnInterrupted) -> None:
        self._mark("interrupt", event, text=as_text(self._view.resolved(event.question)))

    def on_TurnResumed(self, event: e.TurnResumed) -> None:
        self._mark("resume", event, text=as_text(self._view.resolved(event.value)))

    def on_LogRecorded(self, event: e.LogRecorded) -> None:
        if event.level in ("WARNING", "ERROR", "CRITICAL"):
            self._mark("log", event, text=f"{event.level} {event.logger}: {event.message}")

    def on_AgentStarted(self, event: e.AgentStarted) -> None:
        route = self._route
        if event.branch != event.run:
            self._branches[event.run] = event.branch
        if event.handoff:
            return
        if event.after:
            self._after[event.run] = event.after
        elif route is not None and route.turn == event.turn and event.agent in route.targets:
            self._after[event.run] = (route.run,)

    def on_AgentFinished(self, event: e.AgentFinished) -> None:
        self._ends[event.run] = event.at
        if event.status == "stood_in":
            self._mark("rule", event, text="it answered in the model's place")
        elif event.status not in ("done", "handed_off", "interrupted"):
            self._mark("end", event, text=event.status.replace("_", " "))

    def on_TurnFinished(self, event: e.TurnFinished) -> None:
        if event.error is not None:
            self._mark("error", event, text=error_text(event.error))


def _agent_of(finding: Finding, pinned: MarkData | None) -> str:
    """Return the agent that a finding names, else that of the event which it concerns."""
    if finding.agent or finding.event is None or pinned is None:
        return finding.agent
    return pinned.agent


def _without_reset(value: Any) -> Any:
    """Return a written value without the mark of a declared reset."""
    if isinstance(value, Mapping) and value.keys() == {"$set"}:
        return value["$set"]
    return value


def _is_said(value: Any) -> bool:
    """Return whether a value is messages: a history shows them with or without a channel."""
    items = value if isinstance(value, list) and value else [value]
    return all(isinstance(item, Message) for item in items)


_MARKS: Final[Mapping[type, str]] = {
    e.ModelRetried: "retry",
    e.CheckpointRestored: "restart",
    e.LimitReached: "limit",
    e.GuardrailTripped: "guardrail",
    e.FaultInjected: "fault",
    e.HistorySummarised: "summary",
    e.CallEdited: "edit",
    e.ErrorLost: "effect",
    e.TextCarriedOver: "effect",
    e.UncontrolledEffect: "effect",
    e.RequestUnread: "unread",
    e.JudgeAnswered: "judge",
}
"""Events that are shown by a mark of this kind alone."""
