"""Two workers of one step: the first asks no model, the second asks twice."""

from __future__ import annotations

from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from openai import OpenAI

client = OpenAI(api_key="simkit", max_retries=0)


class Work(TypedDict, total=False):
    asks: int


def work(state: Work) -> dict[str, Any]:
    for place in range(state["asks"]):
        client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": f"Question {place}"}]
        )
    return {}


graph = StateGraph(Work).add_node("work", work).add_edge("work", END)
graph.add_conditional_edges(START, lambda state: [Send("work", {"asks": n}) for n in (0, 2)])


def team(text: str) -> str:
    graph.compile().invoke({})
    return "done"
