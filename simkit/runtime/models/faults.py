"""Planned misbehaviour of models: which calls fail, by count and by seed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from simkit.core.messages import Answer, Fails
from simkit.core.rng import Chance
from simkit.runtime.ports import ModelRequest, TurnModel
from simkit.spec.scenario.faults import Fault
from simkit.trace.events import UnusedLines


class Planned(msgspec.Struct, frozen=True, gc=False):
    """A failure that takes the place of an answer."""

    fails: Fails
    number: int
    """Which of its agent's calls in the turn it is, from 1."""

    @property
    def words(self) -> str:
        """``rate_limit on call 2``."""
        return f"{self.fails.kind} on call {self.number}"


class FaultPlan:
    """Says of each model call whether it fails; counts begin anew with every turn.

    What is drawn for one call depends on the seed, the turn, the agent and the call's number, and
    on no other draw.
    """

    def __init__(
        self, turns: Sequence[Sequence[Fault]] = (), always: Sequence[Fault] = (), seed: int = 0
    ) -> None:
        """``turns`` may grow; ``always`` holds in each."""
        self._turns, self._always = turns, tuple(always)
        self._chance = Chance(seed).child("faults")
        self._place = 0
        self._calls: dict[str, int] = {}

    def begin_turn(self, place: int) -> None:
        """Take what belongs to the turn at this place (from 0)."""
        self._place, self._calls = place, {}

    def due(self, agent: str) -> Planned | None:
        """Count a model call of an agent; return how it fails, or None. The first fault wins."""
        number = self._calls[agent] = self._calls.get(agent, 0) + 1
        own = self._turns[self._place] if self._place < len(self._turns) else ()
        for which, fault in enumerate((*own, *self._always)):
            if fault.agent in (None, agent) and self._strikes(fault, which, agent, number):
                return Planned(fault.failure(), number)
        return None

    def _strikes(self, fault: Fault, which: int, agent: str, number: int) -> bool:
        if fault.share is None:
            return fault.call <= number < fault.call + fault.times
        draw = self._chance.child(f"{self._place}/{agent}/{number}/{which}")
        return draw.random.random() < fault.share


class FaultyModel:
    """A model that fails where that is planned, and is asked only where it is not."""

    def __init__(self, model: TurnModel, plan: FaultPlan) -> None:
        self._model, self._plan = model, plan

    def begin_turn(self, place: int) -> None:
        """Take what belongs to the turn at this place (from 0)."""
        self._plan.begin_turn(place)
        self._model.begin_turn(place)

    def begin_group(self, agents: Sequence[str]) -> None:
        """Is told which agents now run in parallel."""
        self._model.begin_group(agents)

    def answer(self, request: ModelRequest) -> Answer:
        """Return the planned failure, or what the model answers."""
        planned = self._plan.due(request.agent)
        if planned is None:
            return self._model.answer(request)
        return Answer(planned.fails, fault=planned.words)

    def unused(self) -> tuple[UnusedLines, ...]:
        """Return the turn's answers that nobody asked for."""
        return self._model.unused()
