"""PydanticAI: agents, code that runs agents, and pydantic-graph."""

from simkit.adapters.pydantic_ai.driver import driver as driver
from simkit.adapters.pydantic_ai.driver import instrumentation as instrumentation
