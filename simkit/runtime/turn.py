"""What one turn of one session shares between its agent runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from simkit import events as e
from simkit.errors import LimitExceeded
from simkit.messages import Message
from simkit.pipeline.model import Limits
from simkit.ports import Sink, Tools, TurnModel
from simkit.runtime.clock import VirtualClock
from simkit.runtime.compiled import CompiledPipeline
from simkit.runtime.conversation import Conversation
from simkit.runtime.handoffs import Request
from simkit.runtime.scheduler import Steps
from simkit.runtime.state import State, as_message


class Fork(msgspec.Struct, frozen=True):
    """Where a parallel group began: what every run in one of its branches sees."""

    group: str
    branch: str
    """The run that opened the branch."""
    values: Mapping[str, Any]
    log_size: int


class Turn:
    """One user message at work: doors, counters, and the ways to emit and write."""

    def __init__(
        self,
        number: int,
        conversation: Conversation,
        compiled: CompiledPipeline,
        state: State,
        sink: Sink,
        clock: VirtualClock,
        model: TurnModel,
        tools: Tools,
        limits: Limits,
    ) -> None:
        self.number, self.conversation, self.compiled = number, conversation, compiled
        self.state, self.sink, self.clock = state, sink, clock
        self.model, self.tools, self.limits = model, tools, limits
        self.session = conversation.name
        self.numbers = conversation.numbers
        self.runs = self.handoffs = 0
        self.user: Message = Message("user")
        self.input: Any = None
        """The user's message as a value where it has one, else its text."""
        self.reply: Any = None
        self.chain: Callable[[Request, Fork | None], Steps]
        """Runs a handoff's target, and those it passes control to; the kernel knows how."""
        self.closing = "cancelled"
        """Why runs are being closed, while they are."""

    def limit(self, name: str, used: int) -> None:
        """Raises LimitExceeded, with its event, when a limit is passed."""
        allowed = getattr(self.limits, name)
        if used > allowed:
            self.sink.emit(
                e.LimitReached(self.clock.now(), self.session, self.number, "", "", name, allowed)
            )
            raise LimitExceeded(name, allowed)

    def write(
        self,
        update: Mapping[str, Any],
        cause: str,
        agent: str = "",
        run: str = "",
        fork: Fork | None = None,
    ) -> None:
        """Writes channels, as one event."""
        written = self.state.write(
            self.session, update, lambda item: self._logged(item, agent, run)
        )
        self.sink.emit(
            e.StateUpdated(
                self.clock.now(), self.session, self.number, agent, run, written.update,
                written.values, cause, written.impure,
                fork.group if fork is not None else "", fork.branch if fork is not None else "",
            )
        )  # fmt: skip

    def _logged(self, item: Any, agent: str, run: str) -> Message:
        """Adds to the log what was written into the conversation and is no message yet."""
        said = as_message(item, agent or None)
        return self.conversation.add(
            said.role, said.content, agent=said.agent, run=run, data=said.data
        )
