"""Serving a scenario with `simkit serve`: its script, attribution, and unused parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from simkit.adapters.model_calls import GatedTraffic
from simkit.adapters.programs.served import ServedRun
from simkit.adapters.script import Script
from simkit.language.yaml import path_text
from simkit.runtime.functions import function_named
from simkit.runtime.models.faults import FaultPlan
from simkit.runtime.models.script import ScriptedModel, ScriptedTools, agents_in
from simkit.runtime.schedules import Fifo
from simkit.session.execution.processes import limits_of, shared_of, user_turn
from simkit.session.execution.recorded import REPLAY, traffic_of
from simkit.spec.pipeline.model import Limits, Pipeline
from simkit.spec.scenario.apps import AgentRule, App, AppOptions
from simkit.spec.scenario.files import Prepared
from simkit.spec.scenario.moments import places_of_orders
from simkit.spec.scenario.names import check_no_model_is_asked
from simkit.trace.recorder import Sink
from simkit.trace.store import Trace
from simkit.trace.views import view_of

_REFERENCE: Final = re.compile(r"\$\{[^{}]*\}")


def served(prepared: Prepared, sink: Sink) -> ServedRun:
    """Return a scenario's run for a program that simkit does not start.

    Raise SourceError for a reference to the reply of an earlier turn, and for a question to the
    judge that a model would have to answer.
    """
    scenario, subject = prepared.scenario, prepared.pipeline
    check_no_model_is_asked(scenario, prepared.document)
    for place in prepared.waiting:
        raise prepared.document.error(
            ("turns", place) if place >= 0 else ("expect",),
            "a served program takes its turns by itself: what waits for an earlier reply is "
            "not filled in",
            advice="Write the reply out instead of `${turns[…].reply}`.",
        )
    limits = limits_of(Limits() if isinstance(subject, App) else subject.limits, scenario)
    app = subject if isinstance(subject, App) else _as_app(subject, prepared)
    replies = [turn.script for turn in scenario.turns]
    shared, state = shared_of(prepared)
    script = Script(
        prepared.item.name,
        scenario.seed,
        scenario.start,
        ScriptedModel(replies, {}, {}, function_named),
        # Most served programs execute their tools themselves; some ask for scripted results.
        ScriptedTools(
            [turn.tool_results for turn in scenario.turns], shared, {}, lambda name, args: None
        ),
        lambda place, agent: agent in replies[place],
        lambda: agents_in(replies),
        limits,
        FaultPlan([turn.faults for turn in scenario.turns], scenario.faults, scenario.seed),
        Fifo(),
        state,
    )
    turns = [user_turn(turn) for turn in scenario.turns]
    ends = () if isinstance(subject, App) else _ending_on_tools(subject)
    traffic = traffic_of(prepared, REPLAY)
    others = GatedTraffic(traffic) if traffic is not None else None
    return ServedRun(app, script, turns, sink, others, ends)


def answer_questions(prepared: Prepared, trace: Trace) -> None:
    """Record the scenario's own answers to questions to the judge, before its run ends."""
    scenario = prepared.scenario
    if not scenario.asks_judge:
        return
    # Few scenarios have questions.
    from simkit.session.execution.judging import Judge

    judge, view = Judge(None), view_of(trace.events)
    for turn, turn_view in zip(scenario.turns, view.turns, strict=False):
        questions, replies = turn.expect.questions, turn.judge_replies
        judge.ask(None, questions, replies, turn_view.number, view, trace, turn_view.error)
    judge.ask(None, scenario.expect.questions, scenario.judge_replies, 0, view, trace)


def silent_turns(prepared: Prepared) -> list[bool]:
    """Return for each turn whether it has no scripted model call."""
    has_cassette = prepared.scenario.cassette is not None
    return [not turn.replies and not has_cassette for turn in prepared.scenario.turns]


def variables_of(prepared: Prepared) -> Mapping[str, str]:
    """Return the environment variables that the scenario gives the program."""
    return prepared.pipeline.options.env if isinstance(prepared.pipeline, App) else {}


def unused_of(prepared: Prepared) -> Iterator[str]:
    """Yield the parts of a scenario that a served program does not use, a line for each."""
    turns = prepared.scenario.turns
    shared, _ = shared_of(prepared)
    tools = dict.fromkeys((*shared, *(tool for turn in turns for tool in turn.tool_results)))
    if tools:
        yield (
            f"`tool_results` ({', '.join(tools)}) are used where the program asks for them, with "
            "POST /simkit/tool. Else it carries its tools out itself; what they return is seen in "
            "its next request, and claimed under `tool_calls`."
        )
    for path in places_of_orders(prepared.document.data):
        yield f"`{path_text(path)}` is not used: a program is answered as its requests come"
    options = prepared.pipeline.options if isinstance(prepared.pipeline, App) else AppOptions()
    options_given = [
        key for key in ("setup", "call", "fresh", "tools") if key in options.model_fields_set
    ]
    if options_given:
        yield f"`app` ({', '.join(options_given)}) is not used: simkit does not run the program"
    for number, turn in enumerate(turns, 1):
        if turn.restart:
            yield f"`restart` of turn {number} is not used: simkit does not run the program"


def _ending_on_tools(pipeline: Pipeline) -> tuple[str, ...]:
    return tuple(
        name for name in pipeline.agents if pipeline.of_agent(name, "returns") == "tool_output"
    )


def _as_app(pipeline: Pipeline, prepared: Prepared) -> App:
    """Return a declared pipeline as code: instructions attribute its calls."""
    texts = {
        name: [part.strip() for part in _REFERENCE.split(agent.instructions) if part.strip()]
        for name, agent in pipeline.agents.items()
    }
    rules = {name: _rule(name, texts) for name, parts in texts.items() if parts}
    return App(pipeline.pipeline, "", prepared.document.file, AppOptions(), rules)


def _rule(name: str, texts: Mapping[str, list[str]]) -> AgentRule:
    """Return the rule for an agent's calls: its instructions, without another's longer ones."""
    own = texts[name]
    matchers: list[dict[str, Any]] = [{"$contains": part} for part in own]
    for other, parts in texts.items():
        if other != name and parts != own and all(any(p in q for q in parts) for p in own):
            matchers.append({"$not": {"$all": [{"$contains": part} for part in parts]}})
    return AgentRule.model_validate({"system": {"$all": matchers}})
