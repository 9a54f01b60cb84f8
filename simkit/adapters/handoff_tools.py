"""Which tools pass control, and to whom: rules say it, then frameworks, then the tools' names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Self

from simkit.adapters.handoff_calls import agents_named
from simkit.core.messages import HANDOFF_PREFIX, JsonValue
from simkit.providers.values import Offer

PREFIXES: Final = (HANDOFF_PREFIX, "handoff_to_", "to_")
"""How the names of tools begin that mostly pass control to the agent named behind."""
_ODD: Final = re.compile(r"[\W_]+")


class HandoffTools:
    """What is known of tools that pass control, in one scenario's run.

    A name alone makes no handoff: there must be exactly one agent that it fits. An agent is known
    by a rule, by a reply line, by its framework, or because it has worked.
    """

    def __init__(
        self, tools: Mapping[str, str] | None = None, routers: Mapping[str, str] | None = None
    ) -> None:
        """``tools`` and ``routers`` are what the scenario's rules say."""
        self.ruled: Final = {**(tools or {})}
        """Tool to the agent to which it passes control, by a rule."""
        self.routers: dict[str, str] = {**(routers or {})}
        """Tools that pass control to the agent that an argument names, with that argument."""
        self.version = 0
        """Grows whenever something is learned."""
        self._learned: dict[str, str] = {}
        self._agents: set[str] = set()
        self._alike: dict[str, set[str]] = {}
        """A name without its spelling to the agents that are called so."""
        self._ordinary: set[str] = set()
        self._unguessed: dict[str, Collection[str]] = {}
        self._carried_out: set[str] = set()
        self._used_names: set[str] = set()

    # What there is to know

    def learn(self, tools: Mapping[str, str], routers: Mapping[str, str] | None = None) -> None:
        """Take down what a framework says of its tools; the scenario's rules hold against it."""
        learned, known = {**self._learned, **tools}, {**self.routers, **(routers or {})}
        if learned != self._learned or known != self.routers:
            self._learned, self.routers = learned, known
            self.version += 1

    def __ior__(self, tools: Mapping[str, str]) -> Self:
        """Take down what a framework says of its tools, as `learn` does."""
        self.learn(tools)
        return self

    def learn_new(self, tools: Mapping[str, str]) -> None:
        """Take down what a framework says of tools of which nothing was said before."""
        self.learn({tool: to for tool, to in tools.items() if tool not in self._learned})

    def know(self, agents: Iterable[str]) -> None:
        """Take down the names of agents."""
        for agent in agents:
            if agent not in self._agents:
                self._agents.add(agent)
                self._alike.setdefault(_plain(agent), set()).add(agent)
                self.version += 1

    def keep_ordinary(self, tools: Iterable[str]) -> None:
        """Take down tools that pass control to nobody, whatever their names."""
        self._ordinary.update(tools)

    def guess_only(self, agent: str, prefixes: Collection[str]) -> None:
        """Guess of no other names than those with these prefixes that they mean an agent."""
        self._unguessed[agent] = [prefix for prefix in PREFIXES if prefix not in prefixes]

    def see(self, tools: Iterable[str]) -> None:
        """Take down tools that a framework carries out, so that it shows what comes of them."""
        self._carried_out.update(tools)

    def take(self, tools: Iterable[str]) -> None:
        """Take down tools whose arguments go to a function of the application."""
        self._used_names.update(tools)

    # What follows from it

    def is_taken(self, tool: str) -> bool:
        """Return whether a function of the application is given what a tool passes on."""
        return tool in self._used_names

    def target_of(self, tool: str, args: JsonValue = None) -> str | None:
        """Return the agent to which a tool passes control, if it does; empty where only the
        arguments of a call say that."""
        if tool in self.routers:
            named = args.get(self.routers[tool]) if isinstance(args, Mapping) else None
            return named if isinstance(named, str) else ""
        return self.ruled.get(tool) or self._learned.get(tool) or self.guessed(tool)

    def guessed(self, tool: str) -> str | None:
        """Return the one agent that a tool's name names; None where there is not exactly one."""
        prefix = next(
            (known_prefix for known_prefix in PREFIXES if tool.startswith(known_prefix)), ""
        )
        if not prefix or tool in self._ordinary:
            return None
        if prefix != HANDOFF_PREFIX and tool in self._carried_out:
            return None
        name = tool.removeprefix(prefix)
        alike = {name} & self._agents or self._alike.get(_plain(name)) or set()
        agents = [agent for agent in alike if prefix not in self._unguessed.get(agent, ())]
        return agents[0] if len(agents) == 1 else None

    def passed_by(self, tool: str, args: JsonValue) -> JsonValue:
        """Return what a call passes on: its arguments without the one that names the agent."""
        argument = self.routers.get(tool)
        if argument is None or not isinstance(args, Mapping):
            return args
        return {name: value for name, value in args.items() if name != argument}

    def among(self, offers: Sequence[Offer]) -> Iterator[tuple[str, str]]:
        """Yield the offered tools that pass control, each with the agent that gets it."""
        for offer in offers:
            target = self.target_of(offer.name)
            if target is not None:
                yield offer.name, target

    def targets_of(self, offers: Sequence[Offer]) -> tuple[str, ...] | None:
        """Return the agents to which offered tools pass control; None where one does not say."""
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
    """Return an agent's name as tools write it: `Refund Agent` and `refund_agent` are `refund`."""
    plain = _ODD.sub("_", name.strip().lower()).strip("_")
    return plain.removesuffix("_agent") or plain
