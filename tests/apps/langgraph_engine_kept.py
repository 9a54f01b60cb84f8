"""A graph whose store holds something before anybody works."""

from __future__ import annotations

from langgraph_engine import build_words, names

graph = build_words()


def fill() -> None:
    graph.store.put(names("p1"), "Old", {"name": "Old"})
