"""Spoken names: ``the workout coach`` is `workout_coach`, if the pipeline has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from simkit.spec.pipeline.agents import channels_of, members_of, sections_of
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.known import Subject


class Names:
    """The names of one pipeline, recognized by their letters and digits alone.

    An unknown name stays as it is, so that validation of the scenario reports it.
    """

    def __init__(self, pipeline: Subject | None = None) -> None:
        self.schemas: Mapping[str, Any] = {}
        names: dict[str, Iterable[str]] = {}
        if isinstance(pipeline, App):
            names = {"agent": pipeline.agents, "source": pipeline.agents}
        elif pipeline is not None:
            self.schemas = pipeline.schemas
            agents = members_of(pipeline)
            sections = [name for agent in pipeline.agents for name in sections_of(pipeline, agent)]
            names = {
                "agent": agents,
                "channel": channels_of(pipeline),
                "section": sections,
                "source": [*sections, *agents],
                "handoff_type": filter(None, (each.type for each in pipeline.contracts)),
            }
        self._by_noun = {
            noun: {_spelled(name): name for name in known} for noun, known in names.items()
        }

    def find(self, noun: str, text: Any) -> Any:
        """Return the pipeline's name for a spoken one, or the names for a list."""
        if isinstance(text, list):
            return [self.find(noun, each) for each in text]
        return self._by_noun.get(noun, {}).get(_spelled(text), text)


def _spelled(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
