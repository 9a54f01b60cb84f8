"""Applications in which a person approves a handoff, or a call beside one."""

from typing import Annotated, Any

from agents import Agent, function_tool
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, interrupt
from langgraph_swarm import create_handoff_tool, create_swarm
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import DeferredToolRequests
from pydantic_ai.models.openai import OpenAIChatModel

model = ChatOpenAI(model="gpt-5-mini")


@tool
def refund(order: str) -> str:
    """Refund an order."""
    return f"refunded {order}"


@tool("transfer_to_desk")
def transfer_if_agreed(
    tool_call_id: Annotated[str, InjectedToolCallId], state: Annotated[dict, InjectedState]
) -> Command | str:
    """Hand over to the desk, if the user agrees."""
    if interrupt("May I?") != "yes":
        return "the user says no"
    message = ToolMessage("done", tool_call_id=tool_call_id)
    return Command(
        goto="desk",
        graph=Command.PARENT,
        update={"messages": [*state["messages"], message], "active_agent": "desk"},
    )


to_desk, to_billing, to_triage = (
    create_handoff_tool(agent_name=agent) for agent in ("desk", "billing", "triage")
)


def swarm(*tools, watched=()):
    middleware = [HumanInTheLoopMiddleware(dict.fromkeys(watched, True))] if watched else []
    triage = create_agent(model, [*tools], name="triage", middleware=middleware)
    desk = create_agent(model, [to_triage], name="desk", middleware=middleware)
    billing = create_agent(model, [], name="billing")
    agents = create_swarm([triage, desk, billing], default_active_agent="triage")
    return agents.compile(checkpointer=InMemorySaver())


watched_handoff = swarm(
    to_desk, to_billing, refund, watched=["transfer_to_desk", "transfer_to_triage"]
)
watched_call = swarm(to_desk, refund, watched=["refund"])
inside = swarm(transfer_if_agreed)


@function_tool(needs_approval=True)
def pay(order: str) -> str:
    """Pay for an order."""
    return f"paid {order}"


openai_team = Agent(name="triage", tools=[pay], handoffs=[Agent(name="desk")])

llm = OpenAIChatModel("gpt-5-mini")
clerk = PydanticAgent(llm, name="desk")
pydantic_team: PydanticAgent[None, Any] = PydanticAgent(
    llm, name="triage", output_type=[str, DeferredToolRequests]
)


@pydantic_team.tool_plain(requires_approval=True)
async def transfer_to_desk(query: str) -> str:
    """Let the desk answer."""
    return (await clerk.run(query)).output


@pydantic_team.tool_plain(requires_approval=True, name="pay")
def pay_if_approved(order: str) -> str:
    return f"paid {order}"


pydantic_beside: PydanticAgent[None, Any] = PydanticAgent(
    llm, name="triage", output_type=[str, DeferredToolRequests]
)
pydantic_beside.tool_plain(requires_approval=True, name="pay")(pay_if_approved)
pydantic_beside.tool_plain(name="transfer_to_desk")(transfer_to_desk)
