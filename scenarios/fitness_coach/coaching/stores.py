"""What outlives conversations: notes of the coaches, and long-term memories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

NOTE_DAYS = 3
NOTES_MAX = 5
MEMORIES_MAX = 20
THRESHOLD = 0.79


def moment(text: str) -> datetime:
    """Reads a time; without a zone it is UTC."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


class CoachNotes:
    """Notes of all coaches, for all coaches."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.now = now
        self.items: list[dict[str, Any]] = []

    def recent(self) -> list[dict[str, Any]]:
        """Returns the newest notes of the last days, the newest first."""
        if not self.items:
            return []
        since = self.now() - timedelta(days=NOTE_DAYS)
        found = [note for note in self.items if moment(note["at"]) >= since]
        found.sort(key=lambda note: moment(note["at"]), reverse=True)
        return found[:NOTES_MAX]


class Memories:
    """Long-term memories; how near each is to the question is known."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []

    def search(self, time_ranges: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
        """Returns what is near enough, and in one of the time ranges, the nearest first."""
        found = [
            memory
            for memory in self.items
            if memory.get("score", 0) >= THRESHOLD and _is_in(memory, time_ranges)
        ]
        found.sort(key=lambda memory: memory["score"], reverse=True)
        return found[:MEMORIES_MAX]


def _is_in(memory: Mapping[str, Any], time_ranges: Sequence[Mapping[str, str]]) -> bool:
    day = moment(memory["at"]).date().isoformat()
    return not time_ranges or any(one["from"] <= day <= one["to"] for one in time_ranges)


coach_notes = CoachNotes(lambda: datetime.now(UTC))
memories = Memories()
