"""Failures of a pipeline's code, and refusals: of requests, of results, of rules about nothing."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType, MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from simkit.adapters.entry import home_of
from simkit.adapters.recorder.handoffs import HandoffTools
from simkit.adapters.recorder.trace import TraceRecorder
from simkit.capture.http.places import (
    CLIENTS,
    asking_frame,
    has_failed,
    library_asking,
    library_frame,
    place,
    raised_at,
    user_frame,
)
from simkit.capture.http.refusals import LibraryRequest, log, taken_library_requests
from simkit.capture.http.request_router import NoNetwork
from simkit.core import errors
from simkit.core.messages import HANDOFF_PREFIX, Fails
from simkit.core.text import exception_text, guess, single_failure
from simkit.language.yaml import near
from simkit.providers.http import HttpRequest
from simkit.providers.protocols import PROTOCOLS, is_providers_host, unsupported_interface
from simkit.spec.scenario.apps import App

_UNKNOWN: Final = "module:function"


def refused_at_import(problem: errors.SimkitError, entry: str) -> errors.SimkitError:
    """Return the error of code that uses the network while it is imported, with what helps there:
    no tool's result can be in its place yet."""
    if not isinstance(problem, errors.NetworkRefused):
        return problem
    request_text = problem.args[0].partition("\n")[0]
    return errors.FunctionMissing(
        f"{request_text}\nIt is sent while `{entry}` is imported or made. Put a "
        "fake in its place before that: `app: {setup: module:function}`, or allow the host: "
        f"`allow_hosts: [{problem.host}]`.",
        entry,
    )


def refusal_of(request: HttpRequest) -> errors.NetworkRefused:
    """Return the refusal: the request, its place in user code, and possible replacements."""
    at = sent_at()
    request_text = f"{request.method} {request.url}"
    host = request.url.partition("://")[2].partition("/")[0]
    interface = unsupported_interface(request)
    if _embeds(request):
        function = _function(user_frame(sys._getframe(1), "", nearest=True))
        tool = function.rpartition(":")[2] if function != _UNKNOWN else "embed"
        problem = (
            f"the pipeline asked for embeddings, {request_text}{at}: simkit answers model calls "
            "only, and the network is refused.\n"
            f"Let the function that returns them be stood in for: `app: {{tools: {{{tool}: "
            f"{function}}}}}` and `tool_results: {{{tool}: {{returns: [0.1, 0.2]}}}}`. Or put a "
            "fake in its place under `app: {setup: module:function}`, or record it with a "
            "`cassette`."
        )
    elif interface:
        problem = (
            f"the pipeline sent {request_text}{at}: that is {interface}, which simkit does not "
            f"speak, and the network is refused.\nSpoken are {', '.join(PROTOCOLS)}. What others "
            "answer can be recorded and replayed with a `cassette`; or put a fake in the client's "
            "place under `app: {setup: module:function}`."
        )
    elif b'"jsonrpc"' in request.body:
        problem = (
            f"the pipeline sent {request_text}{at}: that is an MCP server, and the network is "
            "refused.\nLet the scenario answer for it: "
            f"`servers: {{NAME: {{match: {{$contains: {host}}}, mcp: {{tools: {{…}}}}}}}}`."
        )
    else:
        problem = (
            f"the pipeline sent {request_text}, which is no model call that simkit knows, and the "
            f"network is refused{at}.\n"
            "Stub the tool with `tool_results` and `app: {tools: …}`, or allow the host: "
            f"`allow_hosts: [{host}]`."
        )
    return errors.NetworkRefused(problem, host, None)


def answer_to_library(request: HttpRequest, home: str) -> NoNetwork:
    """Return the answer to a request of a library by itself: there is no network.

    Raise NetworkRefused if user code or a tool of it sends the request, or a model may be asked.
    """
    refusal = refusal_of(request)
    asks_model = (
        is_providers_host(refusal.host) or unsupported_interface(request) or _embeds(request)
    )
    library = library_asking(sys._getframe(1), home)
    if asks_model or not library or b'"jsonrpc"' in request.body:
        raise refusal
    entry = library_frame(sys._getframe(1), home)
    note = LibraryRequest(library, refusal.host, refusal, entry=entry)
    log.to_libraries.append(note)
    return NoNetwork("connection", f"simkit: there is no network for {library}", note.errors.append)


def unsurvived(problem: BaseException | None, home: str) -> Iterator[errors.NetworkRefused]:
    """Yield what libraries were refused and did not survive in this turn; note the rest.

    Their error reached user code, or is why the turn ends with ``problem``.
    """
    causes = [*_causes(problem)]
    for request in taken_library_requests():
        has_left = request.entry is not None and has_failed(request.entry)
        if has_left or any(
            raised_at(error, home) or any(error is cause for cause in causes)
            for error in request.errors
        ):
            yield request.refusal
        else:
            log.survived[request.library, request.host] = None


@contextmanager
def libraries_heeded(home: str) -> Iterator[None]:
    """Raise RunHalted for what libraries are refused in here and do not survive."""
    try:
        yield
    finally:
        for refusal in unsurvived(sys.exception(), home):
            raise errors.RunHalted(refusal)


def _causes(problem: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, and those that it came from or holds; causes may be circular."""
    visited: list[BaseException] = []
    waiting = [problem]
    while waiting:
        error = waiting.pop()
        if error is None or any(error is each for each in visited):
            continue
        visited.append(error)
        yield error
        waiting += [error.__cause__, error.__context__]
        if isinstance(error, BaseExceptionGroup):
            waiting += error.exceptions


def sending_code() -> str:
    """Return the nearest user code that sends the current request; empty if none is known."""
    frame = asking_frame(sys._getframe(1))
    return place(frame) if frame is not None else ""


def sent_at() -> str:
    """Return `sending_code` as the end of a sentence."""
    code = sending_code()
    return f", at {code}" if code else ""


def _embeds(request: HttpRequest) -> bool:
    return "embed" in urlsplit(request.url).path.rpartition("/")[2].lower()


def _function(frame: FrameType | None) -> str:
    """Return ``module:function`` of the calling user code, if a module holds the function."""
    if frame is not None:
        name, module = frame.f_code.co_name, frame.f_globals.get("__name__")
        value = frame.f_globals.get(name)
        if module and getattr(value, "__code__", None) is frame.f_code:
            return f"{module}:{name}"
    return _UNKNOWN


# Tool results of a turn


def refuse_unreachable(tools: Iterable[str], app: App, turn: int) -> None:
    """Raise ScriptBroken if nothing can replace a tool's function, so that it would run."""
    for tool in tools:
        raise _nobody_knows(tool, app, turn)


def refuse_unreached(
    tools: Iterable[str], app: App, recorder: TraceRecorder, reached: Collection[str]
) -> None:
    """Raise ScriptMisfit for results that no call of the turn could have used.

    ``reached`` are the tools with calls that were answered, or seen to be executed.
    """
    for tool in tools:
        if tool in reached:
            continue
        if recorder.was_asked_for(tool):
            unknown = _nobody_knows(tool, app, recorder.turn)
            raise errors.ScriptMisfit(unknown.what, unknown.path)
        if tool not in recorder.offered:
            names = ", ".join(sorted(recorder.offered)) or "none"
            hint = guess(tool, recorder.offered)
            raise errors.ScriptMisfit(
                f"no model was offered tool `{tool}`.{hint} Offered: {names}.",
                ("turns", recorder.turn - 1, "tool_results", tool),
            )


def _nobody_knows(tool: str, app: App, turn: int) -> errors.ScriptBroken:
    home = app.entry.partition(":")[0]
    return errors.ScriptBroken(
        f"simkit does not know the function of tool `{tool}`.\nName it: `app: {{tools: {{{tool}: "
        f"{home}:{tool}}}}}`, or wherever it is defined. If the code answers the call without a "
        "function, leave the result out: what the code answers is kept.",
        ("turns", turn - 1, "tool_results", tool),
    )


# Rules under ``agents:``


def handoff_tools_of(app: App) -> HandoffTools:
    """Return the handoff tools in the rules of a scenario.

    A rule with tools adds them to `transfer_to_<agent>`; `handoff: []` means that no tool passes
    control to its agent. A tool whose function the scenario names is a plain one. Raise
    ScriptBroken if two rules name one tool and no argument names the agent.
    """
    tools: dict[str, str] = {}
    shared: dict[str, str] = {}
    first: dict[str, str] = {}
    for agent, rule in app.agents.items():
        for handoff in rule.handoff:
            other = first.setdefault(handoff.tool, agent)
            if other != agent and not (
                handoff.target and handoff.target == shared.get(handoff.tool)
            ):
                raise errors.ScriptBroken(
                    f"tool `{handoff.tool}` passes control to {other!r} and to {agent!r}, and the "
                    "rules do not agree on the argument that says which.\n"
                    f"Name it in each rule: `handoff: {{tool: {handoff.tool}, target: ARGUMENT}}`.",
                    ("agents", agent, "handoff"),
                )
            if handoff.target:
                shared[handoff.tool] = handoff.target
            else:
                tools[handoff.tool] = agent
    handoff_tools = HandoffTools(tools, shared)
    handoff_tools.know(app.agents)
    handoff_tools.keep_ordinary(app.options.tools)
    for agent, rule in app.agents.items():
        if "handoff" in rule.model_fields_set:
            handoff_tools.guess_only(agent, (HANDOFF_PREFIX,) if rule.handoff else ())
    return handoff_tools


def refuse_nodes(app: App) -> None:
    """Raise ScriptBroken for a rule with nodes in a pipeline without nodes."""
    for agent, rule in app.agents.items():
        if rule.node:
            raise errors.ScriptBroken(
                f"`node` names nodes of a graph, and `{app.entry}` is no graph, nor code that "
                "uses LangGraph.\n"
                "Name the graph under `pipeline:`, or say by `system` which calls are the agent's.",
                ("agents", agent, "node"),
            )


def check_nodes(app: App, nodes: Collection[str], are_all: bool) -> None:
    """Raise ScriptMisfit for a rule with a node that no graph has and that never ran.

    If more nodes may exist, a rule may concern a graph that this scenario does not reach: then only
    a near miss of a node's name is an error.
    """
    for agent, rule in app.agents.items():
        for node in rule.node:
            if node not in nodes and (are_all or near(node, nodes)):
                raise errors.ScriptMisfit(
                    _nothing("node", node, app, nodes), ("agents", agent, "node")
                )


def check_agents(app: App, known: Collection[str], agents_met: Collection[str]) -> None:
    """Raise ScriptMisfit for an agent's rule if it never ran and its name is a near miss.

    ``known`` are the framework's agents, ``agents_met`` those that ran. Code may make further
    agents, so that only a similar name shows a typo.
    """
    names = dict.fromkeys((*known, *agents_met))
    others = [name for name in names if name not in app.agents]
    for agent, rule in app.agents.items():
        matches_itself = bool(rule.node or rule.matchers())
        if agent not in names and not matches_itself and near(agent, others):
            raise errors.ScriptMisfit(_nothing("agent", agent, app, names), ("agents", agent))


def _nothing(noun: str, name: str, app: App, known: Collection[str]) -> str:
    return (
        f"no {noun} {name!r} worked, and `{app.entry}` has none of that name.{guess(name, known)}\n"
        f"Its {noun}s: {', '.join(known) or 'none'}."
    )


def failure_of(
    problem: BaseException,
    fails: Fails | None,
    entry: str,
    named: Mapping[str, str] = MappingProxyType({}),
) -> errors.PipelineError:
    """Return the error of a pipeline: the last served failure, if it caused it.

    ``named`` are the scenario's names for exceptions of the code, with their classes.
    """
    raised = raised_by(problem)
    name = name_of(raised, named)
    if name:
        return errors.FrameworkFailed(str(raised), name)
    if fails is not None and (_status_of(raised) == fails.status or _is_a_clients(raised)):
        return errors.ModelError(fails.message, fails.kind, fails.status)
    where = raised_at(raised, home_of(entry)) or raised_at(problem, home_of(entry))
    return errors.FunctionFailed(
        f"`{entry}` raised {exception_text(raised)}{', at ' if where else ''}{where}"
    )


def raised_by(problem: BaseException) -> BaseException:
    """Return the exception that the code or its framework itself raised."""
    is_told = isinstance(problem, errors.FrameworkFailed) and problem.__cause__ is not None
    return single_failure(problem.__cause__ or problem if is_told else problem)


def name_of(problem: BaseException, named: Mapping[str, str]) -> str:
    """Return the name of an exception's class, or of its nearest named base; else empty."""
    names = {entry: name for name, entry in named.items()}
    classes = (f"{class_.__module__}:{class_.__qualname__}" for class_ in type(problem).__mro__)
    return next((names[class_] for class_ in classes if class_ in names), "")


def _status_of(problem: BaseException) -> int | None:
    """Return the HTTP status in a client's exception, under any of the usual names."""
    # `status` before `code`, which aiohttp's exceptions have too, with a warning.
    codes = (getattr(problem, name, None) for name in ("status_code", "status", "code"))
    return next((code for code in codes if isinstance(code, int)), None)


def _is_a_clients(problem: BaseException) -> bool:
    """Return whether an exception comes from a provider client, directly or as its cause."""
    cause: BaseException | None = problem
    visited: list[BaseException] = []
    while cause is not None and not any(cause is error for error in visited):
        if type(cause).__module__.partition(".")[0] in CLIENTS:
            return True
        visited.append(cause)  # Causes may be circular.
        cause = cause.__cause__
    return False
