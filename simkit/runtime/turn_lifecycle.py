"""The lifecycle of a turn: start, user message, work, and restoring a turn that waits."""

from __future__ import annotations

from simkit.core.errors import ModelError, PipelineError, ScriptMisfit, TurnCut
from simkit.runtime.clock import VirtualClock
from simkit.runtime.conversation import Conversation, Numbers
from simkit.runtime.handoff_execution import TurnStopped
from simkit.runtime.journal import recovered
from simkit.runtime.ports import Store, UserTurn
from simkit.runtime.sessions import Sessions
from simkit.runtime.turn import Turn
from simkit.trace import events as e
from simkit.trace.store import canonical


class Unheard:
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


def hear(turn: Turn, user_turn: UserTurn) -> None:
    """Add the user's message to log and conversation."""
    text, value, conversation = user_turn.text, user_turn.value, turn.conversation
    message = conversation.add("user", text, data=value)
    number, tokens = conversation.sizes[message.id]
    turn.user = message, number, tokens
    turn.input = turn.recorded_input = text
    if value is not None:
        turn.input, turn.recorded_input = value, canonical(value)
    turn.write({turn.compiled.conversation: [message]}, "user")


def work(sessions: Sessions, turn: Turn, user_turn: UserTurn) -> e.ErrorFacts | None:
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


def revived(
    sessions: Sessions, conversation: Conversation, store: Store, start: str, user_turn: UserTurn
) -> Turn:
    """Restore a turn that waits for the user in a new process.

    The turn runs again from its start, with events discarded, on the earlier content of the store:
    replies and tool results are those of its own turn, so that it reaches the same question.
    ``user_turn`` is the user's message of that turn.
    """
    session = conversation.name
    saved = sessions.saved[session]
    then = Sessions(sessions.doors, Unheard(), VirtualClock(start), Numbers())
    then.restore(recovered(store, before_turn=saved.first_turn))
    first_conversation = then.conversation(session, user_turn.project)
    turn = then.turn(saved.first_turn, first_conversation)
    open_turn(then, turn)
    hear(turn, user_turn)
    work(then, turn, user_turn)
    for number, answer in saved.answers:
        # Other sessions may have had turns since.
        later = recovered(store, before_turn=number)
        then.count_on(later)
        then.state.values(session).update(later.view.states[session])
        turn.begin_again(number)
        open_turn(then, turn, resumes=True)
        work(then, turn, UserTurn("", answer, resumes=True))
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
