"""Handoff tools: the tools that pass control, by rules, then frameworks, then names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Self

from simkit.adapters.handoff_calls import agents_named
from simkit.core.messages import HANDOFF_PREFIX, JsonValue
from simkit.providers.values import Offer

PREFIXES: Final = (HANDOFF_PREFIX, "handoff_to_", "to_")
"""Name prefixes of tools that mostly pass control to the agent named after them."""
_ODD: Final = re.compile(r"[\W_]+")


class HandoffTools:
    """The known handoff tools of one scenario's run.

    A name alone is enough only if it fits exactly one known agent. An agent is known by a rule, by
    a reply line, by its framework, or because it has run.
    """

    def __init__(
        self, tools: Mapping[str, str] | None = None, routers: Mapping[str, str] | None = None
    ) -> None:
        """``tools`` and ``routers`` come from the scenario's rules."""
        self.ruled: Final = {**(tools or {})}
        """Tool to its target agent, by a rule."""
        self.routers: dict[str, str] = {**(routers or {})}
        """Tools that take the target agent as an argument, with that argument."""
        self.version = 0
        """A number that grows with every change."""
        self._learned: dict[str, str] = {}
        self.agents: set[str] = set()
        self._alike: dict[str, set[str]] = {}
        """A normalized name to the agents with that name."""
        self._ordinary: set[str] = set()
        self._unguessed: dict[str, Collection[str]] = {}
        self._carried_out: set[str] = set()
        self._used_names: set[str] = set()

    # Learning

    def learn(self, tools: Mapping[str, str], routers: Mapping[str, str] | None = None) -> None:
        """Add a framework's handoff tools; the scenario's rules take precedence."""
        learned, known = {**self._learned, **tools}, {**self.routers, **(routers or {})}
        if learned != self._learned or known != self.routers:
            self._learned, self.routers = learned, known
            self.version += 1

    def __ior__(self, tools: Mapping[str, str]) -> Self:
        """Add a framework's handoff tools, as `learn` does."""
        self.learn(tools)
        return self

    def learn_new(self, tools: Mapping[str, str]) -> None:
        """Add a framework's handoff tools, without changing known ones."""
        self.learn({tool: to for tool, to in tools.items() if tool not in self._learned})

    def know(self, agents: Iterable[str]) -> None:
        """Add names of agents."""
        for agent in agents:
            if agent not in self.agents:
                self.agents.add(agent)
                self._alike.setdefault(_plain(agent), set()).add(agent)
                self.version += 1

    def keep_ordinary(self, tools: Iterable[str]) -> None:
        """Add tools that pass no control, whatever their names."""
        self._ordinary.update(tools)

    def guess_only(self, agent: str, prefixes: Collection[str]) -> None:
        """Guess the agent of a tool only for names with these prefixes."""
        self._unguessed[agent] = [prefix for prefix in PREFIXES if prefix not in prefixes]

    def see(self, tools: Iterable[str]) -> None:
        """Add tools that a framework executes, so that it shows their results."""
        self._carried_out.update(tools)

    def take(self, tools: Iterable[str]) -> None:
        """Add tools whose arguments go to a function of the application."""
        self._used_names.update(tools)

    # Queries

    def is_taken(self, tool: str) -> bool:
        """Return whether a function of the application gets a tool's payload."""
        return tool in self._used_names

    def target_of(self, tool: str, args: JsonValue = None) -> str | None:
        """Return the target agent of a handoff tool; None for any other tool.

        Empty if only the arguments of a call name it.
        """
        if tool in self.routers:
            named = args.get(self.routers[tool]) if isinstance(args, Mapping) else None
            return named if isinstance(named, str) else ""
        return self.ruled.get(tool) or self._learned.get(tool) or self.guessed(tool)

    def guessed(self, tool: str) -> str | None:
        """Return the one agent that a tool's name fits; None if there is not exactly one."""
        prefix = next(
            (known_prefix for known_prefix in PREFIXES if tool.startswith(known_prefix)), ""
        )
        if not prefix or tool in self._ordinary:
            return None
        if prefix != HANDOFF_PREFIX and tool in self._carried_out:
            return None
        name = tool.removeprefix(prefix)
        alike = {name} & self.agents or self._alike.get(_plain(name)) or set()
        agents = [agent for agent in alike if prefix not in self._unguessed.get(agent, ())]
        return agents[0] if len(agents) == 1 else None

    def passed_by(self, tool: str, args: JsonValue) -> JsonValue:
        """Return a call's payload: its arguments without the agent."""
        argument = self.routers.get(tool)
        if argument is None or not isinstance(args, Mapping):
            return args
        return {name: value for name, value in args.items() if name != argument}

    def among(self, offers: Sequence[Offer]) -> Iterator[tuple[str, str]]:
        """Yield the offered handoff tools, each with its target agent."""
        for offer in offers:
            target = self.target_of(offer.name)
            if target is not None:
                yield offer.name, target

    def targets_of(self, offers: Sequence[Offer]) -> tuple[str, ...] | None:
        """Return the target agents of offered tools; None if a tool does not name its target."""
        agents: dict[str, None] = {}
        for offer in offers:
            argument = self.routers.get(offer.name)
            if argument is None:
                target = self.target_of(offer.name)
                agents.update({target: None} if target else {})
            elif not (named := agents_named(offer.schema, argument)):
                return None
            else:
                agents.update(dict.fromkeys(named))
        return tuple(agents)


def _plain(name: str) -> str:
    """Return an agent's name as in tools: `Refund Agent` and `refund_agent` are `refund`."""
    plain = _ODD.sub("_", name.strip().lower()).strip("_")
    return plain.removesuffix("_agent") or plain
