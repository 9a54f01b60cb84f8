"""What RunStarted tells judges of the pipeline, as far as the driver knows it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from simkit.core.messages import JsonValue


class ChannelFacts(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One piece of state."""

    reducer: str
    """``replace``, ``append``, ``merge``, ``merge_deep``, ``add``, ``union``, ``by_id`` or
    ``module:function``."""
    scope: str
    default: JsonValue = None
    last: int = 0
    """How many items an ``append`` keeps; 0 keeps all."""


class AgentFacts(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One agent, as the pipeline declares it."""

    instructions: str = ""
    tools: tuple[str, ...] = ()
    handoffs: tuple[str, ...] = ()
    sees: tuple[str, ...] | None = None
    """The agents whose messages are relevant to it; None is everyone."""
    requires: tuple[JsonValue, ...] = ()
    private: tuple[str, ...] = ()
    is_function: bool = False
    ends_on_tools: bool = False
    """Its tool's result is its output: where only model calls are seen, nobody answers the call."""
    sections: Mapping[str, JsonValue] | None = None
    """Of code: which messages of its contexts are of which section, as matchers."""


class ContractFacts(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One handoff type between two agents; ``*`` stands for any source."""

    from_agents: tuple[str, ...]
    to_agent: str
    type: str
    mode: str
    history: str
    payload: JsonValue = None
    """JSON Schema of the payload, if there is one."""
    on_invalid: str = "reject"


class PipelineFacts(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What judges need to know of the pipeline."""

    name: str
    agents: Mapping[str, AgentFacts]
    channels: Mapping[str, ChannelFacts] = {}
    contracts: tuple[ContractFacts, ...] = ()
    edges: tuple[tuple[str, str], ...] = ()
    """Declared edges of a graph."""
    flow: str = ""
    """``router``, ``handoffs``, ``graph`` or ``supervisor``."""
    decider: str = ""
    """The agent whose output is a routing decision, if the flow has one."""
    starts: tuple[str, ...] = ()
    """The agents that may be a turn's first; empty where any may."""
    conversation: str = ""
    """The channel that holds what user and agents said to each other."""
    tokens: str = "chars/4"
    """The token counter that budgets and claims use."""
    observes: tuple[str, ...] = ()
    """What this driver can see beyond messages: sections, state, runs, handoffs, filters."""
    unseen: tuple[str, ...] = ()
    """What it cannot see, as was declared: claims that need it are passed over."""
    unseen_reasons: Mapping[str, str] = {}
    """Why it cannot see that, in the words of the file that declares it."""
    is_open: bool = False
    """Nobody declared where control goes: it may go anywhere."""
    limits: Mapping[str, JsonValue] = {}
    """The limits that only judges hold: ``irrelevant_share``, ``context_tokens``."""
    schemas: Mapping[str, JsonValue] = {}
    """JSON Schemas by the names that ``{$ref: Name}`` uses."""

    @property
    def is_code(self) -> bool:
        """Whether no file says how contexts are made: there is no recipe that could be changed."""
        return "sections" not in self.observes

    @property
    def has_adapter(self) -> bool:
        """Whether an adapter of the pipeline's framework, and not its requests alone, shows it."""
        return any(aspect not in ("runs", "handoffs") for aspect in self.observes)
