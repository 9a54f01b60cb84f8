"""Desks whose state grows with every turn: on the OpenAI Agents SDK, in code, and declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import simkit

TEXT = "the quick brown fox jumps over the lazy dog"


@dataclass
class Shop:
    """What a desk remembers."""

    log: list[dict[str, Any]] = field(default_factory=list)
    memory: dict[str, Any] = field(default_factory=lambda: {"notes": [], "seen": 0})
    orders: dict[str, Any] = field(default_factory=dict)


def _grow(shop: Shop, shape: str, text: str) -> None:
    if shape == "list":
        shop.log.append({"role": "user", "content": f"{text} {TEXT}"})
    elif shape == "nested":
        shop.memory["seen"] += 1
        shop.memory["notes"].append(f"{text} {TEXT}")
    else:
        shop.orders[f"order {len(shop.orders)}"] = {"text": f"{text} {TEXT}"}


class Desk:
    """An agent whose context is the shop; it notes what it is asked and what it answers."""

    def __init__(self, shape: str) -> None:
        from agents import Agent

        self._shape, self._shop = shape, Shop()
        self._agent = Agent[Shop](name="desk", instructions="Help.")

    async def ask(self, text: str) -> str:
        """Answers the user."""
        from agents import Runner

        _grow(self._shop, self._shape, text)
        result = await Runner.run(self._agent, text, context=self._shop)
        _grow(self._shop, self._shape, result.final_output)
        return str(result.final_output)


def of_list() -> Desk:
    """Returns a desk with a log."""
    return Desk("list")


def of_nested() -> Desk:
    """Returns a desk with notes inside a mapping."""
    return Desk("nested")


def of_mapping() -> Desk:
    """Returns a desk with orders by number."""
    return Desk("mapping")


class Reporter:
    """Plain code that reports its log."""

    def __init__(self) -> None:
        self.log: list[dict[str, Any]] = []

    def ask(self, text: str) -> str:
        """Answers the user."""
        for role in ("user", "assistant"):
            self.log.append({"role": role, "content": f"{text} {TEXT}"})
            simkit.state(log=self.log)
        return "Yes."


def logged(root: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an entry for the log of a declared pipeline."""
    return {"role": "user", "content": f"{root['user']} {TEXT}"}


def joined(current: list[Any] | None, entry: Any) -> list[Any]:
    """Reduces a log to one with an entry more."""
    return [*(current or ()), entry]
