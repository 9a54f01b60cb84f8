"""Implementation of ``simkit serve``: listen, run the program, check its requests."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from simkit import __version__
from simkit.adapters.model_calls import GatedTraffic
from simkit.adapters.programs.program import variables_for
from simkit.adapters.programs.served import ServedRun
from simkit.adapters.script import Script
from simkit.capture.http.loopback import listening
from simkit.capture.http.request_router import Decision
from simkit.checks.judge import judge
from simkit.cli.console import table_width, wants_color
from simkit.cli.plan import KeptRun, only_case
from simkit.cli.running import Job, Runner
from simkit.core.answers import answer
from simkit.core.compat import libraries
from simkit.core.errors import SimkitError
from simkit.core.output import current_redactor, echo, echo_json
from simkit.core.stopping import BROKEN
from simkit.core.text import shell_word
from simkit.language.yaml import path_text
from simkit.providers.http import HttpRequest
from simkit.report.results import Result, json_text, result_of, summary_of
from simkit.runtime.functions import function_named
from simkit.runtime.models.faults import FaultPlan
from simkit.runtime.models.script import ScriptedModel, ScriptedTools, agents_in
from simkit.runtime.schedules import Fifo
from simkit.session.execution.processes import limits_of, shared_of, user_turn
from simkit.session.execution.recorded import REPLAY, traffic_of
from simkit.session.execution.running import placed
from simkit.spec.pipeline.model import Limits, Pipeline
from simkit.spec.scenario.apps import AgentRule, App, AppOptions
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.moments import places_of_orders
from simkit.spec.scenario.names import check_no_model_is_asked
from simkit.trace.recorder import Sink
from simkit.trace.store import Trace
from simkit.trace.views import view_of

# Serving a scenario with `simkit serve`: its script, attribution, and unused parts.


_REFERENCE: Final = re.compile(r"\$\{[^{}]*\}")


def served(prepared: Prepared, sink: Sink) -> ServedRun:
    """Return a scenario's run for a program that simkit does not start.

    Raise SourceError for a reference to the reply of an earlier turn, and for a question to the
    judge that a model would have to answer.
    """
    scenario, subject = prepared.scenario, prepared.pipeline
    check_no_model_is_asked(scenario, prepared.document)
    for index in prepared.waiting:
        raise prepared.document.error(
            ("turns", index) if index >= 0 else ("expect",),
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
        lambda index, agent: agent in replies[index],
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
    system = texts[name]
    matchers: list[dict[str, Any]] = [{"$contains": part} for part in system]
    for other, parts in texts.items():
        if other != name and parts != system and all(any(p in q for q in parts) for p in system):
            matchers.append({"$not": {"$all": [{"$contains": part} for part in parts]}})
    return AgentRule.model_validate({"system": {"$all": matchers}})


PATIENCE_S: Final = 5.0
"""Seconds in which a command may stop before it gets a stronger signal."""


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The user's options."""

    path: str
    port: int
    program: str
    form: str
    show: str


class Served(Result, frozen=True):
    """The result of a served scenario."""

    program: str = ""

    @property
    def reproduce(self) -> str:
        """Return the command that serves this again, quoted for the shell."""
        then = f" --then {shell_word(self.program)}" if self.program else ""
        return f"simkit serve {shell_word(self.id)}{then}"


def serve(options: ServeOptions) -> int:
    """Serve one scenario until the program ends, or the user stops it; return the exit code."""
    library = Library()
    case = only_case(options.path, library.cache, "`simkit serve` serves")
    prepared = library.prepared(case)
    for line in unused_of(prepared):
        echo(f"note: {line}", err=True)
    trace = Trace()
    run = served(prepared, trace)
    variables = prepared.pipeline.options.env if isinstance(prepared.pipeline, App) else {}
    status = asyncio.run(_serving(options, run, variables))
    for request, times in run.unknown.items():
        echo(f"note: {times} × {request}: no model call, and refused", err=True)
    if run.broken is not None:
        _tell(options.program, status)
        with placed(prepared):
            raise run.broken
    run.finish(silent_turns(prepared), lambda: answer_questions(prepared, trace))
    code = _judge(prepared, trace, options)
    _tell(options.program, status)
    return max(code, BROKEN if status else 0)


async def _serving(options: ServeOptions, run: ServedRun, own: Mapping[str, str]) -> int:
    """Return the program's exit status; 0 without a program."""
    stopped = _stopped()
    async with contextlib.AsyncExitStack() as stack:
        try:
            listener = listening(_handle(options, run), options.port)
            loopback = await stack.enter_async_context(listener)
        except OSError as problem:
            why = os.strerror(problem.errno or 0)
            raise SimkitError(f"port {options.port} cannot be listened to: {why}") from None
        variables = {**variables_for(loopback.url, os.environ), **own}
        if options.program:
            status = await _then(options.program, variables, stopped)
        else:
            _print(loopback.url, variables, options.form)
            await stopped
            status = 0
    if loopback.problem is not None:
        raise loopback.problem
    return status


def _handle(options: ServeOptions, run: ServedRun) -> Callable[[HttpRequest], Decision]:
    """Return the handler of requests; without a program, it prints errors as they come."""

    def handle(request: HttpRequest) -> Decision:
        before = run.problem
        decision = run.take(request)
        if run.problem != before and not options.program:
            echo(f"refused from now on: {run.problem}", err=True)
        return decision

    return handle


def _stopped() -> asyncio.Future[signal.Signals]:
    """Return a future that is done when the user, or another process, stops the server."""
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[signal.Signals] = loop.create_future()

    def stop(which: signal.Signals) -> None:
        if not stopped.done():
            stopped.set_result(which)

    for which in (signal.SIGINT, signal.SIGTERM):
        # Without such handlers, Ctrl-C ends everything without a result.
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(which, stop, which)
    return stopped


async def _then(
    program: str, variables: Mapping[str, str], stopped: asyncio.Future[signal.Signals]
) -> int:
    """Run the program to its end; return its exit code, negative for a signal."""
    process = await asyncio.create_subprocess_shell(program, env={**os.environ, **variables})
    ended = asyncio.ensure_future(process.wait())
    await asyncio.wait((ended, stopped), return_when=asyncio.FIRST_COMPLETED)
    if ended.done():
        return ended.result()
    # A terminal's Ctrl-C has reached the program, too.
    steps: list[Callable[[], None]] = [process.terminate, process.kill]
    if stopped.result() is signal.SIGTERM:
        steps.pop(0)()
    for step in steps:
        await asyncio.wait((ended,), timeout=PATIENCE_S)
        if not ended.done():
            step()
    return await ended or -stopped.result()


def _print(url: str, variables: Mapping[str, str], form: str) -> None:
    if form == "json":
        visible = {name: value for name, value in variables.items() if not _is_hidden(value)}
        server = {"url": url, "environment": visible}
        answer(**server)
        echo_json(msgspec.json.encode(server).decode(), at_once=True)
    else:
        for name, value in variables.items():
            if not _is_hidden(value):
                echo(f"export {name}={shell_word(value)}")
    for name in [name for name, value in variables.items() if _is_hidden(value)]:
        echo(f"note: {name} is secret and not printed; --then gives it to the program", err=True)
    echo(f"serving on {url}; Ctrl-C judges", err=True)


def _is_hidden(value: str) -> bool:
    """Return whether a value would be printed as the replacement of a secret."""
    return current_redactor().text(value) != value


def _judge(prepared: Prepared, trace: Trace, options: ServeOptions) -> int:
    outcome = judge(prepared.scenario, prepared.document, trace, function_named)
    job = Job(details="all", show=options.show, color=wants_color(), width=table_width())
    kept_run = KeptRun(job)
    result = result_of(prepared, outcome, None)
    facts = {name: getattr(result, name) for name in Result.__struct_fields__}
    served = Served(**facts, program=options.program)
    ran = Runner(kept_run.job).finish_run(prepared, outcome, served)
    if options.form == "json":
        echo_json(json_text([ran.result], __version__, libraries()))
    else:
        echo(ran.text)
    sys.stdout.flush()
    if note := kept_run.close([ran.result]) or ran.note:
        echo(f"note: {note}", err=True)
    return summary_of([ran.result]).exit_code


def _tell(program: str, status: int) -> None:
    """Print how a command failed."""
    if status:
        name = signal.Signals(-status).name if -status in {*signal.Signals} else ""
        how = f"was stopped by {name}" if name else f"ended with exit code {status}"
        echo(f"the command {how}: {program}", err=True)
