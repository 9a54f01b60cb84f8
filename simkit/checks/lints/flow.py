"""Lints on control flow: limits, edges, cycles, ambiguous routes, calls after the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from simkit.checks.findings import Hit
from simkit.checks.lints.facts import SHOWN_MAX, Facts, TurnNotes, lint
from simkit.checks.lints.handoffs import contract_of
from simkit.core.messages import JsonValue, Message
from simkit.core.text import short
from simkit.language.paths import as_text, leaves
from simkit.trace import events as e
from simkit.trace.views import CallView, RunView, TurnView, View


@lint("FLW-01", e.LimitReached)
def limit_passed(event: e.LimitReached, facts: Facts) -> Iterable[Hit]:
    """FLW-01: turns, runs, handoffs, calls and virtual time stay within their limits.

    Seen in conductor#1279 and swarm#6.
    """
    where = f" in turn {event.turn}" if event.turn else ""
    problem = f"limit `{event.limit}` was reached{where}: {event.allowed} allowed"
    data = {"limit": event.limit, "allowed": event.allowed}
    turn = event.turn or len(facts.view.turns)
    return (Hit("FLW-01", problem, turn, event.agent, data=data),)


@lint("FLW-02", e.AgentStarted, when="has_edges")
def undeclared_edge(event: e.AgentStarted, facts: Facts) -> Iterable[Hit]:
    """FLW-02: control moved along a declared edge, route target or contract.

    A run is declared if it is the turn's first and may be (the decider, a start, or any agent if
    the pipeline names no start), a target of the turn's last route, the target of an edge from a
    run that finished, the source of a handoff that was rejected, or the target of one that was made
    between agents with a contract, or whose source declares the target. A turn that the user's
    answer resumes continues with the waiting runs, and with the routes and runs before it. Seen in
    adk-js#38.
    """
    turn = facts.view.turns[-1]
    is_first = turn.message is not None and turn.runs[0].id == event.run
    is_target = bool(turn.routes) and event.agent in turn.routes[-1].targets
    if event.handoff:
        wrong = _handoff_problem(event, facts.view)
    elif is_target or (is_first and _may_start(event.agent, facts.pipeline)):
        return ()
    else:
        wrong = _start_problem(event, facts.view)
    if not wrong:
        return ()
    problem = f"agent {event.agent!r} started in turn {event.turn}, {wrong}"
    return (Hit.at("FLW-02", event, problem),)


def _handoff_problem(event: e.AgentStarted, view: View) -> str:
    handoff = view.handoffs.get(event.handoff)
    if handoff is None or handoff.outcome != "made":
        return f"by handoff {event.handoff}, which was not made"
    request, facts = handoff.event, view.pipeline
    source = facts.agents.get(request.from_agent)
    is_declared = source is not None and request.to_agent in source.handoffs
    if is_declared or contract_of(request, facts) is not None:
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
    if (
        (routes and agent in routes[-1].targets)
        or _may_be_first(event, facts, runs)
        or _follows_edge(agent, facts, runs)
        or any(each.outcome == "rejected" and each.event.from_agent == agent for each in handoffs)
    ):
        return ""
    if len(runs) == 1:
        may = ", ".join(dict.fromkeys((*facts.starts, facts.decider))).strip(", ")
        return f"but a turn starts with: {may}"
    if routes:
        return f"but the last route names: {', '.join(routes[-1].targets)}"
    return "but no edge, route or handoff leads to it"


def _follows_edge(agent: str, facts: e.PipelineFacts, runs: Sequence[RunView]) -> bool:
    """Return whether an edge leads to the agent from an earlier run that finished."""
    return any(run.finished and (run.agent, agent) in facts.edges for run in runs[:-1])


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


class _Starts(dict[tuple[str, str, str], list[e.AgentStarted]], TurnNotes):
    """The runs of the turn that started since the last write.

    They are listed by agent, source of the handoff, and reason of a refusal.
    """


class _Repeating(dict[str, tuple[e.AgentStarted, list[e.AgentStarted]]], TurnNotes):
    """Runs whose first context is not known yet, each with those that it may repeat."""


@lint("FLW-04", e.StateUpdated, when=_Starts)
def _forget_starts_before_write(event: e.StateUpdated, facts: Facts) -> None:
    del facts.notes[_Starts]  # Later ones have another state.


@lint("FLW-04", e.AgentStarted, when="sees_state")
def _note_start(event: e.AgentStarted, facts: Facts) -> None:
    """Note which earlier runs of the agent this one may repeat."""
    view = facts.view
    if event.group or (event.call_id and view.runs[event.run].group):
        return  # Calls of one message are a group, too.
    if "sections" not in facts.pipeline.observes and not _is_known(event):
        return
    reason = _refusal(event.agent, view.turns[-1]) if facts.requests else ""
    key = (event.agent, event.handoff_from, reason)
    earlier = facts.notes_of(_Starts).setdefault(key, [])
    like = [start for start in earlier if _is_same(start, event, view)]
    if like:
        facts.notes_of(_Repeating)[event.run] = event, like
    earlier.append(event)


@lint("FLW-04", e.ContextBuilt, e.AgentFinished, e.TurnFinished, when=_Repeating)
def ping_pong(
    event: e.ContextBuilt | e.AgentFinished | e.TurnFinished, facts: Facts
) -> Iterable[Hit]:
    """FLW-04: no agent runs again with the same state, input and first context.

    A run repeats another of its turn if the agent, its input, its first context, the source, type,
    query and payload of its handoff are the same, no run wrote to the state in between, and it got
    no new reason for a refusal. An unknown value equals nothing: if the driver sees no state, or if
    an input or a context of code was not seen, nothing is reported. Runs of parallel groups are
    left out, because their order is no cycle, and so are agents that code calls like functions,
    because control does not move. Each agent of a turn is reported once. Seen in autogen#5831 and
    #7471.
    """
    run = facts.view.runs.get(event.run)
    # A summarizing agent's call within the run does not count.
    runs = [event.run] if run is not None and run.agent == event.agent else []
    if isinstance(event, e.TurnFinished):  # The first contexts of others are still not known.
        runs = [*facts.notes_of(_Repeating)]
    for name in runs:
        yield from _repetition(name, facts)


def _repetition(run: str, facts: Facts) -> Iterable[Hit]:
    """Report a run that waits for its first context, if it repeats another one."""
    repeating, view = facts.notes_of(_Repeating), facts.view
    if run not in repeating:
        return
    event, like = repeating.pop(run)
    again = next((earlier for earlier in like if _reads_the_same(earlier.run, run, view)), None)
    if again is None or not facts.is_new("FLW-04", facts.turns, event.agent):
        return
    problem = (
        f"agent {event.agent!r} runs in circles in turn {event.turn}: run {event.run} starts "
        f"with the same state and input as run {again.run}"
    )
    yield Hit.at("FLW-04", event, problem, runs=[again.run, event.run])


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
    return _is_sent_the_same(first[0], second[0])


def _is_sent_the_same(first: CallView, second: CallView) -> bool:
    a, b = first.context, second.context
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


@lint("FLW-14", e.ModelReplied, when="is_code")
def asked_the_same(event: e.ModelReplied, facts: Facts) -> Iterable[Hit]:
    """Find a model that repeats its calls, and is sent nothing between the two.

    In one run it is sent exactly what it was sent before, and calls the same tools again: neither
    what they gave, nor that they failed, has reached it. Forced calls are left out. Seen in
    swarms#1963.
    """
    calls = facts.view.runs[event.run].calls[-2:]
    before, call = calls[0], calls[-1]
    if event.reply != "calls" or before is call or before.reply is None or call.reply is None:
        return
    is_free = (call.context.settings or {}).get("tool_choice", "auto") == "auto"
    if is_free and _words_of(before.reply) == _words_of(call.reply) and _is_sent_the_same(*calls):
        problem = (
            f"agent {event.agent!r} is sent in turn {event.turn} exactly what it was sent before "
            f"it called {call.reply.calls[0].name!r}, and does so again: nothing of that reaches it"
        )
        yield Hit.at("FLW-14", call, problem)


@lint("FLW-05", e.ModelCalled)
def call_after_end(event: e.ModelCalled, facts: Facts) -> Iterable[Hit]:
    """FLW-05: no model is called after the turn's reply.

    From MAST 1.5, unaware of termination conditions (12.4 % of failures).
    """
    if event.turn in facts.ended_turns:
        call = facts.view.calls.get(event.call)
        problem = f"agent {event.agent!r} made a model call after turn {event.turn} had ended"
        yield Hit.at("FLW-05", event if call is None else call, problem)


@lint("FLW-08", e.RouteChosen)
def ambiguous_route(event: e.RouteChosen, facts: Facts) -> Iterable[Hit]:
    """FLW-08: exactly one label of a decision's edges matches.

    If several match, the first edge is taken, so that the order of the file decides: the answer
    "recreate" contains "create". From reference system 2, decision routing.
    """
    labels = list(event.labels)
    if len(labels) < 2:
        return
    route_text = ", ".join(f"{event.agent} → {target}" for target in event.targets)
    problem = (
        f"what {event.agent!r} decided in turn {event.turn} matches {len(labels)} labels: "
        f"{', '.join(labels)}; the edge that was taken: {route_text or 'none'}"
    )
    yield Hit.at("FLW-08", event, problem, labels=labels, targets=list(event.targets))


# FLW-06: questions to the user, and the agents that get the answers


_REFUSALS: Final = frozenset(
    ("reject", "rejected", "refuse", "deny", "denied", "ignore", "no", "n")
)
"""Words of an answer that refuse what was asked."""


class _Question(NamedTuple):
    """A question of an agent to the user."""

    turn: int
    agent: str
    text: JsonValue


class _Request(NamedTuple):
    """A request of a model, by its words."""

    call: str
    agent: str
    words: Sequence[JsonValue]

    def is_repeated_by(self, other: _Request | None) -> bool:
        """Return whether another call has sent the same agent the same words."""
        return other is not None and other.call != self.call and other[1:] == self[1:]


class _Session:
    """The questions of one session."""

    def __init__(self) -> None:
        self.open: list[_Question] = []
        self.answered: list[tuple[str, JsonValue]] = []
        """Agent and question of answered questions since the last write."""
        self.resumed = 0
        """The last turn that began with an answer."""
        self.has_answer = False
        """Whether an answer has come, and no run has started with it yet."""
        self.is_refused = False
        """Whether the last answer refuses what was asked."""
        self.requests: dict[str, _Request] = {}
        """Agent and question to the last request of a model before it."""


class _Sessions(dict[str, _Session]):
    """The sessions in which an agent has asked the user something."""


@lint("FLW-06", e.TurnResumed, when=_Sessions)
def _note_answer(event: e.TurnResumed, facts: Facts) -> None:
    session = facts.notes_of(_Sessions).get(event.session)
    if session is not None:
        session.resumed, session.has_answer = event.turn, True
        session.is_refused = any(map(_is_refusal, leaves(event.value)))


def _is_refusal(value: JsonValue) -> bool:
    return value is False or (isinstance(value, str) and value.strip(" .!").casefold() in _REFUSALS)


@lint("FLW-06", e.StateUpdated, when=_Sessions)
def _forget_answers(event: e.StateUpdated, facts: Facts) -> None:
    session = facts.notes_of(_Sessions).get(event.session)
    if session is not None and event.cause not in ("given", "user"):
        session.answered.clear()  # The question may be another now.


@lint("FLW-06", e.ModelReplied, when=_Sessions)
def _forget_decided(event: e.ModelReplied, facts: Facts) -> None:
    """Forget answers about calls if the agent's model asks for calls again: these are others."""
    session = facts.notes_of(_Sessions).get(event.session)
    message = facts.tool_messages.get(event.message)
    if session is not None and session.answered and message is not None:
        session.answered = [answer for answer in session.answered if answer[0] != event.agent]


@lint("FLW-06", e.TurnInterrupted)
def asked_again(event: e.TurnInterrupted, facts: Facts) -> Iterable[Hit]:
    """FLW-06: an answered question is not asked again, and its answer goes to the agent that asked.

    Asked again is the same question of the same agent after its answer, if no run wrote anything,
    the agent's model called nothing, and the user said nothing else in between. The first run of a
    resumed turn must be of an agent that waits for an answer. Seen in deepchat#2292 and
    openai-agents#1815. A warning is a refusal that reaches no model: the same request was made
    again, and led to the same question. Seen in agent-framework#8503.
    """
    session = facts.notes_of(_Sessions).setdefault(event.session, _Session())
    session.open.append(_Question(event.turn, event.agent, event.question))
    before, request = _asked_before(event, session, facts.view)
    if (event.agent, event.question) in session.answered:
        problem = (
            f"agent {event.agent!r} asks again in turn {event.turn} what the user has answered: "
            f"{short(str(event.question), SHOWN_MAX)!r}"
        )
        yield Hit.at("FLW-06", event, problem, question=event.question)
    elif session.is_refused and before is not None and before.is_repeated_by(request):
        problem = (
            f"agent {event.agent!r} asks in turn {event.turn} for what the user has refused, since "
            f"{before.agent!r} was sent the same again, without the answer: "
            f"{short(str(event.question), SHOWN_MAX)!r}"
        )
        yield Hit.at("FLW-06", event, problem, is_warning=True, question=event.question)


def _asked_before(
    event: e.TurnInterrupted, session: _Session, view: View
) -> tuple[_Request | None, _Request | None]:
    """Return the requests before the same question, the last time and now."""
    turn: TurnView | None = view.turns[-1]
    while turn is not None and not turn.calls:
        turn = turn.resumes
    if turn is None:
        return None, None
    call = turn.calls[-1]
    words = [_words_of(message) for message in call.context.messages]
    request = _Request(call.id, call.agent, words)
    key = f"{event.agent} {as_text(event.question)}"
    before, session.requests[key] = session.requests.get(key), request
    return before, request


@lint("FLW-06", e.AgentStarted, when=_Sessions)
def _answer_elsewhere(event: e.AgentStarted, facts: Facts) -> Iterable[Hit]:
    """Check whether the run is of an agent that waits for the answer."""
    session = facts.notes_of(_Sessions).get(event.session)
    if session is None:
        return
    if event.turn != session.resumed:
        # The user said something else: earlier questions are dropped.
        session.open = [question for question in session.open if question.turn == event.turn]
        session.answered.clear()
        return
    if not session.has_answer:
        return
    session.has_answer = False
    # A handoff that the user approves begins its target, and nothing of the agent that asked.
    source = event.handoff_from or event.agent
    mine = [question for question in session.open if question.agent in (event.agent, source)]
    waiting = [question.agent for question in session.open]
    session.open = [question for question in session.open if question not in mine]
    session.answered += [(question.agent, question.text) for question in mine]
    if waiting and not mine:
        agents = list(dict.fromkeys(waiting))
        problem = (
            f"the user's answer went to agent {event.agent!r} in turn {event.turn}, but "
            f"{' and '.join(map(repr, agents))} asked"
        )
        yield Hit.at("FLW-06", event, problem, asked=list(agents))
