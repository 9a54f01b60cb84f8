"""The four agents."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import ToolCallRequest, wrap_tool_call
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.types import Overwrite

from .base import BaseAgent, as_text
from .state import AgentState
from .tools import TOOLS


class Orchestrator(BaseAgent):
    """Sends a question to research, or a vague one to clarification."""

    name = "orchestrator"
    prompt = "Decide RESEARCH, or CLARIFICATION and what is missing."

    def execute(self, state: AgentState) -> dict[str, Any]:
        if self.is_clarified(state):
            return self.done(
                next_agent="research",
                clarification_needed=False,
                clarification_count=Overwrite(0),
                missing_context=[],
            )
        conversation = HumanMessage(as_text(self.recent(state)))
        decision = str(self.llm.invoke([SystemMessage(self.prompt), conversation]).text)
        if "CLARIFICATION" not in decision:
            return self.done(next_agent="research", clarification_needed=False)
        update: dict[str, Any] = {"clarification_needed": True, "clarification_count": 1}
        missing = missing_in(decision)
        if missing is not None:
            update["missing_context"] = missing
        return self.done(next_agent="clarification", **update)

    def is_clarified(self, state: AgentState) -> bool:
        """Whether the user has just answered what clarification asked: then no model is needed."""
        last = state["messages"][-2:]
        asked = state["clarification_needed"] and [m.type for m in last] == ["ai", "human"]
        return asked and state["last_agent"] == "clarification"


def missing_in(decision: str) -> list[str] | None:
    """What a decision says is missing, if it says it."""
    try:
        found = json.loads(decision)
    except ValueError:
        return None
    missing = found.get("missing") if isinstance(found, dict) else None
    return missing if isinstance(missing, list) else None


class Clarification(BaseAgent):
    """Asks the user back, and waits for the next message."""

    name = "clarification"
    prompt = "Ask one question."

    def execute(self, state: AgentState) -> dict[str, Any]:
        prompts: list[AnyMessage] = [SystemMessage(self.prompt)]
        if state["missing_context"]:
            missing = json.dumps(state["missing_context"], separators=(",", ":"))
            prompts.append(SystemMessage(f"What is missing\n{missing}"))
        question = self.llm.invoke([*prompts, *self.recent(state)])
        return self.done(messages=[question], next_agent="END")


@wrap_tool_call
def told(request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
    """Tells the model that a tool failed, instead of ending the turn."""
    try:
        return handler(request)
    except Exception as problem:
        call = request.tool_call
        return ToolMessage(str(problem), tool_call_id=call["id"], name=call["name"], status="error")


class Research(BaseAgent):
    """Searches papers and the web, and summarises what it has found."""

    name = "research"
    prompt = "Research with tools."

    def __init__(self, llm: BaseChatModel) -> None:
        super().__init__(llm)
        self.agent = create_agent(llm, TOOLS, system_prompt=self.prompt, middleware=[told])

    def execute(self, state: AgentState) -> dict[str, Any]:
        history = self.recent(state)
        result = self.agent.invoke({"messages": history})
        made = result["messages"][len(history) :]
        used = [call["name"] for m in made if isinstance(m, AIMessage) for call in m.tool_calls]
        final = next(m for m in reversed(made) if isinstance(m, AIMessage) and not m.tool_calls)
        found = {
            "observations": [f"Used tool: {used[0]}"] if used else [],
            "tool_history": used,
            "final_output": str(final.text),
        }
        return self.done(messages=[final], context=found, next_agent="synthesis")


class Synthesis(BaseAgent):
    """Answers the question from what research has stored."""

    name = "synthesis"
    prompt = "Answer from the research."

    def execute(self, state: AgentState) -> dict[str, Any]:
        stored = json.dumps(state["context"], indent=2)
        questions = [m for m in state["messages"] if isinstance(m, HumanMessage)]
        prompt = SystemMessage(f"{self.prompt}\n\n```json\n{stored}\n```")
        found = json.loads(str(self.llm.invoke([prompt, *questions[-1:]]).text))
        return self.done(
            final_answer=found["answer"], confidence_score=found["confidence"], next_agent="END"
        )
