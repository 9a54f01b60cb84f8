"""The measurement of coverage: which items the traces of a campaign have reached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from simkit.checks.coverage.items import (
    INTERRUPT,
    KINDS,
    MODEL_FAILURE,
    RESTART,
    RESUMPTION,
    CoverageItem,
    DeclaredItems,
    Key,
    contract_name,
    facts_items,
    handoff_name,
    payload_keys,
)
from simkit.checks.lints.handoffs import contract_of
from simkit.core.messages import ABSENT
from simkit.language.paths import follow
from simkit.language.yaml import Document
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.scenario.apps import App
from simkit.trace import events as e
from simkit.trace.views import View


class PlacedItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """An item with its place and the number of times that it happened."""

    pipeline: str
    """The pipeline's name."""
    kind: str
    name: str
    file: str
    line: int
    hits: int = 0
    hint: str = ""
    """How a scenario makes it happen."""
    code: str = ""
    """``module:function`` of a pipeline that is code."""
    agent: str = ""
    """The agent that must run for it; empty if any may."""
    is_given: bool = False
    """Whether a scenario gave this channel of code, which then need not be the code's to write."""

    @property
    def identity(self) -> tuple[str, int, int, str, str]:
        """Return what distinguishes it, in the order of reports: by file, line and kind."""
        return self.file, self.line, KINDS.index(self.kind), self.pipeline, self.name


class CoverageReport(msgspec.Struct, frozen=True):
    """The items of a campaign's pipelines, and how often each happened."""

    items: tuple[PlacedItem, ...]

    @property
    def covered(self) -> int:
        """Return the number of items that happened."""
        return sum(item.hits > 0 for item in self.items)

    @property
    def percent(self) -> float | None:
        """Return the share of items that happened; None if there are none."""
        return 100 * self.covered / len(self.items) if self.items else None


def coverage_of(items: Iterable[PlacedItem], *, keeps_given: bool = False) -> CoverageReport:
    """Return the report on items of several measurements, of which some may be the same.

    ``keeps_given``: those that only scenarios gave stay, because more measurements follow.
    """
    merged: dict[tuple[str, int, int, str, str], PlacedItem] = {}
    for item in items:
        other = merged.get(item.identity)
        if other is not None:
            hits, is_given = item.hits + other.hits, item.is_given or other.is_given
            item = msgspec.structs.replace(item, hits=hits, is_given=is_given)
        merged[item.identity] = item
    in_order = [merged[identity] for identity in sorted(merged)]
    if keeps_given:
        return CoverageReport(tuple(in_order))
    return CoverageReport(tuple(item for item in in_order if item.hits or not item.is_given))


class Measurement:
    """Collects what happened in runs; runs may be added in any order."""

    def __init__(self) -> None:
        self._subjects: dict[tuple[str, int, str], _Subject] = {}

    def add(self, subject: Pipeline | App, document: Document, view: View) -> None:
        """Take one run of a pipeline into account; ``document`` is the file that names it."""
        name = subject.pipeline
        key = document.file, document.index if isinstance(subject, Pipeline) else 0, name
        if key not in self._subjects:
            self._subjects[key] = _Subject(subject, document)
        self._subjects[key].add(view)

    def items(self) -> list[PlacedItem]:
        """Return the items of all pipelines; ``coverage_of`` makes a report of them."""
        return [item for subject in self._subjects.values() for item in subject.placed()]


class _Subject:
    """One pipeline: its items and what happened of them."""

    def __init__(self, subject: Pipeline | App, document: Document) -> None:
        self._subject, self._document = subject, document
        self._items: dict[Key, CoverageItem] = {}
        self._hits: Counter[Key] = Counter()
        self._declared: DeclaredItems | None = None
        self._given: set[str] = set()
        """The channels that scenarios give."""

    def add(self, view: View) -> None:
        if isinstance(self._subject, Pipeline):
            if self._declared is None:
                self._declared = DeclaredItems(self._subject)
                self._take(self._declared.items())
        else:
            contexts = [event for event in view.events if isinstance(event, e.ContextBuilt)]
            self._take(facts_items(view.pipeline, contexts))
            self._given.update(
                name
                for event in view.events
                if isinstance(event, e.StateUpdated) and event.cause == "given"
                for name in event.update
            )
        happened = Counter(_Reading(view, self._declared).keys())
        self._hits += happened
        # Of these nobody declares that they may happen: they count once they do.
        if happened[INTERRUPT]:
            for key in (INTERRUPT, RESUMPTION):
                self._take([CoverageItem(key, (), "a later turn with `resume:`")])
        if happened[RESTART]:
            self._take([CoverageItem(RESTART, (), "")])
        if self._declared is None:
            self._take(CoverageItem(key, (), "") for key in happened if key[0] in _SEEN_IN_CODE)

    def _take(self, items: Iterable[CoverageItem]) -> None:
        for item in items:
            self._items.setdefault(item.key, item)

    def placed(self) -> Iterator[PlacedItem]:
        for key, item in self._items.items():
            kind, name = key
            yield PlacedItem(
                pipeline=self._subject.pipeline,
                kind=kind,
                name=name,
                file=self._document.file,
                line=self._line(item),
                hits=self._hits[key],
                hint=item.hint,
                code="" if isinstance(self._subject, Pipeline) else self._subject.entry,
                agent=item.agent,
                is_given=kind == "channels" and name.split()[0] in self._given,
            )

    def _line(self, item: CoverageItem) -> int:
        path = item.path
        if self._declared is None:
            data = self._document.data
            known = path and path[0] in data and path[1] in (data[path[0]] or {})
            path = path if known else ("code",) if "code" in data else ("pipeline",)
        return self._document.line(path or ("pipeline",))


_SEEN_IN_CODE = frozenset(("agents", "edges", "handoffs", "tools", "channels"))

_KEYS_OF_EVENTS: Final[Mapping[type[e.AnyEvent], Key]] = {
    e.ModelFailed: MODEL_FAILURE,
    e.TurnInterrupted: INTERRUPT,
    e.TurnResumed: RESUMPTION,
    e.CheckpointRestored: RESTART,
}
"""Events that happen or not, whatever they hold."""


def edges_to(event: e.AgentStarted, view: View) -> Iterator[str]:
    """Yield the edges on which a run began; drivers of code need not name the runs before."""
    runs, edges = view.runs, view.pipeline.edges
    sources = [runs[name].agent for name in event.after if name in runs]
    if not sources and event.handoff_from:
        sources = [event.handoff_from]
    if not sources and edges:
        before = [run for run in view.turns[event.turn - 1].runs if run.id != event.run]
        sources = [run.agent for run in before if (run.agent, event.agent) in edges][-1:]
    for source in sources:
        yield f"{source} → {event.agent}"


class _Reading:
    """Reads from one trace what happened."""

    def __init__(self, view: View, declared: DeclaredItems | None) -> None:
        self._view, self._declared = view, declared

    def keys(self) -> Iterator[Key]:
        """Yield the key of everything that happened, as often as it did."""
        view = self._view
        before = View()
        for event in view.events:
            match event:
                case e.AgentStarted():
                    yield "agents", event.agent
                    yield from (("edges", edge) for edge in edges_to(event, view))
                case e.ContextBuilt():
                    yield from self._context(event)
                case e.RouteChosen():
                    yield from self._route(event)
                case e.ToolReturned():
                    yield "tools", f"{event.tool} answered"
                case e.ToolFailed():
                    yield "tools", f"{event.tool} failed"
                case e.HandoffMade():
                    yield from self._handoff(event)
                case e.HandoffRejected():
                    yield from self._refusal(event.handoff)
                case e.AgentFinished(status="timed_out"):
                    run = view.runs.get(event.run)
                    yield from self._refusal(run.handoff if run is not None else "", "timeout_ms")
                case e.StateUpdated():
                    yield from self._update(event, before)
                case e.LimitReached():
                    yield "limits", event.limit
                case _ if type(event) in _KEYS_OF_EVENTS:
                    yield _KEYS_OF_EVENTS[type(event)]
            before.apply(event)
        if self._declared is not None:
            yield from self._sections()

    def _sections(self) -> Iterator[Key]:
        for call in self._view.calls.values():
            for section in call.context.sections:
                yield "sections", f"{self._owner(call.agent, 'context')}: {section}"

    def _owner(self, agent: str, key: str) -> str:
        return self._declared.owner_of(agent, key) if self._declared is not None else agent

    def _context(self, event: e.ContextBuilt) -> Iterator[Key]:
        if event.agent not in {run.agent for run in self._view.runs.values()}:
            # A summarizing agent only makes model calls.
            yield "agents", event.agent
        owner = self._owner(event.agent, "context")
        histories: list[e.HistoryPart] = []
        for part in event.parts:
            histories += part.shown if isinstance(part, e.InlinePart) else [part]
        for history in histories:
            head = f"{owner}: {history.section}"
            for cut in (*history.cuts, *history.tail_cuts):
                yield "filters", f"{head} {cut.by}"
            if history.lo:
                yield "windows", f"{head} window"
        for fact in event.left_out:
            yield "windows", f"{owner}: {fact.section} {fact.by}"

    def _route(self, event: e.RouteChosen) -> Iterator[Key]:
        for label in event.labels:
            yield "routes", f"{event.agent}: {label}"
        for target in event.targets:
            yield "edges", f"{event.agent} → {target}"
            if not event.labels:
                yield "routes", f"{event.agent} → {target}"

    def _handoff(self, event: e.HandoffMade) -> Iterator[Key]:
        facts = self._view.pipeline
        contract = contract_of(event, facts)
        if contract is None:
            yield "handoffs", handoff_name(event.from_agent, event.to_agent)
            return
        source = event.from_agent if event.from_agent in contract.from_agents else "*"
        yield "handoffs", handoff_name(source, event.to_agent, event.type)
        handoff = self._view.handoffs.get(event.handoff)
        payload = handoff.payload if handoff is not None else event.payload
        name = contract_name(contract)
        for path, _ in payload_keys(contract.payload, facts.schemas):
            if isinstance(follow(payload, path[:-1]), Mapping):
                is_absent = follow(payload, path) is ABSENT
                text = ".".join(path)
                yield "payload keys", f"{name}: {text} {'absent' if is_absent else 'present'}"

    def _refusal(self, handoff: str, policy: str = "") -> Iterator[Key]:
        """Yield the policy of a handoff's contract that was obeyed."""
        view = self._view.handoffs.get(handoff)
        contract = contract_of(view.event, self._view.pipeline) if view is not None else None
        if contract is not None:
            yield "error policies", f"{contract_name(contract)}: {policy or contract.on_invalid}"

    def _update(self, event: e.StateUpdated, before: View) -> Iterator[Key]:
        if event.cause in ("before", "after"):
            yield "rules", f"{self._owner(event.agent, event.cause)}: {event.cause}"
        state: Mapping[str, Any] = before.states.get(event.session, {})
        if event.cause != "given":
            for name in event.update:
                yield "channels", f"{name} written"
                if state.get(name) not in (None, [], (), {}, "", 0):
                    yield "channels", f"{name} joined"
