"""The messages that a node's agent is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage

from engine.records import StageRecord
from engine.values import compact


def upstream_text(stages: Sequence[StageRecord]) -> str:
    """Tells what the nodes before this one have put out and called, by their names."""
    if not stages:
        return ""
    return compact({one["node"]: {k: v for k, v in one.items() if k != "node"} for one in stages})


def prompt(
    instructions: str, given: Any = None, *, recall: str = "", upstream: Sequence[StageRecord] = ()
) -> list[AnyMessage]:
    """Returns the messages, in order: what the agent is, what it knows, and what it is given."""
    told = (instructions, recall, upstream_text(upstream))
    said: list[AnyMessage] = [SystemMessage(text) for text in told if text]
    return said if given is None else [*said, HumanMessage(compact(given))]
