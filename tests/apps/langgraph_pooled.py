"""A node that calls tools in threads, and a chain that works in threads; the first ones dawdle."""

from __future__ import annotations

import operator
import threading
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, ToolRuntime
from langgraph.types import Command
from openai import OpenAI

client = OpenAI()
second = threading.Event()


class Cart(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    total: Annotated[float, operator.add]
    names: Annotated[dict[str, str], operator.or_]


@tool
def add(item: str, price: float, runtime: ToolRuntime) -> Command[Any]:
    """Adds an item; the second is faster."""
    if item == "milk":
        second.set()
    else:
        second.wait(0.2)
    message = ToolMessage(f"added {item}", tool_call_id=runtime.tool_call_id or "")
    return Command(update={"messages": [message], "total": price, "names": {item: "yes"}})


def ask(state: Cart) -> dict[str, Any]:
    response = client.chat.completions.create(
        model="m",
        messages=[{"role": "user", "content": "Shop"}],
        tools=[{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}],
    )
    calls = [
        {"name": "add", "args": args, "id": call.id}
        for call, args in zip(
            response.choices[0].message.tool_calls or [],
            [{"item": "tea", "price": 5.0}, {"item": "milk", "price": 2.0}],
            strict=True,
        )
    ]
    return {"messages": [AIMessage("", tool_calls=calls)]}


shop = StateGraph(Cart).add_node("ask", ask).add_node("tools", ToolNode([add]))
shop.add_edge(START, "ask").add_edge("ask", "tools")
cart = shop.compile()


def say(system: str, dawdles: bool) -> Any:
    def work(text: str) -> str:
        if dawdles:
            second.wait(0.2)
        response = client.chat.completions.create(
            model="m",
            messages=[{"role": "system", "content": system}, {"role": "user", "content": text}],
        )
        second.set()
        return response.choices[0].message.content or ""

    return RunnableLambda(work)


def pro_and_con(text: str) -> str:
    chain = RunnableParallel(pro=say("pro", True), con=say("con", False))
    return str(chain.invoke(text))
