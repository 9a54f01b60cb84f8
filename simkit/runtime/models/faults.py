"""Planned faults of models: the calls that fail, by count and by seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from simkit.core.errors import ProcessCrashed, ScriptMisfit, TurnCancelled, TurnCut
from simkit.core.messages import Answer, Fails
from simkit.core.rng import Chance
from simkit.runtime.ports import ModelRequest, TurnModel
from simkit.spec.scenario.replies import Fault, Moment


class Planned(msgspec.Struct, frozen=True, gc=False):
    """A failure in place of an answer."""

    fails: Fails
    number: int
    """The number of its agent's call in the turn, from 1."""

    @property
    def words(self) -> str:
        """Return ``rate_limit on call 2``."""
        return f"{self.fails.kind} on call {self.number}"


class Cut(msgspec.Struct, frozen=True, gc=False):
    """The moment at which a turn ends before its reply."""

    key: str
    """`cancel` or `crash`."""
    moment: Moment

    def due(self, agent: str, number: int, total: int) -> TurnCut | None:
        """Return the end of the turn; None if a call is not the one.

        ``number`` counts the agent's calls in the turn, ``total`` those of all agents.
        """
        own = self.moment.agent
        if own not in (None, agent) or self.moment.call != (total if own is None else number):
            return None
        if self.key == "crash":
            return ProcessCrashed(f"the process ended at {self.words}", f"crash at {self.words}")
        return TurnCancelled(
            f"the user cancelled the turn at {self.words}", f"cancel at {self.words}"
        )

    @property
    def words(self) -> str:
        """Return ``call 2 of billing``."""
        agent = self.moment.agent
        return f"call {self.moment.call}{f' of {agent}' if agent else ''}"


class FaultPlan:
    """Decides for each model call whether it fails; counts begin again with every turn.

    The draw for a call depends on the seed, the turn, the agent and the call's number only.
    """

    def __init__(
        self,
        turns: Sequence[Sequence[Fault]] = (),
        always: Sequence[Fault] = (),
        seed: int = 0,
        cuts: Mapping[int, Cut] = {},
    ) -> None:
        """``turns`` and ``cuts``, by the index of their turn, may grow.

        ``always`` applies to each turn.
        """
        self._turns, self._always, self._cuts = turns, tuple(always), cuts
        self._chance = Chance(seed).child("faults")
        self._place = 0
        self._calls: dict[str, int] = {}
        self.faults: tuple[Fault, ...] = ()
        """The faults of the current turn."""
        self.is_certain = True
        """Whether a turn that cannot end at its moment is an error; else it goes on."""
        self.cut: Cut | None = None
        """The end of the current turn, until it took place."""

    def begin_turn(self, place: int) -> None:
        """Begin the turn at this index."""
        self._place, self._calls = place, {}
        own = self._turns[place] if place < len(self._turns) else ()
        self.faults = (*own, *self._always)
        self.cut = self._cuts.get(place) if self._cuts else None

    def check_cut(self) -> None:
        """Raise ScriptMisfit if the turn was to end at a call that it did not make."""
        if self.cut is not None and self.is_certain:
            key, calls = self.cut.key, ", ".join(f"{n} of {a}" for a, n in self._calls.items())
            raise ScriptMisfit(
                f"turn {self._place + 1} ended before its `{key}`, {self.cut.words}: its model "
                f"calls were {calls or 'none'}.\nName a call that it makes.",
                ("turns", self._place, key),
            )

    def due(self, agent: str) -> Planned | TurnCut | None:
        """Count a model call of an agent; return its failure, or None. The first fault wins.

        The end of the turn comes before any failure; it takes place once.
        """
        number = self._calls[agent] = self._calls.get(agent, 0) + 1
        if self.cut is not None:
            cut = self.cut.due(agent, number, sum(self._calls.values()))
            if cut is not None:
                self.cut = None
                return cut
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
        model, plan = self._model, self._plan
        has_faults = bool(plan.faults) or plan.cut is not None
        self.answer = self._answer if has_faults else model.answer
        self.at_hand = _nothing if has_faults else model.at_hand

    def _answer(self, request: ModelRequest) -> Answer:
        """Return the planned failure, or the other model's answer; raise TurnCut."""
        planned = self._plan.due(request.agent)
        if planned is None:
            return self._model.answer(request)
        if isinstance(planned, TurnCut):
            raise planned
        return Answer(planned.fails, fault=planned.words)


def _nothing(agent: str) -> None:
    """Return no answer."""
