"""Who runs next in each of the four flows, told from the documents alone."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.oracle.runs import Runs
from tests.oracle.values import (
    Branch,
    Entry,
    Group,
    Handoff,
    Open,
    Question,
    Run,
    TurnEnds,
    Work,
    filled,
)  # fmt: skip

Task = tuple[int, int, Any, Work, Any]
"""What is at work: until when it waits, after which others, what follows it, what it is sent."""


class Flows(Runs):
    """Flows, by their plans."""

    order: Iterator[int]
    """Of what goes on at one moment, what has waited longest goes first."""

    def side_by_side(self, queue: list[Task]) -> Work:
        """Does what is in a queue at once, by virtual time; yields questions only.

        Whoever is through is sent to ``is_through``, which may add to the queue.
        """
        heapq.heapify(queue)
        waiting: list[tuple[Any, Work, Question]] = []
        while queue or waiting:
            if not queue:
                subject, work, request = waiting.pop(0)
                answer = yield request
                heapq.heappush(queue, (self.clock, next(self.order), subject, work, answer))
                continue
            self.clock, _, subject, work, answer = heapq.heappop(queue)
            try:
                step = work.send(answer)
            except StopIteration as done:
                if callable(subject):
                    subject(done.value)
                continue
            if isinstance(step, Question):
                waiting.append((subject, work, step))
            else:
                heapq.heappush(queue, (self.clock + step, next(self.order), subject, work, None))

    def fork(self, size: int, outer: Branch | None) -> list[Branch]:
        """Returns the branches of a parallel group that begins."""
        log = self.log_of(outer)
        branches = [Branch(dict(self.state_seen_by(outer)), log, outer) for _ in range(size)]
        (outer.entries if outer else self.log).append(Group(branches))
        return branches

    def _handoffs(self) -> Work:
        start = filled(self.plan["start"], {"state": self.state()})
        yield from self.control(start, input=self.user)

    def _router(self) -> Work:
        decided = yield from self.control(self.plan["decide"], input=self.user, counts=False)
        root = {"run": self.root_of(decided), "state": self.state()}
        chosen = filled(self.plan["to"], root)
        if isinstance(chosen, Mapping):
            names = chosen["parallel"]
            yield from self.side_by_side([
                (self.clock, next(self.order), None,
                 self.control(name, input=self.user, branch=branch), None)
                for name, branch in zip(names, self.fork(len(names), None), strict=True)
            ])  # fmt: skip
            return
        for name in chosen if isinstance(chosen, list) else [chosen]:
            yield from self.control(name, input=self.user)

    def _supervisor(self) -> Work:
        goals = self.plan["goals"]
        only = self.user.get("goal") if isinstance(self.user, Mapping) else None
        before: Run | None = None
        again: dict[str, Any] = {}
        for goal in [only] if only else goals:
            for step in goals[goal]["steps"]:
                agent, words = next(iter(step.items()))
                handoffs: dict[str, Handoff] = {}
                tries = 0
                while before is not None:
                    handoffs, reason = self.edges(before, [agent], tries)
                    if reason is None:
                        break
                    tries += 1
                    before = yield from self.control(before.agent, report=reason, **again)
                task = filled(words, {"state": self.state(), "user": self.user, "agent": agent})
                again = {"input": task, "task": task, "handoff": handoffs.get(agent)}
                before = yield from self.control(agent, **again)

    def edges(
        self, before: Run, targets: list[str], tries: int
    ) -> tuple[dict[str, Handoff], Entry | None]:
        """Returns the handoffs of an output, where the pairs have contracts, or why none is made.

        If one of several ways is refused, the others are not asked for.
        """
        by_name = {
            target: Handoff(before.agent, target, contract, None, before.output)
            for target in targets
            if (contract := self.contract(before.agent, target, None)) is not None
        }
        refused = [value.target for value in by_name.values() if self.breaks(value)]
        results = {
            target: self.request(
                before.agent, target, by_name[target].contract, None, before.output
            )
            for target in refused or by_name
        }
        if not refused:
            for handoff in results.values():
                self.leave(before, handoff)
            return results, None
        for handoff in results.values():
            handoff.outcome = "rejected"
        on_invalid = results[refused[0]].contract.get("on_invalid", "reject")
        if on_invalid == "stop":
            raise TurnEnds(None)
        if on_invalid == "retry" and tries:
            raise TurnEnds("HandoffInvalid")
        words = Open(tuple(f"Handoff to {target} rejected: " for target in refused))
        return {}, Entry("system", words, before.agent)

    def _graph(self) -> Work:
        nodes, edges = self.plan["nodes"], self.plan["edges"]
        start = next(name for name, node in nodes.items() if node and node.get("start"))
        queue: list[Task] = []
        merges: dict[str, dict[str, tuple[Any, Branch | None]]] = {}
        led: dict[str, dict[str, Any]] = {}
        at_work: list[str] = []

        def launch(
            name: str,
            input: Any,
            handoff: Handoff | None,
            branch: Branch | None,
            report: Entry | None = None,
            tries: int = 0,
            upstream: Any = None,
        ) -> None:
            at_work.append(name)
            again = {"input": input, "handoff": handoff, "branch": branch,
                     "upstream": upstream or led.pop(name, None)}  # fmt: skip
            work = self.control(
                name, definition=(nodes[name] or {}).get("agent", name), report=report, **again
            )

            def through(run: Run) -> None:
                at_work.remove(name)
                went_on(name, run, again, tries)

            heapq.heappush(queue, (self.clock, next(self.order), through, work, None))

        def went_on(name: str, run: Run, again: dict[str, Any], tries: int) -> None:
            ways = self.ways(name, nodes, edges, run)
            handoffs, reason = self.edges(run, ways, tries)
            if reason is not None:
                launch(name, report=reason, tries=tries + 1, **again)
                return
            branch: Branch | None = again["branch"]
            split = self.fork(len(ways), branch) if len(ways) > 1 else [branch] * len(ways)
            for way, of_way in zip(ways, split, strict=True):
                led.setdefault(way, {})[name] = run
                if (nodes[way] or {}).get("role") == "merge":
                    merges.setdefault(way, {})[name] = (run.output, of_way)
                else:
                    launch(way, run.output, handoffs.get(way), of_way)
            for way in [
                way for way in merges
                if not self.reaches(way, [*at_work, *(m for m in merges if m != way)], edges)
            ]:  # fmt: skip
                arrived = merges.pop(way)
                outputs = {node: output for node, (output, _) in arrived.items()}
                launch(way, outputs, None, common([branch for _, branch in arrived.values()]))

        launch(start, self.user, None, None)
        yield from self.side_by_side(queue)

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

    def reaches(self, target: str, at_work: Iterable[str], edges: list[Mapping[str, Any]]) -> bool:
        """Says whether something that is at work can still come to a node."""
        observed = set(at_work)
        open_ = list(observed)
        while open_:
            value = open_.pop()
            for edge in edges:
                if edge["from"] == value and edge["to"] == target:
                    return True
                if edge["from"] == value and edge["to"] not in observed:
                    observed.add(edge["to"])
                    open_.append(edge["to"])
        return False


def common(branches: list[Branch | None]) -> Branch | None:
    """Returns the innermost branch that all are in."""
    first, *others = [_around(branch) for branch in branches]
    return next((item for item in first if all(item in other for other in others)), None)


def _around(branch: Branch | None) -> list[Branch]:
    around = []
    while branch is not None:
        around.append(branch)
        branch = branch.outer
    return around
