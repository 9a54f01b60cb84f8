"""What a cassette holds: interactions, one request with its response each."""

from __future__ import annotations

from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from simkit.providers.http import HttpRequest, HttpResponse

Lane: TypeAlias = tuple[str, int, str]
"""Session, turn, agent: within a lane calls come one after the other."""
NOBODY: Final[Lane] = ("", 0, "")
"""The lane of interactions that do not say who asked."""


class Interaction(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One request that was sent once, and what it was answered."""

    request: HttpRequest
    response: HttpResponse
    agent: str = ""
    """Who asked; empty where the file does not say, as in those of other recorders."""
    turn: int = 0
    """The turn in which it was asked, from 1; 0 where the file does not say."""
    call: int = 0
    """The agent's call in the turn, from 1."""
    session: str = ""
    scenario: str = ""
    """Whose it is, where several scenarios share a file; empty where the file does not say."""
    protocol: str = ""
    """The protocol's name; empty for requests that are no model calls."""
    recorded_at: str = ""
    """ISO 8601; empty where the file does not say."""


class Cassette(msgspec.Struct, frozen=True, gc=False):
    """The interactions of one file, in the order in which they were asked."""

    path: Path
    interactions: tuple[Interaction, ...] = ()
    is_there: bool = True
    """Whether there is such a file."""
    places: tuple[int, ...] = ()
    """Where each interaction stands in the file, if these are only some of its."""

    def place_of(self, number: int) -> int:
        """Return where an interaction stands in the file."""
        return self.places[number] if self.places else number


def lane_of(interaction: Interaction) -> Lane:
    """Return the lane in which an interaction was recorded."""
    if not interaction.agent:
        return NOBODY
    return interaction.session, interaction.turn, interaction.agent


def place(number: int) -> str:
    """Return how messages name one interaction of a cassette, as its file is indexed."""
    return f"interactions[{number}]"
