"""A support team on Semantic Kernel: an orchestration that hands over, and agents at once."""

from __future__ import annotations

from semantic_kernel.agents import (
    ChatCompletionAgent,
    ConcurrentOrchestration,
    HandoffOrchestration,
    OrchestrationHandoffs,
)
from semantic_kernel.agents.runtime import InProcessRuntime
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.functions import kernel_function


class Invoices:
    """What billing knows."""

    @kernel_function(description="Looks up an invoice")
    def lookup_invoice(self, invoice_id: str) -> str:
        """Looks up an invoice."""
        return f"{invoice_id}: 42 EUR due"


def agent(name: str, instructions: str, plugins: list[object] | None = None) -> ChatCompletionAgent:
    """Returns an agent with a client of its own."""
    service = OpenAIChatCompletion(ai_model_id="gpt-4o")
    return ChatCompletionAgent(
        name=name, description=name, instructions=instructions, service=service,
        plugins=plugins or [],
    )  # fmt: skip


async def support(text: str) -> str:
    """Lets triage pass the case on to billing."""
    triage = agent("triage", "You are triage.")
    billing = agent("billing", "You are billing.", [Invoices()])
    handoffs = OrchestrationHandoffs().add(
        source_agent="triage", target_agent="billing", description="Billing issues"
    )
    runtime = InProcessRuntime()
    runtime.start()
    orchestration = HandoffOrchestration(members=[triage, billing], handoffs=handoffs)
    result = await orchestration.invoke(task=text, runtime=runtime)
    value = await result.get()
    await runtime.stop_when_idle()
    return str(value)


async def panel(text: str) -> str:
    """Asks three agents with one prompt at once."""
    runtime = InProcessRuntime()
    runtime.start()
    members = [agent(name, "Decide.") for name in ("a", "b", "c")]
    result = await ConcurrentOrchestration(members=members).invoke(task=text, runtime=runtime)
    value = await result.get()
    await runtime.stop_when_idle()
    return ", ".join(sorted(item.content for item in value))


async def delegating(text: str) -> str:
    """Lets an agent ask another one, which is its plugin."""
    expert = agent("expert", "You are the expert.")
    response = await agent("boss", "You are the boss.", [expert]).get_response(text)
    return str(response.content)
