"""Conversations with tools and handoffs in which lints find nothing, mostly."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from simkit.trace import events as e
from simkit.trace.views import View
from tests.checks.lints.damages import AGENTS
from tests.oracle.comparing import played

SCHEMA: Final = {
    "type": "object",
    "required": ["order"],
    "properties": {"order": {"type": "string"}, "note": {"type": "string"}},
}


class Draw:
    """A pipeline drawn from a seed, and a scenario of it, as a YAML file says them."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.size = 0
        self.agents = AGENTS[: self.random.randint(2, 4)]
        self.is_routed = self.chance(0.3)
        self.has_contracts = self.chance(0.6)
        self.parts = self.random.choice([["instructions", self.history(), "current_message"],
                                         ["instructions", self.history()],
                                         ["instructions", "current_message"]])  # fmt: skip
        self.pipeline = self.draw_pipeline()
        self.is_given = self.chance(0.2)
        turns = [self.draw_turn() for _ in range(self.random.randint(2, 4))]
        self.scenario: dict[str, Any] = {
            "version": 1, "scenario": "s", "pipeline": "p", "turns": turns,
        }  # fmt: skip
        if self.is_given:
            self.scenario["given"] = {
                "state": {"messages": [{"user": self.text()}, {"assistant": self.text()}]}
            }

    @property
    def events(self) -> list[e.AnyEvent]:
        """The events of its run."""
        return self.view.events

    @property
    def view(self) -> View:
        """The view of its run."""
        return played(self.pipeline, self.scenario)

    def chance(self, share: float) -> bool:
        """Draws whether something happens."""
        return self.random.random() < share

    def text(self) -> str:
        """Draws a text; few come twice."""
        self.size += 1
        return f"Text {self.size if self.chance(0.97) else 1} of {self.random.choice('abc')}"

    def history(self) -> Any:
        """Draws a history: of the log with all messages, or of a channel, with filters or none."""
        history: dict[str, Any] = {}
        if self.chance(0.5):
            history["from"] = "log"
        if self.chance(0.4):
            filters = ["tool_messages", "tool_calls"]
            history["filters"] = filters if self.chance(0.8) else filters[:1]
        if self.chance(0.15):
            history["window"] = {"messages": self.random.randint(2, 6)}
        if self.chance(0.1):
            history["as"] = self.random.choice(["text", "json"])
        return {"history": history} if history else "history"

    def draw_pipeline(self) -> dict[str, Any]:
        """Draws the agents, what they are sent, and where control may go."""
        agents: dict[str, Any] = {}
        for name in self.agents:
            recipe = list(self.parts)
            if self.chance(0.9):
                recipe.insert(-1, "handoff")
            agents[name] = {
                "instructions": f"I am {name}.", "tools": ["find", "count"], "context": recipe,
                "writes": self.random.choice([
                    {"messages": ["${run.final_message}"]}, {"messages": "${run.messages}"},
                    {"messages": ["${run.final_message}"], "outputs": {name: "${run.reply}"}},
                ]),
            }  # fmt: skip
            if not self.has_contracts or self.chance(0.2):
                agents[name]["handoffs"] = [other for other in self.agents if other != name]
        if self.is_routed:
            agents["router"] = {"instructions": "Choose.", "writes": {"decision": "${run.output}"}}
        pipeline: dict[str, Any] = {
            "version": 1, "pipeline": "p", "agents": agents,
            "channels": {"case": {"scope": "session"}, "decision": {"scope": "turn"},
                         "outputs": {"reducer": "merge", "scope": "turn"}},
            "tools": {"find": {}, "count": {}},
            "flow": {"router": {"decide": "router", "to": "${run.output.to}"}}
            if self.is_routed
            else {"handoffs": {"start": "desk"}},
        }  # fmt: skip
        if self.chance(0.2):
            pipeline["limits"] = {"context_tokens": self.random.choice([90, 400])}
        if self.has_contracts:
            pipeline["contracts"] = [
                self.contract(source, target)
                for source in self.agents
                for target in self.agents
                if source != target
            ]
        return pipeline

    def contract(self, source: str, target: str) -> dict[str, Any]:
        """Draws a contract."""
        contract: dict[str, Any] = {"from": source, "to": target, "type": "work"}
        if self.chance(0.7):
            contract["payload"] = SCHEMA
        if self.chance(0.3):
            contract["writes"] = {"case": "${handoff.payload}"}
        if self.chance(0.1):
            contract["history"] = "none"
        return contract

    def draw_turn(self) -> dict[str, Any]:
        """Draws what the user says, and what agents and tools answer."""
        replies: dict[str, list[Any]] = {}
        results: dict[str, list[Any]] = {}
        turn: dict[str, Any] = {"user": self.text(), "replies": replies, "tool_results": results}
        if self.chance(0.5 if self.is_given else 0.15):
            turn |= {"session": "s2", "project": "p1"}
        agent = "desk"
        if self.chance(0.05) and not self.is_routed:
            return self.draw_circle()
        if self.is_routed:
            agent = self.random.choice(self.agents)
            replies["router"] = [{"json": {"to": agent}}]
        for _ in range(5):
            lines = replies.setdefault(agent, [])
            while self.chance(0.5):
                lines.append(self.calls(results))
            if self.chance(0.01):
                lines += [{"calls": [{"find": {"of": "it"}}]}] * 3
                results.setdefault("find", []).extend([7, 7, 7])
            if self.chance(0.4):
                lines.append(self.text())
                return turn
            target = self.random.choice([name for name in self.agents if name != agent])
            handoff: dict[str, Any] = {"to": target}
            if self.chance(0.7):
                handoff["query"] = self.text() * (30 if self.chance(0.05) else 1)
            if self.has_contracts or self.chance(0.3):
                handoff["payload"] = {"order": f"o{self.size} of {target}", "by": agent}
                if self.chance(0.2):
                    handoff["payload"]["note"] = self.text()
            lines.append({"handoff": handoff})
            agent = target
        replies.setdefault(agent, []).append(self.text())
        return turn

    def draw_circle(self) -> dict[str, Any]:
        """Draws a turn in which two agents hand the same request to each other."""
        to_other, to_first = (
            {"handoff": {"to": name, "query": "Again", "payload": {"order": "the same"}}}
            for name in ("billing", "desk")
        )
        replies = {"desk": [to_other, to_other], "billing": [to_first, "Enough."]}
        return {"user": self.text(), "replies": replies}

    def calls(self, results: dict[str, list[Any]]) -> dict[str, Any]:
        """Draws a line that calls tools, and what they answer."""
        calls = []
        for _ in range(self.random.choice([1, 1, 2, 3])):
            tool = self.random.choice(["find", "count"])
            args = {"of": self.text()} if self.chance(0.9) else {"of": "it"}
            calls.append({tool: args})
            result: Any = self.random.choice([self.text(), {"kcal": self.size}, self.size, ["a"]])
            if self.chance(0.1):
                result = {"error": self.text()}
            results.setdefault(tool, []).append(result)
        line: dict[str, Any] = {"calls": calls}
        return {**line, "text": self.text()} if self.chance(0.2) else line
