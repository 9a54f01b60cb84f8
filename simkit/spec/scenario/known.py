"""The names that a scenario may use: those of its pipeline, or any if the pipeline is code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from simkit.language.matching import kinds
from simkit.language.matching.kinds import Kind
from simkit.language.yaml import Open
from simkit.spec.fields import ANYTHING
from simkit.spec.lint_catalogue import LINTS
from simkit.spec.pipeline.agents import (
    channels_of,
    members_of,
    sections_of,
    spoken_channels,
    tools_of,
)
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.pipeline.recipe import FILTERS, FILTERS_WITH_OPTIONS, Recall, items_of
from simkit.spec.pipeline.recipe import KINDS as SECTION_KINDS
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.value_names import ValueSchemas, schemas_in
from simkit.trace.events import KINDS

Subject: TypeAlias = Pipeline | App
"""The pipeline that a scenario tests."""
NAMES: Final[Mapping[str, Iterable[str]]] = {
    "event": KINDS,
    "kind of cut": ("message", "tool_calls", "content"),
    "lint": tuple(LINTS),
    # The levels of `logging`; code may define others.
    "log level": Open(("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")),
    "mode": ("transfer", "delegate", "replace"),
    "outcome": ("made", "rejected"),
    "reason": (
        "scopes", "since_days", "time_ranges", "tags", "threshold", "max", "tokens", "preview",
        "truncate",
    ),
}  # fmt: skip
"""Noun to its names, if they are the same for every pipeline."""


class KnownNames(msgspec.Struct, frozen=True):
    """Known names by kind; ANYTHING if simkit cannot know them."""

    agents: Sequence[str]
    channels: Sequence[str]
    tools: Sequence[str]
    sections: Sequence[str]
    filters: Sequence[str]
    """The pipeline's own history filters."""
    declared_tools: Sequence[str]
    """The pipeline's tools, whether or not an agent is offered them."""
    all_sections: frozenset[str]
    """The sections of all recipes, and those that any recipe may have."""
    sections_of: Callable[[str], Sequence[str]]
    tools_of: Callable[[str], Sequence[str]]
    state: Kind
    """The kind of the channels' values, as far as their reducers determine it."""
    recalled: frozenset[str] = frozenset()
    """The channels with items that may have scores."""
    result_names: frozenset[str] = frozenset()
    """The channels that hold messages."""
    goals: Sequence[str] = ()
    """A supervisor's goals."""
    values: ValueSchemas = ValueSchemas({})
    """The schemas of tools and handoffs; empty if they are not known."""

    def of(self, noun: str) -> Iterable[str]:
        """Return the names of a noun such as `agent`, `tool`, `mode`."""
        if noun == "filter":
            own = self.filters
            return own if own is ANYTHING else (*FILTERS, *FILTERS_WITH_OPTIONS, "window", *own)
        names: Iterable[str] = NAMES[noun] if noun in NAMES else getattr(self, f"{noun}s")
        return names


def known_in(subject: Subject) -> KnownNames:
    """Return the names that a pipeline declares."""
    if isinstance(subject, App):
        return KnownNames(
            ANYTHING, ANYTHING, ANYTHING, ANYTHING, ANYTHING, ANYTHING, frozenset(),
            lambda agent: ANYTHING, lambda agent: ANYTHING, kinds.STATE, goals=ANYTHING,
        )  # fmt: skip
    return subject.remembered(("names",), lambda: _names_in(subject))


def _names_in(subject: Pipeline) -> KnownNames:
    members = members_of(subject)
    definitions = dict.fromkeys(members.values())
    tools = tuple(
        dict.fromkeys(tool for name in subject.agents for tool in tools_of(subject, name))
    )
    sections = tuple(
        dict.fromkeys(
            name for definition in definitions for name in sections_of(subject, definition)
        )
    )
    return KnownNames(
        tuple(members),
        channels_of(subject),
        tools,
        sections,
        _own_filters(subject),
        tuple(dict.fromkeys((*tools, *subject.tools))),
        frozenset((*sections, *SECTION_KINDS)),
        lambda agent: sections_of(subject, members[agent]),
        lambda agent: tools_of(subject, members[agent]),
        kinds.STATE._replace(fields=dict(_kinds_of_channels(subject))),
        frozenset(_recalled(subject)),
        spoken_channels(subject),
        tuple(subject.flow.supervisor.goals) if subject.flow.supervisor is not None else (),
        schemas_in(subject),
    )


_LISTED: Final = ("append", "union", "by_id")
_KIND_BY_TYPE: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(_LISTED, kinds.list_of(None, "a channel that is a list")),
    "add": kinds.NUMBER._replace(noun="a channel that is a number"),
    "merge": kinds.mapping_of(None, "a channel that is a mapping"),
    "merge_deep": kinds.mapping_of(None, "a channel that is a mapping"),
}
"""Reducer to the kind of its channel's values."""


def _kinds_of_channels(pipeline: Pipeline) -> Iterator[tuple[str, Kind]]:
    text_kinds = spoken_channels(pipeline)
    for name in channels_of(pipeline):
        channel = pipeline.channels.get(name)
        reducer = "append" if channel is None else channel.reducer_name
        if name in text_kinds and reducer in _LISTED:
            yield name, kinds.MESSAGES._replace(noun="a channel of messages")
        elif reducer in _KIND_BY_TYPE:
            yield name, _KIND_BY_TYPE[reducer]


def _recalled(pipeline: Pipeline) -> Iterator[str]:
    for name in pipeline.agents:
        for item in items_of(pipeline.recipe_of(name)):
            if isinstance(item.options, Recall):
                yield from item.options.from_ or (item.kind,)


def _own_filters(pipeline: Pipeline) -> tuple[str, ...]:
    """Return the pipeline's filters that are user functions."""
    filter_names: list[str] = []
    for name in pipeline.agents:
        for item in items_of(pipeline.recipe_of(name)):
            filters = item.history.filters if item.history is not None else ()
            filter_names += [
                filter for filter in filters if isinstance(filter, str) and ":" in filter
            ]
    return tuple(dict.fromkeys(filter_names))
