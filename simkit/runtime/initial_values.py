"""What a scenario gives, and which session gets which part of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from simkit.core.messages import JsonValue


class Gifts:
    """Every session begins with what is given; longer-lived channels get it once."""

    def __init__(
        self,
        initial_state: Mapping[str, JsonValue],
        scope_of: Callable[[str], str],
        project: str | None = None,
    ) -> None:
        """``project`` is the one that has what is given to one; else the first session's is."""
        self._initial_state, self._scope_of, self._project = initial_state, scope_of, project
        self._owners: set[str] = set()

    def had(self, project: str) -> None:
        """A session of a project has had its part already."""
        self._owners |= {"", project}

    def for_session(self, project: str) -> dict[str, JsonValue]:
        """Returns what a new session of a project begins with."""
        if self._project is None:
            self._project = project
        values = {}
        for name, value in self._initial_state.items():
            owner = {"global": "", "project": project}.get(self._scope_of(name))
            is_others = bool(owner) and owner != self._project
            if owner is None or not (owner in self._owners or is_others):
                values[name] = value
        self.had(project)
        return values
