"""Checks of ``simkit doctor``: client libraries, frameworks, pytest plugins, MCP servers."""

from __future__ import annotations

import contextlib
import gc
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module, metadata
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from packaging.version import Version
from tabulate import tabulate

from simkit import __version__
from simkit.adapters.annotations import current_mark
from simkit.adapters.attribution import AGENT_HEADER
from simkit.adapters.model_interceptor import ModelInterceptor
from simkit.capture.http.compat import transport_of
from simkit.capture.http.installing import Installation, Replacement
from simkit.capture.http.interception import intercepting, patched
from simkit.capture.http.request_router import Decision
from simkit.cli.console import output_to_stderr
from simkit.cli.plan import only_case
from simkit.core.answers import answer
from simkit.core.audit import add_listener, remove_listener
from simkit.core.compat import (
    FRAMEWORKS,
    GROUP,
    LIBRARIES,
    TRIED,
    adapter_of,
    installed,
    version_of,
)
from simkit.core.errors import SimkitError
from simkit.core.text import counted
from simkit.providers.http import HttpRequest, header
from simkit.providers.protocols import protocol_of
from simkit.session.execution import Execution
from simkit.session.execution.running import placed
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.files import Library, Prepared
from simkit.trace import events as e
from simkit.trace.store import Trace

_IMPORTED: Final = ("httpx2", "httpx", "aiohttp", "urllib3", "httplib2", "http.client")
"""The status of a patched library; one that is not imported is not patched yet."""


ASPECTS: Final = ("contexts", "runs", "handoffs", "state", "filters")
"""Aspects that may be observed of a framework; a claim on another one is "not observable"."""


Rows = list[tuple[str, ...]]


def environment_text() -> str:
    """Return the facts about this environment, as tables."""
    sections = (
        ("", ("simkit", "version"), [("agent-simkit", __version__)]),
        ("Clients", ("library", "version", "seen", "replaced while a scenario runs"), clients()),
        ("Frameworks", ("library", "version", "its agents are told by", *ASPECTS), frameworks()),
        ("Tried", ("library", "version", "oldest", "newest", "this one"), tested_versions()),
        ("pytest", ("plugin", "version", "beside simkit"), plugins()),
        ("Servers", ("server", "file", "started by", "in a scenario"), servers(Path())),
    )
    for title, head, rows in sections:
        names = [word.replace(" ", "_") for word in head]
        table = [dict(zip(names, row, strict=True)) for row in rows]
        answer(**{title.lower() or "simkit_itself": table})
    # Few projects have a file that names MCP servers.
    tables = [section for section in sections if section[2] or section[0] != "Servers"]
    return "\n\n".join(_section(*section) for section in tables)


def _section(title: str, head: Sequence[str], rows: Rows) -> str:
    if not rows:
        return f"{title}: none of those that simkit knows"
    text: str = tabulate(rows, head, tablefmt="simple", disable_numparse=True)
    lines = "\n".join(line.rstrip() for line in text.splitlines())
    return f"{title}\n\n{lines}" if title else lines


def clients() -> Rows:
    """Return the installed client libraries, and how simkit observes each."""
    for module in _IMPORTED:
        with contextlib.suppress(ImportError):
            import_module(module)
    with intercepting():
        rows: Rows = [
            (row.library, row.version, "yes" if row.way else "no", row.way.replace(", ", "\n"))
            for row in patched()
        ]
    return [
        *rows,
        *((name, at, LIBRARIES.clients[name], "") for name, at in installed(LIBRARIES.clients)),
    ]


def frameworks() -> Rows:
    """Return the installed frameworks, and how simkit recognizes their agents."""
    adapters = {adapter_of(entry) for entry in metadata.entry_points(group=GROUP)}
    rows: Rows = []
    for name, at in installed(FRAMEWORKS):
        how = "rules under `agents`, or `with simkit.agent(…)`"
        visibility = LIBRARIES.visibility["by rules"]
        base = re.sub("-(agents|core|slim)$", "", name)
        if name in LIBRARIES.other_process:
            how = "another process makes its calls: `simkit serve`"
        elif adapter := next((short for short in (name, base) if short in adapters), ""):
            how = f"its adapter, `{adapter}`"
            visibility = LIBRARIES.visibility.get(adapter, LIBRARIES.visibility["other adapters"])
        elif name in LIBRARIES.told_by_spans:
            how = LIBRARIES.told_by_spans[name]
            visibility = LIBRARIES.visibility["by spans"]
        rows.append((name, at, how, *visibility))
    return rows


def tested_versions() -> Rows:
    """Return the tested versions of installed libraries for which simkit has a `compat` module."""
    rows: Rows = []
    for name, (oldest, newest) in TRIED.items():
        at = version_of(name)
        if at != "none":
            is_older, is_newer = Version(at) < Version(oldest), Version(at) > Version(newest)
            # Any patch of a tested version of Python counts as that version.
            is_newer = is_newer and not at.startswith(f"{newest}.")
            rows.append((name, at, oldest, newest, "older" * is_older + "newer" * is_newer))
    return rows


def _host(value: str) -> str:
    """Return scheme, host and port of an address, which are no secret."""
    try:
        parts = urlsplit(value if "://" in value else f"//{value}")
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname}{port}".removeprefix("://")
    except ValueError:
        return "no address"


def plugins() -> Rows:
    """Return pytest itself, and the plugins that disturb simkit."""
    return [
        *((name, at, "") for name, at in installed(("pytest", "pytest-bdd"))),
        *((name, at, LIBRARIES.plugins[name]) for name, at in installed(LIBRARIES.plugins)),
    ]


_SERVER_FILES: Final = (".mcp.json", "mcp.json", ".cursor/mcp.json", ".vscode/mcp.json")


def servers(folder: Path) -> Rows:
    """Return the MCP servers that a project's files name for clients; no variable, no query."""
    rows: Rows = []
    for name in _SERVER_FILES:
        try:
            content = msgspec.json.decode((folder / name).read_bytes(), type=dict[str, Any])
        except (OSError, msgspec.DecodeError):
            continue
        named = content.get("mcpServers") or content.get("servers")
        for server, options in named.items() if isinstance(named, dict) else ():
            options = options if isinstance(options, dict) else {}
            url, args = str(options.get("url") or ""), options.get("args")
            words = [str(options.get("command", "")), *(args if isinstance(args, list) else ())]
            rows.append(
                (
                    server,
                    name,
                    _host(url) if url else " ".join(map(str, words)),
                    f"servers: {{{server}: {{mcp: recorded}}}}",
                )
            )
    return rows


# Probe of ``simkit doctor``: a scenario's first turn, and reasons why simkit saw no call


_STARTS: Final = ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.system")


class _RequestRow(msgspec.Struct, frozen=True):
    """One request that reached the router."""

    protocol: str
    """The protocol; empty for a request that is no model call."""
    client: str
    how: str
    """How its agent is recognized; empty for a rule, or the framework."""
    where: str


def first_turn(path: str) -> tuple[bool, str]:
    """Run the first turn of a scenario; return whether all is well, and the observations.

    Raise SimkitError if it cannot be run.
    """
    library = Library()
    case = only_case(path, library.cache, "`simkit doctor` looks at")
    prepared = library.prepared(case)
    title = f"First turn of {case.id}\n\n"
    if isinstance(prepared.pipeline, Pipeline):
        sentence = "Its pipeline is declared: simkit runs it itself, and no client is used."
        return True, f"{title}{sentence}"
    if prepared.skip is not None:
        return False, f"{title}It is skipped: {prepared.skip}"
    trace, requests, started, problem = _run_once(prepared)
    answer(requests=requests)
    lines = [*_report_lines(trace, requests, prepared.pipeline), *problem]
    is_well = any(request.protocol for request in requests) and not problem
    if not any(request.protocol for request in requests):
        lines += ["", "Why there may be none:", *(f"- {why}" for why in _reasons(trace, started))]
    return is_well, title + "\n".join(lines)


def _run_once(prepared: Prepared) -> tuple[Trace, list[_RequestRow], list[str], list[str]]:
    """Return the trace, the requests, the started processes, and the errors."""
    first = prepared.scenario.turns[:1]
    prepared = msgspec.structs.replace(
        prepared, scenario=prepared.scenario.model_copy(update={"turns": first})
    )
    trace, problem = Trace(), []
    with _watched() as requests, _processes() as started:
        try:
            with output_to_stderr(), placed(prepared), Execution(prepared) as execution:
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

    def note(event: str, args: tuple[Any, ...]) -> None:
        if event in _STARTS:
            started.append(str(args[0]) if args else event)

    add_listener(note)
    try:
        yield started
    finally:
        remove_listener(note)


def _call_table(calls: list[_RequestRow], agents: list[str], app: App) -> Iterator[str]:
    """Yield the lines of a table of the model calls; the last ones may have no agent."""
    rows = [
        (agent or "none", request.how or _rule(agent, app), request.client, request.protocol)
        for agent, request in zip_longest(agents[: len(calls)], calls, fillvalue="")
        if isinstance(request, _RequestRow)
    ]
    head = ("agent", "told by", "client", "protocol")
    yield from (line.rstrip() for line in tabulate(rows, head, "simple").splitlines())


def _report_lines(trace: Trace, requests: list[_RequestRow], app: App) -> Iterator[str]:
    calls = [request for request in requests if request.protocol]
    agents = [event.agent for event in trace.events if isinstance(event, e.ModelCalled)]
    yield f"{counted(len(calls), 'model call')} seen"
    if calls:
        yield ""
        yield from _call_table(calls, agents, app)
    others = dict.fromkeys(request.where for request in requests if not request.protocol)
    yield from (f"no model call, and refused unless allowed: {where}" for where in others)
    for event in trace.events:
        if isinstance(event, e.TurnFinished) and event.error is not None:
            yield f"\nThe turn ended with error {event.error.type}: {event.error.message}"
        elif isinstance(event, e.UncontrolledEffect):
            yield f"beyond simkit's control: {event.effect} at {event.where}"


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
    yield from (why for module, why in LIBRARIES.unseen.items() if module in sys.modules)
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
