"""Lints on control flow: limits, edges, cycles, ambiguous routes, calls after the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from simkit.checks.findings import Hit
from simkit.checks.lints.contracts import contract_of
from simkit.checks.lints.runner import reads
from simkit.core.messages import JsonValue, Message
from simkit.core.text import short
from simkit.trace import events as e
from simkit.trace.views import RunView, TurnView, View


class LimitPassed:
    """FLW-01: turns, runs, handoffs, calls and virtual time stay within their limits.

    Seen in conductor#1279 and swarm#6.
    """

    id = "FLW-01"

    @reads(e.LimitReached)
    def look(self, event: e.LimitReached, view: View) -> Iterable[Hit]:
        """Report every limit that was reached."""
        where = f" in turn {event.turn}" if event.turn else ""
        problem = f"limit `{event.limit}` was reached{where}: {event.allowed} allowed"
        data = {"limit": event.limit, "allowed": event.allowed}
        turn = event.turn or len(view.turns)
        return (Hit(self.id, problem, turn, event.agent, data=data),)


class UndeclaredEdge:
    """FLW-02: control moved along a declared edge, route target or contract.

    A run is declared if it is the turn's first and may be (the decider, a start, or any agent if
    the pipeline names no start), a target of the turn's last route, the target of an edge from a
    run that finished, the source of a handoff that was rejected, or the target of one that was made
    between agents with a contract, or whose source declares the target. A turn that the user's
    answer resumes continues with the waiting runs, and with the routes and runs before it. Seen in
    adk-js#38.
    """

    id = "FLW-02"

    def concerns(self, pipeline: e.PipelineFacts) -> bool:
        """Return whether somebody declared where control may go."""
        return not pipeline.is_open

    def __init__(self) -> None:
        self._targets: tuple[str, ...] = ()
        """The targets of the turn's last route."""
        self._is_first = False
        """Whether no run has started in the turn, and it does not resume another."""

    @reads(e.TurnStarted)
    def begin(self, event: e.TurnStarted, view: View) -> Iterable[Hit]:
        """Wait for the first run."""
        self._targets, self._is_first = (), bool(event.message)
        return ()

    @reads(e.RouteChosen)
    def route(self, event: e.RouteChosen, view: View) -> Iterable[Hit]:
        """Note the targets of a route."""
        self._targets = event.targets
        return ()

    @reads(e.AgentStarted)
    def look(self, event: e.AgentStarted, view: View) -> Iterable[Hit]:
        """Check the reason of every start."""
        is_first, self._is_first = self._is_first, False
        if not event.handoff and (
            event.agent in self._targets or (is_first and _may_start(event.agent, view.pipeline))
        ):
            return ()
        wrong = _handoff_problem(event, view) if event.handoff else _start_problem(event, view)
        if not wrong:
            return ()
        problem = f"agent {event.agent!r} started in turn {event.turn}, {wrong}"
        return (Hit(self.id, problem, event.turn, event.agent),)


def _handoff_problem(event: e.AgentStarted, view: View) -> str:
    handoff = view.handoffs.get(event.handoff)
    if handoff is None or handoff.outcome != "made":
        return f"by handoff {event.handoff}, which was not made"
    request, facts = handoff.event, view.pipeline
    source = facts.agents.get(request.from_agent)
    if source is not None and request.to_agent in source.handoffs:
        return ""
    if contract_of(request, facts) is not None:
        return ""
    return (
        f"by a handoff from {request.from_agent!r}, which neither declares it nor has a contract "
        f"of type {request.type!r} with it"
    )


def _start_problem(event: e.AgentStarted, view: View) -> str:
    facts, turn, agent = view.pipeline, view.turns[-1], event.agent
    routes, runs, handoffs = turn.routes, turn.runs, turn.handoffs
    while turn.resumes is not None:
        turn = turn.resumes
        if any(run.agent == agent and run.status == "interrupted" for run in turn.runs):
            return ""
        routes, runs = [*turn.routes, *routes], [*turn.runs, *runs]
        handoffs = [*turn.handoffs, *handoffs]
    if routes and agent in routes[-1].targets:
        return ""
    if _may_be_first(event, facts, runs):
        return ""
    if facts.edges:
        edges = set(facts.edges)
        if any(run.finished and (run.agent, agent) in edges for run in runs[:-1]):
            return ""
    if any(
        handoff.outcome == "rejected" and handoff.event.from_agent == agent for handoff in handoffs
    ):
        return ""
    if len(runs) == 1:
        may = ", ".join(dict.fromkeys((*facts.starts, facts.decider))).strip(", ")
        return f"but a turn starts with: {may}"
    if routes:
        return f"but the last route names: {', '.join(routes[-1].targets)}"
    return "but no edge, route or handoff leads to it"


def _may_be_first(event: e.AgentStarted, facts: e.PipelineFacts, runs: Sequence[RunView]) -> bool:
    """Return whether the run is the turn's first, or one of several that start it in parallel."""
    if len(runs) > 1:
        together = event.group and all(run.group == event.group for run in runs)
        if not together or any(run.finished for run in runs):
            return False
    return _may_start(event.agent, facts)


def _may_start(agent: str, facts: e.PipelineFacts) -> bool:
    starts = facts.starts
    return not starts or agent in starts or agent == facts.decider


class PingPong:
    """FLW-04: no agent runs again with the same state, input and first context.

    A run repeats another of its turn if the agent, its input, its first context, the source, type,
    query and payload of its handoff are the same, no run wrote to the state in between, and it got
    no new reason for a refusal. An unknown value equals nothing: if the driver sees no state, or if
    an input or a context of code was not seen, nothing is reported. Runs of parallel groups are
    left out, because their order is no cycle, and so are agents that code calls like functions,
    because control does not move. Each agent of a turn is reported once. Seen in autogen#5831 and
    #7471.
    """

    id = "FLW-04"

    def __init__(self) -> None:
        self._starts: dict[tuple[str, str, str], list[e.AgentStarted]] = {}
        """The starts of the turn since the last write."""
        self._handoffs: list[e.HandoffRequested] = []
        """The turn's handoffs."""
        self._waiting: dict[str, tuple[e.AgentStarted, list[e.AgentStarted]]] = {}
        """Runs whose first context is not known yet, each with those that it may repeat."""
        self._reported: set[str] = set()

    def concerns(self, pipeline: e.PipelineFacts) -> bool:
        """Return whether the driver sees the state."""
        return "state" in pipeline.observes

    @reads(e.TurnStarted)
    def begin(self, event: e.TurnStarted, view: View) -> Iterable[Hit]:
        """Forget the turn before."""
        for container in (self._starts, self._handoffs, self._waiting, self._reported):
            if container:
                container.clear()
        return ()

    @reads(e.StateUpdated, waits="_starts")
    def write(self, event: e.StateUpdated, view: View) -> Iterable[Hit]:
        """Forget the starts: later ones have another state."""
        self._starts.clear()
        return ()

    @reads(e.HandoffRequested)
    def request(self, event: e.HandoffRequested, view: View) -> Iterable[Hit]:
        """Note that handoffs may be refused in this turn."""
        self._handoffs.append(event)
        return ()

    @reads(e.TurnFinished, waits="_waiting")
    def end(self, event: e.TurnFinished, view: View) -> Iterable[Hit]:
        """Compare the runs whose first context is still not known."""
        return [hit for run in list(self._waiting) for hit in self._settled(run, view)]

    @reads(e.ContextBuilt, e.AgentFinished, waits="_waiting")
    def look(self, event: e.ContextBuilt | e.AgentFinished, view: View) -> Iterable[Hit]:
        """Compare a run, now that its first context is known, with the agent's earlier ones."""
        run = view.runs.get(event.run)
        if run is None or run.agent != event.agent:
            return ()  # A summarizing agent's call within the run does not count.
        return self._settled(event.run, view)

    @reads(e.AgentStarted)
    def start(self, event: e.AgentStarted, view: View) -> Iterable[Hit]:
        """Look for earlier runs of the agent with the same state and input."""
        if event.agent in self._reported or event.group:
            return ()
        if event.call_id and view.runs[event.run].group:
            return ()  # Calls of one message are a group, too.
        if "sections" not in view.pipeline.observes and not _is_known(event):
            return ()
        reason = _refusal(event.agent, view.turns[-1]) if self._handoffs else ""
        key = (event.agent, event.handoff_from, reason)
        if key not in self._starts:
            self._starts[key] = [event]
            return ()
        earlier = self._starts[key]
        like = [start for start in earlier if _is_same(start, event, view)]
        if like:
            self._waiting[event.run] = event, like
        earlier.append(event)
        return ()

    def _settled(self, run: str, view: View) -> Iterable[Hit]:
        """Report a run when its first context is known, or when it ends without one."""
        event, like = self._waiting.pop(run, (None, ()))
        if event is None or event.agent in self._reported:
            return ()
        again = next((earlier for earlier in like if _reads_the_same(earlier.run, run, view)), None)
        if again is None:
            return ()
        self._reported.add(event.agent)
        problem = (
            f"agent {event.agent!r} runs in circles in turn {event.turn}: run {event.run} starts "
            f"with the same state and input as run {again.run}"
        )
        return (
            Hit(self.id, problem, event.turn, event.agent, data={"runs": [again.run, event.run]}),
        )


def _is_known(event: e.AgentStarted) -> bool:
    """Return whether a run of code moves control, and its input was seen."""
    is_called = bool(event.parent) and not event.handoff
    return event.input is not None and not is_called


def _refusal(agent: str, turn: TurnView) -> str:
    """Return the reason of an agent's last handoff; empty unless it was rejected."""
    reasons = (
        handoff.reason for handoff in reversed(turn.handoffs) if handoff.event.from_agent == agent
    )
    return next(reasons, "")


def _reads_the_same(first_run: str, second_run: str, view: View) -> bool:
    """Return whether the first contexts of two runs are equal; for code, both must be known."""
    first, second = view.runs[first_run].calls[:1], view.runs[second_run].calls[:1]
    if not first or not second:
        return not view.pipeline.is_code and len(first) == len(second)
    a, b = first[0].context, second[0].context
    return a.tools == b.tools and [*map(_words_of, a.messages)] == [*map(_words_of, b.messages)]


def _words_of(message: Message) -> tuple[JsonValue, ...]:
    """Return the parts of a message that a model reads; ids belong to the log."""
    calls = [[call.name, call.args] for call in message.calls]
    return message.role, message.content, calls


def _is_same(before: e.AgentStarted, after: e.AgentStarted, view: View) -> bool:
    if before.input != after.input or bool(before.handoff) is not bool(after.handoff):
        return False
    if not before.handoff:
        return True
    first, second = view.handoffs.get(before.handoff), view.handoffs.get(after.handoff)
    if first is None or second is None:
        return first is second
    a, b = first.event, second.event
    return (a.type, a.query, a.payload) == (b.type, b.query, b.payload)


class CallAfterEnd:
    """FLW-05: no model is called after the turn's reply.

    From MAST 1.5, unaware of termination conditions (12.4 % of failures).
    """

    id = "FLW-05"

    def __init__(self) -> None:
        self._last = 0
        self._ended: dict[int, bool] = {}
        """Turn to whether it is over."""

    @reads(e.TurnStarted)
    def begin(self, event: e.TurnStarted, view: View) -> Iterable[Hit]:
        """Note a new turn."""
        self._last += 1
        self._ended[self._last] = False
        return ()

    @reads(e.TurnFinished)
    def end(self, event: e.TurnFinished, view: View) -> Iterable[Hit]:
        """Note that the turn is over."""
        self._ended[self._last] = True
        return ()

    @reads(e.ModelCalled)
    def look(self, event: e.ModelCalled, view: View) -> Iterable[Hit]:
        """Check whether the call's turn is over."""
        if event.turn not in self._ended or not self._ended[event.turn]:
            return ()
        call = view.calls.get(event.call)
        problem = f"agent {event.agent!r} made a model call after turn {event.turn} had ended"
        index = call.index if call is not None else None
        return (Hit(self.id, problem, event.turn, event.agent, index),)


class AmbiguousRoute:
    """FLW-08: exactly one label of a decision's edges matches.

    If several match, the first edge is taken, so that the order of the file decides: the answer
    "recreate" contains "create". From reference system 2, decision routing.
    """

    id = "FLW-08"

    @reads(e.RouteChosen, has=("labels",))
    def look(self, event: e.RouteChosen, view: View) -> Iterable[Hit]:
        """Check every choice between labelled edges."""
        labels = list(event.labels)
        if len(labels) < 2:
            return ()
        route_text = ", ".join(f"{event.agent} → {target}" for target in event.targets)
        problem = (
            f"what {event.agent!r} decided in turn {event.turn} matches {len(labels)} labels: "
            f"{', '.join(labels)}; the edge that was taken: {route_text or 'none'}"
        )
        data: dict[str, JsonValue] = {"labels": labels, "targets": list(event.targets)}
        return (Hit(self.id, problem, event.turn, event.agent, data=data),)


# FLW-06: questions to the user, and the agents that get the answers


SHOWN_MAX: Final = 60
"""Characters of a question that a hit shows."""


class _Question(NamedTuple):
    """A question of an agent to the user."""

    turn: int
    agent: str
    text: JsonValue


class _Session:
    """The questions of one session."""

    __slots__ = ("answered", "has_answer", "open", "resumed")

    def __init__(self) -> None:
        self.open: list[_Question] = []
        self.answered: list[tuple[str, JsonValue]] = []
        """Agent and question of answered questions since the last write."""
        self.resumed = 0
        """The last turn that began with an answer."""
        self.has_answer = False
        """Whether an answer has come, and no run has started with it yet."""


class AskedAgain:
    """FLW-06: an answered question is not asked again, and its answer goes to the agent that asked.

    Asked again is the same question of the same agent after its answer, if no run wrote anything
    and the user said nothing else in between. The first run of a resumed turn must be of an agent
    that waits for an answer. Seen in deepchat#2292 and openai-agents#1815.
    """

    id = "FLW-06"

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}

    @reads(e.TurnResumed, waits="_sessions")
    def resume(self, event: e.TurnResumed, view: View) -> Iterable[Hit]:
        """Wait for the run that gets the answer."""
        session = self._sessions.get(event.session)
        if session is not None:
            session.resumed, session.has_answer = event.turn, True
        return ()

    @reads(e.StateUpdated, waits="_sessions")
    def write(self, event: e.StateUpdated, view: View) -> Iterable[Hit]:
        """Forget the answers: the question may be another now."""
        session = self._sessions.get(event.session)
        if session is not None and event.cause not in ("given", "user"):
            session.answered.clear()
        return ()

    @reads(e.TurnInterrupted)
    def ask(self, event: e.TurnInterrupted, view: View) -> Iterable[Hit]:
        """Search for the question among the answered ones."""
        session = self._sessions.setdefault(event.session, _Session())
        session.open.append(_Question(event.turn, event.agent, event.question))
        if (event.agent, event.question) not in session.answered:
            return ()
        problem = (
            f"agent {event.agent!r} asks again in turn {event.turn} what the user has answered: "
            f"{short(str(event.question), SHOWN_MAX)!r}"
        )
        return (Hit(self.id, problem, event.turn, event.agent, data={"question": event.question}),)

    @reads(e.AgentStarted, waits="_sessions")
    def start(self, event: e.AgentStarted, view: View) -> Iterable[Hit]:
        """Check whether the run is of an agent that waits for the answer."""
        session = self._sessions.get(event.session)
        if session is None:
            return ()
        if event.turn != session.resumed:
            # The user said something else: earlier questions are dropped.
            session.open = [question for question in session.open if question.turn == event.turn]
            session.answered.clear()
            return ()
        if not session.has_answer:
            return ()
        session.has_answer = False
        mine = [question for question in session.open if question.agent == event.agent]
        waiting = [question.agent for question in session.open]
        session.open = [question for question in session.open if question.agent != event.agent]
        session.answered += [(question.agent, question.text) for question in mine]
        if mine or not waiting:
            return ()
        questions = list(dict.fromkeys(waiting))
        problem = (
            f"the user's answer went to agent {event.agent!r} in turn {event.turn}, but "
            f"{' and '.join(map(repr, questions))} asked"
        )
        return (Hit(self.id, problem, event.turn, event.agent, data={"asked": questions}),)
