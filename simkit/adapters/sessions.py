"""What a scribe knows of one conversation."""

from __future__ import annotations

from simkit.adapters.activations import Asked
from simkit.adapters.readings import Readings
from simkit.adapters.streams import Print, SentStream
from simkit.messages import Message


class Session:
    """What is known of one conversation."""

    def __init__(self) -> None:
        self.log: dict[Print, list[int]] = {}
        """What was said, by what makes it the same."""
        self.latest: dict[Print, Message] = {}
        """Of those that are the same, the one that was said last."""
        self.repeats = 0
        """How many were said that had been said before."""
        self.voices: dict[str, str] = {}
        """Who said a text, so that one of which a filter took the calls is known again."""
        self.streams: dict[str, SentStream] = {}
        self.readings = Readings()
        """What each agent was sent last, and what each list held when it was told whole."""
        self.asked: dict[str, Asked] = {}
        """Tool calls by id."""
        self.ids: dict[str, str] = {}
        """Foreign ids of calls to ours."""

    def served(self, ours: str, prefix: str) -> str:
        """Returns the id of our call as a provider writes it, by which it is known again."""
        made = f"{prefix}{ours.removeprefix('call'):0>24}" if prefix else ours
        self.ids[made] = ours
        return made
