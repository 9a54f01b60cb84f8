"""The native driver: a scenario's turns, one after the other, under virtual time.

All flows come down to the same few moves: run these agents next, in this order or in parallel;
wait for the user; end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from simkit import events as e
from simkit.errors import LimitExceeded, ModelError, PipelineError, ScriptBroken, WriteInvalid
from simkit.messages import JsonValue, Message
from simkit.pipeline.model import Limits
from simkit.ports import Schedule, Sink, Store, Tools, TurnModel
from simkit.runtime.chain import chain
from simkit.runtime.clock import VirtualClock
from simkit.runtime.compiled import CompiledPipeline, facts_of
from simkit.runtime.conversation import Conversation, Numbers, Summary
from simkit.runtime.flows import flow_of
from simkit.runtime.journal import Journal, Recovered, Saved, recovered
from simkit.runtime.passing import TurnStopped
from simkit.runtime.scheduler import Fifo, Scheduler
from simkit.runtime.state import State, channels_of
from simkit.runtime.turn import Turn
from simkit.trace import canonical


class UserTurn(msgspec.Struct, frozen=True):
    """What one turn begins with."""

    text: str
    value: JsonValue = None
    """The message as a value, where it is more than text; or the answer to an interrupt."""
    resumes: bool = False
    """It answers an interrupt."""
    session: str = "s1"
    project: str = "p1"
    expects_error: bool = False
    """The turn's error is claimed, so the conversation goes on after it."""
    not_before: int = 0
    """The virtual time before which it does not begin, in milliseconds."""


class Suspended(msgspec.Struct, frozen=True):
    """A turn that waits for the user."""

    turn: Turn
    scheduler: Scheduler


class NativeDriver:
    """Runs a declarative pipeline: all turns, or those from one restart to the next."""

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
        store: Store | None = None,
        span: tuple[int, int] | None = None,
        given_project: str | None = None,
    ) -> None:
        """``span`` is the first turn, and the one before which it stops, counted from 0.

        ``given_project`` is the project that has what is given to one; else the first turn's.
        """
        self._given_project = turns[0].project if given_project is None else given_project
        self.compiled = compiled
        self._flow = flow_of(self.compiled)
        self._scenario, self._seed, self._start = scenario, seed, start
        self._turns, self._given, self._limits = turns, given, limits
        self._model, self._tools = model, tools
        self._schedule: Schedule = schedule or Fifo()
        self._store, self._span = store, span or (0, len(turns))
        self.clock = VirtualClock(start)

    def run(self, sink: Sink) -> bool:
        """Runs its turns; returns whether the conversation goes on after them.

        A pipeline's error ends the run unless its turn claims it.
        """
        first, end = self._span
        compiled = self.compiled
        self._session, self._number = "", 0
        self._conversations: dict[str, Conversation] = {}
        self._waiting: dict[str, Suspended] = {}
        self._given_to: set[str] = set()
        self._spoken = _spoken(compiled)
        self._begin(sink, recovered(self._store) if first and self._store else None)
        compiled.functions.report = self._uncontrolled
        if not first:
            self._sink.emit(
                e.RunStarted(
                    0, scenario=self._scenario, seed=self._seed, start=self._start,
                    driver=self.name, pipeline=facts_of(compiled, self._limits),
                )
            )  # fmt: skip
        try:
            return self._run_turns(first, end)
        finally:
            self._forget_waiting()

    def _run_turns(self, first: int, end: int) -> bool:
        error = None
        for place in range(first, end):
            if place >= self._limits.turns:
                error = self._too_many_turns()
                break
            error = self._take(place, self._turns[place])
            if error is not None and not self._turns[place].expects_error:
                break
        else:
            if end < len(self._turns):
                return True
        self._sink.emit(e.RunFinished(self.clock.now(), error=error))
        return False

    def _forget_waiting(self) -> None:
        """Leaves what waits for the user as it is: nothing more is told of it in this process."""
        for waiting in self._waiting.values():
            waiting.turn.sink = _Unheard()
            waiting.scheduler.drop()
        self._waiting.clear()

    def _begin(self, sink: Sink, saved: Recovered | None) -> None:
        """Starts from nothing, or from what a store holds."""
        compiled = self.compiled
        channels = channels_of(compiled.pipeline, compiled.functions)
        conversation = compiled.pipeline.conversation
        self._state = State(channels, conversation, self._spoken, compiled.schemas)
        self._numbers = Numbers()
        self._saved: dict[str, Saved] = {}
        if saved is not None:
            self._count_on(saved)
            self._saved = dict(saved.sessions)
            for name, session in saved.sessions.items():
                values = dict(saved.view.states[name])
                self._state.restore(name, session.project, values, session.committed)
                self._given_to |= {"", session.project}
        store = self._store
        self._sink: Sink = sink if store is None else Journal(sink, store, self._numbers)

    def _count_on(self, saved: Recovered) -> None:
        """Goes on counting, and with the time, from where a store stands."""
        self._numbers.restore(saved.counters)
        self._numbers.sizes.update(
            (f"m{number}", (number, tokens)) for number, tokens in saved.view.tokens.items()
        )
        self.clock.advance_to(saved.at)

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

    # Sessions

    def _conversation(self, name: str, project: str) -> Conversation:
        found = self._conversations.get(name)
        if found is not None:
            return found
        if name in self._saved:
            return self._restored(name)
        conversation = self._conversation_of(name, project, self._state.begin(name, project))
        self._sink.emit(e.SessionStarted(self.clock.now(), name, project=project))
        given = self._given_for(project)
        if given:
            turn = self._turn(0, conversation)
            try:
                turn.write(given, "given")
            except WriteInvalid as problem:
                raise ScriptBroken(str(problem), ("given", "state")) from problem
        return conversation

    def _conversation_of(self, name: str, project: str, values: dict[str, Any]) -> Conversation:
        conversation = self._conversations[name] = Conversation(
            name, project, values, self._numbers, self._sink, self.clock, self.compiled.count
        )
        return conversation

    def _restored(self, name: str) -> Conversation:
        """Returns a session as its store knew it."""
        saved = self._saved[name]
        conversation = self._conversation_of(name, saved.project, self._state.values(name))
        conversation.log.extend(saved.log)
        conversation.is_restored = True
        for stream, (message, covers) in saved.summaries.items():
            conversation.summaries[stream] = Summary(message, covers)
        return conversation

    def _given_for(self, project: str) -> dict[str, Any]:
        """Every session begins with what is given; longer-lived channels get it once.

        What is given to a project is the first turn's project's.
        """
        channels = self.compiled.pipeline.channels
        given = {}
        for name, value in self._given.items():
            scope = channels[name].scope if name in channels else "session"
            owner = {"global": "", "project": project}.get(scope)
            is_others = bool(owner) and owner != self._given_project
            if owner is not None and (owner in self._given_to or is_others):
                continue
            given[name] = {"$set": value}
        self._given_to |= {"", project}
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

    # Turns

    def _turn(self, number: int, conversation: Conversation) -> Turn:
        turn = Turn(
            number, conversation, self.compiled, self._state, self._sink, self.clock,
            self._model, self._tools, self._limits,
        )  # fmt: skip
        turn.chain = lambda start: chain(turn, start)
        return turn

    def _take(self, place: int, said: UserTurn) -> e.ErrorFacts | None:
        self.clock.advance_to(said.not_before)
        is_first = said.session not in self._conversations
        is_back = is_first and said.session in self._saved
        conversation = self._conversation(said.session, said.project)
        waiting = self._waiting.pop(said.session, None)
        if said.resumes:
            if waiting is None and is_back and self._saved[said.session].asks:
                waiting = self._revived(said.session, conversation)
            if waiting is None:
                raise ScriptBroken(
                    f"turn {place + 1} answers a question, but in session {said.session!r} "
                    "nobody has asked one.",
                    ("turns", place, "resume"),
                )
            turn, scheduler = waiting.turn, waiting.scheduler
            turn.begin_again(place + 1)
        else:
            if waiting is None and is_back and self._saved[said.session].asks:
                waiting = self._revived(said.session, conversation)
            if waiting is not None:
                waiting.scheduler.drop()
                self._state.end_turn(said.session)
            turn = self._turn(place + 1, conversation)
            scheduler = self._scheduler(turn)
        self._session, self._number = conversation.name, turn.number
        if not said.resumes:
            self._say_defaults(conversation)
        self._open(place, turn, said.resumes)
        self._sink.emit(
            e.TurnStarted(
                self.clock.now(), conversation.name, turn.number,
                message=0 if said.resumes else self._numbers.messages + 1,
            )
        )  # fmt: skip
        if is_first:
            self._say_read(turn, is_back)
        if said.resumes:
            self._sink.emit(
                e.TurnResumed(self.clock.now(), turn.session, turn.number, value=said.value)
            )
        else:
            self._hear(turn, said)
        error = self._run_turn(turn, scheduler, said)
        asked = scheduler.asked if error is None else None
        if asked is not None:
            turn.reply = None
            self._waiting[said.session] = Suspended(turn, scheduler)
        self._sink.emit(
            e.TurnFinished(
                self.clock.now(), conversation.name, turn.number, reply=canonical(turn.reply),
                error=error, unused=self._model.unused(),
                waits_for=asked.run if asked is not None else "",
            )
        )  # fmt: skip
        if asked is None:
            self._state.end_turn(conversation.name)
        return error

    def _open(self, place: int, turn: Turn, resumes: bool = False) -> None:
        """Opens what belongs to one turn: where histories settle, replies, tool results."""
        conversation = turn.conversation
        if resumes:
            # What has been said since the user's message goes on: nothing of it is settled.
            conversation.turn = turn.number
        else:
            conversation.begin_turn(
                turn.number, {name: conversation.values.get(name) for name in self._spoken}
            )
        self._model.begin_turn(place)
        self._tools.begin_turn(place)

    def _hear(self, turn: Turn, said: UserTurn) -> None:
        """Takes the user's message into log and conversation."""
        turn.user = turn.conversation.add("user", said.text, data=said.value)
        turn.input = said.text if said.value is None else said.value
        turn.write({self.compiled.pipeline.conversation: [turn.user]}, "user")

    def _say_read(self, turn: Turn, is_back: bool) -> None:
        """Says what a session begins with here: its checkpoint, and what it shares with others."""
        where = (self.clock.now(), turn.session, turn.number)
        if is_back:
            checkpoint = self._saved[turn.session].checkpoint
            self._sink.emit(e.CheckpointRestored(*where, checkpoint=checkpoint))
        for channel in self._state.shared(turn.session):
            self._sink.emit(e.StoreRead(*where, channel=channel.name, scope=channel.scope))

    def _scheduler(self, turn: Turn) -> Scheduler:
        return Scheduler(self.clock, self._schedule, lambda at: turn.limit("virtual_ms", at))

    def _run_turn(self, turn: Turn, scheduler: Scheduler, said: UserTurn) -> e.ErrorFacts | None:
        try:
            if not said.resumes:
                scheduler.run(self._flow.steps(turn))
                return None
            scheduler.resume(said.value)
            if scheduler.asked is not None and scheduler.asked.turn != turn.number:
                # Another branch has waited for its own answer since an earlier turn.
                turn.ask_again(scheduler.asked)
        except TurnStopped:
            return None
        except PipelineError as problem:
            turn.reply = None
            status = problem.status if isinstance(problem, ModelError) else 0
            return e.ErrorFacts(problem.type, str(problem), status=status)
        return None

    # Interrupts

    def _revived(self, session: str, conversation: Conversation) -> Suspended:
        """Brings a turn that waits for the user back to life in a new process.

        The turn runs once more from its start, unheard, on what the store held then: replies and
        tool results are those of its own turn, so it comes to the same question.
        """
        assert self._store is not None
        saved = self._saved[session]
        now, kept = self.clock, (self._sink, self._state, self._numbers, self._conversations)
        store, saved_sessions = self._store, self._saved
        past = recovered(store, before_turn=saved.began)
        self.clock, self._store, self._conversations = VirtualClock(self._start), None, {}
        self._begin(_Unheard(), past)
        said = self._turns[saved.began - 1]
        began = self._conversation(session, said.project)
        turn = self._turn(saved.began, began)
        scheduler = self._scheduler(turn)
        self._open(saved.began - 1, turn)
        self._hear(turn, said)
        self._run_turn(turn, scheduler, said)
        for number, answer in saved.answers:
            # Other sessions may have had turns since.
            then = recovered(store, before_turn=number)
            self._count_on(then)
            self._state.values(session).update(then.view.states[session])
            turn.begin_again(number)
            self._open(number - 1, turn, resumes=True)
            self._run_turn(turn, scheduler, UserTurn("", answer, resumes=True))
        self.clock.advance_to(now.now())
        self._sink, self._state, self._numbers, self._conversations = kept
        self._store, self._saved = store, saved_sessions
        conversation.began, conversation.starts = began.began, began.starts
        turn.move(conversation, self._state, self._sink)
        if scheduler.asked is None:
            raise ScriptBroken(
                f"the turn that waits in session {session!r} does not come to its question again "
                "in a new process: what ran before it must not depend on anything but the turn."
            )
        for other in self._conversations.values():
            other.clock = self.clock
        return Suspended(turn, scheduler)


class _Unheard:
    """A sink that nobody listens to."""

    def emit(self, event: e.AnyEvent) -> None:
        """Forgets the event."""


def _spoken(compiled: CompiledPipeline) -> frozenset[str]:
    """The channels that hold messages: the conversation, and those that histories read."""
    spoken = {compiled.pipeline.conversation}
    for agent in compiled.agents.values():
        for _, options in agent.assembly.histories:
            if options.from_ is not None and options.from_ != "log":
                spoken.add(options.from_)
    return frozenset(spoken)
