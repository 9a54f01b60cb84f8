"""What drawn agents read and leave."""

from __future__ import annotations

import random
from typing import Any

FILTERS: list[Any] = [
    "tool_messages", "tool_calls", "intermediate_ai", "handoffs",
    {"agents": {"only": ["ada", "ben"]}}, {"agents": {"not": ["ben"]}},
    {"agents": {"not": ["ada"]}},
]  # fmt: skip
MATCHING: list[Any] = [
    {"drop": {"role": "tool"}}, {"drop": {"role": "assistant", "agent": "ben"}},
    {"older_than": {"rounds": 1}}, {"older_than": {"messages": 3}},
    {"older_than": {"rounds": 1, "filters": ["tool_calls", {"drop": {"role": "tool"}}]}},
    {"older_than": {"messages": 2, "filters": [{"agents": {"not": ["ben"]}}, "intermediate_ai"]}},
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
RECALL: dict[str, list[Any]] = {
    "tags": [["red"], ["red", "blue"]], "since_days": [2, 10], "threshold": [0.7, 0.75],
    "order": ["newest_first", "oldest_first", "score"], "max": [1, 2],
    "scopes": [["project", "session", "turn", "global"]],
    "time_ranges": [[{"from": "2025-12-30", "to": "2026-01-02"}]],
}  # fmt: skip


class Recipes:
    """Draws recipes and writes for the channels of a pipeline."""

    random: random.Random
    flow: str
    channels: dict[str, dict[str, Any]]
    has_items: bool
    has_outputs: bool
    summarises: bool
    edges: list[dict[str, Any]]
    nodes: dict[str, Any]

    def chance(self, share: float) -> bool:
        """Draws whether."""
        return self.random.random() < share

    def readable(self) -> list[str]:
        """Returns the channels that references may name."""
        return [name for name, item in self.channels.items() if item.get("scope") != "agent_run"]

    def draw_writes(self, reply: float = 0.7) -> dict[str, Any]:
        """Draws what a run leaves."""
        writes: dict[str, Any] = {}
        if self.chance(reply):
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
        texts = [name for name in self.readable() if name in CHANNELS]
        if texts and self.chance(0.6):
            entries.append({"shared": {"from": self.random.choice(texts), **self.dressed()}})
        if self.chance(0.3):
            self.random.shuffle(entries)
        if self.chance(0.2):
            entries[:0] = (
                [
                    [
                        "instructions",
                        {"shared": {"from": self.random.choice(texts), "name": "beside"}},
                    ]
                ]
                if texts
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
            if self.chance(0.4):
                options["from"] = self.random.choice([["lore", "items"], ["items", "lore"]])
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
            # Drawn beside: all else that is drawn stays what it is.
            extras = random.Random(repr(self.random.getstate()))
            if extras.random() < 0.3:
                filters = list(options.get("filters", []))
                filters.insert(extras.randint(0, len(filters)), extras.choice(MATCHING))
                options["filters"] = filters
            if self.chance(0.8 if self.summarises else 0.4):
                unit = self.random.choice(["rounds", "messages", "tokens"])
                size = self.random.randint(0, 4) * (8 if unit == "tokens" else 1)
                options["window"] = {unit: size}
                if unit == "tokens":
                    options["filters"] = [
                        "tool_messages",
                        "tool_calls",
                        *options.get("filters", []),
                    ]
                    if self.flow in ("supervisor", "graph"):
                        options.pop("from", None)
                if self.summarises and self.chance(0.8):
                    options["summary"] = "scribe"
        return {kind: options} if options else kind
