"""The undocumented parts of PydanticAI that simkit uses, and why.

`simkit.core.compat` says which versions were tried.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from pydantic_ai.capabilities import AbstractCapability

from simkit.core.compat import Library

_AI: Final = Library("pydantic-ai-slim")

# Runs

ITER: Final = _AI.slot("pydantic_ai:Agent.iter")
"""Every method that runs an agent goes through this function."""
RUN: Final = _AI.slot("pydantic_ai:Agent.run")
"""`run` itself. simkit looks at the caller when it is called: its coroutine may be run in a
task."""
STEP_CALL: Final = _AI.slot("pydantic_graph:Step.call")
"""The property with which a graph reads the function of a step."""
MODEL_REQUESTS: Final = _AI.slot("pydantic_ai.models:ALLOW_MODEL_REQUESTS")
"""The check for forbidden model requests. It passes in a scenario, because the scenario answers."""
EVENT_LOOPS: Final = (
    _AI.slot("pydantic_ai._utils:get_event_loop"),
    _AI.slot("pydantic_graph._utils:get_event_loop"),
)
"""The function that gives `run_sync` its event loop. The loop ends with a scenario."""

# Agents

SYSTEM_PROMPTS: Final = _AI.attribute("pydantic_ai:Agent._system_prompts")
INSTRUCTIONS: Final = _AI.attribute("pydantic_ai:Agent._instructions")
PROMPT_FUNCTIONS: Final = _AI.attribute("pydantic_ai:Agent._system_prompt_functions")
"""An agent's instructions. They tell agents without a name apart."""

# Capabilities, which change the messages to a model

OWN_CAPABILITIES: Final = "pydantic_ai.capabilities._"
"""Modules of the framework's own capabilities, which drop nothing."""
FILTER_METHODS: Final = _AI.attributes(
    "pydantic_ai.capabilities:AbstractCapability.before_model_request",
    "pydantic_ai.capabilities:AbstractCapability.prepare_model_request",
)
"""The methods in which a capability of any class may change messages. The first versions have
only one."""


class SafeCapability(AbstractCapability[Any]):
    """A capability that may be added to a run of an agent whose runs are durable."""

    _safe_at_runtime: ClassVar[bool] = True


_REGISTRY: Final = _AI.attribute("pydantic_ai.capabilities:Hooks._registry")


def hooks_of(hooks: Any, method: str) -> list[Any]:
    """Return the functions behind a method of `Hooks`: a filter is recognized by its name."""
    return [entry.func for entry in getattr(hooks, _REGISTRY).get(method, ())]
