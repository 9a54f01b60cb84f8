"""Profiles: classes of failure that pipelines meet, as simulations that need no file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from simkit.explore.conversations import Subject
from simkit.spec.scenario.orders import EXHAUSTIVE
from simkit.spec.scenario.simulated_users import SimulatedUser
from simkit.spec.scenario.simulations import (
    CANCELLED_TURN,
    CRASH,
    DUPLICATE_TURN,
    MISBEHAVIOURS,
    RESTART,
)


class Profile(NamedTuple):
    """Failures that happen beside ordinary conversations."""

    faults: Mapping[str, float] = {}
    misbehaves: Mapping[str, float] = {}
    sessions: int = 1
    """The number of conversations at once that each user has."""
    schedule: str | None = None
    """The order in which waiting model calls are answered; None for the simulation's."""
    turns: int = 0
    """The number of turns that a conversation may have at least."""


OVERLOAD: Final = {"rate_limit": 0.1, "overloaded": 0.05, "timeout": 0.05, "server_error": 0.05}
PROFILES: Final[Mapping[str, Profile]] = {
    "overload": Profile(faults=OVERLOAD),
    "chaos": Profile(faults={**OVERLOAD, "connection": 0.05, "cut_stream": 0.1}),
    "models": Profile(misbehaves=dict.fromkeys(MISBEHAVIOURS, 0.05)),
    "users": Profile(faults={DUPLICATE_TURN: 0.1, CANCELLED_TURN: 0.15}, sessions=3),
    "races": Profile(schedule="pct"),
    "restarts": Profile(faults={RESTART: 0.3, CRASH: 0.1}),
    "long": Profile(turns=16),
}


def with_profile(subject: Subject, name: str) -> Subject:
    """Return a subject to which a profile's failures happen, too; its own shares stay."""
    profile, simulation = PROFILES[name], subject.simulation
    users = {
        user: _with_sessions(simulated, profile.sessions)
        for user, simulated in simulation.users.items()
    }
    schedule = simulation.schedule
    if profile.schedule is not None and schedule != EXHAUSTIVE:  # It has every order already.
        schedule = profile.schedule
    changed = simulation.model_copy(
        update={
            "faults": {**profile.faults, **simulation.faults},
            "misbehaves": {**profile.misbehaves, **simulation.misbehaves},
            "users": users,
            "schedule": schedule,
            "turns": max(simulation.turns, profile.turns),
        }
    )
    added = profile.faults.keys() - simulation.faults.keys()
    return msgspec.structs.replace(subject, simulation=changed, of_profile=frozenset(added))


def _with_sessions(user: SimulatedUser, sessions: int) -> SimulatedUser:
    return user.model_copy(update={"sessions": max(user.sessions, sessions)})
