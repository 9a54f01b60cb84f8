"""The native driver: a scenario's turns, one after the other, under virtual time.

All flows use the same few steps: run these agents next, in order or in parallel; wait for the user;
end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager

from simkit.core.determinism import World
from simkit.core.errors import (
    LimitExceeded,
    ModelError,
    PipelineError,
    ScriptBroken,
    ScriptMisfit,
    TurnCut,
)
from simkit.core.rng import Chance
from simkit.runtime.activation import TurnStopped
from simkit.runtime.compiled import facts_of
from simkit.runtime.conversation import Conversation, Numbers
from simkit.runtime.journal import Journal, Store, recovered
from simkit.runtime.ports import UserTurn
from simkit.runtime.scheduler import VirtualClock
from simkit.runtime.sessions import Doors, Sessions
from simkit.runtime.speakers import compiled_offer
from simkit.runtime.turn import Turn
from simkit.trace import events as e
from simkit.trace.recorder import WHOLE_RUN, EventRecorder, Position, Sink
from simkit.trace.store import canonical

# The lifecycle of a turn: start, user message, work, and restoring a turn that waits


class NullSink:
    """A sink that discards events."""

    def emit(self, event: e.AnyEvent) -> None:
        """Discard the event."""


def open_turn(sessions: Sessions, turn: Turn, *, resumes: bool = False) -> None:
    """Begin a turn: settle histories, and begin the turn of replies and tool results."""
    conversation, doors = turn.conversation, sessions.doors
    if resumes:
        # The messages since the user's last one stay unsettled.
        conversation.turn = turn.number
    else:
        conversation.begin_turn(turn.number, sessions.state.message_channels)
    doors.schedule.begin_turn(turn.number - 1)
    doors.model.begin_turn(turn.number - 1)
    doors.tools.begin_turn(turn.number - 1)


def add_user_message(turn: Turn, user_turn: UserTurn) -> None:
    """Add the user's message to log and conversation."""
    text, value, conversation = user_turn.text, user_turn.value, turn.conversation
    message = conversation.add("user", text, data=value)
    number, tokens = conversation.sizes[message.id]
    turn.user = message, number, tokens
    turn.input = turn.recorded_input = text
    if value is not None:
        turn.input, turn.recorded_input = value, canonical(value)
    turn.write({turn.compiled.conversation: [message]}, "user")


def advance_turn(sessions: Sessions, turn: Turn, user_turn: UserTurn) -> e.ErrorFacts | None:
    """Run a turn until it is over or waits for the user; return the error that ended it."""
    try:
        if not user_turn.resumes:
            turn.take_steps(sessions.doors.flow.run(turn))
            return None
        assert turn.scheduler is not None
        turn.scheduler.resume(user_turn.value)
        question = turn.question
        if question is not None and question.turn != turn.number:
            # Another branch has waited for its own answer since an earlier turn.
            turn.ask_again(question)
    except TurnStopped:
        return None
    except PipelineError as problem:
        turn.reply = None
        if isinstance(problem, TurnCut):
            turn.recorder.record_fault(turn.position(), fault=problem.moment)
        status = problem.status if isinstance(problem, ModelError) else 0
        return e.ErrorFacts(problem.type, str(problem), status=status)
    return None


def restore_turn(
    sessions: Sessions, conversation: Conversation, store: Store, start: str, user_turn: UserTurn
) -> Turn:
    """Restore a turn that waits for the user in a new process.

    The turn runs again from its start, with events discarded, on the earlier content of the store:
    replies and tool results are those of its own turn, so that it reaches the same question.
    ``user_turn`` is the user's message of that turn.
    """
    session = conversation.name
    saved = sessions.saved[session]
    then = Sessions(sessions.doors, NullSink(), VirtualClock(start), Numbers())
    then.restore(recovered(store, before_turn=saved.first_turn))
    first_conversation = then.conversation(session, user_turn.project)
    turn = then.turn(saved.first_turn, first_conversation)
    open_turn(then, turn)
    add_user_message(turn, user_turn)
    advance_turn(then, turn, user_turn)
    for number, answer in saved.answers:
        # Other sessions may have had turns since.
        later = recovered(store, before_turn=number)
        then.count_on(later)
        then.state.values(session).update(later.view.states[session])
        turn.begin_again(number)
        open_turn(then, turn, resumes=True)
        advance_turn(then, turn, UserTurn("", answer, resumes=True))
    then.clock.advance_to(sessions.clock.now)
    conversation.first_turn, conversation.starts = (
        first_conversation.first_turn,
        first_conversation.starts,
    )
    conversation.branch_logs = first_conversation.branch_logs
    turn.move(conversation, sessions.state, sessions.recorder)
    if turn.question is None:
        raise ScriptMisfit(
            f"the turn that waits in session {session!r} does not reach its question again in a "
            "new process: the code before it must depend on the turn only."
        )
    # The restored tasks use the clock with which they were restored.
    sessions.follow(then.clock)
    return turn


# The driver


class NativeDriver:
    """Runs a declared pipeline from its first turn, or from a restart on."""

    name = "native"

    def __init__(
        self,
        doors: Doors,
        *,
        scenario: str,
        seed: int,
        start: str,
        store: Store | None = None,
        before: Sequence[UserTurn] = (),
        given_project: str | None = None,
    ) -> None:
        """``before`` are the turns that other processes took; ``store`` has their results.

        ``given_project`` is the project that gets given project channels; None means the first
        turn's.
        """
        self._doors, self._scenario, self._seed, self._start = doors, scenario, seed, start
        self._store, self._turns_before = store, list(before)
        if given_project is None and before:
            given_project = before[0].project
        self._given_project = given_project
        self._session, self._number = "", 0
        self._turns_of = Counter(turn.session for turn in before)
        """Session to the number of its turns."""
        self._longest = 0
        """The largest number of a turn in its session, of those taken here."""
        self._clock = VirtualClock(start)
        self._world = World(self._clock, Chance(seed).child(f"declared/{scenario}"))
        self._world_of = 0
        """The turn that the world began last: it does so when a function is first called."""
        self._functions = doors.compiled.functions
        self._waiting: dict[str, Turn] = {}

    def start(self, sink: Sink) -> None:
        """Begin the run, or read the store and continue; raise StoreInvalid."""
        doors, store, numbers = self._doors, self._store, Numbers()
        saved = recovered(store) if self._turns_before and store is not None else None
        sink = sink if store is None else Journal(sink, store, numbers)
        self._sessions = Sessions(doors, sink, self._clock, numbers, self._given_project)
        self._recorder = self._sessions.recorder
        if saved is not None:
            self._sessions.restore(saved)
        if not self._turns_before:
            self._recorder.record_run_start(
                WHOLE_RUN,
                scenario=self._scenario,
                seed=self._seed,
                start=self._start,
                driver=self.name,
                pipeline=facts_of(doors.compiled, doors.limits),
            )
            for number, tool in enumerate(doors.compiled.offered, 1):
                offer = compiled_offer(tool, doors.compiled)
                self._recorder.record_tool_definition(
                    WHOLE_RUN,
                    number=number,
                    tool=tool,
                    description=offer.description,
                    parameters=offer.schema,
                )

    def take(self, turn: UserTurn) -> e.ErrorFacts | None:
        """Run one turn to its end, or until it waits for the user."""
        allowed = self._doors.limits.turns
        if len(self._turns_before) >= allowed:
            self._recorder.record_limit(WHOLE_RUN, limit="turns", allowed=allowed)
            raise LimitExceeded("turns", allowed)
        self._turns_before.append(turn)
        session = self._session = turn.session
        self._number = len(self._turns_before)
        self._turns_of[session] = number = self._turns_of[session] + 1
        self._longest = max(self._longest, number)
        functions = self._functions
        # Scenarios share a compiled pipeline, and may alternate their turns.
        others = functions.report, functions.at_work
        functions.report, functions.at_work = self._uncontrolled, self._at_work
        try:
            if not functions.are_named:
                return self._take(turn)
            with self._at_work():  # Once a turn is cheaper than at every call.
                return self._take(turn)
        except RecursionError:
            raise ScriptBroken(
                "too many agents wait for each other: each handoff with `mode: delegate` keeps its "
                "source waiting, and Python has room for less than 200.\n"
                "Let an agent pass control on without waiting: `mode: transfer`.",
                ("turns", self._number - 1),
            ) from None
        finally:
            functions.report, functions.at_work = others

    def finish(self, error: e.ErrorFacts | None = None) -> None:
        """End the run, with the error if one ended it."""
        self._recorder.record_run_end(WHOLE_RUN, error=error)
        self.close()

    def close(self) -> None:
        """Drop turns that wait for the user; this process emits nothing more about them."""
        for waiting in self._waiting.values():
            waiting.recorder = EventRecorder(NullSink(), self._clock)
            waiting.drop()
        self._waiting.clear()

    def _uncontrolled(self, effect: str, where: str) -> None:
        """Record an effect of user code that simkit does not control."""
        position = Position(self._session, self._number, self._doors.compiled.functions.caller)
        self._recorder.record_uncontrolled_effect(position, effect=effect, where=where)

    def _at_work(self) -> AbstractContextManager[None]:
        """Return what gives user functions their time and random numbers in this turn."""
        if self._world_of != self._number:
            self._world_of = self._number
            # Those of a turn do not depend on whether the turns before called any.
            name = f"{self._session}/{self._turns_of[self._session]}"
            self._world.begin_turn(name, self._longest - 1, seeds_anew=True)
        return self._world.at_work()

    # One turn

    def _take(self, user_turn: UserTurn) -> e.ErrorFacts | None:
        sessions = self._sessions
        if user_turn.not_before:
            sessions.clock.advance_to(user_turn.not_before)
        sessions.clock.paused_ms = user_turn.paused_ms
        name = user_turn.session
        is_first = name not in sessions.conversations
        if is_first:
            sessions.conversation(name, user_turn.project)
        conversation = sessions.conversations[name]
        waiting = self._left_waiting(conversation, is_first) if is_first or self._waiting else None
        if user_turn.resumes:
            turn = self._going_on(waiting, user_turn)
        else:
            if waiting is not None:
                # Nobody answers its question any more.
                waiting.drop()
                sessions.state.end_turn(name)
            turn = sessions.turn(self._number, conversation)
        self._begin(turn, user_turn)
        if is_first:
            self._say_read(turn, is_back=name in sessions.saved)
        if user_turn.resumes:
            self._recorder.record_answer(turn.position(), value=user_turn.value)
        else:
            add_user_message(turn, user_turn)
        error = advance_turn(sessions, turn, user_turn)
        schedule = turn.schedule
        if error is None and not schedule.answers_at_once:
            schedule.end_turn()
        self._end(turn, error)
        return error

    def _left_waiting(self, conversation: Conversation, is_first: bool) -> Turn | None:
        """Return the session's turn that waits for an answer, here or since another process."""
        name, saved = conversation.name, self._sessions.saved
        waiting = self._waiting.pop(name, None)
        if waiting is None and is_first and name in saved and saved[name].asks:
            return self._restore(conversation)
        return waiting

    def _restore(self, conversation: Conversation) -> Turn:
        store = self._store
        assert store is not None
        first_message = self._turns_before[self._sessions.saved[conversation.name].first_turn - 1]
        return restore_turn(self._sessions, conversation, store, self._start, first_message)

    def _going_on(self, waiting: Turn | None, user_turn: UserTurn) -> Turn:
        """Return the turn that asked, which continues as the next one."""
        number = len(self._turns_before)
        if waiting is None:
            raise ScriptMisfit(
                f"turn {number} answers a question, but in session {user_turn.session!r} "
                "nobody has asked one.",
                ("turns", number - 1, "resume"),
            )
        waiting.begin_again(number)
        return waiting

    def _begin(self, turn: Turn, user_turn: UserTurn) -> None:
        sessions = self._sessions
        if sessions.state.has_default_messages and not user_turn.resumes:
            sessions.say_defaults(turn.conversation)
        open_turn(sessions, turn, resumes=user_turn.resumes)
        message = 0 if user_turn.resumes else sessions.numbers.messages + 1
        self._recorder.record_turn_start(turn.position(), message=message)

    def _say_read(self, turn: Turn, is_back: bool) -> None:
        """Emit what a session begins with: its checkpoint, and the channels that it shares."""
        sessions = self._sessions
        position = turn.position()
        if is_back:
            checkpoint = sessions.saved[turn.session].checkpoint
            self._recorder.record_restore(position, checkpoint=checkpoint)
        for channel in sessions.state.shared(turn.session):
            self._recorder.record_store_read(position, channel=channel.name, scope=channel.scope)

    def _end(self, turn: Turn, error: e.ErrorFacts | None) -> None:
        """Emit the end of a turn; a turn that waits for the user is kept."""
        question = turn.question if error is None else None
        if question is not None:
            turn.reply = None
            self._waiting[turn.session] = turn
        doors, reply = self._doors, turn.reply
        self._recorder.record_turn_end(
            turn.position(),
            reply=canonical(reply),
            error=error,
            unused=doors.model.unused(),
            waits_for=question.run if question is not None else "",
            unused_results=doors.tools.unused(),
        )
        if question is None:
            turn.scheduler = None  # It refers to the turn, and only the collector would free both.
            self._sessions.state.end_turn(turn.session)
