"""Lints on handoffs: their contract, their target, and that none stays open."""

from __future__ import annotations

from collections.abc import Iterable

from simkit.checks.findings import Hit
from simkit.checks.lints.contracts import HandoffEvent, Payloads, contract_of, contracts_of
from simkit.checks.lints.runner import ToolMessage, reads
from simkit.core.messages import JsonValue
from simkit.trace import events as e
from simkit.trace.views import View


def _pair(event: HandoffEvent) -> str:
    return f"handoff {event.handoff} from {event.from_agent!r} to {event.to_agent!r}"


def _data(event: HandoffEvent) -> dict[str, JsonValue]:
    return {
        "from": event.from_agent,
        "to": event.to_agent,
        "type": event.type,
        "handoff": event.handoff,
    }


class PayloadInvalid:
    """HND-01: the payload of a made handoff satisfies its contract.

    A requested key that is not delivered counts too: it was silently dropped. A schema that the
    trace alone cannot resolve is not checked. Seen in openai-agents#627 and CopilotKit#6801.
    """

    id = "HND-01"

    def __init__(self) -> None:
        self._payloads = Payloads()

    @reads(e.HandoffMade)
    def look(self, event: e.HandoffMade, view: View) -> Iterable[Hit]:
        """Check every made handoff."""
        requested = view.handoffs[event.handoff].event.payload
        problems = self._payloads.problems_of(event, requested, view.pipeline)
        if not problems:
            return ()
        problem = f"{_pair(event)} was made with an invalid payload: {'; '.join(problems)}"
        data = {**_data(event), "errors": problems}
        return (Hit(self.id, problem, event.turn, event.to_agent, data=data),)


class WrongTarget:
    """HND-04: after a handoff was made, its target is the agent that starts next.

    The announced target (the event), the executed one (the run that names the handoff) and the next
    active agent must be the same, and the run must name the source. A run of a parallel branch may
    come in between, and a merge starts once for all handoffs that lead to it. A turn that ends with
    an error need not start the target. Seen in adk#3179 and adk#367.
    """

    id = "HND-04"

    def __init__(self) -> None:
        self._open: dict[str, list[e.HandoffMade]] = {}

    @reads(e.HandoffMade)
    def make(self, event: e.HandoffMade, view: View) -> Iterable[Hit]:
        """Wait for the start that a handoff announces."""
        self._open.setdefault(event.session, []).append(event)
        return ()

    @reads(e.TurnFinished, waits="_open")
    def end(self, event: e.TurnFinished, view: View) -> Iterable[Hit]:
        """Report the handoffs whose target did not start."""
        lost = self._open.pop(event.session, ())
        if event.error is not None:
            return ()
        return [self._hit(handoff_lost, "nobody") for handoff_lost in lost]

    @reads(e.AgentStarted, waits="_open")
    def start(self, event: e.AgentStarted, view: View) -> Iterable[Hit]:
        """Compare the run that starts with the handoff that announces it."""
        waiting = self._open.get(event.session)
        if not waiting:
            return ()
        handoff = next(
            (candidate for candidate in waiting if candidate.handoff == event.handoff), None
        )
        if handoff is None:
            starts_elsewhere = event.after and all(
                candidate.run not in event.after for candidate in waiting
            )
            if event.group or starts_elsewhere:
                return ()
            handoff = waiting[-1]
        waiting.remove(handoff)
        for other in [candidate for candidate in waiting if candidate.run in event.after]:
            if other.to_agent == event.agent:
                waiting.remove(other)
        if event.agent != handoff.to_agent:
            return (self._hit(handoff, repr(event.agent)),)
        if event.handoff != handoff.handoff:
            return (self._hit(handoff, f"{event.agent!r}, but not by this handoff"),)
        if event.handoff_from != handoff.from_agent:
            return (self._hit(handoff, f"{event.agent!r}, from {event.handoff_from!r}"),)
        return ()

    def _hit(self, handoff: e.HandoffMade, started: str) -> Hit:
        pair = _pair(handoff)
        problem = f"{pair} was made in turn {handoff.turn}, but the run that started is: {started}"
        return Hit(self.id, problem, handoff.turn, handoff.to_agent, data=_data(handoff))


class DanglingHandoff:
    """HND-06: a requested handoff is made or rejected in its turn, and calls beside it answered.

    Calls beside it are the tool calls of the same assistant message. A turn that ends with an error
    needs neither. Seen in langgraph-supervisor#230 and langgraph-swarm#26.
    """

    id = "HND-06"

    def __init__(self) -> None:
        self._open: dict[str, dict[str, tuple[str, str]]] = {}
        """Session to its calls beside a handoff."""
        self._requests: list[e.HandoffRequested] = []
        """The turn's handoffs."""

    @reads(ToolMessage)
    def hear(self, event: e.MessageAdded, view: View) -> Iterable[Hit]:
        """Keep calls beside a handoff until they are answered or the turn ends."""
        message = event.message
        if message.call_id:
            if self._open:
                self._open.get(event.session, {}).pop(message.call_id, None)
        elif len(message.calls) > 1 and any(call.is_handoff for call in message.calls):
            siblings = self._open.setdefault(event.session, {})
            for call in message.calls:
                if not call.is_handoff:
                    siblings[call.id] = (event.agent, call.name)
        return ()

    @reads(e.HandoffRequested)
    def request(self, event: e.HandoffRequested, view: View) -> Iterable[Hit]:
        """Look for the handoff's outcome when the turn ends."""
        self._requests.append(event)
        return ()

    @reads(e.TurnStarted, waits="_requests")
    def begin(self, event: e.TurnStarted, view: View) -> Iterable[Hit]:
        """Forget the handoffs of the turn before."""
        self._requests.clear()
        return ()

    @reads(e.TurnFinished)
    def end(self, event: e.TurnFinished, view: View) -> Iterable[Hit]:
        """Report the calls that nobody answered, and the handoffs that stayed open."""
        unanswered = self._open.pop(event.session, {}) if self._open else {}
        if event.error is not None or not (self._requests or unanswered):
            return ()
        hits = []
        for handoff in view.turns[-1].handoffs:
            if handoff.outcome == "requested":
                request = handoff.event
                problem = f"{_pair(request)} was neither made nor rejected in turn {event.turn}"
                hits.append(
                    Hit(self.id, problem, event.turn, request.from_agent, data=_data(request))
                )
        for identity, (agent, tool) in unanswered.items():
            problem = (
                f"agent {agent!r} called {tool!r} ({identity}) beside a handoff in turn "
                f"{event.turn}, and nobody answered"
            )
            hits.append(Hit(self.id, problem, event.turn, agent, data={"tool": tool}))
        return hits


class SeveralHandoffs:
    """HND-08: one assistant message asks for one handoff.

    Control can go to one agent only, so the others are lost or refused. Seen in openai-agents#499.
    """

    id = "HND-08"

    @reads(ToolMessage)
    def look(self, event: e.MessageAdded, view: View) -> Iterable[Hit]:
        """Check messages with more than one call."""
        if len(event.message.calls) < 2:
            return ()
        targets: list[JsonValue] = [call.target for call in event.message.calls if call.is_handoff]
        if len(targets) < 2:
            return ()
        problem = (
            f"agent {event.agent!r} asked for {len(targets)} handoffs at once in turn "
            f"{event.turn}: to {', '.join(map(repr, targets))}"
        )
        return (Hit(self.id, problem, event.turn, event.agent, data={"to": targets}),)


class Unregistered:
    """HND-11: a handoff's type is in the registry for its pair of agents.

    In a pipeline with contracts every request is checked; in one without, every handoff
    that was made. From reference system 5, the registry.
    """

    id = "HND-11"

    def concerns(self, pipeline: e.PipelineFacts) -> bool:
        """Return whether somebody declared where control may go."""
        return not pipeline.is_open

    @reads(e.HandoffRequested, e.HandoffMade)
    def look(self, event: e.HandoffRequested | e.HandoffMade, view: View) -> Iterable[Hit]:
        """Check requests or, without contracts, made handoffs."""
        facts = view.pipeline
        if bool(facts.contracts) is (type(event) is e.HandoffMade):
            return ()
        if contract_of(event, facts) is not None:
            return ()
        known = [contract.type for contract in contracts_of(event, facts)]
        known_text = (
            f"known for this pair: {', '.join(known)}" if known else "the pair has no contract"
        )
        problem = f"{_pair(event)} has type {event.type!r}, which is not registered; {known_text}"
        return (Hit(self.id, problem, event.turn, event.from_agent, data=_data(event)),)
