"""Values and methods that all agent runs of one turn share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from simkit.core.errors import LimitExceeded
from simkit.core.messages import ABSENT, JsonValue, Message
from simkit.runtime.branch import Branch
from simkit.runtime.clock import VirtualClock
from simkit.runtime.compiled import CompiledPipeline
from simkit.runtime.conversation import Conversation, Numbers
from simkit.runtime.handoffs import Request
from simkit.runtime.models.faults import FaultPlan
from simkit.runtime.ports import Schedule, Tools, TurnModel
from simkit.runtime.scheduler import Scheduler, Steps
from simkit.runtime.state import State, as_message, messages_in
from simkit.spec.pipeline.model import Limits
from simkit.trace import events as e
from simkit.trace.recorder import EventRecorder, Position
from simkit.trace.reducers import DECLARED_RESET
from simkit.trace.store import canonical


class Start(msgspec.Struct, frozen=True):
    """One start of an agent: the agent, its reason, its input."""

    agent: str
    handoff: Request | None = None
    """The handoff that started it; None if there is none."""
    depth: int = 0
    """The number of handoffs between the turn's first agent and this one."""
    branch: Branch | None = None
    """Its parallel branch; None if there is none."""
    input: Any = ABSENT
    """Its input; without one, the handoff's payload or the user's message."""
    task: str = ""
    """The supervisor's task text."""
    goal: str = ""
    """The supervisor's goal that it works for."""
    upstream: Mapping[str, Any] | None = None
    """The results of the runs on incoming edges, by node."""
    after: tuple[str, ...] = ()
    """The runs after which it starts."""
    problem_text: str = ""
    """Why its last output was refused; empty on the first try."""


class Turn(msgspec.Struct, eq=False):
    """One turn: its ports, its counters, and the methods to emit and write."""

    number: int
    conversation: Conversation
    compiled: CompiledPipeline
    state: State
    recorder: EventRecorder
    clock: VirtualClock
    model: TurnModel
    tools: Tools
    plan: FaultPlan
    schedule: Schedule
    limits: Limits
    chain: Callable[[Turn, Start], Any]
    """Runs an agent, and those it passes control to; returns the last run, or the steps that
    remain, which return it."""
    session: str
    numbers: Numbers
    runs: int = 0
    handoffs: int = 0
    user: tuple[Message, int, int] = (Message("user"), 0, 0)
    """The user's message, its number in the log, and its tokens."""
    input: Any = None
    """The user's message as a value if it has one, else its text."""
    recorded_input: JsonValue = None
    """The same as plain data, which the events of a turn share; do not change it."""
    is_plain: bool = False
    """Whether the user said a text, and nothing else, and calls are answered at once."""
    runs_max: int = 0
    """The limit of agent runs."""
    calls_max: int = 0
    """The limit of model calls in one run."""
    handoffs_max: int = 0
    """The limit of handoffs."""
    budget: int = 0
    """The limit of a context's tokens; 0 for none."""
    users_parts: dict[tuple[str, str], e.Made] = {}
    """Section and role to the user's message as contexts show it."""
    reply: Any = None
    scheduler: Scheduler | None = None
    """The scheduler of its steps, which may wait; None as long as its runs are straight."""
    closing: str = "cancelled"
    """The reason for closing runs, while they are closed."""

    @property
    def question(self) -> e.TurnInterrupted | None:
        """Return its next question to the user; None if it does not wait for an answer."""
        return self.scheduler.question if self.scheduler is not None else None

    def take_steps(self, steps: Steps) -> None:
        """Take steps that may wait, until they end or wait for the user."""
        clock = self.clock
        self.scheduler = Scheduler(
            clock, self.schedule, lambda at: self.limit("virtual_ms", at - clock.paused_ms)
        )
        self.scheduler.run(steps)

    def drop(self) -> None:
        """End what waits for the user, unanswered."""
        if self.scheduler is not None:
            self.scheduler.drop()
            self.scheduler = None

    def begin_again(self, number: int) -> None:
        """Continue as another turn, because the user has answered."""
        self.number = number
        self.runs = self.handoffs = 0
        self.reply = None

    def ask_again(self, question: e.TurnInterrupted) -> None:
        """Record again, in a later turn, the questions that are still open."""
        self.recorder.record_question(
            self.position(question.agent, question.run), question=question.question
        )

    def move(self, conversation: Conversation, state: State, recorder: EventRecorder) -> None:
        """Continue with a restored conversation and state."""
        self.conversation, self.state, self.recorder = conversation, state, recorder
        self.numbers = conversation.numbers

    def limit(self, name: str, used: int) -> None:
        """Raise LimitExceeded, after its event, when a limit is passed."""
        allowed = getattr(self.limits, name)
        if used > allowed:
            self.recorder.record_limit(self.position(), limit=name, allowed=allowed)
            raise LimitExceeded(name, allowed)

    def position(self, agent: str = "", run: str = "") -> Position:
        """Return a position in this turn."""
        return Position(self.session, self.number, agent, run)

    def root(self) -> dict[str, Any]:
        """Return the values for a flow's references before any run."""
        return {
            "state": self.conversation.values,
            "user": self.input,
            "run": None,
            "handoff": None,
        }

    def values(self, branch: Branch | None) -> Mapping[str, Any]:
        """Return the channels for a run: its branch's, or the session's."""
        return self.conversation.values if branch is None else branch.values()

    def branch(self, group: str, run: str, outer: Branch | None) -> Branch:
        """Open a branch of a parallel group for a run."""
        log = self.conversation.log_of(outer)
        return Branch(group, run, outer, self.values(outer), log, self.state.joined)

    def make_users_part(self, shown_as: tuple[str, str]) -> None:
        """Make the user's message for a section and its role; the contexts of a turn share it."""
        section, role = shown_as
        message, number, tokens = self.user
        copy = Message(role, message.content, message.id, turn=message.turn, section=section)
        self.users_parts[shown_as] = e.Made(section, copy, tokens, (), number)

    def write(
        self,
        update: Mapping[str, Any],
        cause: str,
        agent: str = "",
        run: str = "",
        branch: Branch | None = None,
        handoff: str = "",
    ) -> None:
        """Write channels, all at once, as one event; raise WriteInvalid.

        It is one function because every run of an agent comes through here. Most channels are
        simple, and what is written into one of messages is logged already.
        """
        state, values, sizes = self.state, self.conversation.values, self.numbers.sizes
        channels = state.channels
        recorded: dict[str, JsonValue] = {}
        if branch is not None or not state.simple_channels.issuperset(update):
            self._write_any(update, cause, agent, run, branch, handoff)
            return
        for name in update:
            delta = update[name]
            if not channels[name].holds_messages:
                recorded[name] = delta if type(delta) is str else canonical(delta)
                continue
            references: list[JsonValue] = []
            for message in delta if type(delta) is list else (None,):
                if type(message) is not Message or message.id not in sizes:
                    self._write_any(update, cause, agent, run, branch, handoff)
                    return
                references.append({"$message": sizes[message.id][0]})
            recorded[name] = references
        # Nothing is written unless all can be.
        reduced: dict[str, Any] = {}
        for name in update:
            reduced[name] = channels[name].reduce(values[name], update[name])
        values |= reduced
        if state.conversation in update:
            self._commit(update[state.conversation])
        recorder = self.recorder
        recorder.emit(
            e.StateUpdated(
                recorder.clock.now,
                self.session,
                self.number,
                agent,
                run,
                update=recorded,
                cause=cause,
                handoff=handoff,
            )
        )

    def _commit(self, messages: Iterable[Message]) -> None:
        """Make logged messages part of the conversation."""
        state, first_turn = self.state, self.conversation.first_turn
        for message in messages:
            if message.id not in state.committed:
                state.committed.add(message.id)
                state.commits_late = state.commits_late or message.turn < first_turn

    def _write_any(
        self,
        update: Mapping[str, Any],
        cause: str,
        agent: str,
        run: str,
        branch: Branch | None,
        handoff: str,
    ) -> None:
        """Write channels of any kind; most runs of an agent in a branch come through here."""
        state, values = self.state, self.conversation.values
        channels = state.channels
        recorded: dict[str, JsonValue] = {}
        deltas: dict[str, Any] = {}
        """The update, with its messages logged."""
        computed: dict[str, JsonValue] | None = None
        impure: dict[str, str] | None = None
        replaced: set[str] = set()
        """Channels of messages to which it does more than append."""
        # Nothing is written unless all can be.
        reduced: dict[str, Any] = {}
        additions: list[Message] = []
        may_grow = False
        for name in update:
            delta = update[name]
            if name not in channels:
                raise state.no_channel(name)
            channel = channels[name]
            may_grow = may_grow or channel.may_grow
            if channel.holds_messages:
                for item in delta if type(delta) is list else (None,):
                    if type(item) is not Message or not item.id:
                        delta = self._messages_in(delta, agent, run, branch)
                        break
                is_whole = type(delta) is dict
                if is_whole or channel.last or channel.reducer != "append":
                    replaced.add(name)
                references: list[JsonValue] = []
                for message in (delta[DECLARED_RESET] if is_whole else delta) or ():
                    references.append({"$message": int(message.id[1:])})
                    if name == state.conversation:
                        additions.append(message)
                recorded[name] = references if type(delta) is list else canonical(delta)
            else:
                recorded[name] = delta if type(delta) is str else canonical(delta)
            if channel.is_plain:
                deltas[name], reduced[name] = delta, channel.reduce(values[name], delta)
                continue
            if channel.scope == "agent_run":
                if channel.schema is not None:
                    alone, _ = state.join(channel, channel.empty(), delta)
                    state.check_value(channel, alone, delta)
                continue
            new, fault = state.join(channel, values[name], delta)
            if channel.function is not None:
                computed = {**(computed or {}), name: canonical(new)}
                if fault:
                    impure = {**(impure or {}), name: fault}
            if channel.schema is not None:
                state.check_value(channel, new, delta)
            deltas[name], reduced[name] = delta, new
        values |= reduced
        if additions:
            self._commit(additions)
        if state.has_shared:
            state.share(self.session, reduced)
        branch_values = None
        if branch is not None:
            branch.note(deltas, replaced)
            if computed is not None:
                branch_values = _values_in(branch, computed)
        recorder = self.recorder
        if may_grow:
            recorded, computed = recorder.last_values.shorten_all(
                self.session, "", recorded, computed, state.partial_channels, lambda value: value
            )
        recorder.emit(
            e.StateUpdated(
                recorder.clock.now,
                self.session,
                self.number,
                agent,
                run,
                update=recorded,
                values=computed,
                cause=cause,
                impure=impure,
                group=branch.group if branch is not None else "",
                branch=branch.run if branch is not None else "",
                branch_values=branch_values,
                handoff=handoff,
            )
        )
        if state.has_shared:
            self._record_stored(update, agent, run)

    def _record_stored(self, update: Mapping[str, Any], agent: str, run: str) -> None:
        """Record which long-lived channels a write reached."""
        for name, delta in update.items():
            scope = self.state.scope_if_shared(name, delta)
            if scope:
                self.recorder.record_store_write(
                    self.position(agent, run), channel=name, scope=scope
                )

    def _messages_in(self, delta: Any, agent: str, run: str, branch: Branch | None) -> Any:
        """Return an update of a channel of messages; values that are none yet are logged."""
        return messages_in(delta, lambda item: self._log(item, agent, run, branch))

    def _log(self, item: Any, agent: str, run: str, branch: Branch | None) -> Message:
        """Add values to the log that were written into the conversation and are no messages yet."""
        message = as_message(item, agent or None)
        return self.conversation.add(
            message.role,
            message.content,
            agent=message.agent,
            run=run,
            calls=message.calls,
            call_id=message.call_id,
            tool=message.tool,
            data=message.data,
            branch=branch,
        )


def _values_in(branch: Branch, channels: Iterable[str]) -> dict[str, dict[str, JsonValue]]:
    """Return the values of channels in a branch and in those around it, by branch."""
    return {
        inner.run: {name: canonical(inner.values()[name]) for name in channels}
        for inner in branch.lineage()
    }
