"""What the conformance suite wants of LangGraph, as its users would write it."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable
from typing import Annotated, Any

from langchain.agents import create_agent
from langchain.agents.middleware import wrap_model_call
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.types import Command
from langgraph.types import interrupt as ask

from tests.testing.cancelling import cancelled_while

model = ChatOpenAI(model="gpt-5-mini", api_key="none")


@tool
def look_up(word: str) -> str:
    """Looks a word up."""
    return f"{word} is known."


def agent(name: str, *tools: Any, **more: Any) -> Any:
    return create_agent(model, [*tools], system_prompt=f"You are {name}.", name=name, **more)


def one_after_the_other(schema: Any, **nodes: Any) -> Any:
    graph = StateGraph(schema)
    before = START
    for name, node in nodes.items():
        graph.add_node(name, node)
        graph.add_edge(before, name)
        before = name
    return graph.compile()


solo = agent("writer")
retry = agent("writer")
sessions = agent("clerk", checkpointer=InMemorySaver())
tools = agent("clerk", look_up)

# Agents one after the other, beside each other, inside each other

chain = one_after_the_other(MessagesState, first=agent("first"), second=agent("second"))


class Reviews(MessagesState):
    """What reviewers are asked, and what they answer."""

    reviews: Annotated[list[str], operator.add]


def review(state: Reviews) -> dict[str, Any]:
    result = model.invoke([("system", "You review."), *state["messages"]])
    return {"reviews": [result.content]}


reviewers = StateGraph(Reviews)
for name in ("left", "right"):
    reviewers.add_node(name, review)
    reviewers.add_edge(START, name)
both = reviewers.compile()


def parallel(text: str) -> str:
    return " / ".join(both.invoke({"messages": [("user", text)], "reviews": []})["reviews"])


helper = agent("helper")


@tool
def ask_helper(input: str) -> str:
    """Asks the helper."""
    result = helper.invoke({"messages": [("user", input)]})
    return str(result["messages"][-1].content)


nested = agent("boss", ask_helper)

# Handoffs


class Desk(MessagesState):
    """A conversation, and what it is about."""

    topic: str


@tool
def pass_on(
    state: Annotated[dict[str, Any], InjectedState],
    tool_call_id: Annotated[str, InjectedToolCallId],
    topic: str = "",
) -> Command[Any]:
    """Lets the expert take over."""
    items = [*state["messages"], ToolMessage("Passed on.", tool_call_id=tool_call_id)]
    return Command(goto="expert", graph=Command.PARENT, update={"messages": items, "topic": topic})


# What langgraph-swarm has custom handoff tools say.
pass_on.metadata = {"__handoff_destination": "expert"}


@wrap_model_call
def without_tools(request: Any, handler: Callable[[Any], Any]) -> Any:
    """Leaves tool traffic behind."""
    messages = [
        message
        for message in request.messages
        if message.type != "tool" and not getattr(message, "tool_calls", None)
    ]
    return handler(request.override(messages=messages))


def desk(front: Any, expert: Any) -> Any:
    graph = StateGraph(Desk)
    graph.add_node("front", front)
    graph.add_node("expert", expert)
    graph.add_edge(START, "front")
    return graph.compile()


handoff = desk(agent("front", pass_on), agent("expert"))
filter = desk(agent("front", look_up, pass_on), agent("expert", middleware=[without_tools]))

# State


class Notebook(MessagesState):
    """What agents share."""

    notes: Annotated[list[str], operator.add]


def noting(name: str) -> Callable[[Notebook], dict[str, Any]]:
    def note(state: Notebook) -> dict[str, Any]:
        result = model.invoke([("system", f"You are {name}."), *state["messages"]])
        return {"notes": [result.content]}

    return note


notebook = one_after_the_other(Notebook, first=noting("first"), second=noting("second"))
state = notebook

# What may happen on the way


@tool
def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}" if ask(f"Pay {amount}?") else "refused"


interrupt = agent("teller", pay, checkpointer=InMemorySaver())


def stream(text: str) -> str:
    given = {"messages": [("user", text)]}
    return "".join(str(reply.text) for reply, _ in solo.stream(given, stream_mode="messages"))


def lose(state: MessagesState) -> dict[str, Any]:
    model.invoke([("system", "You are clerk."), *state["messages"]])
    raise LookupError("lost")


broken = one_after_the_other(MessagesState, clerk=lose)


async def cancel(text: str) -> str:
    waits = asyncio.Event()

    @tool
    async def wait() -> None:
        """Waits for ever."""
        waits.set()
        await asyncio.Event().wait()

    slow = agent("slow", wait)
    return await cancelled_while(waits, slow.ainvoke({"messages": [("user", text)]}))
