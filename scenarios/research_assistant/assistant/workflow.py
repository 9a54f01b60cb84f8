"""The agents as a graph, with a thread of SQLite for each conversation."""

from __future__ import annotations

import os
import sqlite3
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, StateGraph
from langgraph.graph.state import CompiledStateGraph

from .agents import Clarification, Orchestrator, Research, Synthesis
from .models import chat_model
from .state import AgentState


def build() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Makes the workflow; its conversations outlive the process."""
    llm = chat_model()
    workflow = StateGraph(AgentState)
    for agent in (Orchestrator(llm), Clarification(llm), Research(llm), Synthesis(llm)):
        workflow.add_node(agent.name, agent.execute)
    workflow.set_entry_point("orchestrator")
    workflow.add_conditional_edges(
        "orchestrator", route, {"clarification": "clarification", "research": "research"}
    )
    workflow.add_edge("clarification", END)
    workflow.add_edge("research", "synthesis")
    workflow.add_edge("synthesis", END)
    file = os.environ.get("ASSISTANT_DB", "assistant.sqlite")
    saver = SqliteSaver(sqlite3.connect(file, check_same_thread=False))
    return workflow.compile(checkpointer=saver)


def route(state: AgentState) -> str:
    """Routes by the orchestrator's decision."""
    return state["next_agent"]


def question(text: str) -> dict[str, Any]:
    """What a turn begins with: an answer that is not found yet is none."""
    return {
        "messages": [HumanMessage(text)],
        "next_agent": "orchestrator",
        "final_answer": None,
        "confidence_score": None,
    }


def reply(state: AgentState) -> Any:
    """What the user gets: the answer, or what is asked back."""
    if state.get("final_answer") is not None:
        return {"answer": state["final_answer"], "confidence": state["confidence_score"]}
    return str(state["messages"][-1].text)


def ask(text: str, thread_id: str) -> Any:
    """Takes a user's message in a conversation, which goes on where it was."""
    config: Any = {"configurable": {"thread_id": thread_id}}
    return reply(build().invoke(question(text), config))
