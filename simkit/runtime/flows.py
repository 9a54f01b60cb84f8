"""Flows: four ways in which control moves between agents, built from the same few steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol

from msgspec.structs import replace

from simkit.core.errors import NoRoute
from simkit.language.references import Template
from simkit.language.references import compile as compile_references
from simkit.runtime.activation import Activation
from simkit.runtime.chain import chain, in_parallel, passed_on
from simkit.runtime.compiled import CompiledPipeline
from simkit.runtime.context.rendering import json_text, text_form
from simkit.runtime.graph import GraphFlow
from simkit.runtime.scheduler import Steps
from simkit.runtime.turn import Start, Turn
from simkit.spec.pipeline.model import Goal

ANSWER_CHARACTERS_MAX: Final = 120
"""The length of a router's answer in an error."""


class Flow(Protocol):
    """How control moves between agents."""

    def run(self, turn: Turn) -> Steps:
        """Run one turn to its end."""


def flow_of(compiled: CompiledPipeline) -> Flow:
    """Return the pipeline's flow, ready to run; all runs share it."""
    if compiled.flow is None:
        compiled.flow = _compiled_flow(compiled)
    flow: Flow = compiled.flow
    return flow


def _compiled_flow(compiled: CompiledPipeline) -> Flow:
    flow = compiled.pipeline.flow
    if flow.router is not None:
        return RouterFlow(compiled, flow.router.decide, flow.router.to)
    if flow.graph is not None:
        return GraphFlow(flow.graph)
    if flow.supervisor is not None:
        return SupervisorFlow(flow.supervisor.goals)
    assert flow.handoffs is not None
    return HandoffsFlow(compiled, flow.handoffs.start)


class RouterFlow:
    """A flow in which one agent decides; the named agents run in order or in parallel."""

    def __init__(self, compiled: CompiledPipeline, decide: str, to: Any) -> None:
        self._agents, self._decide, self._to = compiled.agents, decide, compile_references(to)
        self._targets = self._agents.keys() - {decide}

    def run(self, turn: Turn) -> Steps:
        """Run the decider, then its targets."""
        decider: Activation = yield from chain(turn, Start(self._decide))
        turn.reply = None
        chosen = self._to.resolve(decider.root_now())
        parallel = isinstance(chosen, Mapping) and "parallel" in chosen
        route_targets = chosen["parallel"] if parallel else chosen
        is_list = isinstance(route_targets, (list, tuple))
        targets = tuple(route_targets) if is_list else (route_targets,)
        for target in targets or (None,):
            if not isinstance(target, str) or target not in self._targets:
                raise self._no_route(target, decider.output)
        turn.recorder.record_route(
            turn.position(decider.agent.name, decider.id), targets=targets, parallel=parallel
        )
        starts = [Start(target) for target in targets]
        if parallel and len(targets) > 1:
            yield from in_parallel(turn, starts, lambda at, run: chain(turn, starts[at], run))
            return
        for start in starts:
            yield from chain(turn, start)

    def _no_route(self, target: Any, answer: Any) -> NoRoute:
        chosen = f"{target!r}, which is no agent"
        if target is None or target == self._decide:
            chosen = "nobody" if target is None else "itself"
        known = ", ".join(name for name in self._agents if name != self._decide)
        answer_text = json_text(answer)
        if len(answer_text) > ANSWER_CHARACTERS_MAX:
            answer_text = f"{answer_text[: ANSWER_CHARACTERS_MAX - 1]}…"
        return NoRoute(
            f"router {self._decide!r} chose {chosen}; it answered {answer_text}; agents: {known}"
        )


class HandoffsFlow:
    """A flow in which a turn starts with one agent, and agents pass control themselves."""

    def __init__(self, compiled: CompiledPipeline, start: Any) -> None:
        self._agents, self._start = compiled.agents, compile_references(start)

    def run(self, turn: Turn) -> Steps:
        """Run the starting agent and those it passes control to."""
        first = self._start.resolve(turn.root())
        if not isinstance(first, str) or first not in self._agents:
            target_text = "nobody" if first is None else repr(first)
            raise NoRoute(
                f"the flow starts with {target_text}, which is no agent; agents: "
                f"{', '.join(self._agents)}"
            )
        yield from chain(turn, Start(first))


class SupervisorFlow:
    """A flow of goals: each step is an agent and its task."""

    def __init__(self, goals: Mapping[str, Goal]) -> None:
        self._goals = {
            name: [
                (agent, compile_references(task))
                for step in goal.steps
                for agent, task in step.items()
            ]
            for name, goal in goals.items()
        }

    def run(self, turn: Turn) -> Steps:
        """Run all goals in order, or the one that the user's message names as its ``goal``."""
        last: Activation | None = None
        before = ""
        for goal, agent, task in self._plan(turn.input):
            start, root = Start(agent), turn.root()
            if last is not None:
                ended: list[Activation] = []
                (start,) = yield from passed_on(turn, before, last, _next_step(agent, ended))
                # The handoff is made by now, so the task can refer to what its contract wrote.
                root = ended[-1].root_now()
            words = text_form(task.resolve(root))
            last = yield from chain(turn, replace(start, input=words, task=words, goal=goal))
            before = agent

    def _plan(self, user_value: Any) -> Iterator[tuple[str, str, Template]]:
        goal_name = user_value.get("goal") if isinstance(user_value, Mapping) else None
        if goal_name is not None and goal_name not in list(self._goals):
            raise NoRoute(f"there is no goal {goal_name!r}; goals: {', '.join(self._goals)}")
        for name, steps in self._goals.items():
            if goal_name is None or name == goal_name:
                yield from ((name, agent, task) for agent, task in steps)


def _next_step(agent: str, ended: list[Activation]) -> Callable[[Activation], list[Start]]:
    """Return a function that finds the next step after a run, and records that run."""

    def starts_after(source: Activation) -> list[Start]:
        ended.append(source)
        return [Start(agent, after=(source.id,))]

    return starts_after
