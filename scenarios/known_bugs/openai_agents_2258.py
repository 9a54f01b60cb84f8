"""A desk on the OpenAI Agents SDK, whose conversation goes on from `to_input_list()`."""

from __future__ import annotations

from typing import Any

from agents import Agent, RunConfig, Runner

refunds = Agent(name="refunds", instructions="You refund orders.")
triage = Agent(name="triage", instructions="You pass people on.", handoffs=[refunds])
CONFIG = RunConfig(nest_handoff_history=True)


class Desk:
    """One customer's conversation, kept as the SDK's documentation keeps it."""

    def __init__(self) -> None:
        self.agent: Agent[Any] = triage
        self.items: list[Any] = []

    async def ask(self, text: str) -> str:
        """Answers the customer."""
        said = [*self.items, {"role": "user", "content": text}]
        result = await Runner.run(self.agent, said, run_config=CONFIG)
        self.agent, self.items = result.last_agent, result.to_input_list()
        return str(result.final_output)
