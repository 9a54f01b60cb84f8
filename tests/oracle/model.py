"""What a declared pipeline does, told a second time, from the documents alone.

Nothing of simkit's is imported here: pipelines and scenarios are the plain mappings that a YAML
file says. Where the documents leave the words of a message open, an ``Open`` stands for it.
"""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

EMPTY = {"append": [], "union": [], "by_id": [], "merge": {}, "add": 0}
INTERMEDIATE = ["tool_messages", "tool_calls", "intermediate_ai"]
DEFAULT_RECIPE = ["instructions", "handoff", "history", "current_message"]


class NotThere:
    """What a path leads to where nothing is."""


NOT_THERE = NotThere()


@dataclass(eq=False)
class Open:
    """A text of which the documents tell the beginning, or some of its parts in their order."""

    parts: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        place = 0
        for part in self.parts if isinstance(other, str) else ():
            place = str(other).find(part, place)
            if place < 0:
                return False
            place += len(part)
        return isinstance(other, str)


class JsonText(str):
    """A value that is shown as JSON, also if it is a text or empty."""


@dataclass(eq=False)
class Said:
    """A message; the same one wherever it stands."""

    role: str
    content: Any
    agent: str | None = None
    calls: tuple[tuple[str, Any], ...] = ()
    answers: str = ""


@dataclass
class Handoff:
    """One request to pass control."""

    source: str
    target: str
    contract: Mapping[str, Any]
    query: str | None
    payload: Any
    outcome: str = "made"

    def root(self) -> dict[str, Any]:
        """Returns what ``${handoff}`` is."""
        return {
            "from": self.source, "to": self.target, "type": self.contract.get("type", "handoff"),
            "mode": self.mode, "query": self.query, "payload": self.payload,
        }  # fmt: skip

    @property
    def mode(self) -> str:
        """Whether control comes back, and whose the reply is."""
        return str(self.contract.get("mode", "transfer"))


@dataclass
class Run:
    """One activation of an agent."""

    agent: str
    received: dict[str, Any]
    input: Any
    started: int
    output: Any = None
    final: Said | None = None
    said: list[Said] = field(default_factory=list)
    tools: list[tuple[str, Any]] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    update: dict[str, Any] = field(default_factory=dict)
    twice: set[str] = field(default_factory=set)
    """Channels that it wrote more than once: how its update sums them up is not said."""
    passed: Handoff | None = None

    def add(self, update: Mapping[str, Any]) -> None:
        """Adds to what it left in the channels."""
        self.twice |= update.keys() & self.update.keys()
        self.update |= update


class TurnEnds(Exception):
    """The turn ends before its flow does."""

    def __init__(self, error: str | None) -> None:
        super().__init__(error)
        self.error = error


@dataclass
class Turn:
    """What became of one user message."""

    runs: list[Run] = field(default_factory=list)
    handoffs: list[Handoff] = field(default_factory=list)
    reply: Any = None
    state: dict[str, Any] = field(default_factory=dict)
    error: str | None = None


Work = Generator[int, None, Any]
"""Something that takes time: it yields virtual milliseconds."""


def as_json(value: Any, *, spaced: bool = False) -> str:
    """Returns a value as a provider carries it."""
    plain = [one(item) for item in value] if isinstance(value, list) else one(value)
    return json.dumps(plain, ensure_ascii=False, separators=None if spaced else (",", ":"))


def one(value: Any) -> Any:
    """Returns a message as a mapping, anything else as it is."""
    return {"role": value.role, "content": value.content} if isinstance(value, Said) else value


def as_text(value: Any, *, spaced: bool = False) -> str:
    """Returns what a value is within a text."""
    return value if isinstance(value, str) else as_json(value, spaced=spaced)


def at(value: Any, path: str) -> Any:
    """Returns what a path leads to."""
    if isinstance(value, Mapping) and path in value:
        return value[path]
    for step in re.findall(r"[^.\[\]]+|\[-?\d+\]", path):
        if step.startswith("[") and isinstance(value, Sequence):
            place = int(step[1:-1])
            if not -len(value) <= place < len(value):
                return NOT_THERE
            value = value[place]
        elif isinstance(value, Said) and step in ("role", "content", "agent"):
            value = getattr(value, step)
        elif isinstance(value, Mapping) and step in value:
            value = value[step]
        else:
            return NOT_THERE
    return value


def filled(template: Any, root: Mapping[str, Any]) -> Any:
    """Returns a template with its references followed."""
    if isinstance(template, Mapping):
        return {filled(k, root): filled(v, root) for k, v in template.items()}
    if isinstance(template, list):
        return [filled(item, root) for item in template]
    if not isinstance(template, str):
        return template
    alone = re.fullmatch(r"\$\{([^}]*)\}", template)
    if alone:
        found = at(root, alone[1])
        return None if found is NOT_THERE else found

    def text(match: re.Match[str]) -> str:
        found = at(root, match[1])
        return as_text(None if found is NOT_THERE else found, spaced=True)

    return re.sub(r"\$\{([^}]*)\}", text, template)


def holds(matcher: Any, value: Any) -> bool:
    """Says whether a matcher holds of a value: the operators that the generator uses."""
    if isinstance(matcher, Mapping) and all(key.startswith("$") for key in matcher):
        return all(_operator(name, wanted, value) for name, wanted in matcher.items())
    if isinstance(matcher, Mapping):
        return all(holds(wanted, at(value, key)) for key, wanted in matcher.items())
    if isinstance(matcher, list):
        return isinstance(value, list) and len(matcher) == len(value) and all(
            map(holds, matcher, value)
        )  # fmt: skip
    return isinstance(value, bool) == isinstance(matcher, bool) and bool(matcher == value)


def _operator(name: str, wanted: Any, value: Any) -> bool:
    if name == "$not":
        return not holds(wanted, value)
    if name == "$any":
        return value is not NOT_THERE
    if name == "$contains":
        return value is not NOT_THERE and wanted in as_text(value)
    if name == "$gte":
        return isinstance(value, (int, float)) and value >= wanted
    raise AssertionError(name)


def fits(schema: Mapping[str, Any], value: Any) -> bool:
    """Says whether a value satisfies a JSON Schema: the keywords that the generator uses."""
    kinds = {"object": dict, "string": str, "integer": int}
    if "type" in schema and not isinstance(value, kinds[schema["type"]]):
        return False
    if not isinstance(value, dict):
        return True
    return all(key in value for key in schema.get("required", ())) and all(
        fits(inner, value[key]) for key, inner in schema.get("properties", {}).items()
        if key in value
    )  # fmt: skip


def joined(reducer: Any, now: Any, update: Any) -> Any:
    """Returns a channel's value after a write."""
    if isinstance(update, Mapping) and set(update) == {"$set"}:
        return update["$set"]
    kind, options = (reducer, {}) if isinstance(reducer, str) else next(iter(reducer.items()))
    if kind == "replace":
        return update
    if kind == "append":
        items = update if isinstance(update, list) else [update]
        whole = [*now, *(item for item in items if item is not None)]
        return whole[-options["last"] :] if options else whole
    if kind == "merge":
        return _merged(now, update, deep=options == "deep")
    if kind == "add":
        return now + update
    if kind == "union":
        items = update if isinstance(update, list) else [update]
        return _united(now, items)
    assert kind == "by_id"
    items = update if isinstance(update, list) else [update]
    whole = list(now)
    for item in items:
        places = [i for i, old in enumerate(whole) if old["id"] == item["id"]]
        if places:
            whole[places[0]] = item
        else:
            whole.append(item)
    return whole


def _merged(now: Any, update: Any, *, deep: bool) -> Any:
    whole = dict(now)
    for key, value in update.items():
        both = isinstance(value, Mapping) and isinstance(whole.get(key), Mapping)
        whole[key] = _merged(whole[key], value, deep=True) if deep and both else value
    return whole


def _united(now: list[Any], items: Iterable[Any]) -> list[Any]:
    whole = list(now)
    for item in items:
        if item not in whole:
            whole.append(item)
    return whole


def tokens_of(text: str) -> int:
    """Returns a text's size: a token for every four characters begun."""
    return -(-len(text) // 4)


class Model:
    """A pipeline at work on a scenario."""

    def __init__(self, pipeline: Mapping[str, Any], scenario: Mapping[str, Any]) -> None:
        self.pipeline, self.scenario = pipeline, scenario
        self.channels: Mapping[str, Any] = pipeline["channels"]
        self.conversation = pipeline.get("conversation", "messages")
        self.kept: dict[tuple[str, str], dict[str, Any]] = {}
        self.logs: dict[str, list[Said]] = {}
        self.flow, self.plan = next(iter(pipeline["flow"].items()))
        self.clock = 0
        self.committed: set[Said] = set()
        """What has ever been in a conversation."""

    def play(self) -> list[Turn]:
        """Returns all turns, as far as the scenario gets."""
        turns = []
        for spec in self.scenario["turns"]:
            turns.append(self.take(spec))
            if turns[-1].error:
                break
        return turns

    # State

    def begin(self, name: str) -> Any:
        """Returns what a channel begins as."""
        channel = self.channels[name]
        given = self.scenario.get("given", {}).get("state", {})
        scope, first = channel.get("scope"), self.scenario["turns"][0].get("project", "p1")
        if (scope == "turn" and self.is_known) or (scope == "project" and self.project != first):
            given = {}
        reducer = channel.get("reducer", "replace")
        kind = reducer if isinstance(reducer, str) else next(iter(reducer))
        value = given.get(name, channel.get("default", EMPTY.get(kind)))
        if name == self.conversation:
            value = [Said(*next(iter(item.items()))) for item in value]
        return deepcopy(value)

    def shelf(self, name: str) -> dict[str, Any]:
        """Returns where a channel's value is kept."""
        scope = self.channels[name].get("scope", "session")
        owner = {
            "turn": "", "session": self.session, "project": self.project, "global": "",
        }[scope]  # fmt: skip
        return self.kept.setdefault((scope, owner), {})

    def state(self, only: Iterable[str] | None = None) -> dict[str, Any]:
        """Returns what a run sees of the channels."""
        seen = {}
        for name, channel in self.channels.items():
            if channel.get("scope") == "agent_run" or (only is not None and name not in only):
                continue
            shelf = self.shelf(name)
            seen[name] = shelf.setdefault(name, self.begin(name))
        return seen

    def write(self, update: Mapping[str, Any]) -> None:
        """Joins an update with the channels."""
        for name, value in update.items():
            channel = self.channels[name]
            if channel.get("scope") == "agent_run":
                continue
            shelf = self.shelf(name)
            now = shelf.setdefault(name, self.begin(name))
            shelf[name] = joined(channel.get("reducer", "replace"), now, value)
            if name == self.conversation:
                self.committed |= set(shelf[name])

    # A turn

    def take(self, spec: Mapping[str, Any]) -> Turn:
        """Plays one turn."""
        self.spec, self.turn = spec, Turn()
        self.session, self.project = spec.get("session", "s1"), spec.get("project", "p1")
        self.kept.pop(("turn", ""), None)
        self.is_known = self.session in self.logs
        self.log = self.logs.setdefault(self.session, [])
        if not self.is_known:
            self.log += self.talk
            self.committed |= set(self.log)
        self.lines = {
            agent: list(lines) if isinstance(lines, list) else [lines]
            for agent, lines in spec.get("replies", {}).items()
        }
        self.user = spec["user"]["json"] if isinstance(spec["user"], Mapping) else spec["user"]
        self.asked = Said("user", as_text(self.user))
        self.log.append(self.asked)
        self.write({self.conversation: [self.asked]})
        try:
            self.wait(getattr(self, f"_{self.flow}")())
        except TurnEnds as stop:
            self.turn.error = stop.error
            self.turn.reply = None if stop.error else self.turn.reply
        self.turn.state = dict(self.state())
        return self.turn

    def wait(self, work: Work) -> Any:
        """Does work, with nothing beside it."""
        try:
            while True:
                self.clock += next(work)
        except StopIteration as done:
            return done.value

    def side_by_side(self, works: Iterable[Work]) -> None:
        """Does several works at once, by virtual time."""
        queue = [(self.clock, number, work) for number, work in enumerate(works)]
        heapq.heapify(queue)
        while queue:
            self.clock, number, work = heapq.heappop(queue)
            try:
                heapq.heappush(queue, (self.clock + next(work), number, work))
            except StopIteration:
                continue

    # Flows

    def _handoffs(self) -> Work:
        start = filled(self.plan["start"], {"state": self.state()})
        yield from self.control(start, input=self.user)

    def _router(self) -> Work:
        decided = yield from self.control(self.plan["decide"], input=self.user, counts=False)
        root = {"run": self.root_of(decided), "state": self.state()}
        chosen = filled(self.plan["to"], root)
        if isinstance(chosen, Mapping):
            seen = (self.state(), list(self.log))
            self.side_by_side(
                self.control(name, input=self.user, seen=seen) for name in chosen["parallel"]
            )
            return
        for name in chosen if isinstance(chosen, list) else [chosen]:
            yield from self.control(name, input=self.user)

    def _supervisor(self) -> Work:
        goals = self.plan["goals"]
        only = self.user.get("goal") if isinstance(self.user, Mapping) else None
        before: Run | None = None
        for goal in [only] if only else goals:
            for step in goals[goal]["steps"]:
                agent, words = next(iter(step.items()))
                task = filled(words, {"state": self.state(), "user": self.user, "agent": agent})
                handoff = self.edge(before, agent)
                before = yield from self.control(agent, input=task, task=task, handoff=handoff)

    def edge(self, before: Run | None, target: str) -> Handoff | None:
        """Returns the handoff of an output, where the pair has a contract."""
        contract = self.contract(before.agent, target, None) if before else None
        if before is None or contract is None:
            return None
        handoff = Handoff(before.agent, target, contract, None, before.output)
        self.turn.handoffs.append(handoff)
        self.leave(before, handoff)
        return handoff

    def leave(self, run: Run, handoff: Handoff) -> None:
        """Writes what a handoff that is made leaves in the state."""
        root = {
            "state": self.state(), "user": self.user, "agent": run.agent, "input": run.input,
            "handoff": handoff.root(), "run": self.root_of(run),
        }  # fmt: skip
        update = filled(handoff.contract.get("writes", {}), root)
        run.add(update)
        self.write(update)

    def _graph(self) -> Work:
        nodes, edges = self.plan["nodes"], self.plan["edges"]
        start = next(name for name, node in nodes.items() if node and node.get("start"))
        queue: list[tuple[int, int, str, Work]] = []
        merges: dict[str, dict[str, Any]] = {}
        count = 0

        def launch(name: str, input: Any, handoff: Handoff | None, seen: Any) -> None:
            nonlocal count
            count += 1
            work = self.control(
                name, definition=(nodes[name] or {}).get("agent", name), input=input,
                handoff=handoff, seen=seen,
            )  # fmt: skip
            heapq.heappush(queue, (self.clock, count, name, work))

        launch(start, self.user, None, None)
        while queue or merges:
            if not queue:
                for name in list(merges):
                    launch(name, merges.pop(name), None, None)
            self.clock, number, name, work = heapq.heappop(queue)
            try:
                heapq.heappush(queue, (self.clock + next(work), number, name, work))
                continue
            except StopIteration as done:
                run: Run = done.value
            ways = self.ways(name, nodes, edges, run)
            handoffs = {way: self.edge(run, way) for way in ways}
            seen = (self.state(), list(self.log)) if len(ways) > 1 else None
            for way in ways:
                if (nodes[way] or {}).get("role") == "merge":
                    merges.setdefault(way, {})[name] = run.output
                else:
                    launch(way, run.output, handoffs[way], seen)
            for way in [way for way in merges if not self.reaches(way, queue, edges)]:
                launch(way, merges.pop(way), None, None)
        return
        yield 0

    def ways(
        self, name: str, nodes: Mapping[str, Any], edges: list[Mapping[str, Any]], run: Run
    ) -> list[str]:
        """Returns the nodes that come after a node."""
        out = [edge for edge in edges if edge["from"] == name]
        if (nodes[name] or {}).get("role") != "decision":
            return [edge["to"] for edge in out]
        output = run.output
        decision = output.get("decision") if isinstance(output, Mapping) else output
        for edge in out:
            if edge["label"] == decision:
                return [edge["to"]]
        return [edge["to"] for edge in out if edge["label"] == "else"]

    def reaches(self, target: str, queue: list[Any], edges: list[Mapping[str, Any]]) -> bool:
        """Says whether something that is at work can still come to a node."""
        seen = {name for _, _, name, _ in queue}
        open_ = list(seen)
        while open_:
            here = open_.pop()
            for edge in edges:
                if edge["from"] == here and edge["to"] == target:
                    return True
                if edge["from"] == here and edge["to"] not in seen:
                    seen.add(edge["to"])
                    open_.append(edge["to"])
        return False

    # Control and runs

    def control(self, agent: str, *, input: Any, definition: str | None = None,
                handoff: Handoff | None = None, task: str | None = None, counts: bool = True,
                seen: Any = None) -> Work:  # fmt: skip
        """Lets an agent run, and whom it passes control to; returns the last one's run."""
        while True:
            run = yield from self.activate(
                agent, definition or agent, input=input, handoff=handoff, task=task, seen=seen
            )
            if run.passed is None:
                if counts:
                    self.turn.reply = run.output
                return run
            handoff, task, definition, seen = run.passed, None, None, None
            agent, input = handoff.target, handoff.payload

    def setting(self, agent: str, key: str, default: Any) -> Any:
        """Returns what an agent, or else the defaults, say."""
        of_all = self.pipeline.get("defaults", {})
        return self.pipeline["agents"][agent].get(key, of_all.get(key, default))

    def activate(self, name: str, agent: str, *, input: Any, handoff: Handoff | None,
                 task: str | None, seen: Any) -> Work:  # fmt: skip
        """Runs an agent once."""
        state, log = seen or (self.state(), list(self.log))
        if handoff is not None and "carries" in handoff.contract:
            state = {k: v for k, v in state.items() if k in handoff.contract["carries"]}
        run = Run(name, dict(state), input, self.clock)
        self.turn.runs.append(run)
        root = {
            "state": state, "input": input, "user": self.user, "agent": name, "task": task,
            "handoff": handoff.root() if handoff else None,
        }  # fmt: skip
        writes = self.setting(agent, "writes", None)
        if writes is None:
            decider = self.flow == "router" and self.plan["decide"] == name
            writes = {} if decider else {self.conversation: ["${run.final_message}"]}
        rule = self.first(self.setting(agent, "before", []), root)
        if rule is None:
            yield from self.converse(run, name, agent, root, log, handoff)
            if run.passed is not None:
                return run
            root["run"] = self.root_of(run)
            rule = self.first(self.setting(agent, "after", []), root)
        root["run"] = self.root_of(run)
        update = filled({**writes, **(rule["writes"] if rule else {})}, root)
        said = update.get(self.conversation)
        if said is not None:
            items = said if isinstance(said, list) else [said]
            update[self.conversation] = [item for item in items if item is not None]
        run.add(update)
        self.write(update)
        return run

    def first(self, rules: list[Mapping[str, Any]], root: Mapping[str, Any]) -> Any:
        """Returns the first rule that holds."""
        return next((rule for rule in rules if holds(rule.get("when", {}), root)), None)

    def root_of(self, run: Run) -> dict[str, Any]:
        """Returns what ``${run}`` is."""
        return {
            "agent": run.agent, "output": run.output, "final_message": run.final,
            "reply": run.final.content if run.final else None, "messages": list(run.said),
            "tools_called": [tool for tool, _ in run.tools], "tool_results": dict(run.tools),
            "took_ms": self.clock - run.started,
        }  # fmt: skip

    def converse(self, run: Run, name: str, agent: str, root: Mapping[str, Any], log: list[Said],
                 handoff: Handoff | None) -> Work:  # fmt: skip
        """Lets an agent's model talk until its run is over."""
        sections = self.context(agent, root, log, handoff)
        refused: list[Mapping[str, Any]] = []
        while True:
            run.calls.append({"sections": sections, "said": list(run.said)})
            line = self.lines[name].pop(0)
            line = line if isinstance(line, Mapping) else {"text": line}
            yield line.get("latency_ms", 0)
            if "calls" in line:
                self.say(run, name, line.get("text", ""), [next(iter(c.items())) for c in
                                                           line["calls"]])  # fmt: skip
                for call in line["calls"]:
                    tool = next(iter(call))
                    result = self.spec["tool_results"][tool]
                    run.tools.append((tool, result))
                    self.hear(run, name, as_text(result), tool)
                if self.setting(agent, "returns", "reply") == "tool_output":
                    run.output = run.tools[-1][1]
                    return
            elif "handoff" in line:
                ends = yield from self.hand_over(run, name, line, refused)
                if ends:
                    return
            else:
                content = as_json(line["json"]) if "json" in line else line["text"]
                run.final = self.say(run, name, content, [])
                run.output = self.read(content)
                return

    def read(self, text: str) -> Any:
        """Returns the output that a reply's text is."""
        try:
            value = json.loads(text)
        except ValueError:
            return text
        return value if isinstance(value, (dict, list)) else text

    def say(self, run: Run, agent: str, content: Any, calls: Iterable[tuple[str, Any]]) -> Said:
        """Adds what an agent says to the log."""
        message = Said("assistant", content, agent, tuple(calls))
        run.said.append(message)
        self.log.append(message)
        return message

    def hear(self, run: Run, agent: str, content: Any, tool: str) -> None:
        """Adds what an agent is answered to the log."""
        message = Said("tool", content, agent, answers=tool)
        run.said.append(message)
        self.log.append(message)

    # Handoffs

    def contract(self, source: str, target: str, type: str | None) -> Mapping[str, Any] | None:
        """Returns the contract of a pair."""
        for contract in self.pipeline.get("contracts", ()):
            sources = contract["from"] if isinstance(contract["from"], list) else [contract["from"]]
            of_pair = target == contract["to"] and (source in sources or "*" in sources)
            if of_pair and type in (None, contract.get("type", "handoff")):
                return contract
        return None

    def hand_over(
        self, run: Run, agent: str, line: Mapping[str, Any], refused: list[Mapping[str, Any]]
    ) -> Work:
        """Passes control; returns whether the source's run is over.

        ``refused`` are the contracts that refused a handoff of the run.
        """
        asked = line["handoff"]
        contract = self.contract(agent, asked["to"], asked.get("type")) or {}
        payload = deepcopy(asked.get("payload"))
        named = contract.get("payload", {}).get("properties", {})
        known = {"source_agent": agent, "handoff_type": contract.get("type")}
        if isinstance(payload, dict):
            payload = {key: value for key, value in known.items() if key in named} | payload
        handoff = Handoff(agent, asked["to"], contract, asked.get("query"), payload)
        self.turn.handoffs.append(handoff)
        tool = f"transfer_to_{handoff.target}"
        self.say(run, agent, line.get("text", ""), [(tool, OPEN_ARGS)])
        if self.breaks(handoff):
            handoff.outcome = "rejected"
            on_invalid = contract.get("on_invalid", "reject")
            self.hear(run, agent, Open((f"Handoff to {handoff.target} rejected: ",)), tool)
            if on_invalid == "stop":
                raise TurnEnds(None)
            if on_invalid == "retry" and contract in refused:
                raise TurnEnds("HandoffInvalid")
            refused.append(contract)
            return False
        if handoff.mode == "delegate":
            self.leave(run, handoff)
            answer = yield from self.control(handoff.target, input=payload, handoff=handoff)
            self.hear(run, agent, as_text(answer.output), tool)
            return False
        self.hear(run, agent, Open(), tool)
        self.leave(run, handoff)
        run.passed = handoff
        return True

    def breaks(self, handoff: Handoff) -> bool:
        """Says whether a handoff breaks its contract."""
        contract = handoff.contract
        longest = contract.get("query", {}).get("max_chars")
        return (
            not fits(contract.get("payload", {}), handoff.payload)
            or not all(holds(rule, handoff.root()) for rule in contract.get("rules", ()))
            or (longest is not None and len(handoff.query or "") > longest)
        )

    # Contexts

    def context(self, agent: str, root: Mapping[str, Any], log: list[Said],
                handoff: Handoff | None) -> list[dict[str, Any]]:  # fmt: skip
        """Returns the messages that a recipe makes, each with its sections."""
        standard = [*DEFAULT_RECIPE, "task"] if self.flow == "supervisor" else DEFAULT_RECIPE
        recipe = self.setting(agent, "context", standard)
        flat = [s for entry in recipe for s in (entry if isinstance(entry, list) else [entry])]
        current = any(
            kind == "current_message" and holds(options.get("when", {}), root)
            for kind, options in map(_section, flat)
        )
        made: list[dict[str, Any]] = []
        for entry in recipe:
            if not isinstance(entry, list):
                made += self.section(agent, *_section(entry), root, log, handoff, current)
                continue
            parts = [
                p
                for e in entry
                for p in self.section(agent, *_section(e), root, log, handoff, current)
            ]
            if parts:
                text = Open(tuple(p["message"].content for p in parts))
                text = parts[0]["message"].content if len(parts) == 1 else text
                message = Said(parts[0]["message"].role, text)
                names = [name for p in parts for name in p["names"]]
                made.append({"message": message, "names": names})
        return made

    def section(
        self,
        agent: str,
        kind: str,
        options: Mapping[str, Any],
        root: Mapping[str, Any],
        log: list[Said],
        handoff: Handoff | None,
        current: bool,
    ) -> list[dict[str, Any]]:
        """Returns what one section makes."""
        name = options.get("name", kind)
        if not holds(options.get("when", {}), root):
            return []
        if kind == "history":
            messages, dropped = self.history(options, root, log, handoff, current)
            made = [{"message": m, "names": [name]} for m in messages]
            return [*made, {"dropped": dropped}] if dropped else made
        value, role = self.value(agent, kind, options, root, handoff)
        if value is None or value == "" or value == [] or value == {}:
            return []
        text = filled(options["format"], root) if "format" in options else as_text(value)
        lines = [options.get("title"), text, options.get("after")]
        text = "\n".join(line for line in lines if line is not None)
        if kind == "handoff" and "fields" in options and "format" not in options:
            text = Open(
                tuple(part for label, item in value.items() for part in (label, as_text(item)))
            )
        return [{"message": Said(options.get("role", role), text), "names": [name]}]

    def value(
        self,
        agent: str,
        kind: str,
        options: Mapping[str, Any],
        root: Mapping[str, Any],
        handoff: Handoff | None,
    ) -> tuple[Any, str]:
        """Returns what a section shows, and the role in which it does."""
        if kind == "instructions":
            return filled(self.pipeline["agents"][agent].get("instructions"), root), "system"
        if kind == "current_message":
            query = handoff.query if handoff else None
            return (self.asked.content if query is None else query), "user"
        if kind == "handoff":
            if handoff is None:
                return None, "system"
            if "fields" not in options and "format" not in options and handoff.payload is None:
                return None, "system"
            if "fields" not in options:
                return JsonText(as_json(handoff.payload)), "system"
            return _fields(options["fields"], handoff.root()), "system"
        if kind == "shared":
            value = root["state"].get(options["from"])
            return (_fields(options["fields"], value) if "fields" in options else value), "system"
        return root[kind], "user"

    def history(
        self,
        options: Mapping[str, Any],
        root: Mapping[str, Any],
        log: list[Said],
        handoff: Handoff | None,
        current: bool,
    ) -> tuple[list[Said], list[Any]]:
        """Returns what was said before a run, as a section shows it, and what it left out."""
        conversation = self.talk
        if root["state"].get(self.conversation) is not None:
            conversation = root["state"][self.conversation]
        whole = log if options.get("from") == "log" else conversation
        travels = handoff.contract.get("history", "all") if handoff else "all"
        if current and (handoff is None or handoff.query is None):
            whole = [m for m in whole if m is not self.asked]
        if travels == "none":
            return [], []
        before = (
            {"all": [], "filters": INTERMEDIATE}[travels] if isinstance(travels, str) else travels
        )
        dropped: list[Any] = []
        pairs = [(m, m) for m in whole]
        for one_filter in [*before, *options.get("filters", [])]:
            pairs = list(self.filtered(one_filter, pairs, dropped))
        empty = [m for m, shown in pairs if m is not shown and not (shown.calls or shown.content)]
        dropped += [
            (m, "message", next(by for n, _, by in reversed(dropped) if n is m)) for m in empty
        ]
        pairs = [pair for pair in pairs if pair[0] not in empty]
        kept = _window(options.get("window", {}), pairs)
        dropped += [(m, "message", "window") for m, _ in pairs[: len(pairs) - len(kept)]]
        places = {id(m): place for place, m in enumerate(whole)}
        dropped.sort(key=lambda entry: places[id(entry[0])])
        return [shown for _, shown in kept], dropped

    @property
    def talk(self) -> list[Said]:
        """The conversation as it is."""
        return list(self.state()[self.conversation])

    def filtered(
        self, one_filter: Any, pairs: list[tuple[Said, Said]], dropped: list[Any]
    ) -> Iterable[tuple[Said, Said]]:
        """Yields what one filter leaves of a history: the message, and what is shown of it."""
        by = one_filter if isinstance(one_filter, str) else "agents"
        for message, shown in pairs:
            left: Said | None = shown
            if (by == "tool_messages" and shown.role == "tool") or (
                by == "handoffs" and shown.answers.startswith("transfer_to_")
            ):
                left = None
            elif by in ("tool_calls", "handoffs") and shown.calls:
                calls = tuple(c for c in shown.calls if by == "handoffs"
                              and not c[0].startswith("transfer_to_"))  # fmt: skip
                if len(calls) < len(shown.calls):
                    left = Said(shown.role, shown.content, shown.agent, calls)
            elif by == "intermediate_ai":
                if shown.role == "assistant" and message not in self.committed:
                    left = None
            elif by == "agents" and shown.role != "user":
                rule = one_filter["agents"]
                if shown.agent not in rule.get("only", [shown.agent]) or shown.agent in rule.get(
                    "not", []
                ):
                    left = None
            if left is None:
                dropped.append((message, "message", by))
            else:
                if left is not shown:
                    dropped.append((message, "tool_calls", by))
                yield message, left


OPEN_ARGS = object()
"""The arguments of a handoff's call, of which the documents do not speak."""


def _section(entry: Any) -> tuple[str, Mapping[str, Any]]:
    return (entry, {}) if isinstance(entry, str) else next(iter(entry.items()))


def _fields(fields: Mapping[str, str], value: Any) -> dict[str, Any]:
    found = {label: at(value, path) for label, path in fields.items()}
    return {label: item for label, item in found.items() if item not in (NOT_THERE, None)}


def _window(window: Mapping[str, int], pairs: list[tuple[Said, Said]]) -> list[tuple[Said, Said]]:
    unit, size = next(iter(window.items()), ("messages", 0))
    if not size:
        return pairs
    if unit == "messages":
        return pairs[-size:]
    if unit == "rounds":
        starts = [i for i, (_, shown) in enumerate(pairs) if shown.role == "user"]
        return pairs[starts[-size] :] if len(starts) >= size else pairs
    place, used = len(pairs), 0
    while place and used + tokens_of(pairs[place - 1][1].content) <= size:
        place -= 1
        used += tokens_of(pairs[place][1].content)
    return pairs[place:]
