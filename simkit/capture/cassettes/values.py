"""Values of cassettes: interactions, one request with its response each."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from simkit.providers.http import HttpRequest, HttpResponse

Lane: TypeAlias = tuple[str, int, str]
"""Session, turn and agent; the calls of a lane come one after the other."""
NOBODY: Final[Lane] = ("", 0, "")
"""The lane of interactions without an agent."""


class Origin(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Where an interaction belongs; empty, or 0, where the file does not say."""

    agent: str = ""
    turn: int = 0
    """The turn, from 1."""
    call: int = 0
    """The number of the agent's call in the turn, from 1."""
    session: str = ""
    scenario: str = ""
    """The scenario, if several share a file."""
    protocol: str = ""
    """The protocol's name; empty for requests that are no model calls."""


class Interaction(Origin, frozen=True, gc=False, kw_only=True):
    """One request, with its response."""

    request: HttpRequest
    response: HttpResponse
    recorded_at: str = ""
    """The time of recording, ISO 8601; empty if the file does not say."""


def origin_of(value: Origin) -> dict[str, Any]:
    """Return the fields of an origin, for another value that has one."""
    return {name: getattr(value, name) for name in Origin.__struct_fields__}


class Cassette(msgspec.Struct, frozen=True, gc=False):
    """The interactions of one file, in the order in which they were sent."""

    path: Path
    interactions: tuple[Interaction, ...] = ()
    is_there: bool = True
    """Whether the file exists."""
    places: tuple[int, ...] = ()
    """The index of each interaction in the file, if these are only a part of it."""

    def place_of(self, number: int) -> int:
        """Return the index of an interaction in the file."""
        return self.places[number] if self.places else number


def lane_of(interaction: Interaction) -> Lane:
    """Return the lane in which an interaction was recorded."""
    if not interaction.agent:
        return NOBODY
    return interaction.session, interaction.turn, interaction.agent


def place(number: int) -> str:
    """Return the name of an interaction in messages, by its index in the file."""
    return f"interactions[{number}]"
