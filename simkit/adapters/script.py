"""Scripts: the parts of a scenario that a driver needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from simkit.adapters.trace_recorder import TraceRecorder
from simkit.core.messages import JsonValue
from simkit.runtime.models.faults import FaultPlan
from simkit.runtime.ports import Schedule, Tools, TurnModel
from simkit.spec.pipeline.model import Limits
from simkit.trace import events as e
from simkit.trace.recorder import WHOLE_RUN


class Script(msgspec.Struct, frozen=True):
    """The parts of a scenario that a driver needs."""

    scenario: str
    seed: int
    start: str
    model: TurnModel
    tools: Tools
    has_lines: Callable[[int, str], bool]
    """Returns whether the turn at an index has reply lines for an agent."""
    agents: Callable[[], Iterable[str]]
    """Returns the agents in reply lines since the last call, including targets of handoffs."""
    limits: Limits
    plan: FaultPlan
    """The model calls that fail, whatever would answer them."""
    schedule: Schedule
    """The order in which waiting model calls are answered."""
    initial_state: Mapping[str, JsonValue] = {}
    stubs: Callable[[int], Collection[str]] = lambda place: ()
    """Returns the tools for which the turn at an index has results."""
    logs: bool = False
    """Whether the scenario claims log records."""
    given_project: str | None = None
    """The project that gets given project channels; None means the first turn's."""


def record_run_start(
    recorder: TraceRecorder, script: Script, driver: str, facts: e.PipelineFacts
) -> None:
    """Record that a run begins."""
    recorder.learn_channels(facts.channels)
    recorder.events.record_run_start(
        WHOLE_RUN,
        scenario=script.scenario,
        seed=script.seed,
        start=script.start,
        driver=driver,
        pipeline=facts,
    )
