"""Pipelines drawn from a seed, as the plain mappings that a YAML file says."""

from __future__ import annotations

from typing import Any

from tests.oracle.recipes import CHANNELS, FILTERS, GIVEN, Recipes
from tests.oracle.script import TOOLS

FLOWS = ("handoffs", "router", "supervisor", "graph")
NAMES = ("ada", "ben", "cleo", "dan", "eva", "fay", "gus")
SCOPES = ("turn", "session", "session", "session", "project", "global", "agent_run")


class Pipelines(Recipes):
    """Draws pipelines."""

    restarts: bool
    agents: list[str]

    # The pipeline

    def draw_pipeline(self) -> dict[str, Any]:
        """Draws the system."""
        conversation = self.random.choice(["append", "append", {"append": {"last": 5}}])
        self.channels: dict[str, dict[str, Any]] = {
            "messages": {"reducer": conversation, "scope": "session"}
        }
        for name in self.random.sample(list(CHANNELS), self.random.randint(3, len(CHANNELS))):
            self.channels[name] = {**CHANNELS[name], "scope": self.random.choice(SCOPES)}
            if self.chance(0.2):
                self.channels[name]["default"] = GIVEN[name]
        self.has_items, self.has_outputs = self.chance(0.4), self.chance(0.4)
        if self.has_items:
            scope = self.random.choice(["session", "project", "global"])
            self.channels["items"] = {"reducer": "append", "scope": scope}
            scope = self.random.choice(["session", "project", "global"])
            self.channels["lore"] = {"reducer": "append", "scope": scope}
        if self.has_outputs:
            self.channels["agent_outputs"] = {"reducer": "merge", "scope": "turn"}
        self.summarises = self.chance(0.4)
        self.edges: list[dict[str, Any]] = []
        self.nodes: dict[str, Any] = {}
        plan = getattr(self, f"_plan_{self.flow}")()
        self.contracts = self.draw_contracts()
        agents = {name: self.draw_agent(name) for name in self.agents}
        if self.summarises:
            agents["scribe"] = {"instructions": "Summarise."}
        pipeline: dict[str, Any] = {
            "version": 1, "pipeline": "drawn", "channels": self.channels, "agents": agents,
            "tools": {tool: {} for tool in TOOLS}, "flow": {self.flow: plan},
            "limits": {"agent_runs_per_turn": 100, "handoffs_per_turn": 50,
                       "model_calls_per_run": 50},
        }  # fmt: skip
        if self.contracts:
            pipeline["contracts"] = self.contracts
        if self.restarts:
            pipeline["store"] = "sqlite"
        return pipeline

    def _plan_handoffs(self) -> dict[str, Any]:
        readable = self.channels.get("last", {}).get("scope") in ("session", "project", "global")
        if readable and self.chance(0.2):
            self.channels["starter"] = {"default": self.agents[0], "scope": "session"}
            return {"start": "${state.starter}"}
        return {"start": self.agents[0]}

    def _plan_router(self) -> dict[str, Any]:
        return {"decide": self.agents[0], "to": "${run.output.to}"}

    def _plan_supervisor(self) -> dict[str, Any]:
        words = ["Do ${user}", "Say it", "After ${state.last}" if "last" in self.channels else "Go"]
        if self.channels.get("last", {}).get("scope") == "agent_run":
            words.pop()
        return {
            "goals": {
                goal: {
                    "description": goal,
                    "steps": [
                        {agent: self.random.choice(words)}
                        for agent in self.random.choices(self.agents, k=self.random.randint(1, 3))
                    ],
                }
                for goal in ("first", "second")[: self.random.randint(1, 2)]
            }
        }

    def _plan_graph(self) -> dict[str, Any]:
        a, b, c, *rest = self.agents
        shapes = ["line", "decision", "split"] if rest else ["line", "decision"]
        shape = self.random.choice([*shapes, "split"] if len(rest) > 1 else shapes)
        if shape == "line":
            self.nodes = {name: {} for name in self.agents}
            pairs = list(zip(self.agents, self.agents[1:], strict=False))
            self.edges = [{"from": x, "to": y} for x, y in pairs]
            self.nodes[self.agents[-1]]["exit"] = True
        elif shape == "decision":
            self.agents = [a, b, c]
            self.nodes = {a: {"role": "decision"}, b: {"exit": True}, c: {}}
            self.edges = [{"from": a, "to": b, "label": "go"}, {"from": c, "to": a}]
            self.edges.append({"from": a, "to": c, "label": "else"})
        else:
            self._draw_split(a, b, c, rest)
        self.nodes[a]["start"] = True
        return {"nodes": self.nodes, "edges": self.edges}

    def _draw_split(self, a: str, b: str, c: str, rest: list[str]) -> None:
        """Draws a group of two ways, of which one may be longer or split again, and its merge."""
        *more, last = rest
        self.agents = [a, b, c, *more[:1], last]
        self.nodes = {a: {"role": "split"}, b: {}, c: {}, last: {"role": "merge", "exit": True}}
        ends = {c: last}
        if not more:
            ends[b] = last
        elif self.chance(0.4):
            inner, join = "fay", "gus"
            self.agents += [inner, join]
            self.nodes |= {b: {"role": "split"}, more[0]: {}, inner: {}, join: {"role": "merge"}}
            self.edges += [{"from": b, "to": more[0]}, {"from": b, "to": inner}]
            ends |= {more[0]: join, inner: join, join: last}
        else:
            self.nodes[more[0]] = {}
            ends |= {b: more[0], more[0]: last}
        self.edges += [{"from": a, "to": b}, {"from": a, "to": c}]
        self.edges += [{"from": source, "to": target} for source, target in ends.items()]

    def draw_contracts(self) -> list[dict[str, Any]]:
        """Draws what may be handed over."""
        contracts = []
        for source in self.agents:
            for target in self.agents:
                router = self.flow == "router" and self.agents[0] in (source, target)
                if source == target or router or not self.chance(0.5):
                    continue
                if self.flow in ("handoffs", "router"):
                    contracts.append(self.draw_contract(source, target))
                    if self.chance(0.2):
                        contracts.append({**self.draw_contract(source, target), "type": "other"})
                elif self.chance(0.5) and self.nodes.get(target, {}).get("role") != "merge":
                    contract = self.draw_contract(source, target)
                    keys = ["rules", "query", "mode"]
                    if self.nodes.get(source, {}).get("role") in ("decision", "merge"):
                        keys += ["payload", "on_invalid"]
                    for key in keys:
                        contract.pop(key, None)
                    if "payload" in contract and self.chance(0.7):
                        contract["on_invalid"] = self.random.choice(["retry", "retry", "stop"])
                    contracts.append(contract)
        return contracts

    def draw_contract(self, source: str, target: str) -> dict[str, Any]:
        """Draws one contract."""
        contract: dict[str, Any] = {"from": source, "to": target, "type": "work"}
        contract["mode"] = self.random.choice(["transfer", "delegate", "replace"])
        if self.chance(0.7):
            properties = {"n": {"type": "integer"}}
            if self.chance(0.3):
                properties |= {"source_agent": {"type": "string"}, "handoff_type": {}}
            contract["payload"] = {"type": "object", "required": ["n"], "properties": properties}
        if self.chance(0.3):
            contract["rules"] = [{"query": {"$not": {"$contains": "forbidden"}}}]
        if self.chance(0.2):
            contract["query"] = {"max_chars": 60}
        if self.chance(0.4):
            contract["history"] = self.random.choice(
                ["all", "none", "filters", self.random.sample(FILTERS, 2)]
            )
        readable = self.readable()
        if self.chance(0.3):
            size = self.random.randint(0, len(readable))
            contract["carries"] = self.random.sample(readable, size)
        if self.chance(0.4) and readable:
            contract["on_invalid"] = self.random.choice(["reject", "retry", "stop"])
        if self.chance(0.5):
            channel = self.random.choice([name for name in readable if name in CHANNELS] or [""])
            value = {"last": "${handoff.payload}", "words": "to ${handoff.to}", "points": 5,
                     "few": ["${state.messages[-1].content}"],
                     "facts": {"${handoff.to}": "${handoff.query}"}}.get(channel)  # fmt: skip
            if value is not None:
                contract["writes"] = {channel: value}
        return contract

    def draw_agent(self, name: str) -> dict[str, Any]:
        """Draws one participant."""
        is_chosen = self.flow == "router" and name == self.agents[0]
        steps = self.flow in ("supervisor", "graph")
        is_held = steps and any(c["from"] == name and "payload" in c for c in self.contracts)
        has_role = self.nodes.get(name, {}).get("role")
        if not is_chosen and not is_held and not has_role and self.chance(0.08):
            passes: dict[str, Any] = {"function": "simkit:same"}
            return passes | ({"writes": self.draw_writes()} if self.chance(0.7) else {})
        agent: dict[str, Any] = {"instructions": f"You are {name}."}
        if self.chance(0.2) and "points" in self.readable():
            agent["instructions"] = f"You are {name}; ${{state.points}} points for ${{user}}."
        agent["tools"] = list(TOOLS)
        if self.chance(0.1) and self.flow in ("handoffs", "supervisor") and not is_held:
            agent["returns"] = "tool_output"
        loose = [item for item in self.agents if item != name and self.chance(0.2)]
        if self.flow == "handoffs" and loose:
            agent["handoffs"] = loose
        if self.flow in ("handoffs", "router") and self.chance(0.1):
            agent["handoffs"] = []
        if self.chance(0.8):
            agent["context"] = self.draw_recipe()
        if self.chance(0.7):
            agent["writes"] = self.draw_writes()
        is_last = self.flow == "graph" and self.nodes[name].get("exit")
        may_stand_in = is_last or self.flow in ("handoffs", "supervisor")
        if self.chance(0.15) and may_stand_in and not is_held:
            agent["before"] = [{"when": {"user": f"Hello {name}"}, "writes": self.draw_writes(0.5)}]
        if self.chance(0.3):
            when = self.random.choice(
                [{"user": {"$contains": "r"}}, {"run.output": {"$contains": "1"}}, {"agent": name}]
            )
            agent["after"] = [{"when": when, "writes": self.draw_writes(0.5)}]
        return agent
