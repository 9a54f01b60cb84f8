"""Pipelines and scenarios drawn from a seed, as the plain mappings that a YAML file says."""

from __future__ import annotations

import random
from copy import deepcopy
from typing import Any

from tests.oracle.model import Model
from tests.oracle.pipelines import FLOWS, NAMES, Pipelines
from tests.oracle.recipes import GIVEN
from tests.oracle.script import Script

ITEMS = [
    {"text": f"item {name}", "agent": agent, "at": f"{at}T08:00:00Z", "score": score, "tags": tags}
    for name, agent, at, score, tags in (
        ("alpha", "ada", "2026-01-04", 0.5, ["red"]), ("beta", "ben", "2025-12-30", 0.9, []),
        ("gamma", "zoe", "2026-01-02", 0.7, ["red", "blue"]),
        ("delta", "ada", "2025-06-01", 0.8, ["blue"]),
    )
]  # fmt: skip

LORE = [item | {"text": f"lore {number}"} for number, item in enumerate(ITEMS[1:])]


class Draw(Pipelines):
    """One drawing: a pipeline, and a scenario that it can play."""

    def __init__(self, seed: int, *, flow: str | None = None, restarts: bool = False) -> None:
        self.random = random.Random(seed)
        self.flow = flow or FLOWS[seed % len(FLOWS)]
        self.restarts = restarts
        self.count = 0
        most = 6 if self.flow == "router" else 5
        self.agents = list(NAMES[: self.random.randint(3, most)])
        self.pipeline = self.draw_pipeline()
        self.scenario = self.draw_scenario()

    def text(self) -> str:
        """Draws a text that nothing else says."""
        self.count += 1
        words = ["rice", "rain", "river", "rust", "an apple", "or not", "– ünïcode"]
        return f"{self.random.choice(words)} {self.count}" + " so" * self.random.choice([0, 0, 9])

    def draw_scenario(self) -> dict[str, Any]:
        """Draws the conversation, and plays it to know which lines it asks for."""
        scenario: dict[str, Any] = {"version": 1, "scenario": "drawn", "pipeline": "drawn"}
        given = self.draw_given()
        if given:
            scenario["given"] = {"state": given}
        scenario["turns"] = []
        script = Script(self.random, self.text, self.pipeline)
        model = Model(self.pipeline, scenario, script)
        sessions = {"s1": "p1"} if self.chance(0.5) else {"s1": "p1", "s2": "p1", "s3": "p2"}
        for number in range(self.random.randint(2, 5)):
            session = self.random.choice(list(sessions))
            turn = self.draw_turn(session in model.waiting)
            if session != "s1" or self.chance(0.5):
                turn |= {"session": session, "project": sessions[session]}
            if self.restarts and number and self.chance(0.5):
                turn["restart"] = True
            scenario["turns"].append(turn)
            script.begin()
            error = model.take(turn).error
            if error and self.chance(0.2):
                break
            if error:
                turn["expect"] = {"error": {"type": error}}
        return deepcopy(scenario)

    def draw_given(self) -> dict[str, Any]:
        """Draws what channels begin as."""
        given = {name: GIVEN[name] for name in self.readable() if name in GIVEN
                 and self.chance(0.3)}  # fmt: skip
        if self.chance(0.2):
            given["messages"] = [{"user": "Before all"}, {"assistant": "Once."}]
        if self.has_items:
            given["items"] = self.random.sample(ITEMS, self.random.randint(0, len(ITEMS)))
            given["lore"] = self.random.sample(LORE, self.random.randint(0, len(LORE)))
        return given

    def draw_turn(self, is_asked: bool) -> dict[str, Any]:
        """Draws what the user says."""
        if is_asked and self.chance(0.75):
            return {"resume": self.random.choice([self.text(), {"days": 3}])}
        agents = self.pipeline["agents"]
        shy = [name for name, item in agents.items() if "before" in item]
        if shy and self.chance(0.4):
            return {"user": f"Hello {self.random.choice(shy)}"}
        if self.flow == "supervisor" and self.chance(0.4):
            goals = self.pipeline["flow"]["supervisor"]["goals"]
            return {"user": {"json": {"goal": self.random.choice(list(goals))}}}
        return {"user": self.text()}


__all__ = ["FLOWS", "Draw"]
