"""What is told of a run without knowing what was told before: where and when, state, stores."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from simkit.adapters.activations import Run
from simkit.core.errors import LimitExceeded
from simkit.core.messages import JsonValue
from simkit.providers.http import HttpRequest, path_of
from simkit.providers.unsupported import unspoken
from simkit.runtime.clock import VirtualClock
from simkit.runtime.context.tokens import Counter
from simkit.runtime.conversation import Numbers
from simkit.runtime.ports import Sink
from simkit.spec.pipeline.model import Limits
from simkit.trace import events as e
from simkit.trace.store import canonical


class EventWriter:
    """Writes events down, each with its place: the time, the session, the turn, the run."""

    def __init__(self, sink: Sink, clock: VirtualClock, count: Counter, limits: Limits) -> None:
        self.sink, self.clock, self.count, self.limits = sink, clock, count, limits
        self.numbers = Numbers()
        self.lock = threading.RLock()
        """Held by whoever tells something: pipelines may do so from any thread."""
        self.session = ""
        """The conversation that has its turn."""
        self.turn = 0
        self.failures: set[str] = set()
        """Model calls that failed."""
        self._checkpoints: dict[str, str] = {}
        """Session to the last that was saved of it."""

    def at(self, agent: str = "", run: Run | None = None) -> tuple[int, str, int, str, str]:
        """Return what an event begins with."""
        return self.clock.now, self.session, self.turn, agent, run.id if run is not None else ""

    def limit(self, name: str, used: int) -> None:
        """Raise LimitExceeded, with its event, when a limit is passed."""
        allowed = getattr(self.limits, name)
        if allowed is not None and used > allowed:
            self.sink.emit(e.LimitReached(*self.at()[:3], limit=name, allowed=allowed))
            raise LimitExceeded(name, allowed)

    # Model calls that fail

    def failed(
        self,
        run: Run,
        call: str,
        error: str,
        status: int,
        message: str,
        retry_after: float | None = None,
        partial: str = "",
    ) -> None:
        """The model did not answer, or broke off behind ``partial``."""
        self.failures.add(call)
        wait_ms = round((retry_after or 0) * 1_000)
        self.sink.emit(
            e.ModelFailed(
                *self.at(run.agent, run),
                call=call,
                error=error,
                status=status,
                message=message,
                retry_after_ms=wait_ms,
                partial=partial,
            )
        )

    def disturbed(self, run: Run, fault: str) -> None:
        """A planned fault takes the place of an answer."""
        self.sink.emit(e.FaultInjected(*self.at(run.agent, run), fault=fault))

    def retried(self, run: Run, call: str, attempt: int) -> None:
        """A call that failed is made again."""
        self.sink.emit(e.ModelRetried(*self.at(run.agent, run), call=call, attempt=attempt))

    def log_recorded(
        self, level: str, logger: str, message: str, error: str, run: Run | None
    ) -> None:
        """Record that the pipeline's code made a log record, in ``run`` where it is one's work."""
        with self.lock:
            agent = run.agent if run is not None else ""
            self.sink.emit(
                e.LogRecorded(
                    *self.at(agent, run), level=level, logger=logger, message=message, error=error
                )
            )

    def unread(self, request: HttpRequest) -> None:
        """A request went to a model's provider in words that nobody here reads."""
        interface = unspoken(request)
        if interface:
            host = urlsplit(request.url).netloc.rpartition("@")[2]
            where = f"{host}{path_of(request.url)}"
            self.sink.emit(
                e.RequestUnread(
                    *self.at()[:3], method=request.method, url=where, interface=interface
                )
            )

    # State, and what outlives a turn

    def told_as(self, value: Any) -> JsonValue:
        """Return a value of the pipeline's as it stands in events."""
        return canonical(value)

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
        """Channels are written: ``values`` are the new ones where no reducer of ours makes them."""
        self.sink.emit(
            e.StateUpdated(
                *self.at(agent, run),
                update={name: self.told_as(value) for name, value in update.items()},
                values={n: self.told_as(v) for n, v in values.items()} if values else None,
                cause=cause,
                group=group,
                branch=branch,
                state=state,
            )
        )

    def state_opened(
        self, channels: Mapping[str, e.ChannelFacts], around: str, shares: tuple[str, ...]
    ) -> str:
        """A graph inside another begins; returns the name of its state."""
        self.numbers.states += 1
        name = f"x{self.numbers.states}"
        self.sink.emit(
            e.StateOpened(
                *self.at()[:3], state=name, channels=channels, around=around, shares=shares
            )
        )
        return name

    def saved(self, run: Run | None = None) -> None:
        """A session's state was saved, after ``run`` where it was one agent's work."""
        self.numbers.checkpoints += 1
        checkpoint = self._checkpoints[self.session] = f"k{self.numbers.checkpoints}"
        agent = run.agent if run is not None else ""
        self.sink.emit(e.CheckpointSaved(*self.at(agent, run), checkpoint=checkpoint))

    def restored(self) -> None:
        """The session's state is read back: the last that was saved of it."""
        checkpoint = self._checkpoints.get(self.session, "")
        self.sink.emit(e.CheckpointRestored(*self.at()[:3], checkpoint=checkpoint))

    def read(self, channel: str, scope: str, agent: str = "", run: Run | None = None) -> None:
        """A long-lived channel was read from its store."""
        self.sink.emit(e.StoreRead(*self.at(agent, run), channel=channel, scope=scope))

    def stored(self, channel: str, scope: str, agent: str = "", run: Run | None = None) -> None:
        """A long-lived channel was written to its store."""
        self.sink.emit(e.StoreWritten(*self.at(agent, run), channel=channel, scope=scope))
