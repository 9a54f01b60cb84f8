"""Two handoffs in one answer of a langgraph-supervisor: only one of the experts ever works."""

from __future__ import annotations

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from langgraph_supervisor import create_handoff_tool, create_supervisor

model = ChatOpenAI(model="gpt-5-mini")
research = create_agent(model, [], name="research_expert", system_prompt="You look things up.")
maths = create_agent(model, [], name="math_expert", system_prompt="You calculate.")
# Left to itself the package takes the names out of a set: in another order in each process.
tools = [create_handoff_tool(agent_name=one) for one in ("research_expert", "math_expert")]
supervisor = create_supervisor(
    [research, maths], model=model, tools=tools, prompt="You ask experts.",
    parallel_tool_calls=True,
)  # fmt: skip
app = supervisor.compile()
