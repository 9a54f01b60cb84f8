"""The supervisor and its agents: each is sent its task, and the outputs of those before it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from openai import OpenAI

from supervising.parser import parse_action

logger = logging.getLogger(__name__)

MODEL = "gpt-5-mini"
MAX_ITERATIONS = 5
CLOSING = (
    "The context contains structured data from previous steps.\n"
    "You can reference fields from this data when calling tools."
)


@dataclass(frozen=True)
class SpecializedAgent:
    """One agent, and the one tool that it calls."""

    name: str
    prompt: str
    tool: Callable[[str], str]

    def execute_task_with_context(
        self, task: str, context: dict[str, Any] | None, max_iterations: int
    ) -> str:
        """Return what the agent's tool gives, or what it thought at last."""
        prompt = self.prompt
        if context is not None:
            data = json.dumps(context, indent=2)
            heading = "CONTEXT DATA (use this in your tool calls):"
            prompt += f"\n\n{heading}\n```json\n{data}\n```\n\n{CLOSING}"
        messages: list[Any] = [
            {"role": "system", "content": prompt},
            {"role": "user", "content": task},
        ]
        reply = ""
        for _ in range(max_iterations):
            answer = OpenAI().chat.completions.create(model=MODEL, messages=messages)
            reply = answer.choices[0].message.content or ""
            action = parse_action(self.name, reply)
            if action.get("action") == "call_tool":
                return self.tool(str(action.get("args", "")))
            messages.append({"role": "assistant", "content": reply})
        return reply


def fetch_product_data(_: str) -> str:
    """Fetch product sales data."""
    return json.dumps({"data": [{"sales": 3}]})


def analyze_product_data(product_json: str) -> str:
    """Analyze product sales data."""
    return json.dumps({"insights": ["up"]})


AGENTS = (
    SpecializedAgent("database_agent", "You fetch data from the database", fetch_product_data),
    SpecializedAgent(
        "analysis_agent",
        "You are a business analyst. You will receive CONTEXT DATA.",
        analyze_product_data,
    ),
)
GOAL = {"database_agent": "Fetch product sales data", "analysis_agent": "Analyze the product data"}


class Supervisor:
    """Works off one goal, an ordered list of agents and tasks."""

    def execute(self, message: str) -> str:
        """Return the last agent's result."""
        results: dict[str, Any] = {}
        last = ""
        for agent in AGENTS:
            context = dict(results) if results else None
            if context is not None:
                logger.debug(
                    "Passing context with %d entries to agent '%s'", len(context), agent.name
                )
            last = agent.execute_task_with_context(GOAL[agent.name], context, MAX_ITERATIONS)
            results[f"{agent.name}_output"] = value_of(last)
            logger.debug("Stored result from '%s' in context", agent.name)
        return last


def value_of(result: str) -> Any:
    """Return the JSON value of a result, or its text."""
    try:
        return json.loads(result)
    except ValueError:
        return result
