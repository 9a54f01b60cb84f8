"""openai-agents#1668: a filter that drops calls, and keeps the reasoning that belongs to them."""

from __future__ import annotations

from typing import Any

from agents import Agent, ModelSettings, handoff
from agents.items import (
    HandoffCallItem,
    HandoffOutputItem,
    ReasoningItem,
    ToolCallItem,
    ToolCallOutputItem,
)

TOOLS = (HandoffCallItem, HandoffOutputItem, ToolCallItem, ToolCallOutputItem)


def without(*kinds: type) -> Any:
    def others(items: Any) -> Any:
        return tuple(item for item in items if not isinstance(item, kinds))

    return lambda data: data.clone(
        pre_handoff_items=others(data.pre_handoff_items), new_items=others(data.new_items)
    )


def first(input_filter: Any) -> Any:
    settings = ModelSettings(store=False)
    two = Agent(name="two", instructions="Two.", model="gpt-5-mini", model_settings=settings)
    return Agent(
        name="one",
        instructions="One.",
        model="gpt-5-mini",
        model_settings=settings,
        handoffs=[handoff(two, input_filter=input_filter)],
    )


app = first(without(*TOOLS))
mended = first(without(*TOOLS, ReasoningItem))
