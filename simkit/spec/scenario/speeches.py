"""Speeches: the messages of a simulated user in a scenario, drawn by chance before the run."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, NamedTuple

from simkit.spec.scenario.simulated_users import END, SimulatedUser, sample


class Speech(NamedTuple):
    """The messages of one simulated user."""

    persona: Mapping[str, Any]
    turns: tuple[Mapping[str, Any], ...]
    """The message of each turn under `user`, with the pause before it, as written."""


def speech_of(user: SimulatedUser, random: Random, most: int) -> Speech:
    """Return at most so many turns of a user, drawn by chance."""
    persona = {name: sample(value, random.choice) for name, value in user.persona.items()}
    turns: list[Mapping[str, Any]] = []
    if user.says is not None:
        messages = [random.choice(user.says) for _ in range(most)]
        return Speech(persona, tuple({"user": message.as_turn} for message in messages))
    name, pauses = user.start or next(iter(user.states)), list[str]()
    while name != END and len(turns) < most:
        state = user.states[name]
        pauses += [random.choice(state.pause)] if state.pause is not None else []
        if state.says is not None:
            pause = {"pause": " ".join(pauses)} if pauses else {}
            turns.append({"user": random.choice(state.says).as_turn, **pause})
            pauses = []
        name = random.choices([*state.then], [*state.then.values()])[0]
    return Speech(persona, tuple(turns))
