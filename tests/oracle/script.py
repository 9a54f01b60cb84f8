"""The script of a drawn scenario, written while the oracle plays it: a line whenever one is asked.

So every line is used, whatever turns a flow takes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from tests.oracle.values import Branch, Run, fits

TOOLS = ("look", "count")
FAULTS = ("rate_limit", "timeout", "server_error", "refusal")


class Script:
    """What models and tools answer, drawn from a seed."""

    def __init__(self, drawn: random.Random, text: Callable[[], str], pipeline: Mapping[str, Any],
                 *, fails: bool = True) -> None:  # fmt: skip
        self.random, self.text, self.pipeline, self.fails = drawn, text, pipeline, fails
        self.contracts: list[Mapping[str, Any]] = list(pipeline.get("contracts", ()))
        self.count = 0

    def chance(self, share: float) -> bool:
        """Draws whether."""
        return self.random.random() < share

    def begin(self) -> None:
        """Begins a turn."""
        self.size = 0
        self.laps = 0
        self.placed: dict[str, Branch | None] = {}
        """Who runs in which branch of a parallel group: an agent is in one at a time."""

    def write(self, model: Any, name: str, agent: str, run: Run | None) -> None:
        """Writes what a model answers next."""
        self.size += 1
        if run is not None and run.branch is not None:
            self.placed[name] = run.branch
        # Of several that act at one moment, nobody says who is first.
        if self.fails and run is not None and run.branch is None and self.chance(0.01):
            fault = {"agent": name, "call": model.asked_for[name],
                     "error": self.random.choice(FAULTS)}  # fmt: skip
            model.spec.setdefault("faults", []).append(fault)
            return
        line = self.draw(model, name, agent, run)
        self.count += 1
        line["latency_ms"] = self.count * 37 + self.random.randint(0, 30)
        model.spec.setdefault("replies", {}).setdefault(name, []).append(line)
        model.lines.setdefault(name, []).append(line)

    def draw(self, model: Any, name: str, agent: str, run: Run | None) -> dict[str, Any]:
        """Draws one line."""
        if self.fails and self.chance(0.015):
            return {"error": self.random.choice(FAULTS)}
        if run is None:
            return {"text": self.text()}
        if model.flow == "router" and name == model.plan["decide"]:
            if self.chance(0.05):
                return {"interrupt": self.text()}
            return {"json": {"to": self.chosen(model)}}
        if self.size < 12 and self.chance(0.06):
            return {"interrupt": self.random.choice([self.text(), {"ask": self.text()}])}
        if self.size < 14 and self.chance(0.25):
            tools = self.random.choices(TOOLS, k=self.random.randint(1, 2))
            of_agent = self.pipeline["agents"][agent]
            if of_agent.get("returns") == "tool_output":
                tools = tools[:1]
            line: dict[str, Any] = {"calls": [{t: {"q": self.text()}} for t in tools]}
            return {**line, "text": "Wait."} if self.chance(0.3) else line
        often = 0.4 if run.branch is None else 0.7
        if self.size < 14 and model.flow in ("handoffs", "router") and self.chance(often):
            handoff = self.passed_on(agent, name, run)
            if handoff is not None:
                return {"handoff": handoff}
        return self.answer_of(model, name)

    def chosen(self, model: Any) -> Any:
        """Draws whom a router chooses."""
        others = [a for a in self.pipeline["agents"] if a not in (model.plan["decide"], "scribe")]
        chosen = self.random.sample(others, self.random.randint(1, min(3, len(others))))
        if len(chosen) > 1 and self.chance(0.6):
            self.placed = dict.fromkeys(chosen)
            return {"parallel": chosen}
        return chosen if len(chosen) > 1 else chosen[0]

    def answer_of(self, model: Any, name: str) -> dict[str, Any]:
        """Draws what ends a run: what the edges that lead on ask for, mostly."""
        if model.flow == "graph" and (model.plan["nodes"][name] or {}).get("role") == "decision":
            self.laps += 1
            if self.laps < 3 and self.chance(0.4):
                return {"text": self.text()}
            return self.random.choice([{"text": "go"}, {"json": {"decision": "go"}}])
        asks = any(c["from"] == name and "payload" in c for c in self.contracts)
        if model.flow in ("graph", "supervisor") and asks and (self.size > 9 or self.chance(0.6)):
            return {"json": {"n": self.count}}
        return self.random.choice([{"text": self.text()}, {"json": {"said": self.text()}},
                                   {"text": '{"a": [1, 2]}'}])  # fmt: skip

    def passed_on(self, agent: str, name: str, run: Run) -> dict[str, Any] | None:
        """Draws a handoff, if the agent may make one."""
        if self.pipeline["agents"][agent].get("handoffs") == []:
            return None
        mine = [c for c in self.contracts if c["from"] == name and self.is_free(c["to"], run)]
        if not mine:
            return None
        contract = self.random.choice(mine)
        handoff: dict[str, Any] = {"to": contract["to"], "payload": {"n": self.count}}
        if len([c for c in self.contracts if same_pair(c, contract)]) > 1:
            handoff["type"] = contract["type"]
        if self.chance(0.5) or "rules" in contract:
            handoff["query"] = self.text()
        if self.chance(0.3):
            handoff["payload"] = {"m": 1}
            if "rules" in contract:
                handoff["query"] = "forbidden"
        if run.branch is not None and fits(contract.get("payload", {}), handoff["payload"]):
            self.placed[contract["to"]] = run.branch
        return handoff

    def is_free(self, agent: str, run: Run) -> bool:
        """Says whether an agent is at work in no other branch."""
        return run.branch is None or self.placed.get(agent, run.branch) is run.branch

    def answer(self, model: Any, tool: str) -> None:
        """Writes what a tool answers next."""
        results = model.spec.setdefault("tool_results", {})
        if tool in results and not isinstance(results[tool], list):
            return
        result = self.random.choice([self.text(), {"kcal": 8, "of": ["a"]}, 5])
        if self.chance(0.15):
            result = {"error": self.text()}
        elif self.chance(0.1):
            result = {"returns": [self.text()]}
        if tool in results:
            results[tool].append(result)
        elif self.chance(0.4):
            results[tool] = [result]
        else:
            results[tool] = result


def same_pair(item: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Says whether two contracts are of the same agents."""
    return bool(item["from"] == other["from"] and item["to"] == other["to"])
