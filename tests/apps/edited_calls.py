"""Applications in which a person, or code, changes a call that a model has asked for."""

from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import interrupt
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.models.openai import OpenAIChatModel

llm = ChatOpenAI(model="gpt-5-mini")


@tool
def send(text: str) -> str:
    """Send a mail."""
    return f"sent {text}"


@tool
def keep(text: str) -> str:
    """Keep a mail for later."""
    return f"kept {text}"


def writer(state):
    return {"messages": [llm.bind_tools([send, keep]).invoke(state["messages"])]}


def next_node(state):
    return "review" if state["messages"][-1].tool_calls else "__end__"


def edited(message, text):
    call = {**message.tool_calls[0], "args": {"text": text}}
    return message.model_copy(update={"tool_calls": [call]}), call


def review(state):
    """Change the call, execute it in code, and answer it."""
    message, call = edited(state["messages"][-1], "better")
    answer = {"role": "tool", "content": send.invoke(call["args"]), "tool_call_id": call["id"]}
    return {"messages": [message, answer]}


def answer_edited(state):
    """Change the call, and answer it without the tool."""
    message, call = edited(state["messages"][-1], "better")
    return {"messages": [message, {"role": "tool", "content": "ok", "tool_call_id": call["id"]}]}


def ask(state):
    """Let a person change the call, for a tools' node behind."""
    text = interrupt(state["messages"][-1].tool_calls[0]["args"])
    return {"messages": [edited(state["messages"][-1], text)[0]]}


def flow(node, *, has_tools=False):
    graph = StateGraph(MessagesState).add_node(writer).add_node("review", node)
    graph.add_edge(START, "writer").add_conditional_edges("writer", next_node)
    if has_tools:
        graph.add_node("tools", ToolNode([send, keep])).add_edge("review", "tools")
    graph.add_edge("tools" if has_tools else "review", "writer")
    return graph.compile(checkpointer=InMemorySaver())


reviewer, answerer, asker = flow(review), flow(answer_edited), flow(ask, has_tools=True)
watched = create_agent(
    llm,
    [send, keep],
    name="writer",
    middleware=[HumanInTheLoopMiddleware({"send": True, "keep": True})],
    checkpointer=InMemorySaver(),
)


class Inbox:
    """A graph that stops before its tools, and whose state a person changes."""

    def __init__(self):
        graph = StateGraph(MessagesState).add_node(writer).add_node(ToolNode([send, keep]))
        graph.add_edge(START, "writer").add_conditional_edges("writer", tools_condition)
        graph.add_edge("tools", "writer")
        self.graph = graph.compile(checkpointer=InMemorySaver(), interrupt_before=["tools"])
        self.config: Any = {"configurable": {"thread_id": "1"}}

    def chat(self, text):
        if not (snapshot := self.graph.get_state(self.config)).next:
            state = self.graph.invoke({"messages": [("user", text)]}, self.config)
        else:
            message, _ = edited(snapshot.values["messages"][-1], text)
            self.graph.update_state(self.config, {"messages": [message]})
            state = self.graph.invoke(None, self.config)
        return state["messages"][-1].text or "May I?"


model = OpenAIChatModel("gpt-5-mini")
desk: Agent[None, Any] = Agent(model, name="writer", output_type=[str, DeferredToolRequests])


@desk.tool_plain(requires_approval=True, name="send")
def send_if_approved(text: str) -> str:
    return f"sent {text}"
