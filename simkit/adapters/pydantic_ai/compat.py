"""What simkit uses of PydanticAI beside its documented API, and why.

`simkit.core.compat` says which versions were tried.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from pydantic_ai.capabilities import AbstractCapability

from simkit.core.compat import Library

_AI: Final = Library("pydantic-ai-slim")

# Runs

ITER: Final = _AI.slot("pydantic_ai:Agent.iter")
"""Every way to run an agent goes through it."""
RUN: Final = _AI.slot("pydantic_ai:Agent.run")
"""Looks at who holds an agent while it is called: its coroutine may be run in a task."""
STEP_CALL: Final = _AI.slot("pydantic_graph:Step.call")
"""The property by which a graph gets at the function of a step."""
MODEL_REQUESTS: Final = _AI.slot("pydantic_ai.models:ALLOW_MODEL_REQUESTS")
"""Tests that forbid themselves real requests may ask: the scenario answers."""
EVENT_LOOPS: Final = (
    _AI.slot("pydantic_ai._utils:get_event_loop"),
    _AI.slot("pydantic_graph._utils:get_event_loop"),
)
"""Where `run_sync` takes the event loop from, which ends with a scenario."""

# Agents

SYSTEM_PROMPTS: Final = _AI.attribute("pydantic_ai:Agent._system_prompts")
INSTRUCTIONS: Final = _AI.attribute("pydantic_ai:Agent._instructions")
PROMPT_FUNCTIONS: Final = _AI.attribute("pydantic_ai:Agent._system_prompt_functions")
"""An agent's instructions, by which agents without a name are told apart."""

# Capabilities, which change what a model is sent

OWN_CAPABILITIES: Final = "pydantic_ai.capabilities._"
"""Where the framework keeps capabilities that every agent has, which drop nothing."""
FILTER_METHODS: Final = _AI.attributes(
    "pydantic_ai.capabilities:AbstractCapability.before_model_request",
    "pydantic_ai.capabilities:AbstractCapability.prepare_model_request",
)
"""Where a capability of any class may do so; the first versions have only one of them."""


class SafeCapability(AbstractCapability[Any]):
    """A capability that may be added to a run of an agent whose runs are durable."""

    _safe_at_runtime: ClassVar[bool] = True


_REGISTRY: Final = _AI.attribute("pydantic_ai.capabilities:Hooks._registry")


def hooks_of(hooks: Any, method: str) -> list[Any]:
    """Return the functions behind a method of `Hooks`: filters are told by their names."""
    return [entry.func for entry in getattr(hooks, _REGISTRY).get(method, ())]
