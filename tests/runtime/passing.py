"""Conversations drawn from a seed in which agents call tools and pass control."""

from __future__ import annotations

import json
from random import Random
from typing import Any, Final

from simkit.core.messages import Handoff
from simkit.spec.scenario.files import Prepared
from tests.building import prepared

AGENTS: Final = ("ada", "ben", "cyd")
TOOLS: Final = ("find", "count", "look")
PAYLOAD: Final = {
    "type": "object",
    "properties": {
        "order": {"type": "integer", "minimum": 1},
        "reason": {"type": "string", "maxLength": 8},
        "source_agent": {"type": "string"},
        "handoff_type": {"enum": ["bill", "letter"]},
    },
    "required": ["order"],
}
ARGS: Final = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
PLAIN: Final[tuple[Any, ...]] = (
    "instructions",
    "current_message",
    {"handoff": {"name": "payload"}},
    {"handoff": {"name": "fields", "fields": {"Query": "query", "Order": "payload.order"}}},
    {"handoff": {"name": "form", "format": "${handoff.from} asks: ${handoff.query}"}},
    {"handoff": {"name": "cut", "preview": {"payload.reason": 2}, "title": "Passed on"}},
    "history",
    {"history": {"name": "log", "from": "log", "filters": ["tool_messages", "handoffs"]}},
    {"history": {"name": "written", "from": "log", "filters": ["intermediate_ai"]}},
    {"history": {"name": "few", "window": {"messages": 3}}},
)
"""Sections of plain recipes."""
SECTIONS: Final[tuple[Any, ...]] = (
    *PLAIN,
    {"previous_agents": {"from": "facts"}},
    {"history": {"name": "rolling", "window": {"messages": 2}, "summary": "cyd"}},
    {"current_message": {"name": "again", "when": {"agent": "ben"}}},
)
WRITES: Final[tuple[Any, ...]] = (
    {},
    {"messages": ["${run.final_message}"]},
    {"last": "${run.output}"},
    {"messages": ["${run.reply}"], "last": "${run.output}"},
    {
        "notes": ["${run.tools_called}", "${run.tool_results}"],
        "facts": {"${agent}": "${run.reply}"},
    },
    {"last": "${run}", "notes": ["${handoff}"]},
    {"notes": ["${run.timestamps}", "${run.usage}", "${run.took_ms}"]},
    {"facts": {"user": "${user}", "output": "${run.output}"}, "messages": ["${run.final_message}"]},
)


def reply(messages: list[dict[str, Any]]) -> Any:
    """A reply line that is computed from the context."""
    return {"text": f"{len(messages)} messages", "usage": {"output_tokens": 1}}


def act(root: dict[str, Any]) -> Any:
    """An agent that is a function."""
    of = len(root["state"]["notes"] or ()) % 4
    if of == 3 and root["agent"] != "ada":
        return Handoff("ada", query="Again")
    return [None, f"I am {root['agent']}", {"$message": of}, of][of]


class Passing:
    """One drawing."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def agent(self, name: str) -> dict[str, Any]:
        rng = self.rng
        recipe = rng.sample(PLAIN if self.chance(0.6) else SECTIONS, rng.randint(1, 6))
        agent: dict[str, Any] = {
            "instructions": f"I am {name}.",
            "tools": rng.sample(TOOLS, rng.randint(0, 3)),
            "handoffs": [other for other in AGENTS if other != name and self.chance(0.7)],
        }
        if self.chance(0.7):
            agent["context"] = recipe
        if self.chance(0.7):
            agent["writes"] = rng.choice(WRITES)
        if self.chance(0.1):
            agent["returns"] = "tool_output"
        if self.chance(0.1):
            agent["output"] = {"type": rng.choice(["object", "string", "array"])}
        if self.chance(0.1):
            agent["after"] = [{"when": {"run": {"output": "$set"}}, "writes": {"last": "after"}}]
        if self.chance(0.1):
            agent["before"] = [{"when": {"user": {"$contains": "1"}}, "writes": {"last": "before"}}]
        if self.chance(0.1):
            agent = {key: agent[key] for key in agent if key in ("writes", "handoffs")}
            agent["function"] = f"{__name__}:act"
        elif self.chance(0.1):
            agent["parse"] = rng.choice(["json_in_text", "text"])
        return agent

    def contract(self, source: str, target: str, kind: str) -> dict[str, Any]:
        rng = self.rng
        contract: dict[str, Any] = {
            "from": source, "to": target, "type": kind,
            "mode": rng.choice(["transfer", "transfer", "delegate", "delegate", "replace"]),
            "history": rng.choice(["all", "none", "filters", ["tool_messages"]]),
            "on_invalid": rng.choice(["reject", "reject", "stop", "retry"]),
        }  # fmt: skip
        if self.chance(0.5):
            contract["payload"] = PAYLOAD
        if self.chance(0.3):
            contract["writes"] = {"notes": ["${handoff.payload}"], "last": "${run.tools_called}"}
        if self.chance(0.2):
            contract["carries"] = ["messages"]
        if self.chance(0.2):
            contract["query"] = {"max_chars": 6}
        if self.chance(0.2):
            contract["rules"] = [{"query": {"$contains": "B"}}]
        if self.chance(0.2):
            contract["timeout_ms"] = 50
        if self.chance(0.2):
            contract["depth_max"] = 2
        return contract

    def pipeline(self) -> dict[str, Any]:
        rng = self.rng
        pairs = [(a, b) for a in AGENTS for b in AGENTS if a != b and self.chance(0.4)]
        contracts = [self.contract(*pair, "bill") for pair in pairs]
        contracts += [self.contract(*pair, "letter") for pair in pairs if self.chance(0.2)]
        find = {"args": ARGS} if self.chance(0.5) else {}
        count = {"returns": {"type": "integer"}} if self.chance(0.5) else {}
        return {
            "version": 1,
            "pipeline": "p",
            "channels": {
                "notes": {"reducer": "append"}, "last": {}, "facts": {"reducer": "merge"},
            },
            "agents": {name: self.agent(name) for name in AGENTS},
            "contracts": contracts,
            "tools": {"find": find, "count": count, "look": {"reads": "facts"}},
            "flow": {"handoffs": {"start": "ada"}},
            "limits": {"handoffs_per_turn": rng.randint(2, 8), "model_calls_per_run": 4},
        }  # fmt: skip

    def line(self, tools: list[str], others: list[str], may_end: bool) -> Any:
        rng = self.rng
        kinds = ["calls"] * 4 * bool(tools) + ["handoff"] * 4 * bool(others)
        kinds += ["text", "json"] * may_end or ["text"]
        if may_end and self.chance(0.15):
            kinds = ["computed", "error", "interrupt"]
        kind = rng.choice(kinds)
        if kind == "text":
            line: dict[str, Any] = {"text": rng.choice(["Hello", '{"a": 1}', "", "It is [1]"])}
        elif kind == "computed":
            return {"function": f"{__name__}:reply"}
        elif kind == "error":
            return {"error": rng.choice(["server_error", "malformed_json"])}
        elif kind == "interrupt":
            return {"interrupt": "Who?"}
        elif kind == "json":
            line = {"json": rng.choice([{"a": [1]}, "text", 3, None])}
        elif kind == "calls":
            calls = rng.sample(tools, rng.randint(1, min(2, len(tools))))
            args = {"find": {"id": 7}, "count": {}, "look": {"path": rng.choice(["", "ada", "no"])}}
            line = {"calls": {tool: args[tool] for tool in calls}}
            if self.chance(0.05):
                line |= {"calls": {"find": {"id": "seven"}}, "unchecked": self.chance(0.5)}
        else:
            handoff: dict[str, Any] = {"to": rng.choice(others)}
            if self.chance(0.6):
                handoff["query"] = rng.choice(["Bill", "A longer one", ""])
            if self.chance(0.6):
                handoff["payload"] = rng.choice(
                    [{"order": 1}, {"order": 0}, {"order": 2, "reason": "lost"}, {"n": None}]
                )
            if self.chance(0.5):
                handoff["type"] = rng.choice(["bill", "bill", "letter"])
            line = {"handoff": handoff}
        for key, value in {
            "latency_ms": 40, "usage": {"input_tokens": 3}, "when": {"agent": "$any"},
            "thinking": "Hm.",
        }.items():  # fmt: skip
            if self.chance(0.06):
                line[key] = value
        return line

    def turn(self, pipeline: dict[str, Any], number: int) -> dict[str, Any]:
        rng = self.rng
        replies = {}
        for name in AGENTS:
            tools = pipeline["agents"][name].get("tools", [])
            targets = [other for other in AGENTS if other != name]
            lines = [self.line(tools, targets, False) for _ in range(rng.randint(0, 3))]
            replies[name] = [*lines, self.line([], [], True)]
        results: dict[str, Any] = {
            "find": rng.choice([{"total": number}, "found", {"error": "down"}, [1, 2, 3, 4]]),
            "count": rng.choice(
                [number, "many", {"returns": 3, "latency_ms": rng.choice([0, 30])}]
            ),
        }
        turn: dict[str, Any] = {
            "user": rng.choice([f"Question {number}", {"json": {"$more": number}}, "Same"]),
            "replies": replies,
            "tool_results": results,
        }
        if self.chance(0.1):
            call: dict[str, Any] = {"call": rng.randint(1, 3)}
            tool: dict[str, Any] = {
                "tool": rng.choice(["find", "*"]),
                "at": rng.choice(["start", "end"]),
            }
            turn["cancel"] = rng.choice([call, tool])
        if self.chance(0.1):
            turn["faults"] = [{"error": "rate_limit", "call": rng.randint(1, 2)}]
        return turn


def passing(rng: Random) -> Prepared:
    """Draws a scenario."""
    draw = Passing(rng)
    pipeline = draw.pipeline()
    turns = [draw.turn(pipeline, number) for number in range(1, rng.randint(3, 6))]
    keys = "\n".join(f"{key}: {json.dumps(value)}" for key, value in pipeline.items())
    return prepared(keys, f"turns: {json.dumps(turns)}")
