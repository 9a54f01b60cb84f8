"""Probe of ``simkit doctor``: a scenario's first turn, and reasons why simkit saw no call."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import msgspec
from tabulate import tabulate

from simkit.adapters.annotations import current_mark
from simkit.adapters.attribution import AGENT_HEADER
from simkit.adapters.model_interceptor import ModelInterceptor
from simkit.adapters.modules import server_text
from simkit.capture.http.compat import transport_of
from simkit.capture.http.installing import Installation, Replacement
from simkit.capture.http.request_router import Decision
from simkit.cli.selection import select
from simkit.core.errors import SimkitError
from simkit.core.text import counted
from simkit.providers.http import HttpRequest, header
from simkit.providers.protocols import protocol_of
from simkit.report.results import Result
from simkit.session.execution import Execution
from simkit.session.simulate import placed
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.files import Library, Prepared
from simkit.trace import events as e
from simkit.trace.store import Trace

_UNSEEN: Final = {
    "grpc": "grpc is imported, and connects in C where nothing is seen of it",
    "websockets": "websockets is imported: what goes over a websocket is no model call here",
    "websocket": "websocket-client is imported: what goes over a websocket is no model call here",
    "pycurl": "pycurl is imported, and connects in C where nothing is seen of it",
    "curl_cffi": "curl_cffi is imported, and connects in C where nothing is seen of it",
}
_STARTS: Final = ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.system")


class FirstTurn(msgspec.Struct, frozen=True):
    """The result of a first turn."""

    is_well: bool
    text: str


class _RequestRow(msgspec.Struct, frozen=True):
    """One request that reached the router."""

    protocol: str
    """The protocol; empty for a request that is no model call."""
    client: str
    how: str
    """How its agent is recognized; empty for a rule, or the framework."""
    where: str


def first_turn(path: str) -> FirstTurn:
    """Run the first turn of a scenario, and return the observations; raise SimkitError."""
    library = Library()
    entries = select((path,), library.cache).entries
    if len(entries) != 1:
        raise SimkitError(
            f"{path}: `simkit doctor` looks at one scenario, and here are {len(entries)}\n"
            "  Name one: PATH::NAME."
        )
    (entry,) = entries
    if isinstance(entry, Result):
        raise SimkitError(entry.error)
    prepared = library.prepared(entry)
    title = f"First turn of {entry.id}\n\n"
    if isinstance(prepared.pipeline, Pipeline):
        return FirstTurn(
            True, f"{title}Its pipeline is declared: simkit runs it itself, and no client is used."
        )
    if prepared.skip is not None:
        return FirstTurn(False, f"{title}It is skipped: {prepared.skip}")
    trace, requests, started, problem = _run_once(prepared)
    lines = [
        *_report_lines(trace, requests, prepared.pipeline),
        *problem,
        *_server(prepared.pipeline),
    ]
    is_well = any(request.protocol for request in requests) and not problem
    if not any(request.protocol for request in requests):
        lines += ["", "Why there may be none:", *(f"- {why}" for why in _reasons(trace, started))]
    return FirstTurn(is_well, title + "\n".join(lines))


def _run_once(prepared: Prepared) -> tuple[Trace, list[_RequestRow], list[str], list[str]]:
    """Return the trace, the requests, the started processes, and the errors."""
    first = prepared.scenario.turns[:1]
    prepared = msgspec.structs.replace(
        prepared, scenario=prepared.scenario.model_copy(update={"turns": first})
    )
    trace, problem = Trace(), []
    with _watched() as requests, _processes() as started:
        try:
            # Output of the pipeline must not be inside the report.
            with (
                contextlib.redirect_stdout(sys.stderr),
                placed(prepared),
                Execution(prepared) as execution,
            ):
                trace = execution.trace
                execution.follow(first)
        except SimkitError as broken:
            problem = ["", *str(broken).splitlines()]
    return trace, requests, started, problem


@contextmanager
def _watched() -> Iterator[list[_RequestRow]]:
    """Yield the requests that reach the routers of runs."""
    requests: list[_RequestRow] = []

    def wrapper(before: Replacement) -> Replacement:
        def take(gate: ModelInterceptor, request: HttpRequest) -> Decision:
            requests.append(_request_row(request))
            decision: Decision = before(gate, request)
            return decision

        return take

    with Installation(lambda: [(ModelInterceptor, "take", wrapper)]):
        yield requests


def _request_row(request: HttpRequest) -> _RequestRow:
    protocol = protocol_of(request)
    how = ""
    if current_mark() is not None:
        how = "`simkit.agent`"
    elif header(request.headers, AGENT_HEADER):
        how = f"the header {AGENT_HEADER}"
    return _RequestRow(
        protocol.name if protocol is not None else "",
        header(request.headers, "user-agent") or "a client without a name",
        how,
        f"{request.method} {request.url.partition('?')[0]}",
    )


@contextmanager
def _processes() -> Iterator[list[str]]:
    """Yield the processes that are started meanwhile."""
    started: list[str] = []
    is_over = False

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in _STARTS and not is_over:
            started.append(str(args[0]) if args else event)

    # A hook cannot be removed, so that it stops to record.
    sys.addaudithook(hook)
    try:
        yield started
    finally:
        is_over = True


def _report_lines(trace: Trace, requests: list[_RequestRow], app: App) -> Iterator[str]:
    calls = [request for request in requests if request.protocol]
    agents = [event.agent for event in trace.events if isinstance(event, e.ModelCalled)]
    yield f"{counted(len(calls), 'model call')} seen"
    if calls:
        rows = [
            (agent or "none", request.how or _rule(agent, app), request.client, request.protocol)
            for agent, request in zip_longest(agents[: len(calls)], calls, fillvalue="")
            if isinstance(request, _RequestRow)
        ]
        head = ("agent", "told by", "client", "protocol")
        yield ""
        yield from (line.rstrip() for line in tabulate(rows, head, "simple").splitlines())
    others = dict.fromkeys(request.where for request in requests if not request.protocol)
    yield from (f"no model call, and refused unless allowed: {where}" for where in others)
    for event in trace.events:
        if isinstance(event, e.TurnFinished) and event.error is not None:
            yield f"\nThe turn ended with error {event.error.type}: {event.error.message}"
        elif isinstance(event, e.UncontrolledEffect):
            yield f"beyond simkit's control: {event.effect} at {event.where}"


def _server(app: App) -> list[str]:
    """Return the role of LangGraph's server for a pipeline that uses LangGraph."""
    module = app.entry.partition(":")[0]
    module_file = getattr(sys.modules.get(module), "__file__", None)
    if module_file is None or "langgraph" not in sys.modules:
        return []
    return ["", server_text(Path(module_file).parent, app.entry)]


def _rule(agent: str, app: App) -> str:
    if not agent:
        return "nothing"
    rule = app.agents.get(agent)
    return f"the rule agents.{agent}" if rule is not None and rule.matchers() else "its framework"


def _reasons(trace: Trace, started: list[str]) -> Iterator[str]:
    """Yield possible reasons why a run showed no model call, the likeliest first."""
    ended = [event for event in trace.events if isinstance(event, e.TurnFinished)]
    if not ended:
        yield "the pipeline could not be run: see above"
    elif ended[0].error is not None:
        yield f"the turn ended before one, with {ended[0].error.type}"
    for program in dict.fromkeys(started):
        yield (
            f"it started a process, {program}: simkit sees this process only; point the other to "
            "`simkit serve`"
        )
    for client, transport in dict.fromkeys(_own_transports()):
        yield f"a {client} has a transport of its own, {transport}, which is never patched"
    yield from (why for module, why in _UNSEEN.items() if module in sys.modules)
    if ended and ended[0].error is None:
        yield "the pipeline answered this message without asking a model, or from a cache"


def _own_transports() -> Iterator[tuple[str, str]]:
    """Yield the httpx clients of this process with a transport of the user's own."""
    for library in ("httpx", "httpx2"):
        module = sys.modules.get(library)
        if module is None:
            continue
        usual = (module.HTTPTransport, module.AsyncHTTPTransport)
        for client in gc.get_objects():
            # Asking some objects for their class has side effects.
            if not issubclass(type(client), (module.Client, module.AsyncClient)):
                continue
            transport = transport_of(client)
            if transport is not None and not isinstance(transport, usual):
                kind = type(transport)
                yield f"{library}.{type(client).__name__}", f"{kind.__module__}.{kind.__qualname__}"
