"""One agent's run, and whom it passes control to, told from the documents alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from tests.oracle.contexts import Contexts
from tests.oracle.values import (
    OPEN_ARGS,
    Branch,
    Entry,
    Handoff,
    Open,
    Question,
    Run,
    TurnEnds,
    Work,
    as_json,
    as_text,
    filled,
    fits,
    holds,
)  # fmt: skip


class Runs(Contexts):
    """Runs of agents, by their lines."""

    plan: Mapping[str, Any]
    spec: dict[str, Any]
    user: Any
    clock: int
    log: list[Any]
    used: dict[str, int]
    asked_for: dict[str, int]

    def state_seen_by(self, branch: Branch | None) -> Any:
        """Returns the state that a run of a branch sees."""
        raise NotImplementedError

    def write(self, update: Any, branch: Branch | None) -> None:
        """Writes an update to the state."""
        raise NotImplementedError

    def log_of(self, branch: Branch | None) -> list[Entry]:
        """Returns what a run of a branch sees of the log."""
        raise NotImplementedError

    def control(self, agent: str, *, input: Any, definition: str | None = None,
                handoff: Handoff | None = None, task: str | None = None, counts: bool = True,
                branch: Branch | None = None, upstream: Any = None,
                report: Entry | None = None) -> Work:  # fmt: skip
        """Lets an agent run, and whom it passes control to; returns the last one's run."""
        while True:
            run = yield from self.activate(
                agent, definition or agent, input=input, handoff=handoff, task=task, branch=branch,
                upstream=upstream, report=report,
            )  # fmt: skip
            if run.passed is None:
                if counts:
                    self.turn.reply = run.output
                return run
            handoff, task, definition, upstream, report = run.passed, None, None, None, None
            agent, input = handoff.target, handoff.payload

    def activate(self, name: str, agent: str, *, input: Any, handoff: Handoff | None,
                 task: str | None, branch: Branch | None, upstream: Any,
                 report: Entry | None) -> Work:  # fmt: skip
        """Runs an agent until it is through: once, and again after each answer of the user."""
        log, results, before = self.log_of(branch), [], None
        if report:
            results = [report]
            self.take_down(report, branch)
        while True:
            state = self.state_seen_by(branch)
            if handoff is not None and "carries" in handoff.contract:
                state = {k: v for k, v in state.items() if k in handoff.contract["carries"]}
            run = Run(name, dict(state), input, self.clock, branch=branch, log=log, entries=results)
            if before:
                run.tools, run.tools_called = before.tools, before.tools_called
            self.turn.runs.append(run)
            root = {
                "state": state, "input": input, "user": self.user, "agent": name, "task": task,
                "handoff": handoff.root() if handoff else None, "upstream": upstream,
            }  # fmt: skip
            yield 0  # All runs that begin at one time have begun before one goes on.
            call = yield from self.through(run, name, agent, root, handoff)
            run.is_over = True
            if call is None:
                return run
            results, before = [*run.entries, self.hear_user((yield call), branch)], run

    def through(self, run: Run, name: str, agent: str, root: dict[str, Any],
                handoff: Handoff | None) -> Work:  # fmt: skip
        """Takes a run to its end; returns its question, where it ends with one."""
        rule = self.first(self.setting(agent, "before", []), root)
        if rule is None:
            if "function" in self.pipeline["agents"][agent]:
                run.output = run.input
                run.final = self.say(run, name, as_text(run.input), [])
            else:
                call = yield from self.converse(run, name, agent, root, handoff)
                if call is not None or run.passed is not None:
                    return call
            root["run"] = self.root_of(run)
            rule = self.first(self.setting(agent, "after", []), root)
        root["run"] = self.root_of(run)
        writes = self.setting(agent, "writes", None)
        if writes is None:
            decider = self.flow == "router" and self.plan["decide"] == name
            writes = {} if decider else {self.conversation: ["${run.final_message}"]}
        update = filled({**writes, **(rule["writes"] if rule else {})}, root)
        value = update.get(self.conversation)
        if value is not None:
            items = value if isinstance(value, list) else [value]
            update[self.conversation] = [item for item in items if item is not None]
        run.add(update)
        self.write(update, run.branch)
        return None

    def first(self, rules: list[Mapping[str, Any]], root: Mapping[str, Any]) -> Any:
        """Returns the first rule that holds."""
        return next((rule for rule in rules if holds(rule.get("when", {}), root)), None)

    def root_of(self, run: Run) -> dict[str, Any]:
        """Returns what ``${run}`` is."""
        return {
            "agent": run.agent, "output": run.output, "final_message": run.final,
            "reply": run.final.content if run.final else None, "messages": list(run.entries),
            "tools_called": run.tools_called, "tool_results": dict(run.tools),
            "took_ms": self.clock - run.started,
        }  # fmt: skip

    def converse(self, run: Run, name: str, agent: str, root: Mapping[str, Any],
                 handoff: Handoff | None) -> Work:  # fmt: skip
        """Lets an agent's model talk until its run is over, or asks."""
        self.late = 0
        sections = self.context(agent, root, run, handoff)
        if self.late:
            yield self.late
        refused: list[Mapping[str, Any]] = []
        while True:
            run.calls.append(
                {"sections": sections, "said": list(run.entries), "handoffs": self.allowed(agent)}
            )
            line = self.line(name, agent, run)
            yield line.get("latency_ms", 0)
            if "error" in line:
                raise TurnEnds(line["error"])
            if "interrupt" in line:
                self.say(run, name, as_text(line["interrupt"]), [])
                return Question(line["interrupt"])
            if "calls" in line:
                is_over = yield from self.use_tools(run, name, agent, line)
                if is_over:
                    return None
            elif "handoff" in line:
                is_over = yield from self.hand_over(run, name, line, refused)
                if is_over:
                    return None
            else:
                content = as_json(line["json"]) if "json" in line else line["text"]
                run.final = self.say(run, name, content, [])
                run.output = self.read(content)
                return None

    def line(self, name: str, agent: str, run: Run | None) -> Mapping[str, Any]:
        """Returns what a model answers to the next call of an agent."""
        self.asked_for[name] = number = self.asked_for.get(name, 0) + 1
        if self.script is not None:
            self.script.write(self, name, agent, run)
        for fault in self.spec.get("faults", ()):
            if fault["agent"] == name and fault["call"] == number:
                return {"error": fault["error"]}
        line = self.lines[name].pop(0)
        return line if isinstance(line, Mapping) else {"text": line}

    def use_tools(self, run: Run, name: str, agent: str, line: Mapping[str, Any]) -> Work:
        """Calls tools, all of a line at once; returns whether the run is over."""
        pairs = [next(iter(call.items())) for call in line["calls"]]
        self.say(run, name, line.get("text", ""), pairs)
        results = [self.result(tool) for tool, _ in pairs]
        yield max(result.get("latency_ms", 0) for result in results)
        for (tool, _), result in zip(pairs, results, strict=True):
            run.tools_called.append(tool)
            self.turn.tools.append((name, tool, result))
            if "error" in result:
                self.hear(run, name, Open((result["error"],)), tool)
                continue
            run.tools.append((tool, result["returns"]))
            self.hear(run, name, as_text(result["returns"]), tool)
        went_well = not any("error" in result for result in results)
        if self.setting(agent, "returns", "reply") == "tool_output" and went_well:
            run.output = run.tools[-1][1]
            return True
        return False

    def result(self, tool: str) -> Mapping[str, Any]:
        """Returns the answer to the next call of a tool, in its long form."""
        self.used[tool] = number = self.used.get(tool, 0) + 1
        if self.script is not None:
            self.script.answer(self, tool)
        results = self.spec["tool_results"][tool]
        if isinstance(results, list):
            results = results[number - 1]
        is_long = isinstance(results, Mapping) and not results.keys() - {
            "returns", "error", "latency_ms", "when"
        }  # fmt: skip
        return results if is_long else {"returns": results}

    def read(self, text: str) -> Any:
        """Returns the output that a reply's text is."""
        try:
            value = json.loads(text)
        except ValueError:
            return text
        return value if isinstance(value, (dict, list)) else text

    def say(self, run: Run, agent: str, content: Any, calls: Iterable[tuple[str, Any]]) -> Entry:
        """Adds what an agent says to the log."""
        message = Entry("assistant", content, agent, tuple(calls), run=run)
        run.entries.append(message)
        self.take_down(message, run.branch)
        return message

    def hear(self, run: Run, agent: str, content: Any, tool: str) -> None:
        """Adds what an agent is answered to the log."""
        message = Entry("tool", content, agent, answers=tool, run=run)
        run.entries.append(message)
        self.take_down(message, run.branch)

    def hear_user(self, answer: Any, branch: Branch | None) -> Entry:
        """Adds the user's answer to the log."""
        message = Entry("user", as_text(answer))
        self.take_down(message, branch)
        return message

    def take_down(self, message: Entry, branch: Branch | None) -> None:
        """Adds a message to the log."""
        (branch.entries if branch else self.log).append(message)

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
        handoff_line = line["handoff"]
        contract = self.contract(agent, handoff_line["to"], handoff_line.get("type")) or {}
        handoff = self.request(
            agent,
            handoff_line["to"],
            contract,
            handoff_line.get("query"),
            handoff_line.get("payload"),
        )
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
            answer = yield from self.control(
                handoff.target, input=handoff.payload, handoff=handoff, branch=run.branch
            )
            self.hear(run, agent, as_text(answer.output), tool)
            return False
        self.hear(run, agent, Open(), tool)
        self.leave(run, handoff)
        run.passed = handoff
        return True

    def request(self, source: str, target: str, contract: Mapping[str, Any], query: str | None,
                payload: Any) -> Handoff:  # fmt: skip
        """Returns a handoff that is asked for, its payload told who asks where its schema wants."""
        payload = deepcopy(payload)
        named = contract.get("payload", {}).get("properties", {})
        known = {"source_agent": source, "handoff_type": contract.get("type")}
        if isinstance(payload, dict):
            payload = {key: value for key, value in known.items() if key in named} | payload
        handoff = Handoff(source, target, contract, query, payload)
        self.turn.handoffs.append(handoff)
        return handoff

    def breaks(self, handoff: Handoff) -> bool:
        """Says whether a handoff breaks its contract."""
        contract = handoff.contract
        longest = contract.get("query", {}).get("max_chars")
        return (
            not fits(contract.get("payload", {}), handoff.payload)
            or not all(holds(rule, handoff.root()) for rule in contract.get("rules", ()))
            or (longest is not None and len(handoff.query or "") > longest)
        )

    def leave(self, run: Run, handoff: Handoff) -> None:
        """Writes what a handoff that is made leaves in the state."""
        root = {
            "state": self.state_seen_by(run.branch), "user": self.user, "agent": run.agent,
            "input": run.input, "handoff": handoff.root(), "run": self.root_of(run),
        }  # fmt: skip
        update = filled(handoff.contract.get("writes", {}), root)
        run.add(update)
        self.write(update, run.branch)
