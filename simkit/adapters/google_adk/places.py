"""Where a piece of code runs: inside which agent's work, inside which call of a runner."""

from __future__ import annotations

import contextvars
from collections.abc import AsyncGenerator
from typing import Any, Final

from simkit.adapters.activations import Run
from simkit.adapters.scoping import ContextScope

open_call: Final = contextvars.ContextVar[tuple[int, str]]("simkit_adk_tool", default=(0, ""))
"""The tool that is being carried out here, by identity, and the id of its call."""


class AgentRun:
    """One call of ``Runner.run_async``: a turn, or an agent that is a tool at work."""

    __slots__ = ("looked", "outer", "parked", "places", "waiting", "words")

    def __init__(self, outer: Place | None, words: str) -> None:
        self.outer, self.words = outer, words
        """``words`` are what was said last: the user's, then the agents'."""
        self.looked = False
        self.waiting: dict[str, tuple[str, Any]] = {}
        """Calls of tools that nobody has answered yet: id to the agent and the call."""
        self.places: dict[str, Place] = {}
        """The agents that went to work in it, by their runs."""
        self.parked: list[Place] = []
        """Agents that were left in the middle of their work: while a task that they have given to
        another agent is done."""


class Place:
    """An agent at work, or the beginning of a agent_run: then without a run."""

    __slots__ = ("agent", "agent_run", "branch", "group", "outer", "parallel", "run", "words")

    def __init__(
        self, agent_run: AgentRun, outer: Place | None, agent: Any = None, run: Run | None = None
    ) -> None:
        self.agent_run, self.outer, self.agent, self.run = agent_run, outer, agent, run
        self.branch: str = outer.branch if outer is not None else ""
        self.parallel: str = outer.parallel if outer is not None else ""
        """The parallel group in one of whose branches it is, and the run that opened that."""
        self.group = self.words = ""
        """The parallel group of the agents that work inside it; what was said there last."""

    def say(self, words: str) -> None:
        """Something is said here: it is the last thing said wherever this is inside, too."""
        self.agent_run.words = words
        place: Place | None = self
        while place is not None and place.agent_run is self.agent_run:
            place.words, place = words, place.outer

    @property
    def opens_branch(self) -> bool:
        """Whether it is the first agent of a branch of a parallel group."""
        return self.run is not None and self.branch == self.run.id

    @property
    def working(self) -> Run | None:
        """The activation to which what is done here belongs."""
        place: Place | None = self
        while place is not None:
            if place.run is not None:
                return None if place.run.is_over else place.run
            place = place.outer
        return None


_current_place: Final = ContextScope[Place]("simkit_adk_place")
place_now, inside = _current_place.now, _current_place.inside


async def steps(place: Place, events: Any) -> AsyncGenerator[Any, None]:
    """Yield what a generator yields, which works inside a place; its reader does not."""
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
