"""The native driver: a scenario's turns, one after the other, under virtual time.

All flows come down to the same few moves: run these agents next, in this order or in parallel;
wait for the user; end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from simkit import events as e
from simkit.context.rendering import json_text
from simkit.errors import LimitExceeded, ModelError, NoRoute, PipelineError, Unsupported
from simkit.messages import JsonValue, Message
from simkit.pipeline.model import Limits
from simkit.ports import Schedule, Sink, Tools, TurnModel
from simkit.references import compile as compile_references
from simkit.runtime.activation import Activation, TurnStopped
from simkit.runtime.chain import chain
from simkit.runtime.clock import VirtualClock
from simkit.runtime.compiled import CompiledPipeline, facts_of
from simkit.runtime.conversation import Conversation, Numbers
from simkit.runtime.scheduler import Fifo, Scheduler, Steps, Together
from simkit.runtime.state import State, channels_of
from simkit.runtime.turn import Turn
from simkit.trace import canonical


class UserTurn(msgspec.Struct, frozen=True):
    """What one turn begins with."""

    text: str
    value: JsonValue = None
    """The message as a value, where it is more than text."""
    session: str = "s1"
    project: str = "p1"
    expects_error: bool = False
    """The turn's error is claimed, so the conversation goes on after it."""


class NativeDriver:
    """Runs a declarative pipeline."""

    name = "native"

    def __init__(
        self,
        compiled: CompiledPipeline,
        *,
        scenario: str,
        seed: int,
        start: str,
        turns: Sequence[UserTurn],
        given: Mapping[str, Any],
        model: TurnModel,
        tools: Tools,
        limits: Limits,
        schedule: Schedule | None = None,
    ) -> None:
        self.compiled = compiled
        self._flow = _flow_of(self.compiled)
        self._scenario, self._seed, self._start = scenario, seed, start
        self._turns, self._given, self._limits = turns, given, limits
        self._model, self._tools = model, tools
        self._schedule: Schedule = schedule or Fifo()
        self.clock = VirtualClock(start)

    def run(self, sink: Sink) -> None:
        """Runs all turns; a pipeline's error ends the run unless its turn claims it."""
        self._sink = sink
        self._session, self._number = "", 0
        compiled = self.compiled
        channels = channels_of(compiled.pipeline, compiled.functions)
        spoken = {compiled.pipeline.conversation}
        for agent in compiled.agents.values():
            for _, options in agent.assembly.histories:
                if options.from_ is not None and options.from_ != "log":
                    spoken.add(options.from_)
        self._spoken = frozenset(spoken)
        self._state = State(channels, compiled.pipeline.conversation, self._spoken)
        self._numbers = Numbers()
        compiled.functions.report = self._uncontrolled
        self._conversations: dict[str, Conversation] = {}
        sink.emit(
            e.RunStarted(
                0, scenario=self._scenario, seed=self._seed, start=self._start,
                driver=self.name, pipeline=facts_of(compiled, self._limits),
            )
        )  # fmt: skip
        error = None
        for place, turn in enumerate(self._turns):
            if place >= self._limits.turns:
                error = self._too_many_turns()
                break
            error = self._take(place, turn)
            if error is not None and not turn.expects_error:
                break
        sink.emit(e.RunFinished(self.clock.now(), error=error))

    def _uncontrolled(self, effect: str, where: str) -> None:
        """Notes that user code reached what simkit does not control."""
        agent = self.compiled.functions.caller
        self._sink.emit(
            e.UncontrolledEffect(
                self.clock.now(), self._session, self._number, agent, effect=effect, where=where
            )
        )

    def _too_many_turns(self) -> e.ErrorFacts:
        allowed = self._limits.turns
        self._sink.emit(e.LimitReached(self.clock.now(), limit="turns", allowed=allowed))
        problem = LimitExceeded("turns", allowed)
        return e.ErrorFacts(problem.type, str(problem))

    def _conversation(self, name: str, project: str) -> Conversation:
        found = self._conversations.get(name)
        if found is not None:
            return found
        is_first = not self._conversations
        values = self._state.begin(name, project)
        conversation = Conversation(
            name, project, values, self._numbers, self._sink, self.clock, self.compiled.count
        )
        self._conversations[name] = conversation
        self._sink.emit(e.SessionStarted(self.clock.now(), name, project=project))
        given = self._given_for(is_first)
        if given:
            turn = self._turn(0, conversation)
            turn.write(given, "given")
        return conversation

    def _given_for(self, is_first: bool) -> dict[str, Any]:
        """Every session begins with what is given; longer-lived channels get it once."""
        channels = self.compiled.pipeline.channels
        given = {}
        for name, value in self._given.items():
            scope = channels[name].scope if name in channels else "session"
            if is_first or scope not in ("project", "global"):
                given[name] = {"$set": value}
        return given

    def _say_defaults(self, conversation: Conversation) -> None:
        """Logs what channels that histories read hold by default, so that it is messages too."""
        unsaid = {
            name: {"$set": value}
            for name, value in sorted(conversation.values.items())
            if name in self._spoken and value and not isinstance(value[0], Message)
        }
        if unsaid:
            self._turn(0, conversation).write(unsaid, "given")

    def _turn(self, number: int, conversation: Conversation) -> Turn:
        turn = Turn(
            number, conversation, self.compiled, self._state, self._sink, self.clock,
            self._model, self._tools, self._limits,
        )  # fmt: skip
        turn.chain = lambda handoff, fork: chain(
            turn, handoff.target, handoff, handoff.depth, fork=fork
        )
        return turn

    def _take(self, place: int, said: UserTurn) -> e.ErrorFacts | None:
        conversation = self._conversation(said.session, said.project)
        turn = self._turn(place + 1, conversation)
        self._session, self._number = conversation.name, turn.number
        self._say_defaults(conversation)
        conversation.begin_turn(
            turn.number, {name: conversation.values.get(name) for name in self._spoken}
        )
        self._model.begin_turn(place)
        self._tools.begin_turn(place)
        self._sink.emit(
            e.TurnStarted(
                self.clock.now(), conversation.name, turn.number,
                message=self._numbers.messages + 1,
            )
        )  # fmt: skip
        turn.user = conversation.add("user", said.text, data=said.value)
        turn.input = said.text if said.value is None else said.value
        turn.write({self.compiled.pipeline.conversation: [turn.user]}, "user")
        error = self._run_turn(turn)
        self._sink.emit(
            e.TurnFinished(
                self.clock.now(), conversation.name, turn.number, reply=canonical(turn.reply),
                error=error, unused=self._model.unused(),
            )
        )  # fmt: skip
        self._state.end_turn(conversation.name)
        return error

    def _run_turn(self, turn: Turn) -> e.ErrorFacts | None:
        scheduler = Scheduler(self.clock, self._schedule, lambda at: turn.limit("virtual_ms", at))
        try:
            scheduler.run(self._flow.steps(turn))
        except TurnStopped:
            return None
        except PipelineError as problem:
            turn.reply = None
            status = problem.status if isinstance(problem, ModelError) else 0
            return e.ErrorFacts(problem.type, str(problem), status=status)
        return None


class Flow(Protocol):
    """How control moves between agents."""

    def steps(self, turn: Turn) -> Steps:
        """Runs one turn to its end."""


def _flow_of(compiled: CompiledPipeline) -> Flow:
    flow = compiled.pipeline.flow
    if flow.router is not None:
        return RouterFlow(compiled, flow.router.decide, flow.router.to)
    if flow.handoffs is not None:
        return HandoffsFlow(compiled, flow.handoffs.start)
    raise Unsupported(
        f"pipeline {compiled.pipeline.pipeline!r}: flow `{flow.kind}` cannot run in this version; "
        "`router` and `handoffs` can."
    )


ANSWER_CHARACTERS_MAX: Final = 120
"""How much of a router's answer an error quotes."""


class RouterFlow:
    """One agent decides; those it names run in order or in parallel."""

    def __init__(self, compiled: CompiledPipeline, decide: str, to: Any) -> None:
        self._agents, self._decide, self._to = compiled.agents, decide, compile_references(to)

    def steps(self, turn: Turn) -> Steps:
        """Asks the decider, then runs its targets."""
        activation: Activation = yield from chain(turn, self._decide, None, 0)
        turn.reply = None
        chosen = self._to.resolve(activation.root_now())
        parallel = isinstance(chosen, Mapping) and "parallel" in chosen
        wanted = chosen["parallel"] if isinstance(chosen, Mapping) and parallel else chosen
        targets = list(wanted) if isinstance(wanted, (list, tuple)) else [wanted]
        self._check(targets, activation.output)
        turn.sink.emit(
            e.RouteChosen(
                turn.clock.now(), turn.session, turn.number, self._decide, activation.id,
                tuple(targets), (), parallel,
            )
        )  # fmt: skip
        if parallel and len(targets) > 1:
            yield from in_parallel(turn, targets)
            return
        for target in targets:
            yield from chain(turn, target, None, 0)

    def _check(self, targets: Sequence[Any], answer: Any) -> None:
        for target in targets or [None]:
            if target == self._decide:
                raise self._no_route("itself", answer)
            if target is None:
                raise self._no_route("nobody", answer)
            if not isinstance(target, str) or target not in self._agents:
                raise self._no_route(f"{target!r}, which is no agent", answer)

    def _no_route(self, chosen: str, answer: Any) -> NoRoute:
        known = ", ".join(name for name in self._agents if name != self._decide)
        said = json_text(answer)
        if len(said) > ANSWER_CHARACTERS_MAX:
            said = f"{said[: ANSWER_CHARACTERS_MAX - 1]}…"
        return NoRoute(
            f"router {self._decide!r} chose {chosen}; it answered {said}; agents: {known}"
        )


class HandoffsFlow:
    """A turn starts with one agent; agents pass control themselves."""

    def __init__(self, compiled: CompiledPipeline, start: Any) -> None:
        self._agents, self._start = compiled.agents, compile_references(start)

    def steps(self, turn: Turn) -> Steps:
        """Runs the starting agent and whomever it passes control to."""
        root = {"state": turn.conversation.values, "user": turn.input, "run": None, "handoff": None}
        first = self._start.resolve(root)
        if not isinstance(first, str) or first not in self._agents:
            said = "nobody" if first is None else repr(first)
            raise NoRoute(
                f"the flow starts with {said}, which is no agent; agents: {', '.join(self._agents)}"
            )
        yield from chain(turn, first, None, 0)


def in_parallel(turn: Turn, agents: Sequence[str]) -> Steps:
    """Runs agents at once: each sees the state as it was when the group began."""
    turn.model.begin_group(agents)
    turn.numbers.groups += 1
    group = f"g{turn.numbers.groups}"
    started: list[Activation] = []
    try:
        for agent in agents:
            activation = Activation(turn, agent, None, 0, group)
            activation.start()
            started.append(activation)
        yield Together([chain(turn, a.agent.name, None, 0, a) for a in started])
    except BaseException:
        # Those that had not begun yet are not told by being closed.
        for activation in started:
            activation.cancel()
        raise
