"""Virtual time: it jumps when nothing is runnable, so that sleeping costs nothing."""

from __future__ import annotations

from datetime import datetime, timedelta

from simkit.core.errors import Unsupported


class VirtualClock:
    """A clock of milliseconds since the scenario's start."""

    __slots__ = ("last_iso", "now", "paused_ms", "start")

    def __init__(self, start: str) -> None:
        self.now = 0
        """The current time in milliseconds."""
        self.paused_ms = 0
        """The part of it that the scenario let pass between turns."""
        self.start = datetime.fromisoformat(start)
        self.last_iso = (-1, "")
        """The last time that was asked for, and its text."""

    def moment(self) -> datetime:
        """Return the virtual date and time."""
        return self._after(self.now) if self.now else self.start

    def iso(self, at: int) -> str:
        """Return a time as ISO 8601 text; the last one is cached."""
        if self.last_iso[0] != at:
            text = self._after(at).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            self.last_iso = at, text
        return self.last_iso[1]

    def _after(self, at: int) -> datetime:
        try:
            return self.start + timedelta(milliseconds=at)
        except OverflowError:
            raise Unsupported(
                f"the scenario's time passes the year 9999: it starts at {self.start.isoformat()}, "
                f"and {at:,} ms have passed\n  Write an earlier `start`."
            ) from None

    def advance_to(self, at: int) -> None:
        """Advance to a time in milliseconds; one that has passed changes nothing."""
        if at > self.now:
            self.now = at
