"""Values and methods that all agent runs of one turn share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from simkit.core.errors import LimitExceeded
from simkit.core.messages import ABSENT, JsonValue, Message
from simkit.runtime.branch import Branch
from simkit.runtime.compiled import CompiledPipeline
from simkit.runtime.conversation import Conversation, Numbers
from simkit.runtime.handoffs import Request
from simkit.runtime.models.faults import FaultPlan
from simkit.runtime.ports import Schedule, Tools, TurnModel
from simkit.runtime.scheduler import Scheduler, Steps, VirtualClock
from simkit.runtime.state import ChannelWrites, State, as_message, messages_in
from simkit.spec.pipeline.model import Limits
from simkit.trace import events as e
from simkit.trace.recorder import EventRecorder, Position


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
    chain: Callable[[Turn, Start], Steps]
    """Runs an agent, and those it passes control to; the steps return the last run."""
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
    reply: Any = None
    scheduler: Scheduler | None = None
    """The scheduler of its steps; None before the first, and once the turn is over."""
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

    def count_handoff(self) -> str:
        """Count a handoff request of this turn, and return its id."""
        self.handoffs += 1
        self.limit("handoffs_per_turn", self.handoffs)
        self.numbers.handoffs += 1
        return f"h{self.numbers.handoffs}"

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

    def write(
        self,
        update: Mapping[str, Any],
        cause: str,
        agent: str = "",
        run: str = "",
        branch: Branch | None = None,
        handoff: str = "",
    ) -> None:
        """Write channels, all at once, as one event; raise WriteInvalid."""
        writes = ChannelWrites(self.state, self.conversation.values)
        # Nothing is written unless all can be.
        for name, delta in update.items():
            if name in self.state.message_channels:
                delta = messages_in(delta, lambda item: self._log(item, agent, run, branch))
            writes.add(name, delta)
        writes.apply(self.session, branch)
        recorder, recorded, computed = self.recorder, writes.recorded, writes.computed or None
        if writes.may_grow:
            recorded, computed = recorder.last_values.shorten_all(
                self.session,
                "",
                recorded,
                computed,
                self.state.partial_channels,
                lambda value: value,
            )
        position = self.position(agent, run)
        recorder.record_state_update(
            position,
            update=recorded,
            values=computed,
            cause=cause,
            impure=writes.impure or None,
            group=branch.group if branch is not None else "",
            branch=branch.run if branch is not None else "",
            branch_values=writes.values_in(branch),
            handoff=handoff,
        )
        if self.state.has_shared:
            for name in update:
                scope = self.state.scope_if_shared(name, update[name])
                if scope:
                    recorder.record_store_write(position, channel=name, scope=scope)

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
