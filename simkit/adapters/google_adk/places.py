"""Places: the agent run and the runner call that a piece of code belongs to."""

from __future__ import annotations

import contextvars
from collections.abc import AsyncGenerator
from typing import Any, Final

from simkit.adapters.api import ContextScope, Run

open_call: Final = contextvars.ContextVar[tuple[int, str]]("simkit_adk_tool", default=(0, ""))
"""The tool that runs here, by identity, and the id of its call."""


class AgentRun:
    """One call of ``Runner.run_async``: a turn, or an agent that runs as a tool."""

    __slots__ = ("looked", "outer", "parked", "places", "waiting", "words")

    def __init__(self, outer: Place | None, words: str) -> None:
        self.outer, self.words = outer, words
        """``words`` is the last message: the user's, then the agents'."""
        self.looked = False
        self.waiting: dict[str, tuple[str, Any]] = {}
        """Unanswered tool calls: id to the agent and the call."""
        self.places: dict[str, Place] = {}
        """The agents that ran in it, by their runs."""
        self.parked: list[Place] = []
        """Agents that were left open while another agent does a task for them."""


class Place:
    """A running agent, or the start of a runner call, which has no run yet."""

    __slots__ = ("agent", "agent_run", "branch", "group", "outer", "parallel", "run", "words")

    def __init__(
        self, agent_run: AgentRun, outer: Place | None, agent: Any = None, run: Run | None = None
    ) -> None:
        self.agent_run, self.outer, self.agent, self.run = agent_run, outer, agent, run
        self.branch: str = outer.branch if outer is not None else ""
        self.parallel: str = outer.parallel if outer is not None else ""
        """The parallel group and the run that opened its branch; empty outside branches."""
        self.group = self.words = ""
        """The parallel group of the agents inside it, and the last message there."""

    def say(self, words: str) -> None:
        """Record a message here, which is also the last message of all outer places."""
        self.agent_run.words = words
        place: Place | None = self
        while place is not None and place.agent_run is self.agent_run:
            place.words, place = words, place.outer

    @property
    def opens_branch(self) -> bool:
        """Return whether it is the first agent of a branch of a parallel group."""
        return self.run is not None and self.branch == self.run.id

    @property
    def working(self) -> Run | None:
        """Return the agent run that code here belongs to."""
        place: Place | None = self
        while place is not None:
            if place.run is not None:
                return None if place.run.is_over else place.run
            place = place.outer
        return None


_current_place: Final = ContextScope[Place]("simkit_adk_place")
place_now, inside = _current_place.now, _current_place.inside


async def steps(place: Place, events: Any) -> AsyncGenerator[Any, None]:
    """Yield from a generator that runs inside a place; its reader does not."""
    try:
        while True:
            with inside(place):
                try:
                    event = await anext(events)
                except StopAsyncIteration:
                    return
            yield event
    finally:
        with inside(place):
            await events.aclose()
