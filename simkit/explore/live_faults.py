"""Faults of simulations that run live, drawn for one run, and what is not drawn there.

A failure of a provider is answered in place of the provider, which is sent nothing. Real models
decide their answers and the order of them, so neither is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final

from simkit.explore.choices import ODDS, rare
from simkit.explore.conversations import Subject
from simkit.spec.scenario.model import CUTS
from simkit.spec.scenario.simulations import (
    CRASH,
    DUPLICATE_TURN,
    PROVIDER_FAULTS,
    RESTART,
    TURN_FAULTS,
    Simulation,
)
from simkit.trace.events import ErrorFacts, Event, FaultInjected

CALLS_MAX: Final = 8
"""The number of an agent's calls in one turn that may fail, at most."""
CUTS_OF: Final[Mapping[str, str]] = {"cancel": "cancelled_turn", "crash": "crash"}
"""Key of a turn that ends before its reply, to the fault."""


class LiveFaults:
    """The faults of one run."""

    def __init__(self, simulation: Simulation, chance: Random) -> None:
        """``chance`` is that of the run alone: other faults must not change what users say."""
        faults = simulation.faults
        self.of_turns: Mapping[str, float] = _those(faults, TURN_FAULTS)
        """Share of each fault that happens to turns."""
        self._of_calls = _those(faults, PROVIDER_FAULTS)
        # All are drawn, whether there are such faults or not: a share changes no other one.
        self.fates = [chance.randrange(ODDS) for _ in range(simulation.turns)]
        """The numbers that decide what happens to each turn."""
        self._calls = [
            [chance.randrange(ODDS) for _ in range(CALLS_MAX)] for _ in range(simulation.turns)
        ]

    def need_store(self) -> bool:
        """Return whether a process may end, so that a store must be there from the beginning."""
        kinds = [self.fate(place) for place in range(len(self.fates))]
        return CRASH in kinds or RESTART in kinds[1:]

    def fate(self, place: int) -> str:
        """Return what happens to a turn; empty for nothing."""
        return rare(self.fates[place], self.of_turns) if place < len(self.fates) else ""

    def of_calls(self, place: int) -> dict[str, Any]:
        """Return the faults of the model calls of a turn, as a scenario writes them."""
        numbers = self._calls[place] if place < len(self._calls) else ()
        kinds = [rare(number, self._of_calls) for number in numbers]
        faults = [{"call": n, "error": kind} for n, kind in enumerate(kinds, 1) if kind]
        return {"faults": faults} if faults else {}


def _those(shares: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    return {name: share for name, share in shares.items() if name in names}


def settle(
    turn: dict[str, Any], number: int, events: Sequence[Event], error: ErrorFacts | None
) -> tuple[str, ...]:
    """Take out of a turn, as a scenario writes it, what was drawn and did not take place.

    Return the faults of its model calls that took place, and the one that ended it before its
    reply. ``number`` counts the turn from 1, and ``error`` ended it.
    """
    words = {each.fault for each in events if type(each) is FaultInjected and each.turn == number}
    rules = turn.pop("faults", ())
    left = [rule for rule in rules if f"{rule['error']} on call {rule['call']}" in words]
    if left:
        turn["faults"] = left
    kinds = [str(rule["error"]) for rule in left]
    for key, name in CUTS_OF.items():
        if key not in turn:
            continue
        if error is not None and error.type in CUTS:
            kinds.append(name)
        else:
            del turn[key]
    return tuple(kinds)


def of_turn(turns: Sequence[Mapping[str, Any]], fate: str) -> tuple[str, ...]:
    """Return whether the last turn begins a new process, or says again what the one before did."""
    if "restart" in turns[-1]:
        return (RESTART,)
    is_again = fate == DUPLICATE_TURN and len(turns) > 1 and "user" in turns[-2]
    return (DUPLICATE_TURN,) if is_again else ()


def left_out(subject: Subject) -> Iterator[str]:
    """Yield a line for each key of a simulation that is not drawn in live runs."""
    reasons = {
        "models": "real models answer",
        "misbehaves": "real models leave their interface by themselves",
        "schedule": "models are answered when they answer",
    }
    for key, reason in reasons.items():
        if key in subject.simulation.model_fields_set:
            yield f"`{key}:`, since {reason}"
