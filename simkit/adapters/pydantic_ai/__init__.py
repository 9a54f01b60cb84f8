"""PydanticAI: agents that answer themselves, code that runs agents, and pydantic-graph."""

from simkit.adapters.pydantic_ai.pilot import instrument as instrument
from simkit.adapters.pydantic_ai.pilot import pilot as pilot
