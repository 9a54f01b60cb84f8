"""The names that a scenario may use: those of its pipeline, or any, where that is code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from simkit.pipeline.cast import channels_of, members_of, sections_of, tools_of
from simkit.pipeline.model import Pipeline
from simkit.pipeline.recipe import KINDS, items_of
from simkit.scenario.apps import App
from simkit.shape import ANYTHING

Subject: TypeAlias = Pipeline | App
"""What a scenario is about."""


class Known(msgspec.Struct, frozen=True):
    """Names by what they name; ANYTHING where nobody can say beforehand."""

    agents: Sequence[str]
    channels: Sequence[str]
    tools: Sequence[str]
    sections: Sequence[str]
    filters: Sequence[str]
    """The pipeline's own history filters."""
    declared_tools: Sequence[str]
    """The tools that the pipeline has, whether an agent is offered them or not."""
    all_sections: frozenset[str]
    """The sections that some recipe has, and those that any may have."""
    sections_of: Callable[[str], Sequence[str]]
    tools_of: Callable[[str], Sequence[str]]


def known_in(subject: Subject) -> Known:
    """Returns the names that a pipeline declares."""
    if isinstance(subject, App):
        return Known(
            ANYTHING, ANYTHING, ANYTHING, ANYTHING, ANYTHING, ANYTHING, frozenset(),
            lambda agent: ANYTHING, lambda agent: ANYTHING,
        )  # fmt: skip
    members = members_of(subject)
    definitions = dict.fromkeys(members.values())
    tools = tuple(
        dict.fromkeys(tool for name in subject.agents for tool in tools_of(subject, name))
    )
    sections = tuple(
        dict.fromkeys(name for one in definitions for name in sections_of(subject, one))
    )
    return Known(
        tuple(members),
        channels_of(subject),
        tools,
        sections,
        _own_filters(subject),
        tuple(dict.fromkeys((*tools, *subject.tools))),
        frozenset((*sections, *KINDS)),
        lambda agent: sections_of(subject, members[agent]),
        lambda agent: tools_of(subject, members[agent]),
    )


def _own_filters(pipeline: Pipeline) -> tuple[str, ...]:
    """The pipeline's filters that are the user's functions."""
    found: list[str] = []
    for name in pipeline.agents:
        for item in items_of(pipeline.recipe_of(name)):
            filters = item.history.filters if item.history is not None else ()
            found += [one for one in filters if isinstance(one, str) and ":" in one]
    return tuple(dict.fromkeys(found))
