"""The answers of one explored conversation so far, as a scenario has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simkit.core.errors import ReplyMissing, ScriptMisfit
from simkit.core.messages import JsonValue
from simkit.explore.choices import Source
from simkit.explore.reach import Part, parts_of
from simkit.spec.scenario.simulations import Simulation


class Scene:
    """The choices of one conversation, and the answers of its models and tools so far."""

    def __init__(
        self,
        source: Source,
        simulation: Simulation,
        lines: Mapping[str, Sequence[Any]],
        shares: Mapping[str, float],
    ) -> None:
        """``lines`` are those of the simulation, as data; ``shares`` of what is rare in answers."""
        self.source, self.simulation, self.lines, self.shares = source, simulation, lines, shares
        self.persona: Mapping[str, Any] = {}
        """The persona of the user who speaks."""
        self.replies: list[dict[str, list[Any]]] = []
        """The answers of models, turn by turn, as a scenario has them."""
        self.results: list[dict[str, list[Any]]] = []
        """The answers of tools, turn by turn, as a scenario has them."""
        self.questions: set[Any] = set()
        """Session, agent and question of each interrupt so far."""
        self.tool_args: dict[str, JsonValue] = {}
        """For code: the tools that models were offered, with the schemas of their arguments."""
        self.offered: set[Part] = set()
        """The tools and handoffs that models were offered."""
        self._offers: set[tuple[str, tuple[str, ...], tuple[str, ...]]] = set()
        """The offers of model calls so far: an agent's are the same in most of them."""
        self.reached: set[Part] = set()
        """The tools and handoffs that models asked for."""
        self.misfit: ScriptMisfit | None = None
        """The error of a line that did not fit the request; None if all did."""
        self.faults: list[set[str]] = []
        """The faults of providers, turn by turn."""
        self._given: list[dict[tuple[str, str], list[Any]]] = []
        """Turn by turn, the answers of each agent and each tool."""
        self._again: dict[tuple[str, str], list[Any]] | None = None
        """The answers that a turn which runs again has still to get; None in a new turn."""

    def offer(self, agent: str, tools: tuple[str, ...], handoffs: tuple[str, ...]) -> None:
        """Note what a model call of an agent offers."""
        offer = agent, tools, handoffs
        if offer not in self._offers:
            self._offers.add(offer)
            self.offered.update(parts_of(*offer))

    def begin_turn(self, place: int) -> None:
        """Begin a turn, or run one again that waits for the user: in a new process it does."""
        self._again = None
        if place < len(self._given):
            self._again = {key: [*answers] for key, answers in self._given[place].items()}
            return
        self._given.append({})
        self.replies.append({})
        self.results.append({})
        self.faults.append(set())

    def keep(self, noun: str, name: str, answer: Any) -> None:
        """Keep the answer of an agent or a tool for a turn that runs again."""
        self._given[-1].setdefault((noun, name), []).append(answer)

    def again(self, noun: str, name: str) -> Any:
        """Return the next answer of an agent or a tool in a turn that runs again; None in others.

        Raise ReplyMissing if it asks for more than it did before.
        """
        if self._again is None:
            return None
        answers = self._again.get((noun, name))
        if not answers:
            raise ReplyMissing(f"{noun} {name!r} was not asked so often when the turn first ran.")
        return answers.pop(0)
