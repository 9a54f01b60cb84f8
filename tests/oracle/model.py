"""What a declared pipeline does, told a second time, from the documents alone.

Nothing of simkit's is imported here: pipelines and scenarios are the plain mappings that a YAML
file says. Where the documents leave the words of a message open, an ``Open`` stands for it.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from tests.oracle.contexts import Contexts
from tests.oracle.values import (
    EMPTY,
    OPEN_ARGS,
    Handoff,
    Open,
    Run,
    Said,
    Turn,
    TurnEnds,
    Work,
    as_json,
    as_text,
    filled,
    fits,
    holds,
    joined,
)  # fmt: skip


class Model(Contexts):
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
            branches: list[list[Said]] = [[] for _ in chosen["parallel"]]
            self.side_by_side(
                self.control(name, input=self.user, seen=(*seen, branch))
                for name, branch in zip(chosen["parallel"], branches, strict=True)
            )
            self.log += [message for branch in branches for message in branch]
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
        led: dict[str, dict[str, Any]] = {}
        branches: list[list[Said]] = []
        launched = 0

        def launch(name: str, input: Any, handoff: Handoff | None, seen: Any) -> None:
            nonlocal launched
            launched += 1
            if (nodes[name] or {}).get("role") == "merge":
                self.log += [message for branch in branches for message in branch]
                branches.clear()
            work = self.control(
                name, definition=(nodes[name] or {}).get("agent", name), input=input,
                handoff=handoff, seen=seen, upstream=led.pop(name, None),
            )  # fmt: skip
            heapq.heappush(queue, (self.clock, launched, name, work))

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
            fork = (self.state(), list(self.log)) if len(ways) > 1 else None
            for way in ways:
                led.setdefault(way, {})[name] = run
                seen = None
                if fork:
                    branches.append([])
                    seen = (*fork, branches[-1])
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
                seen: Any = None, upstream: Any = None) -> Work:  # fmt: skip
        """Lets an agent run, and whom it passes control to; returns the last one's run."""
        while True:
            run = yield from self.activate(
                agent, definition or agent, input=input, handoff=handoff, task=task, seen=seen,
                upstream=upstream,
            )  # fmt: skip
            if run.passed is None:
                if counts:
                    self.turn.reply = run.output
                return run
            handoff, task, definition, seen, upstream = run.passed, None, None, None, None
            agent, input = handoff.target, handoff.payload

    def setting(self, agent: str, key: str, default: Any) -> Any:
        """Returns what an agent, or else the defaults, say."""
        of_all = self.pipeline.get("defaults", {})
        return self.pipeline["agents"][agent].get(key, of_all.get(key, default))

    def activate(self, name: str, agent: str, *, input: Any, handoff: Handoff | None,
                 task: str | None, seen: Any, upstream: Any) -> Work:  # fmt: skip
        """Runs an agent once."""
        state, log, branch = seen or (self.state(), list(self.log), self.log)
        if handoff is not None and "carries" in handoff.contract:
            state = {k: v for k, v in state.items() if k in handoff.contract["carries"]}
        run = Run(name, dict(state), input, self.clock, log=branch)
        self.turn.runs.append(run)
        root = {
            "state": state, "input": input, "user": self.user, "agent": name, "task": task,
            "handoff": handoff.root() if handoff else None, "upstream": upstream,
        }  # fmt: skip
        writes = self.setting(agent, "writes", None)
        if writes is None:
            decider = self.flow == "router" and self.plan["decide"] == name
            writes = {} if decider else {self.conversation: ["${run.final_message}"]}
        rule = self.first(self.setting(agent, "before", []), root)
        if rule is None and "function" in self.pipeline["agents"][agent]:
            run.output = input
            run.final = self.say(run, name, as_text(input), [])
            root["run"] = self.root_of(run)
            rule = self.first(self.setting(agent, "after", []), root)
        elif rule is None:
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
            run.calls.append(
                {"sections": sections, "said": list(run.said), "handoffs": self.allowed(agent)}
            )
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
        run.log.append(message)
        return message

    def hear(self, run: Run, agent: str, content: Any, tool: str) -> None:
        """Adds what an agent is answered to the log."""
        message = Said("tool", content, agent, answers=tool)
        run.said.append(message)
        run.log.append(message)

    # Handoffs

    def contract(self, source: str, target: str, type: str | None) -> Mapping[str, Any] | None:
        """Returns the contract of a pair."""
        for contract in self.pipeline.get("contracts", ()):
            sources = contract["from"] if isinstance(contract["from"], list) else [contract["from"]]
            of_pair = target == contract["to"] and (source in sources or "*" in sources)
            if of_pair and type in (None, contract.get("type", "handoff")):
                return contract
        return None

    def allowed(self, source: str) -> set[str]:
        """Returns whom an agent may pass control to."""
        listed = self.setting(source, "handoffs", None)
        if listed == [] or self.flow in ("supervisor", "graph"):
            return set()
        return {*(listed or ()), *(contract["to"] for contract in self.pipeline.get("contracts", ())
                                   if source in (contract["from"], "*"))}  # fmt: skip

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
