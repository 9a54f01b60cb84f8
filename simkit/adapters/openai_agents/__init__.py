"""The OpenAI Agents SDK: agents, and code that runs agents."""

from simkit.adapters.openai_agents.driver import driver as driver
from simkit.adapters.openai_agents.driver import instrumentation as instrumentation
