"""The three tiers of memory: what nodes may know beside their input, and what they keep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypedDict

from langgraph.store.base import BaseStore

from engine.values import compact

Tier = str
TASK: Final = "task_items"
"""Of the task that runs: it is part of the graph's state, and over with the task."""
PROJECT: Final = "project_items"
GLOBAL: Final = "global_items"
ITEMS_MAX: Final = 10_000


class Where(TypedDict):
    """What a task is run for."""

    project: str


class Item(TypedDict, total=False):
    """Something that is worth knowing later."""

    text: Any
    agent: str
    tags: list[str]
    at: str


def namespace(tier: Tier, project: str) -> tuple[str, ...]:
    """Returns where in the store a tier is kept."""
    return ("everywhere", tier) if tier == GLOBAL else ("projects", project, tier)


class Memory:
    """The tiers that outlive a task, as one project sees them."""

    def __init__(self, store: BaseStore | None, project: str) -> None:
        if store is None:
            raise RuntimeError("the graph is compiled without a store, so nothing can be kept")
        self._store, self._project = store, project

    def items(self, tier: Tier) -> list[Item]:
        """Returns what a tier holds, in the order in which it was kept."""
        found = self._store.search(namespace(tier, self._project), limit=ITEMS_MAX)
        return [_item(one.value) for one in sorted(found, key=lambda one: one.key)]

    def keep(self, tier: Tier, item: Item) -> None:
        """Adds an item to a tier."""
        place = namespace(tier, self._project)
        number = len(self._store.search(place, limit=ITEMS_MAX))
        self._store.put(place, f"{number:08}", dict(item))


def _item(value: Mapping[str, Any]) -> Item:
    return Item(**value)  # type: ignore[typeddict-item]


def recall(
    tiers: Mapping[Tier, Sequence[Item]], *, tags: Sequence[str] = (), tokens: int | None = None
) -> str:
    """Returns the newest items that have one of the tags, as many as fit, each below its tier."""
    shown: dict[Tier, list[str]] = {tier: [] for tier in tiers}
    used = 0
    for tier, item in _newest_first(tiers):
        if tags and not set(tags) & set(item.get("tags", ())):
            continue
        text = compact(item["text"])
        used += tokens_of(text)
        if tokens is not None and used > tokens:
            break
        shown[tier].append(f"- {text}")
    found = {tier: lines for tier, lines in shown.items() if lines}
    headed = len(tiers) > 1
    return "\n".join(
        "\n".join([f"{tier}:", *lines] if headed else lines) for tier, lines in found.items()
    )


def _newest_first(tiers: Mapping[Tier, Sequence[Item]]) -> Iterator[tuple[Tier, Item]]:
    """Yields all items; of those that are equally new, the narrowest tier's last one first."""
    found = [
        (-_moment(item), number, -place, tier, item)
        for number, (tier, items) in enumerate(tiers.items())
        for place, item in enumerate(items)
    ]
    yield from ((tier, item) for *_, tier, item in sorted(found, key=lambda one: one[:3]))


def _moment(item: Item) -> float:
    return datetime.fromisoformat(item["at"]).timestamp() if "at" in item else 0.0


def tokens_of(text: str) -> int:
    """Returns about how many tokens a text is."""
    return -(-len(text) // 4)
