"""Pipelines and scenarios drawn from a seed, as the plain mappings that a YAML file says.

The script of a turn is written while its flow is walked, so that every reply line is asked for.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

FLOWS = ("handoffs", "router", "supervisor", "graph")
NAMES = ("ada", "ben", "cleo", "dan", "eva")
TOOLS = ("look", "count")
FILTERS: list[Any] = [
    "tool_messages", "tool_calls", "intermediate_ai", "handoffs",
    {"agents": {"only": ["ada", "ben"]}}, {"agents": {"not": ["ben"]}},
    {"agents": {"not": ["ada"]}},
]  # fmt: skip
CHANNELS: dict[str, dict[str, Any]] = {
    "last": {"reducer": "replace"},
    "words": {"reducer": "append"},
    "few": {"reducer": {"append": {"last": 2}}},
    "facts": {"reducer": "merge"},
    "deep": {"reducer": {"merge": "deep"}},
    "points": {"reducer": "add"},
    "names": {"reducer": "union"},
    "cards": {"reducer": "by_id"},
}
WRITES: dict[str, list[Any]] = {
    "last": ["${run.reply}", "${run.output}", "${agent}", "${user}", "${state.points} of ${agent}",
             {"$set": "${agent}"}, "${state.words}", "${state.few}", "${run.tools_called}"],
    "words": ["${run.output}", ["${agent}", "and"], "${agent} heard ${user}", "${state.last}",
              {"$set": ["${agent}"]}, "${run.tools_called}"],
    "few": ["${run.output}", ["${agent}"], ["one", "two", "three"], {"$set": []}],
    "facts": [{"${agent}": "${run.output}"}, {"at": {"${agent}": 1}},
              {"$set": {"new": "${agent}"}}],
    "deep": [{"at": {"${agent}": "${run.reply}"}},
             {"at": {"list": ["${agent}"]}, "top": "${agent}"}, {"$set": {}}],
    "points": [1, 7, {"$set": 3}, "${run.took_ms}"],
    "names": [["${agent}"], ["${agent}", "all", "all"], "${user}", {"$set": ["none"]}],
    "cards": [[{"id": "${agent}", "said": "${run.reply}"}], {"id": "one", "by": "${agent}"}],
}  # fmt: skip
GIVEN: dict[str, Any] = {
    "last": "given", "words": ["g1", "g2"], "few": ["g1", "g2"], "facts": {"ada": "given"},
    "deep": {"at": {"ada": "given", "zoe": 1}}, "points": 10, "names": ["ada"],
    "cards": [{"id": "ada", "said": "given"}],
}  # fmt: skip
ITEMS = [
    {"text": f"item {name}", "agent": agent, "at": f"{at}T08:00:00Z", "score": score, "tags": tags}
    for name, agent, at, score, tags in (
        ("alpha", "ada", "2026-01-04", 0.5, ["red"]), ("beta", "ben", "2025-12-30", 0.9, []),
        ("gamma", "zoe", "2026-01-02", 0.7, ["red", "blue"]),
        ("delta", "ada", "2025-06-01", 0.8, ["blue"]),
    )
]  # fmt: skip
RECALL: dict[str, list[Any]] = {
    "tags": [["red"], ["red", "blue"]], "since_days": [2, 10], "threshold": [0.7, 0.75],
    "order": ["newest_first", "oldest_first", "score"], "max": [1, 2],
    "scopes": [["project", "session", "turn", "global"]],
    "time_ranges": [[{"from": "2025-12-30", "to": "2026-01-02"}]],
}  # fmt: skip
SCOPES = ("turn", "session", "session", "session", "project", "global", "agent_run")


def same_pair(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Says whether two contracts are of the same agents."""
    return bool(one["from"] == other["from"] and one["to"] == other["to"])


class Draw:
    """One drawing: a pipeline, and a scenario that it can play."""

    def __init__(self, seed: int, *, flow: str | None = None, restarts: bool = False) -> None:
        self.random = random.Random(seed)
        self.flow = flow or FLOWS[seed % len(FLOWS)]
        self.restarts = restarts
        self.count = 0
        self.agents = list(NAMES[: self.random.randint(3, 5)])
        self.pipeline = self.draw_pipeline()
        self.scenario = self.draw_scenario()

    def chance(self, share: float) -> bool:
        """Draws whether."""
        return self.random.random() < share

    def text(self) -> str:
        """Draws a text that nothing else says."""
        self.count += 1
        words = ["rice", "rain", "river", "rust", "an apple", "or not", "– ünïcode"]
        return f"{self.random.choice(words)} {self.count}" + " so" * self.random.choice([0, 0, 9])

    # The pipeline

    def draw_pipeline(self) -> dict[str, Any]:
        """Draws the system."""
        self.before_texts: dict[str, str] = {}
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
        if self.has_outputs:
            self.channels["agent_outputs"] = {"reducer": "merge", "scope": "turn"}
        self.edges: list[dict[str, Any]] = []
        self.nodes: dict[str, Any] = {}
        plan = getattr(self, f"_plan_{self.flow}")()
        self.contracts = self.draw_contracts()
        agents = {name: self.draw_agent(name) for name in self.agents}
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
        last = rest[-1] if rest else None
        shape = self.random.choice(["line", "decision", "split"] if rest else ["line", "decision"])
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
            self.nodes = {a: {"role": "split"}, b: {}, c: {}, str(last): {"role": "merge"}}
            self.agents = [a, b, c, str(last)]
            self.edges = [{"from": a, "to": b}, {"from": a, "to": c}]
            self.edges += [{"from": b, "to": last}, {"from": c, "to": last}]
            self.nodes[str(last)]["exit"] = True
        self.nodes[a]["start"] = True
        return {"nodes": self.nodes, "edges": self.edges}

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
                    for key in ("payload", "rules", "query", "mode", "on_invalid"):
                        contract.pop(key, None)
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

    def readable(self) -> list[str]:
        """Returns the channels that references may name."""
        return [name for name, one in self.channels.items() if one.get("scope") != "agent_run"]

    def draw_agent(self, name: str) -> dict[str, Any]:
        """Draws one participant."""
        is_chosen = self.flow == "router" and name == self.agents[0]
        if not is_chosen and not self.nodes.get(name, {}).get("role") and self.chance(0.08):
            passes: dict[str, Any] = {"function": "simkit.nodes:same"}
            return passes | ({"writes": self.draw_writes()} if self.chance(0.7) else {})
        agent: dict[str, Any] = {"instructions": f"You are {name}."}
        if self.chance(0.2) and "points" in self.readable():
            agent["instructions"] = f"You are {name}; ${{state.points}} points for ${{user}}."
        agent["tools"] = list(TOOLS)
        if self.chance(0.1) and self.flow in ("handoffs", "supervisor"):
            agent["returns"] = "tool_output"
        loose = [one for one in self.agents if one != name and self.chance(0.2)]
        if self.flow == "handoffs" and loose:
            agent["handoffs"] = loose
        if self.flow in ("handoffs", "router") and self.chance(0.1):
            agent["handoffs"] = []
        if self.chance(0.8):
            agent["context"] = self.draw_recipe()
        if self.chance(0.7):
            agent["writes"] = self.draw_writes()
        is_last = self.flow == "graph" and self.nodes[name].get("exit")
        if self.chance(0.15) and (is_last or self.flow in ("handoffs", "supervisor")):
            agent["before"] = [{"when": {"user": f"Hello {name}"}, "writes": self.draw_writes(0.5)}]
        if self.chance(0.3):
            when = self.random.choice(
                [{"user": {"$contains": "r"}}, {"run.output": {"$contains": "1"}}, {"agent": name}]
            )
            agent["after"] = [{"when": when, "writes": self.draw_writes(0.5)}]
        return agent

    def draw_writes(self, said: float = 0.7) -> dict[str, Any]:
        """Draws what a run leaves."""
        writes: dict[str, Any] = {}
        if self.chance(said):
            writes["messages"] = self.random.choice(["${run.final_message}",
                                                     ["${run.final_message}"]])  # fmt: skip
        for channel in self.channels:
            if channel in WRITES and self.chance(0.4):
                writes[channel] = self.random.choice(
                    [w for w in WRITES[channel] if self.may_say(w)]
                )
        if self.has_outputs and self.chance(0.7):
            writes["agent_outputs"] = {"${agent}": "${run}"}
        return writes

    def may_say(self, template: Any) -> bool:
        """Says whether a template names only what a reference may name."""
        hidden = [name for name in CHANNELS if name not in self.readable()]
        return not any(f"state.{name}" in str(template) for name in hidden)

    def draw_recipe(self) -> list[Any]:
        """Draws what an agent reads."""
        kinds = ["instructions", "history", "current_message", "handoff"]
        if self.flow == "supervisor":
            kinds.append("task")
        if self.flow == "graph":
            kinds += ["input", "upstream"]
        if self.has_items:
            kinds.append(self.random.choice(["recall", "notes", "memories"]))
        if self.has_outputs:
            kinds.append("previous_agents")
        entries: list[Any] = [self.draw_section(kind) for kind in kinds if self.chance(0.85)]
        shown = [name for name in self.readable() if name in CHANNELS]
        if shown and self.chance(0.6):
            entries.append({"shared": {"from": self.random.choice(shown), **self.dressed()}})
        if self.chance(0.3):
            self.random.shuffle(entries)
        if self.chance(0.2):
            entries[:0] = (
                [
                    [
                        "instructions",
                        {"shared": {"from": self.random.choice(shown), "name": "beside"}},
                    ]
                ]
                if shown
                else []
            )
            entries = [e for e in entries if (e != "instructions" and "instructions" not in e)
                       or isinstance(e, list)]  # fmt: skip
        return entries or ["instructions"]

    def dressed(self) -> dict[str, Any]:
        """Draws what stands around a section."""
        options: dict[str, Any] = {}
        around = {"title": "Above:", "after": "below.", "role": "assistant",
                  "format": "In ${agent}'s words, of ${user}."}  # fmt: skip
        for key, value in around.items():
            if self.chance(0.2):
                options[key] = value
        if self.chance(0.1):
            options["when"] = {"user": {"$contains": "r"}}
        return options

    def draw_section(self, kind: str) -> Any:
        """Draws one section."""
        options: dict[str, Any] = {} if kind == "history" else self.dressed()
        if kind == "handoff" and self.chance(0.3):
            options["fields"] = {"asked": "query", "number": "payload.n", "by": "from"}
        if kind in ("recall", "notes", "memories"):
            options["from"] = "items"
            for key, values in RECALL.items():
                if self.chance(0.25):
                    options[key] = self.random.choice(values)
        if kind == "previous_agents":
            if self.chance(0.3):
                options["truncate"] = self.random.randint(3, 30)
            if self.chance(0.3):
                options["structured_data"] = self.chance(0.5)
        if self.chance(0.1):
            options.pop("role", None)
            options["as"] = "text"
        if kind == "history":
            if self.chance(0.6):
                options["from"] = "log"
            if self.chance(0.7):
                options["filters"] = self.random.sample(FILTERS, self.random.randint(1, 3))
            if self.chance(0.5):
                unit = self.random.choice(["rounds", "messages", "tokens"])
                size = self.random.randint(0, 4) * (8 if unit == "tokens" else 1)
                options["window"] = {unit: size}
                if unit == "tokens":
                    options["filters"] = [
                        "tool_messages",
                        "tool_calls",
                        *options.get("filters", []),
                    ]
        return {kind: options} if options else kind

    # The scenario

    def draw_scenario(self) -> dict[str, Any]:
        """Draws the conversation."""
        scenario: dict[str, Any] = {"version": 1, "scenario": "drawn", "pipeline": "drawn"}
        given = {name: GIVEN[name] for name in self.readable() if name in GIVEN
                 and self.chance(0.3)}  # fmt: skip
        if self.chance(0.2):
            given["messages"] = [{"user": "Before all"}, {"assistant": "Once."}]
        if self.has_items:
            given["items"] = self.random.sample(ITEMS, self.random.randint(0, len(ITEMS)))
        if given:
            scenario["given"] = {"state": given}
        scenario["turns"] = []
        sessions = {"s1": "p1"} if self.chance(0.5) else {"s1": "p1", "s2": "p1", "s3": "p2"}
        size = self.random.randint(2, 5)
        for number in range(size):
            session = self.random.choice(list(sessions))
            turn = self.draw_turn(is_last=number == size - 1)
            turn |= {"session": session, "project": sessions[session]}
            if self.restarts and number and self.chance(0.5):
                turn["restart"] = True
            scenario["turns"].append(turn)
        return scenario

    def draw_turn(self, *, is_last: bool) -> dict[str, Any]:
        """Draws one turn: what the user says, and the lines that it needs."""
        self.replies: dict[str, list[Any]] = {}
        self.is_last, self.ended, self.size = is_last, False, 0
        self.user = self.text()
        shy = [name for name, one in self.pipeline_agents().items() if "before" in one]
        if shy and self.chance(0.4):
            self.user = f"Hello {self.random.choice(shy)}"
        user: Any = self.user
        if self.flow == "supervisor" and self.chance(0.4):
            goal = self.random.choice(list(self.plan()["goals"]))
            user, self.user = {"json": {"goal": goal}}, ""
        self.script(user)
        turn: dict[str, Any] = {"user": user}
        if self.replies:
            turn["replies"] = self.replies
        called = {next(iter(c)) for lines in self.replies.values() for line in lines
                  if isinstance(line, dict) for c in line.get("calls", [])}  # fmt: skip
        if called:
            turn["tool_results"] = {
                tool: self.random.choice([self.text(), {"kcal": 8, "of": ["a"]}, 5])
                for tool in sorted(called)
            }
        return turn

    def pipeline_agents(self) -> Mapping[str, Any]:
        """Returns the agents' definitions."""
        agents: Mapping[str, Any] = self.pipeline["agents"]
        return agents

    def plan(self) -> Mapping[str, Any]:
        """Returns the flow's plan."""
        plan: Mapping[str, Any] = self.pipeline["flow"][self.flow]
        return plan

    def script(self, user: Any) -> None:
        """Writes the lines that a turn needs."""
        if self.flow == "handoffs":
            self.speak(self.agents[0])
        elif self.flow == "supervisor":
            only = user["json"]["goal"] if isinstance(user, dict) else None
            for goal in [only] if only else self.plan()["goals"]:
                for step in self.plan()["goals"][goal]["steps"]:
                    self.speak(next(iter(step)), plain=True)
        elif self.flow == "router":
            self._script_router()
        else:
            self._script_graph()

    def _script_router(self) -> None:
        decider, *others = self.agents
        if self.is_quiet(decider):
            self.user = self.text()
        chosen = self.random.sample(others, self.random.randint(1, 2))
        side_by_side = len(chosen) == 2 and self.chance(0.5)
        to: Any = {"parallel": chosen} if side_by_side else chosen
        self.add(decider, {"json": {"to": to[0] if len(to) == 1 and not side_by_side else to}})
        for name in chosen:
            self.speak(name, alone=side_by_side)

    def _script_graph(self) -> None:
        here, laps = self.agents[0], 0
        if (self.nodes[here] or {}).get("role") == "decision":
            while True:
                again = laps < 2 and self.chance(0.4)
                self.add(here, self.text() if again else self.random.choice(
                    ["go", {"json": {"decision": "go"}}]))  # fmt: skip
                if not again:
                    break
                self.speak(self.agents[2], plain=True)
                laps += 1
            self.speak(self.agents[1], plain=True)
            return
        for name in self.agents:
            self.speak(name, alone=True)

    def is_quiet(self, agent: str) -> bool:
        """Says whether a rule stands in for an agent's model in this turn."""
        of_agent = self.pipeline_agents()[agent]
        rule = "before" in of_agent and self.user == f"Hello {agent}"
        return rule or "function" in of_agent

    def add(self, agent: str, line: Any) -> None:
        """Adds a reply line; with a latency that no other has."""
        self.count += 1
        if not isinstance(line, dict):
            line = {"text": line}
        line["latency_ms"] = self.count * 37 + self.random.randint(0, 30)
        self.replies.setdefault(agent, []).append(line)

    def speak(self, agent: str, *, plain: bool = False, alone: bool = False) -> None:
        """Writes the lines of one run, and of the runs that it brings about: none if ``alone``."""
        if self.ended or self.is_quiet(agent):
            return
        self.size += 1
        refused: list[str] = []
        while not plain and self.chance(0.5) and self.size < 12 and not self.ended:
            self.size += 1
            if self.chance(0.5):
                tools = self.random.choices(TOOLS, k=self.random.randint(1, 2))
                if self.pipeline_agents()[agent].get("returns") == "tool_output":
                    tools = tools[:1]
                line: dict[str, Any] = {"calls": [{t: {"q": self.text()}} for t in tools]}
                self.add(agent, {**line, "text": "Wait."} if self.chance(0.3) else line)
                if self.pipeline_agents()[agent].get("returns") == "tool_output":
                    return
                continue
            contracts = [c for c in self.contracts if c["from"] == agent]
            if not contracts or alone or self.pipeline_agents()[agent].get("handoffs") == []:
                continue
            contract = self.random.choice(contracts)
            handoff = self.draw_handoff(contract, is_good=self.chance(0.7))
            self.add(agent, {"handoff": handoff})
            if self.is_refused(contract, handoff):
                on_invalid = contract.get("on_invalid", "reject")
                self.ended = on_invalid == "stop" or (
                    on_invalid == "retry" and contract["to"] + contract["type"] in refused
                )
                if self.ended and on_invalid == "retry" and not self.is_last:
                    self.ended = False
                    self.replies[agent].pop()
                    continue
                refused.append(contract["to"] + contract["type"])
                continue
            self.speak(contract["to"])
            if contract["mode"] != "delegate" or self.ended:
                return
        if not self.ended:
            self.add(agent, self.random.choice([self.text(), {"json": {"said": self.text()}},
                                                {"text": '{"a": [1, 2]}'}]))  # fmt: skip

    def draw_handoff(self, contract: Mapping[str, Any], *, is_good: bool) -> dict[str, Any]:
        """Draws what is handed over."""
        handoff: dict[str, Any] = {"to": contract["to"], "payload": {"n": self.count}}
        if len([c for c in self.contracts if same_pair(c, contract)]) > 1:
            handoff["type"] = contract["type"]
        if self.chance(0.5) or "rules" in contract:
            handoff["query"] = self.text()
        if not is_good:
            handoff["payload"] = {"m": 1}
            if "rules" in contract:
                handoff["query"] = "forbidden"
        return handoff

    def is_refused(self, contract: Mapping[str, Any], handoff: Mapping[str, Any]) -> bool:
        """Says whether a handoff breaks its contract."""
        longest = contract.get("query", {}).get("max_chars", 1000)
        return (
            ("payload" in contract and "n" not in handoff["payload"])
            or ("rules" in contract and handoff["query"] == "forbidden")
            or len(handoff.get("query", "")) > longest
        )
