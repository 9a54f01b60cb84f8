"""Google's Agent Development Kit: agents, and code that runs agents.

Calls of ``Runner.run_async`` (and so of ``run`` and ``run_debug``) are observed wherever a pipeline
makes them. A pipeline that is an agent, an ``App`` or a workflow runs with services in memory; each
session of a scenario is a session of the ADK. Facts are read from the tree of agents.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, aclosing
from functools import partial
from types import ModuleType
from typing import Any, Final

import msgspec
from google.adk.agents import BaseAgent, LlmAgent, ParallelAgent
from google.adk.apps import App as AdkApp
from google.adk.artifacts import InMemoryArtifactService
from google.adk.events import Event
from google.adk.memory import InMemoryMemoryService
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools import BaseTool
from google.adk.tools.agent_tool import AgentTool
from google.adk.workflow import BaseNode
from google.genai import types
from google.genai.errors import APIError

from simkit.adapters import api
from simkit.adapters.google_adk.log import AdkLog, answer_to, scope_of, text_of
from simkit.adapters.google_adk.runner import here_now, listening, quiet


def reachable(root: Any) -> Iterator[Any]:
    """Yield the agents below a root, including workflows' nodes, each once, nearest first."""
    agents, visited = [root], {id(root)}
    for agent in agents:
        if isinstance(agent, BaseAgent):
            yield agent
        for below in _below(agent):
            if id(below) not in visited:
                visited.add(id(below))
                agents.append(below)


def _below(node: Any) -> Iterator[Any]:
    yield from getattr(node, "sub_agents", ())
    for tool in getattr(node, "tools", None) or ():
        if isinstance(tool, AgentTool):
            yield tool.agent
    graph = getattr(node, "graph", None)
    yield from getattr(graph, "nodes", ())


def agents_of(root: Any) -> Mapping[str, api.AgentFacts]:
    """Return the facts of each agent."""
    return {agent.name: _facts_of(agent) for agent in reachable(root)}


def _facts_of(agent: Any) -> api.AgentFacts:
    if not isinstance(agent, LlmAgent):
        return api.AgentFacts()
    instruction = agent.instruction
    tools = (_name_of(tool) for tool in agent.tools)
    return api.AgentFacts(
        instructions=instruction if isinstance(instruction, str) else api.COMPUTED_PROMPT,
        tools=tuple(name for name in tools if name),
        handoffs=tuple(dict.fromkeys(target.name for target in _targets_of(agent))),
    )


def _name_of(tool: Any) -> str:
    """Return a tool's name; empty for a toolset, which makes its tools on demand."""
    if isinstance(tool, BaseTool):
        return str(tool.name)
    return str(getattr(tool, "__name__", "")) if callable(tool) else ""


def _targets_of(agent: Any) -> Iterator[Any]:
    """Yield the agents to which the ADK lets an agent pass control."""
    yield from agent.sub_agents
    parent = agent.parent_agent
    if isinstance(parent, LlmAgent):
        if not agent.disallow_transfer_to_parent:
            yield parent
        if not agent.disallow_transfer_to_peers:
            yield from (
                sub_agent for sub_agent in parent.sub_agents if sub_agent.name != agent.name
            )


def channels_of(root: Any) -> Mapping[str, api.ChannelFacts]:
    """Return the keys that agents in parallel write their answers to: each replaces the other's.

    Other state is not declared anywhere.
    """
    channels = (
        below
        for agent in reachable(root)
        if isinstance(agent, ParallelAgent)
        for below in reachable(agent)
    )
    keys = (getattr(agent, "output_key", None) for agent in channels)
    return {key: api.ChannelFacts("replace", scope_of(key)) for key in keys if key}


def is_structured(root: Any, agent: str) -> bool:
    """Return whether an agent's answer is JSON by its schema."""
    named = (matches for matches in reachable(root) if matches.name == agent)
    return any(getattr(matches, "output_schema", None) is not None for matches in named)


_ROOTS: Final = ("app", "root_agent")
"""Names that the ADK's tools look for in an application's module, in order."""


def driver(
    subject: Any, app: api.App, adapter_context: api.AdapterContext
) -> AdkPilot | CodePilot | None:
    """Return the driver for an agent, an App, a workflow, or a module with one.

    Code that runs agents itself is run as plain code with known agents.
    """
    root = root_of(subject)
    if root is not None:
        return AdkPilot(root, app, adapter_context)
    if inspect.isfunction(subject) or inspect.isclass(subject):
        loaded = _held_by(sys.modules.get(subject.__module__))
        return CodePilot(subject, app, adapter_context, loaded) if loaded else None
    return None


def root_of(subject: Any) -> Any:
    """Return an object that a runner can run: the subject, or one in a module; else None."""
    if isinstance(subject, (AdkApp, BaseNode)):
        return subject
    if isinstance(subject, ModuleType):
        for module in (subject, getattr(subject, "agent", None)):
            for name in _ROOTS:
                attribute = getattr(module, name, None)
                if isinstance(attribute, (AdkApp, BaseNode)):
                    return attribute
    return None


def _held_by(module: ModuleType | None) -> list[Any]:
    """Return the agents of a module, without those below others."""
    roots = []
    if module is not None:
        for value in vars(module).values():
            root = value.app if isinstance(value, Runner) else value
            root = root.root_agent if isinstance(root, AdkApp) else root
            if isinstance(root, BaseNode) and getattr(root, "parent_agent", None) is None:
                roots.append(root)
    return roots


class AdkInstrument(api.Instrumentation):
    """Observes every call of a runner."""

    observes = ("filters",)

    def __init__(self, adapter_context: api.AdapterContext) -> None:
        self._log, self._stack = AdkLog(adapter_context), ExitStack()
        self._stack.enter_context(quiet())

    def at_work(self) -> AbstractContextManager[None]:
        """Observe the ADK in this context."""
        self._log.clear()
        return listening(self._log)

    def run_now(self) -> api.Run | None:
        """Return the run of the agent around this code."""
        place = here_now()
        return place.working if place is not None else None

    def failure(self, problem: Exception) -> api.PipelineError | None:
        """Return the ADK's exceptions under their own names, except a provider's failure."""
        is_own = type(problem).__module__.startswith("google.adk")
        if is_own and not isinstance(problem, APIError):
            return api.FrameworkFailed(str(problem), type(problem).__name__)
        return None

    def reply(self, returned: Any) -> Any:
        """Return the text of events that the pipeline returns as they are."""
        if isinstance(returned, types.Content):
            return text_of(returned)
        many = returned if isinstance(returned, list) else [returned]
        if many and all(isinstance(part, Event) for part in many):
            return said_by(many)
        return returned

    def close(self) -> None:
        """Restore the ADK's logging."""
        self._stack.close()


instrumentation = AdkInstrument


class AdkPilot(api.FrameworkDriver):
    """Runs an agent: each session is one of the ADK's, and its user is the project."""

    name = "google-adk"
    app_options = ("call", "run_options")

    def __init__(self, root: Any, app: api.App, adapter_context: api.AdapterContext) -> None:
        """Raise FunctionMissing for an unknown method of running agents."""
        self._app, self._adapter_context = app, adapter_context
        self._way = api.choose_method(app, WAYS)
        self._running = self._make_running(root)
        self._waiting: dict[str, dict[str, Any]] = {}
        """Session to the long-running calls of its last turn, by id."""
        self._is_back = False

    def _make_running(self, root: Any) -> Running:
        options = partial(api.make_run_options, self._app)
        return Running(root, api.home_of(self._app.entry), self._way, options)

    def facts(self, facts: api.PipelineFacts) -> api.PipelineFacts:
        """Add the agents, their output keys, and that state is observed."""
        return _known(facts, [_agent_in(self._running.root)])

    def run_turn(self, turn: api.UserTurn) -> Any:
        """Run the session's agent with the user's message, or with the answer to its question."""
        message = self._message(turn)
        if self._is_back:
            self._adapter_context.recorder.restored()
            self._is_back = False
        running = self._running
        subject = self._adapter_context.caller.call(running.turn, turn, message)
        self._waiting[turn.session] = _waiting_in(subject) or self._waiting.get(turn.session, {})
        if any(map(_is_kept, running.keepers())):
            self._adapter_context.recorder.saved()
        return None if self._adapter_context.recorder.waits_for else said_by(subject, running.root)

    def _message(self, turn: api.UserTurn) -> types.Content:
        if not turn.resumes:
            return types.Content(role="user", parts=[types.Part(text=turn.text)])
        waiting = self._waiting.pop(turn.session, {})
        if not waiting:
            raise self._adapter_context.asks_nothing("and no tool call waits for an answer.")
        return answer_to(waiting, turn.value)

    def restart(self) -> None:
        """Import and build the agents again; raise ScriptMisfit if their sessions are gone."""
        before = self._running
        api.forget_modules(api.home_of(self._app.entry))
        root = root_of(api.found_as(self._app.entry))
        if root is None:
            root = root_of(self._adapter_context.caller.call(api.found_as(self._app.entry)))
        if root is None or not all(map(_is_kept, before.keepers())):
            lost = "it is no agent now" if root is None else "its sessions are kept in memory"
            raise api.ScriptMisfit(
                f"`{self._app.pipeline}` cannot be restarted: {lost}.\n"
                "Let `app: {run_options: …}` name a function that returns a `session_service` "
                "that keeps them in a file, such as DatabaseSessionService.",
                ("turns", self._adapter_context.recorder.turn, "restart"),
            )
        self._running = self._make_running(root)
        self._is_back = True


class CodePilot(api.FunctionDriver):
    """Runs code that runs agents itself, with the agents of its module."""

    name = "google-adk"

    def __init__(
        self, subject: Any, app: api.App, adapter_context: api.AdapterContext, loaded: Sequence[Any]
    ) -> None:
        super().__init__(subject, app, adapter_context)
        self._loaded = loaded

    def facts(self, facts: api.PipelineFacts) -> api.PipelineFacts:
        """Add the module's agents, and that their state is observed."""
        return _known(facts, self._loaded)


def _agent_in(root: Any) -> Any:
    return root.root_agent if isinstance(root, AdkApp) else root


def _known(facts: api.PipelineFacts, roots: Sequence[Any]) -> api.PipelineFacts:
    agents = {name: agent for root in roots for name, agent in agents_of(root).items()}
    channels = {name: agent for root in roots for name, agent in channels_of(root).items()}
    return msgspec.structs.replace(
        facts,
        agents={**agents, **facts.agents},
        channels=channels,
        observes=(*facts.observes, "state"),
    )


def _is_kept(service: Any) -> bool:
    return not isinstance(service, InMemorySessionService)


def _waiting_in(events: Sequence[Any]) -> dict[str, Any]:
    """Return the unanswered calls in a turn's events, by id.

    If all have an answer, return the long-running ones: their answer only says that they run.
    """
    long: dict[str, Any] = {}
    answered: set[str] = set()
    for event in events:
        for call in event.get_function_calls():
            if not event.partial and call.id in (event.long_running_tool_ids or ()):
                long[call.id] = call
        answered.update(answer.id for answer in event.get_function_responses())
    return {key: call for key, call in long.items() if key not in answered} or long


def said_by(events: Sequence[Any], root: Any = None) -> api.JsonValue:
    """Return the last answer in the events; a value if the agent has a schema."""
    for event in reversed(events):
        words = text_of(event.content)
        if not words or event.partial or not event.is_final_response():
            continue
        if root is not None and is_structured(_agent_in(root), event.author):
            try:
                value: api.JsonValue = msgspec.json.decode(words)
            except msgspec.DecodeError:
                return words
            return value
        return words
    return None


WAYS: Final = ("run_async", "run")
"""Ways to call a runner: ``app: {call: …}``."""
_SERVICES: Final = ("session_service", "artifact_service", "memory_service", "credential_service")
_RUNNERS: Final = (*_SERVICES, "plugins", "app_name")
_SESSIONS: Final = ("user_id", "state")


class Running:
    """One pipeline, with the services that store its sessions."""

    def __init__(
        self, root: Any, name: str, way: str, options: Callable[[str], dict[str, Any]]
    ) -> None:
        """``options`` returns the run options of a session."""
        self.root, self._name, self._way, self._options = root, name, way, options
        self._services = {
            "session_service": InMemorySessionService(),
            "artifact_service": InMemoryArtifactService(),
            "memory_service": InMemoryMemoryService(),
        }
        self._runners: list[Runner] = []
        self._memory = api.SessionMemory(self._begin)
        """Each session's runner, with what it is run with."""

    async def turn(self, turn: api.UserTurn, message: types.Content) -> list[Any]:
        """Run one turn of a session; return its events."""
        runner, options = self._memory.of(turn)
        identity = {"user_id": options.get("user_id", turn.project), "session_id": turn.session}
        service, app = runner.session_service, runner.app_name
        if await service.get_session(app_name=app, **identity) is None:
            await service.create_session(app_name=app, state=options.get("state"), **identity)
        rest = {key: value for key, value in options.items() if key not in (*_RUNNERS, *_SESSIONS)}
        if self._way == "run":
            return list(runner.run(new_message=message, **identity, **rest))
        async with aclosing(runner.run_async(new_message=message, **identity, **rest)) as events:
            return [event async for event in events]

    def _begin(self, turn: api.UserTurn) -> tuple[Runner, dict[str, Any]]:
        options = self._options(turn.session)
        runner_options: dict[str, Any] = {key: options[key] for key in _RUNNERS if key in options}
        runner = Runner(**{**self._services, **self._rooted(runner_options), **runner_options})
        self._runners.append(runner)
        return runner, options

    def _rooted(self, runner_options: Mapping[str, Any]) -> dict[str, Any]:
        if isinstance(self.root, AdkApp):
            return {"app": self.root}
        key = "agent" if hasattr(self.root, "sub_agents") else "node"
        return {key: self.root, "app_name": runner_options.get("app_name", self._name)}

    def keepers(self) -> list[Any]:
        """Return the services that store the sessions run so far."""
        return [runner.session_service for runner in self._runners]
