"""An agent of the OpenAI Agents SDK, run inside a span that names another."""

from __future__ import annotations

from agents import Agent, Runner
from opentelemetry import trace


async def inside_a_span(text: str) -> str:
    """Answers the user."""
    tracer = trace.get_tracer("otel-agents")
    with tracer.start_as_current_span("work", attributes={"gen_ai.agent.name": "outer"}):
        result = await Runner.run(Agent(name="Greeter", instructions="Greet."), text)
    return str(result.final_output)
