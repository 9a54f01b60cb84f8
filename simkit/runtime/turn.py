"""Values and methods that all agent runs of one turn share, and the history of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from simkit.core.errors import LimitExceeded, ModelError, ScriptBroken
from simkit.core.messages import ABSENT, Fails, JsonValue, Message, Text, thinking_said
from simkit.runtime.compiled import CompiledPipeline, Request
from simkit.runtime.context.history import Slice
from simkit.runtime.context.rendering import tokens_of
from simkit.runtime.conversation import Branch, Conversation, Numbers, Summary, continues
from simkit.runtime.models.faults import FaultPlan
from simkit.runtime.ports import ModelRequest, Schedule, Tools, TurnModel
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
        return {"state": self.conversation.values, "user": self.input, "run": None, "handoff": None}

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


# The source of one run's history: the session's log or a channel, filtered and settled


class HistorySelection(msgspec.Struct):
    """One run's access to earlier messages."""

    turn: Turn
    agent: str
    run: str
    handoff: Request | None
    state: Mapping[str, Any]
    branch: Branch | None
    """The parallel branch of the run; None if there is none."""
    log: Sequence[Message]
    """The messages before the run."""
    current: tuple[Message, int, int]
    """The message that the run answers, with its number and tokens: both 0 for a handoff's query,
    which is not in the log."""
    slices: dict[str, Slice] = {}
    """Section to the messages that it shows."""
    omit: str = ""
    last_read: tuple[Sequence[Message], int] = ((), 0)
    """The source of the last history, and the index of its first unsettled message."""
    latency_ms: int = 0
    """Virtual milliseconds that summaries took."""

    def history(self, index: int, omit: str) -> Slice | None:
        """Return the slice for the recipe's history section; None if none is passed on."""
        contract = self.handoff.contract if self.handoff is not None else None
        reader = self.turn.compiled.reader(self.agent, index, contract)
        if reader is None:
            return None
        self.omit = omit
        conversation, channel = self.turn.conversation, reader.channel
        settled = conversation.starts[channel]
        source: Any
        anchor: Any
        if channel == "log":
            source, anchor = self.log, conversation.log
        else:
            source = (self.state if channel in self.state else conversation.values)[channel]
            source = anchor = () if source is None else source
            if self.branch is not None and channel not in self.branch.replaced:
                # The branch's own messages belong to this turn; earlier ones are the session's,
                # unless a parallel run has replaced them.
                now = conversation.values.get(channel)
                anchor = now if continues(self.branch.start_values.get(channel), now) else anchor
        owner = self.agent
        if contract is not None and contract.history != "all" and self.handoff is not None:
            owner = f"{self.agent}#{self.handoff.source}#{self.handoff.type}"
        stream = conversation.stream(owner, reader.section, anchor)
        history_slice = reader.read(
            stream,
            source,
            settled,
            omit,
            self.turn.state.committed,
            conversation.sizes,
            conversation.first_turn,
        )
        self.slices[reader.section] = history_slice
        self.last_read = source, history_slice.settled
        return history_slice

    def history_of(self, part: e.HistoryPart) -> list[Message]:
        """Return the logged messages that a part shows."""
        return self.slices[part.section].messages()

    def summarised(self, agent: str, index: int, slice: Slice) -> Message | None:
        """Return the summarizing agent's message about what the window drops, or None.

        The summary rolls: its agent reads the last one and the messages dropped since, so that a
        long conversation is summarized in linear time.
        """
        lo = slice.shown_part.lo
        conversation = self.turn.conversation
        last = conversation.summaries.get(slice.shown_part.stream)
        fresh = _not_covered(slice, lo, last)
        if not fresh:
            return last.message if last is not None and lo else None
        text = self._ask_for_summary(agent, last.message if last else None, fresh)
        message = Message("system", text, agent=agent, section=slice.shown_part.section)
        covers = max(
            [last.number if last is not None else 0, *(run_message.number for run_message in fresh)]
        )
        unshown = [conversation.sizes[self.omit][0]] if self.omit else []
        behind = [
            *unshown,
            *(run_message.number for run_message in slice.messages()),
            *self._not_seen(last),
        ]
        missed = tuple(number for number in behind if number < covers)
        conversation.summaries[slice.shown_part.stream] = Summary(
            message, covers, frozenset(missed)
        )
        self.turn.recorder.record_summary(
            self.turn.position(agent, self.run),
            stream=slice.shown_part.stream,
            text=text,
            covers=covers,
            missed=missed,
        )
        return message

    def _not_seen(self, last: Summary | None) -> list[int]:
        """Return the messages since the user's last one that only later runs see.

        Parallel branches wrote them: their numbers do not show whether a run has seen them.
        """
        conversation = self.turn.conversation
        source, settled = self.last_read
        visible_ids = {message.id for message in source[settled:]}
        return [
            message.number
            for message in conversation.log[conversation.starts.get("log", 0) :]
            if message.id not in visible_ids
            and not (last is not None and last.covers(message.number))
        ]

    def _ask_for_summary(self, agent: str, last: Message | None, fresh: list[Message]) -> str:
        turn = self.turn
        ready = turn.compiled.agents[agent]
        prompt = [Message("system", ready.instructions, agent=agent, section="instructions")]
        if last is not None:
            prompt.append(replace(last, section="summary"))
        prompt += [replace(message, section="history") for message in fresh]
        parts: list[e.Part] = []
        total = 0
        for message in prompt:
            size = tokens_of(message, turn.compiled.count)
            total += size
            parts.append(e.InlinePart(message.section, message, size, (), message.number))
        turn.numbers.model_calls += 1
        call = f"c{turn.numbers.model_calls}"
        position, recorder = turn.position(agent, self.run), turn.recorder
        recorder.record_context(position, call=call, parts=tuple(parts), tokens=total)
        recorder.record_model_call(position, call=call)
        request = ModelRequest(
            agent, turn.number, self.run, call, (), None,
            lambda: prompt, lambda: _by_section(prompt), str, session=turn.session,
        )  # fmt: skip
        answer = turn.model.answer(request)
        self.latency_ms += answer.latency_ms
        if answer.fault:
            recorder.record_fault(position, fault=answer.fault)
        if isinstance(answer.reply, Fails):
            failed = answer.reply
            recorder.record_model_failure(
                position, call=call, error=failed.kind, status=failed.status, message=failed.message
            )
            raise ModelError(failed.message, failed.kind, failed.status)
        if not isinstance(answer.reply, Text):
            raise ScriptBroken(f"agent {agent!r} summarises, so its reply must be a text")
        summary_message = turn.conversation.add(
            "assistant", answer.reply.text, agent=agent, run=self.run, branch=self.branch
        )
        recorder.record_reply(
            position,
            call=call,
            message=summary_message.number,
            reply="text",
            usage=answer.usage,
            thinking=thinking_said(answer),
        )
        return answer.reply.text


def _not_covered(slice: Slice, hi: int, last: Summary | None) -> list[Message]:
    """Return the messages before an index that are in no summary yet.

    Those that the last summary missed may come before the ones it covers.
    """
    uncovered = []
    for index in range(hi - 1, -1, -1):
        message = slice.message(index)
        if last is None or not last.covers(message.number):
            uncovered.append(message)
        elif message.number < min(last.missed, default=message.number + 1):
            break
    return uncovered[::-1]


def _by_section(messages: list[Message]) -> dict[str, list[Message]]:
    by_section: dict[str, list[Message]] = {}
    for message in messages:
        by_section.setdefault(message.section, []).append(message)
    return by_section
