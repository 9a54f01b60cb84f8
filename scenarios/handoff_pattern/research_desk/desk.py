"""The agents, how they hand work to each other, and the conversation that they share."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import Any

from agents import (
    Agent,
    AgentHooks,
    FunctionTool,
    HandoffInputData,
    RunContextWrapper,
    Runner,
    handoff,
)
from agents.items import HandoffCallItem
from agents.tool_context import ToolContext

from research_desk.contracts import DELEGATION_ARGUMENTS, QuickLookup, objections

logger = logging.getLogger(__name__)

MODEL = "gpt-5-mini"
PREVIEW_CHARACTERS = 200


@dataclass
class Conversation:
    """What the agents of one conversation share."""

    user_id: str | None = None
    conversation_id: str | None = None
    user_chat_model: str | None = None
    reference_content: str = ""
    filename: str | None = None
    messages: list[dict[str, Any]] = field(default_factory=list)
    shared_memory: dict[str, Any] = field(default_factory=dict)
    handoffs_received: int = 0
    last_agent: str | None = None
    primary_agent_selected: str = "chat_agent"

    def history(self) -> list[dict[str, Any]]:
        """What was said, as a model is sent it."""
        return [{"role": one["role"], "content": one["content"]} for one in self.messages]

    def receive(self, source: str, payload: dict[str, Any]) -> None:
        """A handoff has arrived."""
        logger.info("Handoff context detected from %s", source)
        logger.debug("Handoff data keys: %s", list(payload))
        self.shared_memory = {**self.shared_memory, "handoff_context": payload}
        self.handoffs_received += 1

    def keep(self, agent: str, answer: str) -> None:
        """An agent has answered."""
        self.messages.append({"role": "assistant", "content": answer, "agent": agent})
        self.last_agent = agent


@dataclass
class Assignment:
    """What a delegate is told of the conversation: who asks, and what is handed over."""

    user_id: str | None
    conversation_id: str | None
    user_chat_model: str | None
    shared_memory: dict[str, Any]


class Minutes(AgentHooks[Any]):
    """Keeps what an agent of the conversation answers; who delegates keeps what comes back."""

    async def on_end(self, context: RunContextWrapper[Any], agent: Agent[Any], output: Any) -> None:
        """The agent is done."""
        if isinstance(context.context, Conversation):
            context.context.keep(agent.name, output)


def handoff_note(context: dict[str, Any]) -> str:
    """What the research agent is told of a handoff; empty where there is no document."""
    document = context.get("reference_document") or {}
    if not document.get("has_content"):
        return ""
    shown = {
        "Delegated by": context.get("source_agent"),
        "User has reference document": document.get("filename"),
        "Document": document.get("content", "")[:PREVIEW_CHARACTERS],
        "Analysis so far": json.dumps(context.get("analysis_context"), separators=(",", ":")),
    }
    lines = [f"- {label}: {value}" for label, value in shown.items() if value is not None]
    return "\n".join(
        [
            "**AGENT HANDOFF CONTEXT**:",
            *lines,
            "When answering, reference data from the user's document.",
        ]
    )


def asked(query: str, note: str) -> dict[str, str]:
    """One message: the query, and under it the note about the handoff."""
    return {"role": "user", "content": "\n\n".join(part for part in (query, note) if part)}


async def delegate_research(context: ToolContext[Conversation], arguments: str) -> str:
    """Has the research agent answer, and comes back with its result."""
    request = json.loads(arguments)
    wrong = objections(request)
    if wrong:
        logger.warning("Handoff to research_agent refused: %s", wrong)
        return f"Handoff to research_agent rejected: {wrong}"
    conversation, payload = context.context, request["payload"]
    logger.info("Handing off to research_agent with %s", payload["handoff_type"])
    conversation.receive("reference_agent", payload)
    assignment = Assignment(
        conversation.user_id,
        conversation.conversation_id,
        conversation.user_chat_model,
        conversation.shared_memory,
    )
    note = handoff_note(payload)
    result = await Runner.run(
        research_agent, [*conversation.history(), asked(request["query"], note)], context=assignment
    )
    conversation.keep("research_agent", result.final_output)
    return str(result.final_output)


async def on_lookup(context: RunContextWrapper[Conversation], lookup: QuickLookup) -> None:
    """A quick lookup: research answers this message, and the next ones."""
    logger.info("Handing off to research_agent with %s", lookup.type)
    context.context.receive("chat_agent", lookup.payload.model_dump())
    context.context.primary_agent_selected = "research_agent"


def only_the_query(data: HandoffInputData) -> HandoffInputData:
    """Shows research the conversation and the query, not the call that brought it here."""
    call = next(item for item in data.new_items if isinstance(item, HandoffCallItem))
    lookup = QuickLookup.model_validate_json(call.raw_item.arguments)
    note = f"- Conversation so far: {lookup.payload.conversation_context}"
    history = data.input_history if isinstance(data.input_history, tuple) else ()
    return data.clone(
        input_history=(*history, asked(lookup.query, note)), pre_handoff_items=(), new_items=()
    )


research_agent = Agent[Any](
    name="research_agent", instructions="Research.", model=MODEL, hooks=Minutes()
)
reference_agent = Agent[Conversation](
    name="reference_agent",
    instructions="Answer about the user's reference document.",
    model=MODEL,
    hooks=Minutes(),
    tools=[
        FunctionTool(
            name="transfer_to_research_agent",
            description="Delegate research, and go on with its result.",
            params_json_schema=DELEGATION_ARGUMENTS,
            on_invoke_tool=delegate_research,
            strict_json_schema=False,
        )
    ],
)
chat_agent = Agent[Conversation](
    name="chat_agent",
    instructions=(
        "Chat. Hand off research questions. Answer comments, thanks and other follow-ups yourself."
    ),
    model=MODEL,
    hooks=Minutes(),
    handoffs=[
        handoff(
            research_agent,
            input_type=QuickLookup,
            on_handoff=on_lookup,
            input_filter=only_the_query,
        )
    ],
)
AGENTS = {one.name: one for one in (reference_agent, chat_agent, research_agent)}


class Desk:
    """Answers the messages of one conversation."""

    def __init__(self) -> None:
        self.conversation = Conversation()

    async def chat(self, text: str) -> str:
        """Returns the answer of whoever is to answer."""
        conversation, first = self._begin(text)
        result = await Runner.run(first, conversation.history(), context=conversation)
        return str(result.final_output)

    async def stream(self, text: str) -> str:
        """The same, with the model's answers streamed."""
        conversation, first = self._begin(text)
        result = Runner.run_streamed(first, conversation.history(), context=conversation)
        async for _ in result.stream_events():
            pass
        return str(result.final_output)

    def _begin(self, text: str) -> tuple[Conversation, Agent[Any]]:
        conversation = self.conversation
        conversation.shared_memory = {}
        conversation.messages.append({"role": "user", "content": text})
        return conversation, AGENTS[conversation.primary_agent_selected]
