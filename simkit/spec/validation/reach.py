"""Reachability: the agents that a pipeline can start, whatever its flow."""

from __future__ import annotations

from collections.abc import Iterator

from simkit.spec.pipeline.agents import hands_over, members_of, startable, summarisers_of
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.validation.problems import Flaw


def started(pipeline: Pipeline) -> frozenset[str]:
    """Return the agents that the flow can start, directly or through handoffs.

    If the file does not say which agents start a turn, return all of them.
    """
    return pipeline.remembered(("started",), lambda: _started(pipeline))


def _started(pipeline: Pipeline) -> frozenset[str]:
    flow = pipeline.flow
    if flow.graph is not None:
        first = set(flow.graph.nodes)
    elif flow.supervisor is not None:
        first = {
            name for goal in flow.supervisor.goals.values() for step in goal.steps for name in step
        }
    else:
        return startable(pipeline)
    members = members_of(pipeline)
    names_started: set[str] = set()
    waiting = [*first, *summarisers_of(pipeline)]
    while waiting:
        name = waiting.pop()
        if name in members and name not in names_started:
            names_started.add(name)
            waiting += pipeline.of_agent(members[name], "handoffs")
            if hands_over(pipeline, members[name]):
                waiting += (
                    contract.to
                    for contract in pipeline.contracts
                    if {name, "*"} & set(contract.from_)
                )
    return frozenset(names_started)


def unreachable(pipeline: Pipeline) -> Iterator[Flaw]:
    """Yield VAL-10, agents that nothing can start, and VAL-14, contracts only for these."""
    reached, members = started(pipeline), members_of(pipeline)
    running = {members[name] for name in reached}
    for name in pipeline.agents:
        if name not in running:
            yield Flaw("VAL-10", ("agents", name), f"nothing can start agent `{name}`", key=True)
    for place, contract in enumerate(pipeline.contracts):
        if "*" not in contract.from_ and reached.isdisjoint(contract.from_):
            sources = ", ".join(f"`{name}`" for name in contract.from_)
            problem = f"nothing can use this contract: nothing can start {sources}"
            yield Flaw("VAL-14", ("contracts", place), problem)
