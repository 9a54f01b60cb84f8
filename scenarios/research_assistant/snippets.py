"""The document's snippets as function agents, on today's langchain-core and langgraph.

Each comes as it is printed and as the prose means it. What stands around them (the model's answers,
the tool's result) is fixed, so that only the snippet makes a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, StateGraph
from langgraph.graph.message import add_messages

from simkit import Message

Root = Mapping[str, Any]


# Standard execution pattern: state is updated and returned.


def execute_as_printed(root: Root) -> dict[str, Any]:
    state = root["state"]
    query = state["messages"][-1].content
    state["next_agent"] = "synthesis"
    state["context"]["result"] = f"about {query}"
    state["iteration"] += 1
    return dict(state)


def execute_as_meant(root: Root) -> dict[str, Any]:
    query = root["state"]["messages"][-1].content
    return {
        "next_agent": "synthesis",
        "context": {**root["state"]["context"], "result": f"about {query}"},
        "iteration": root["state"]["iteration"] + 1,
    }


# Helper methods do not modify state.


def format_as_printed(root: Root) -> str:
    return _format_history(root["state"]["messages"][-10:])


def format_in_place(root: Root) -> str:
    del root["state"]["messages"][:-10]
    return _format_history(root["state"]["messages"])


def _format_history(messages: Sequence[Message]) -> str:
    formatted = []
    for message in _as_langchain(messages):
        if hasattr(message, "type"):
            role = "User" if message.type == "human" else "AI"
            formatted.append(f"{role}: {message.content}")
    return "\n".join(formatted)


def _as_langchain(messages: Sequence[Message]) -> list[BaseMessage]:
    kinds = {"user": HumanMessage, "assistant": AIMessage}
    return [kinds[message.role](content=message.content) for message in messages]


# Only the final message is appended.


def final_message_as_printed(root: Root) -> str | None:
    result = {"messages": _researched(root["user"])}
    final_ai_message = None
    for msg in reversed(result["messages"]):
        if msg.type == "ai" and not hasattr(msg, "tool_calls"):
            final_ai_message = msg
            break
    return str(final_ai_message.content) if final_ai_message else None


def final_message_as_meant(root: Root) -> str | None:
    for msg in reversed(_researched(root["user"])):
        if isinstance(msg, AIMessage) and not msg.tool_calls:
            return str(msg.content)
    return None


def _researched(question: str) -> list[BaseMessage]:
    """What a research run leaves: human, call, tool, final."""
    call = {"name": "pdf_retrieval", "args": {"q": question}, "id": "call1"}
    return [
        HumanMessage(content=question),
        AIMessage(content="", tool_calls=[call]),
        ToolMessage(content="Table 2", tool_call_id="call1"),
        AIMessage(content="Found 5 results"),
    ]


# State persistence: a follow-up with the same thread id.


class StateAsPrinted(TypedDict, total=False):
    messages: Sequence[BaseMessage]
    final_answer: str | None


class StateAsMeant(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    final_answer: str | None


def follow_up_as_printed(root: Root) -> dict[str, Any]:
    """Nothing says how `messages` go together, and the last answer is still there."""
    return _conversed(root, StateAsPrinted, nullcontext(InMemorySaver()), lambda said: said)


def follow_up_as_meant(root: Root) -> dict[str, Any]:
    def with_no_answer(said: dict[str, Any]) -> dict[str, Any]:
        return {**said, "final_answer": None}

    return _conversed(root, StateAsMeant, nullcontext(InMemorySaver()), with_no_answer)


def checkpointer_as_printed(root: Root) -> dict[str, Any]:
    """`from_conn_string` makes a context manager, which is no checkpointer."""
    memory: Any = SqliteSaver.from_conn_string(":memory:")
    return _conversed(root, StateAsMeant, nullcontext(memory), lambda said: said)


def checkpointer_as_meant(root: Root) -> dict[str, Any]:
    return _conversed(
        root, StateAsMeant, SqliteSaver.from_conn_string(":memory:"), lambda said: said
    )


def _conversed(
    root: Root,
    schema: type,
    checkpointer: AbstractContextManager[Any],
    prepared: Callable[[dict[str, Any]], dict[str, Any]],
) -> dict[str, Any]:
    """Says everything that the user has said, to one thread; returns where that ends."""
    seen: list[str | None] = []

    def answer(state: dict[str, Any]) -> dict[str, Any]:
        question = state["messages"][-1].content
        seen.append(state.get("final_answer"))
        said = AIMessage(content=f"Found: {question}")
        together = schema is StateAsMeant
        return {
            "messages": [said] if together else [*state["messages"], said],
            "final_answer": f"About: {question}",
        }

    graph = StateGraph(schema)
    graph.add_node("research", answer)
    graph.set_entry_point("research")
    graph.add_edge("research", END)
    config: Any = {"configurable": {"thread_id": "conversation-123"}}
    state: dict[str, Any] = {}
    with checkpointer as memory:
        workflow = graph.compile(checkpointer=memory)
        for message in root["state"]["messages"]:
            if message.role == "user":
                said = {"messages": [HumanMessage(content=message.content)]}
                state = workflow.invoke(prepared(said), config)
    return {
        "messages": [f"{message.type}: {message.content}" for message in state["messages"]],
        "final_answer": state["final_answer"],
        "final_answer_before": seen[-1],
    }
