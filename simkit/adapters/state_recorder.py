"""Records state: writes of channels, inner graphs, checkpoints, and long-lived channels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simkit.adapters.activations import Run
from simkit.adapters.recorder_base import RecorderBase
from simkit.runtime.clock import VirtualClock
from simkit.runtime.context.tokens import Counter
from simkit.spec.pipeline.model import Limits
from simkit.trace import changes
from simkit.trace import events as e
from simkit.trace.recorder import Position, Sink
from simkit.trace.store import canonical


class StateRecorder(RecorderBase):
    """Records what changes in the state of a pipeline, and what outlives a turn."""

    def __init__(self, sink: Sink, clock: VirtualClock, count: Counter, limits: Limits) -> None:
        super().__init__(sink, clock, count, limits)
        self._partial_channels: dict[str, frozenset[str]] = {}
        """State to its channels of which an update is only what joins their value."""
        self._checkpoints: dict[str, str] = {}
        """Session to its last checkpoint."""

    def wrote(
        self,
        update: Mapping[str, Any],
        agent: str = "",
        run: Run | None = None,
        *,
        values: Mapping[str, Any] | None = None,
        cause: str = "writes",
        group: str = "",
        branch: str = "",
        state: str = "",
    ) -> None:
        """Emit a write of channels.

        ``values`` are the new values of channels without a built-in reducer.
        """
        partial_channels = self._partial_channels
        new_update, new_values = self.events.last_values.shorten_all(
            self.session, state, update, values,
            partial_channels.get(state, ()),
            self._plain if self._session.as_served else canonical,
        )  # fmt: skip
        self.events.record_state_update(
            Position(self.session, self.turn, agent, run.id if run is not None else ""),
            update=new_update,
            values=new_values,
            cause=cause,
            group=group,
            branch=branch,
            state=state,
        )

    def learn_channels(self, channels: Mapping[str, e.ChannelFacts]) -> None:
        """Learn the channels of sessions before the first is written."""
        self._partial_channels[""] = changes.partial_channels(channels)

    def state_opened(
        self, channels: Mapping[str, e.ChannelFacts], around: str, shares: tuple[str, ...]
    ) -> str:
        """Emit that an inner graph begins; return the name of its state."""
        self.numbers.states += 1
        name = f"x{self.numbers.states}"
        self._partial_channels[name] = changes.partial_channels(channels)
        self.events.record_inner_state(
            self.at(), state=name, channels=channels, around=around, shares=shares
        )
        return name

    def saved(self, run: Run | None = None) -> None:
        """Emit that a session's state was saved, after ``run`` if that caused it."""
        self.numbers.checkpoints += 1
        checkpoint = self._checkpoints[self.session] = f"k{self.numbers.checkpoints}"
        self.events.record_checkpoint(self.at(run), checkpoint=checkpoint)

    def restored(self) -> None:
        """Emit that the session's last saved state was restored."""
        checkpoint = self._checkpoints.get(self.session, "")
        self.events.record_restore(self.at(), checkpoint=checkpoint)

    def read(self, channel: str, scope: str, agent: str = "", run: Run | None = None) -> None:
        """Emit that a long-lived channel was read from its store."""
        self.events.record_store_read(self.at(run, agent), channel=channel, scope=scope)

    def stored(self, channel: str, scope: str, agent: str = "", run: Run | None = None) -> None:
        """A long-lived channel was written to its store."""
        self.events.record_store_write(self.at(run, agent), channel=channel, scope=scope)
