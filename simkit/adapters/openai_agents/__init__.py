"""The OpenAI Agents SDK: agents that answer themselves, and code that runs agents."""

from simkit.adapters.openai_agents.pilot import instrument as instrument
from simkit.adapters.openai_agents.pilot import pilot as pilot
