"""Implementation of ``simkit serve``: listen, run the program, check its requests."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from simkit import __version__
from simkit.adapters.programs.program import variables_for
from simkit.adapters.programs.served import ServedRun
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
from simkit.providers.http import HttpRequest
from simkit.report.results import Result, json_text, result_of, summary_of
from simkit.runtime.functions import function_named
from simkit.session.execution.running import placed
from simkit.session.execution.serving import (
    answer_questions,
    served,
    silent_turns,
    unused_of,
    variables_of,
)
from simkit.spec.scenario.files import Library, Prepared
from simkit.trace.store import Trace

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
    status = asyncio.run(_serving(options, run, variables_of(prepared)))
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
