"""The tools that a request lets a model call, and whether the model must call one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from simkit.core.messages import Calls
from simkit.runtime.ports import ModelRequest

ACTIONS_MAX: Final = 4
"""The number of answers of an agent in one turn that act: call tools or pass control.

A model may go on for ever. That the pipeline then ends at its limit is no fault of the pipeline.
"""
_FORCED: Final = frozenset(("required", "any"))
"""The words by which a request says that some tool must be called; compatible servers say `any`."""


class TurnCalls:
    """The calls of each agent in a turn, by which it may call some tools next, and others not."""

    def __init__(self) -> None:
        self._called: Counter[tuple[str, str]] = Counter()
        self._actions: Counter[str] = Counter()

    def act(self, agent: str) -> None:
        """Count an action of an agent."""
        self._actions[agent] += 1

    def add(self, agent: str, calls: Calls) -> None:
        """Count the calls of an answer."""
        self._called.update((agent, call.tool) for call in calls.calls)

    def has_acted_enough(self, agent: str) -> bool:
        """Return whether an agent has acted as often as it may in a turn, if it may stop."""
        return self._actions[agent] >= ACTIONS_MAX

    def tools_for(self, request: ModelRequest) -> tuple[Sequence[str], bool]:
        """Return the tools that the model may call, and whether it must call one.

        A model that must would never end a loop by itself. So it comes to the tool that ends it:
        after some actions it calls only those that it has called least.
        """
        tools, choice, allowed = request.tools, request.choice, request.allowed
        if allowed is not None:
            tools = tuple(tool for tool in tools if tool in allowed)
        if choice in tools:
            return (choice,), True
        if choice == "none":
            return (), False
        is_forced = choice in _FORCED and bool(tools)
        if is_forced and self.has_acted_enough(request.agent):
            return self._least_called(request.agent, tools), True
        return tools, is_forced

    def tool_in_place(self, request: ModelRequest) -> str | None:
        """Return the tool that a model calls in place of an action that it has done often enough.

        None if it need not call one.
        """
        tools, is_forced = self.tools_for(request)
        if not is_forced:
            return None
        return self._least_called(request.agent, tools)[0]

    def _least_called(self, agent: str, tools: Sequence[str]) -> list[str]:
        counts = {tool: self._called[agent, tool] for tool in tools}
        least = min(counts.values())
        return [tool for tool, count in counts.items() if count == least]
