"""Answerers: what answers model calls that have no reply lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from simkit.adapters.response_parsing import ModelCall
from simkit.adapters.trace_recorder import TraceRecorder
from simkit.capture.http.request_router import Decision
from simkit.core.messages import JsonValue
from simkit.providers.http import HttpAnswer, HttpRequest


class Answerer(Protocol):
    """The part that answers calls without reply lines: recorded traffic, or the provider itself."""

    is_live: bool
    """Whether requests may reach the network."""

    def decide(
        self, call: ModelCall, recorder: TraceRecorder, answered: Callable[[HttpAnswer], None]
    ) -> Decision:
        """Answer or forward a model call; raise PipelineError if neither is possible.

        ``answered`` is called with the complete answer, as soon as it is known.
        """

    def decide_other(
        self, request: HttpRequest, agent: str, recorder: TraceRecorder
    ) -> Decision | None:
        """Answer or forward a request that is no model call; None to do neither."""

    def records(self, tool: str) -> bool:
        """Return whether it executes a tool's calls, or records them."""

    def carried_out(
        self,
        tool: str,
        args: JsonValue,
        agent: str,
        recorder: TraceRecorder,
        real: Callable[[], Any],
    ) -> Any:
        """Return a tool's result or an awaitable: a recorded one, or that of ``real``."""

    def unplayed(self) -> list[str]:
        """Return the unused interactions, a line for each."""

    def drifted(self) -> list[str]:
        """Return the requests that differ from their recordings, a line for each."""
