"""A supervisor on langgraph-supervisor: one expert finds flats, another one reckons their costs."""

from __future__ import annotations

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from langgraph_supervisor import create_handoff_tool, create_supervisor

model = ChatOpenAI(model="gpt-4o")


def find_flats(town: str) -> str:
    """Returns what is to let in a town."""
    return "Mill Lane 4: 900 a month, Quay 17: 1250 a month, Old Barn: gone."


def yearly(rent: int, fee: int) -> int:
    """Returns what a flat costs in its first year."""
    return 12 * rent + fee


scout = create_agent(
    model, tools=[find_flats], name="scout", system_prompt="You look for flats. You never reckon."
)
clerk = create_agent(
    model, tools=[yearly], name="clerk", system_prompt="You reckon costs, one flat at a time."
)
# Left to itself the package takes the names out of a set: in another order in each process.
tools = [create_handoff_tool(agent_name=text) for text in ("scout", "clerk")]
app = create_supervisor(
    [scout, clerk], model=model, tools=tools,
    prompt="You find people a home. Ask scout, then clerk.",
).compile()  # fmt: skip
