"""Planned faults of models: the calls that fail, by count and by seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from simkit.core.messages import Answer, Fails
from simkit.core.rng import Chance
from simkit.runtime.ports import ModelRequest, TurnModel
from simkit.spec.scenario.replies import Fault


class Planned(msgspec.Struct, frozen=True, gc=False):
    """A failure in place of an answer."""

    fails: Fails
    number: int
    """The number of its agent's call in the turn, from 1."""

    @property
    def words(self) -> str:
        """Return ``rate_limit on call 2``."""
        return f"{self.fails.kind} on call {self.number}"


class FaultPlan:
    """Decides for each model call whether it fails; counts begin again with every turn.

    The draw for a call depends on the seed, the turn, the agent and the call's number only.
    """

    def __init__(
        self, turns: Sequence[Sequence[Fault]] = (), always: Sequence[Fault] = (), seed: int = 0
    ) -> None:
        """``turns`` may grow; ``always`` applies to each."""
        self._turns, self._always = turns, tuple(always)
        self._chance = Chance(seed).child("faults")
        self._place = 0
        self._calls: dict[str, int] = {}
        self.faults: tuple[Fault, ...] = ()
        """The faults of the current turn."""

    def begin_turn(self, place: int) -> None:
        """Begin the turn at this index."""
        self._place, self._calls = place, {}
        own = self._turns[place] if place < len(self._turns) else ()
        self.faults = (*own, *self._always)

    def due(self, agent: str) -> Planned | None:
        """Count a model call of an agent; return its failure, or None. The first fault wins."""
        number = self._calls[agent] = self._calls.get(agent, 0) + 1
        for which, fault in enumerate(self.faults):
            if fault.agent in (None, agent) and self._strikes(fault, which, agent, number):
                return Planned(fault.failure(), number)
        return None

    def _strikes(self, fault: Fault, which: int, agent: str, number: int) -> bool:
        if fault.share is None:
            return fault.call <= number < fault.call + fault.times
        draw = self._chance.child(f"{self._place}/{agent}/{number}/{which}")
        return draw.random.random() < fault.share


class FaultyModel:
    """A model with planned failures in front of another model."""

    def __init__(self, model: TurnModel, plan: FaultPlan) -> None:
        self._model, self._plan = model, plan
        self.answer = model.answer
        """Answers a call: a turn without planned faults asks the other model itself."""
        self.at_hand: Callable[[str], Answer | None] = model.at_hand
        """Returns the answer at hand; None in a turn with planned faults."""
        self.begin_group, self.unused = model.begin_group, model.unused

    def begin_turn(self, place: int) -> None:
        """Begin the turn at this index."""
        self._plan.begin_turn(place)
        self._model.begin_turn(place)
        model, has_faults = self._model, bool(self._plan.faults)
        self.answer = self._answer if has_faults else model.answer
        self.at_hand = _nothing if has_faults else model.at_hand

    def _answer(self, request: ModelRequest) -> Answer:
        """Return the planned failure, or the other model's answer."""
        planned = self._plan.due(request.agent)
        if planned is None:
            return self._model.answer(request)
        return Answer(planned.fails, fault=planned.words)


def _nothing(agent: str) -> None:
    """Return no answer."""
