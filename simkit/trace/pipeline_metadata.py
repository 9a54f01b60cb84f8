"""Metadata of the pipeline in RunStarted, as far as the driver knows it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from simkit.core.messages import JsonValue


class ChannelFacts(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One channel."""

    reducer: str
    """``replace``, ``append``, ``merge``, ``merge_deep``, ``add``, ``union``, ``by_id`` or
    ``module:function``."""
    scope: str
    default: JsonValue = None
    last: int = 0
    """The number of items that an ``append`` keeps; 0 keeps all."""


class AgentFacts(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One agent, as the pipeline declares it."""

    instructions: str = ""
    tools: tuple[str, ...] = ()
    handoffs: tuple[str, ...] = ()
    sees: tuple[str, ...] | None = None
    """The agents whose messages are relevant to it; None means all."""
    requires: tuple[JsonValue, ...] = ()
    private: tuple[str, ...] = ()
    is_function: bool = False
    ends_on_tools: bool = False
    """Whether its tool's result is its output: where only model calls are seen, no message then
    answers the call."""
    sections: Mapping[str, JsonValue] | None = None
    """For code: matchers that assign the messages of its contexts to sections."""


class ContractFacts(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One type of handoff between two agents; the source ``*`` is any agent."""

    from_agents: tuple[str, ...]
    to_agent: str
    type: str
    mode: str
    history: str
    payload: JsonValue = None
    """The JSON Schema of the payload, or None."""
    on_invalid: str = "reject"


class PipelineFacts(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The metadata of the pipeline that checks need."""

    name: str
    agents: Mapping[str, AgentFacts]
    channels: Mapping[str, ChannelFacts] = {}
    contracts: tuple[ContractFacts, ...] = ()
    edges: tuple[tuple[str, str], ...] = ()
    """The declared edges of a graph."""
    flow: str = ""
    """``router``, ``handoffs``, ``graph`` or ``supervisor``."""
    decider: str = ""
    """The agent whose output is a routing decision; empty if the flow has none."""
    starts: tuple[str, ...] = ()
    """The agents that a turn may start with; empty if any may."""
    conversation: str = ""
    """The channel that holds the conversation."""
    tokens: str = "chars/4"
    """The token counter of budgets and claims."""
    observes: tuple[str, ...] = ()
    """Aspects beyond messages that this driver observes: sections, state, runs, handoffs,
    filters."""
    unseen: tuple[str, ...] = ()
    """Aspects that are declared as not observable: claims that need them are skipped."""
    unseen_reasons: Mapping[str, str] = {}
    """The reason for each, in the words of the file that declares it."""
    is_open: bool = False
    """Whether control may go anywhere, because nobody declared where it goes."""
    limits: Mapping[str, JsonValue] = {}
    """Limits that only checks use: ``irrelevant_share``, ``context_tokens``."""
    schemas: Mapping[str, JsonValue] = {}
    """JSON Schemas by the names that ``{$ref: Name}`` uses."""

    @property
    def is_code(self) -> bool:
        """Return whether the pipeline is code, so that there is no recipe to change."""
        return "sections" not in self.observes

    @property
    def has_adapter(self) -> bool:
        """Return whether an adapter of the framework observes the pipeline."""
        return any(aspect not in ("runs", "handoffs") for aspect in self.observes)
