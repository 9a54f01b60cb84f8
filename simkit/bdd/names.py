"""Spoken names: ``the workout coach`` is `workout_coach`, if the pipeline has one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from simkit.spec.pipeline.agents import channels_of, members_of, sections_of
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.known import Subject


class Names:
    """The names of one pipeline, recognised by their letters and digits alone.

    A name that the pipeline does not have stays as it is said, so that what reads the scenario
    says what is wrong with it.
    """

    def __init__(self, pipeline: Subject | None = None) -> None:
        self.schemas: Mapping[str, Any] = {}
        self._agents: dict[str, str] = {}
        self._channels: dict[str, str] = {}
        self._sections: dict[str, str] = {}
        self._types: dict[str, str] = {}
        if pipeline is None:
            return
        if isinstance(pipeline, App):
            self._agents = _by_spelling(pipeline.agents)
            return
        self.schemas = pipeline.schemas
        self._agents = _by_spelling(members_of(pipeline))
        self._channels = _by_spelling(channels_of(pipeline))
        self._types = _by_spelling(
            contract.type for contract in pipeline.contracts if contract.type
        )
        self._sections = _by_spelling(
            name for agent in pipeline.agents for name in sections_of(pipeline, agent)
        )

    def agent(self, text: str) -> str:
        """Return the name of an agent."""
        return self._agents.get(_spelled(text), text)

    def channel(self, text: str) -> str:
        """Return the name of a channel."""
        return self._channels.get(_spelled(text), text)

    def section(self, text: str) -> str:
        """Return the name of a section."""
        return self._sections.get(_spelled(text), text)

    def handoff_type(self, text: str) -> str:
        """Return the name of a handoff's type."""
        return self._types.get(_spelled(text), text)


def _by_spelling(names: Iterable[str]) -> dict[str, str]:
    return {_spelled(name): name for name in names}


def _spelled(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
