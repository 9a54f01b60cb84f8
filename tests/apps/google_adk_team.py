"""Workflows of the ADK: agents in sequence, in parallel, in a loop, as tools, in code."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator
from typing import Any

from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.apps import App
from google.adk.apps.app import EventsCompactionConfig
from google.adk.events import Event, EventActions
from google.adk.tools import ToolContext, exit_loop
from google.adk.tools.agent_tool import AgentTool
from google.adk.workflow import START, Workflow
from google.genai import types

MODEL = "gemini-2.5-flash"


def agent(name: str, **more: Any) -> LlmAgent:
    """Returns an agent with a name."""
    return LlmAgent(name=name, model=MODEL, instruction=f"You are {name}.", **more)


research = SequentialAgent(
    name="research",
    sub_agents=[
        agent("planner", output_key="plan"),
        ParallelAgent(
            name="readers",
            sub_agents=[
                agent("web", output_key="found"),
                SequentialAgent(
                    name="library",
                    sub_agents=[agent("catalogue"), agent("shelf", output_key="found")],
                ),
            ],
        ),
        agent("merger", include_contents="none"),
    ],
)
writing = LoopAgent(
    name="writing",
    max_iterations=3,
    sub_agents=[agent("writer", output_key="draft"), agent("critic", tools=[exit_loop])],
)
coordinator = agent("coordinator", sub_agents=[writing])


def note(text: str, tool_context: ToolContext) -> str:
    """Notes something."""
    tool_context.state["note"] = text
    return "noted"


spanish = agent("spanish", description="Translates to Spanish", tools=[note])
french = agent("french", description="Translates to French")
boss = agent("boss", tools=[AgentTool(spanish), AgentTool(french)])


class Picker(BaseAgent):
    """Asks one of its agents, by what the user says, and says itself who it was."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        parts = ctx.user_content.parts if ctx.user_content is not None else None
        word = parts[0].text if parts else ""
        chosen = self.sub_agents[0 if word and "money" in word else 1]
        async for event in chosen.run_async(ctx):
            yield event
        content = types.Content(role="model", parts=[types.Part(text=f"That was {chosen.name}.")])
        yield Event(
            author=self.name,
            content=content,
            actions=EventActions(state_delta={"last": chosen.name}),
        )


picker = Picker(name="picker", sub_agents=[agent("money"), agent("other")])


def stop(tool_context: ToolContext) -> None:
    """Stops whatever runs beside."""
    tool_context.actions.escalate = True


async def wait_for_ever() -> str:
    """Waits."""
    await asyncio.Event().wait()
    return "never"


race = ParallelAgent(
    name="race", sub_agents=[agent("slow", tools=[wait_for_ever]), agent("quick", tools=[stop])]
)
expert = agent("expert", description="Knows it")
relay = SequentialAgent(
    name="relay", sub_agents=[agent("first", sub_agents=[expert]), agent("last")]
)


def pass_on(tool_context: ToolContext) -> str:
    """Passes control on, without the model knowing."""
    tool_context.actions.transfer_to_agent = "backup"
    return "passed"


front = agent("front", tools=[pass_on], sub_agents=[agent("backup", description="Helps")])
double = agent(
    "double", sub_agents=[agent("one", description="One"), agent("two", description="Two")]
)
flow = Workflow(name="flow", edges=[(START, agent("sorter", output_key="sorted"), agent("packer"))])
foreman = agent(
    "foreman",
    sub_agents=[
        agent("mason", mode="task", description="Builds walls"),
        agent("surveyor", mode="single_turn", description="Measures"),
    ],
)
with warnings.catch_warnings(action="ignore", category=UserWarning):
    # The ADK calls it an experiment.
    brief = App(
        name="brief",
        root_agent=agent("secretary"),
        events_compaction_config=EventsCompactionConfig(compaction_interval=2, overlap_size=0),
    )
