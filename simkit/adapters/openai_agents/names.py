"""Names of agents in a trace, and their handoff tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agents import Agent, Handoff

from simkit.adapters.openai_agents import compat


class Names:
    """The names of one scenario's agents.

    Agents with one name that can hand off to each other get numbers. Others with one name are one
    agent: code may make its agents again for every message.
    """

    def __init__(self, ruled: Mapping[str, str]) -> None:
        """``ruled`` are the handoff tools in the scenario's rules."""
        self._ruled = ruled
        self._names: dict[int, tuple[Any, str]] = {}
        """Names by identity; the agent is kept, so that no other object gets its id."""

    def meet(self, first: Any) -> None:
        """Name an agent, and all that it can hand off to."""
        if id(first) in self._names:
            return
        names: dict[str, int] = {}
        for agent in reachable(first):
            number = names[agent.name] = names.get(agent.name, 0) + 1
            name = agent.name if number == 1 else f"{agent.name} ({number})"
            self._names.setdefault(id(agent), (agent, name))
            for tool, target in _handoffs_of(agent):
                if tool in self._ruled and target is not None:
                    self._names[id(target)] = target, self._ruled[tool]

    def of(self, agent: Any) -> str:
        """Return an agent's name."""
        known = self._names.get(id(agent))
        return known[1] if known is not None else agent.name

    def handoffs_of(self, agent: Any) -> dict[str, str]:
        """Return an agent's handoff tools, with their target agents."""
        return {
            tool: self.of(target) if target is not None else handoff.agent_name
            for handoff, (tool, target) in zip(agent.handoffs, _handoffs_of(agent), strict=True)
        }


def _handoffs_of(agent: Any) -> list[tuple[str, Any]]:
    """Return an agent's handoff tools, each with its target, if known."""
    return [
        (
            handoff.tool_name
            if isinstance(handoff, Handoff)
            else Handoff.default_tool_name(handoff),
            target_of(handoff),
        )
        for handoff in agent.handoffs
    ]


def taken_by(agent: Any) -> list[str]:
    """Return the tools whose arguments go to a function: ``on_handoff``, or the caller's own."""
    return [
        handoff.tool_name
        for handoff in agent.handoffs
        if isinstance(handoff, Handoff) and handoff.input_json_schema.get("properties")
    ]


def target_of(handoff: Any) -> Any:
    """Return the agent of a handoff; None if only the caller's function knows it."""
    if isinstance(handoff, Agent):
        return handoff
    known = getattr(handoff, compat.AGENT_REF, None)
    return known() if known is not None else None


def reachable(agent: Any) -> Iterator[Any]:
    """Yield an agent and those that it can hand off to, each once, nearest first."""
    agents, visited = [agent], {id(agent)}
    for reached in agents:
        yield reached
        for target in map(target_of, reached.handoffs):
            if target is not None and id(target) not in visited:
                visited.add(id(target))
                agents.append(target)
