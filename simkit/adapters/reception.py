"""Reception of a program in another process, started by simkit or by somebody else."""

from __future__ import annotations

import msgspec

from simkit.adapters.app_options import gifts_of
from simkit.adapters.attribution import Attribution
from simkit.adapters.driver import Script, record_run_start
from simkit.adapters.model_interceptor import Answerer, ModelInterceptor
from simkit.adapters.reports import Reports
from simkit.adapters.rules import handoff_tools_of
from simkit.adapters.scripted import ScriptedAnswers
from simkit.adapters.tool_use import ToolUse
from simkit.adapters.trace_recorder import TraceRecorder
from simkit.runtime.clock import VirtualClock
from simkit.runtime.context.tokens import counter_named
from simkit.spec.scenario.apps import App
from simkit.trace.events import PipelineFacts
from simkit.trace.recorder import Sink


class Reception(msgspec.Struct, frozen=True):
    """The parts that answer and record a program's model calls, tools and reports."""

    recorder: TraceRecorder
    gate: ModelInterceptor
    use: ToolUse
    reports: Reports


def opened(
    app: App, script: Script, facts: PipelineFacts, sink: Sink, clock: VirtualClock, *,
    driver: str, gives: bool, models: Answerer | None, tools: Answerer | None,
) -> Reception:  # fmt: skip
    """Return the reception of a new run.

    ``gives``: sessions begin with the scenario's given state. Recorded traffic answers, as
    ``models``, agents without lines in a turn, and, as ``tools``, their tools.
    """
    recorder = TraceRecorder(sink, clock, counter_named(facts.tokens), script.limits)
    recorder.handoff_tools = handoff_tools_of(app)
    recorder.handoff_tools.know(facts.agents)
    if gives:
        recorder.gifts = gifts_of(script.initial_state, facts, script.given_project)
    record_run_start(recorder, script, driver, facts)
    answers = ScriptedAnswers(
        recorder,
        script.model,
        lambda agent: script.has_lines(recorder.turn - 1, agent),
        lambda run: reports.tells_end_of(run),
    )
    gate = ModelInterceptor(
        recorder, Attribution(app.agents), answers, models, lambda url: False, script.plan
    )
    use = ToolUse(recorder, gate, script.tools, tools)
    reports = Reports(recorder, use, script.tools.scripts, app.channels)
    return Reception(recorder, gate, use, reports)
