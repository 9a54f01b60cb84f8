"""Hooks into the ADK: runners, agents, model requests, tools, sessions, filters, its own logging.

The replacements are for the whole process; the context decides which scenario's log gets a call.
Existing runners are covered as well, so no plugin is added to them: the application's own plugins
keep their order.

Filters before a model call are the agent's settings, and callbacks. Histories are compared in the
form in which a Gemini model gets them. For other models' providers only the contexts are known.
"""

from __future__ import annotations

import functools
import logging
import os
import uuid
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, aclosing, contextmanager
from typing import Any, Final, TypeAlias

from google.adk.models import Gemini
from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.transfer_to_agent_tool import TransferToAgentTool
from google.oauth2.credentials import Credentials

from simkit.adapters import api
from simkit.adapters.google_adk import compat
from simkit.adapters.google_adk.log import (
    OUTPUT_TOOLS,
    ROUTERS,
    TRANSFER,
    AdkLog,
    Place,
    inside,
    open_call,
    place_now,
    steps,
)

Hears: TypeAlias = Callable[[], "tuple[Any, api.Run] | None"]
"""Returns the log of this code, and the run whose request is being prepared."""

SHORTENED: Final = "include_contents"


async def shortened(log: Any, run: api.Run, context: Any) -> None:
    """Report the messages that an agent with ``include_contents`` does not get.

    Such an agent gets only the current turn.
    """
    agent = context.agent
    if getattr(agent, "include_contents", "default") == "default" or not is_geminis(agent):
        return
    whole = agent.model_copy(update={"include_contents": "default"})
    before = await _history(context.model_copy(update={"agent": whole}))
    after = await _history(context)
    if len(before) != len(after):
        with log.writing():
            log.recorder.filtered(run, before, after, SHORTENED)


async def _history(context: Any) -> list[api.Message]:
    """Return the session's messages for an agent, before any filter."""
    request = LlmRequest()
    async for _ in compat.contents_processor.run_async(context, request):
        pass
    return _messages(request.contents)


def is_geminis(agent: Any) -> bool:
    """Return whether an agent's histories can be compared, because its model is Gemini."""
    return isinstance(getattr(agent, "canonical_model", None), Gemini)


def _messages(contents: Sequence[Any]) -> list[api.Message]:
    """Return contents parsed as in a request."""
    contents_data = [
        content.model_dump(mode="json", by_alias=True, exclude_none=True) for content in contents
    ]
    return api.parse_messages(contents_data, "gemini")


def heard_plugins(plugins: Iterable[Any], hears: Hears) -> Iterator[api.Row]:
    """Yield replacements that observe the plugins that see requests, each class once."""
    for plugin in plugins:
        for owner in type(plugin).__mro__:
            if compat.PLUGIN_CALLBACK in vars(owner):
                if owner is not BasePlugin:
                    yield owner, compat.PLUGIN_CALLBACK, lambda wrapper: _of_plugin(wrapper, hears)
                break


def _of_plugin(before: api.Replacement, hears: Hears) -> api.Replacement:
    @functools.wraps(before)
    async def before_model_callback(self: Any, **kwargs: Any) -> Any:
        looked = _Look(hears(), self.name, kwargs.get("llm_request"))
        answer = await before(self, **kwargs)
        looked.again(answer)
        return answer

    return before_model_callback


def heard_callbacks(callbacks: Sequence[Any], hears: Hears) -> list[Any]:
    """Return callbacks wrapped so that their changes are reported."""
    return [_of_callback(callback, hears) for callback in callbacks]


def _of_callback(callback: Any, hears: Hears) -> Any:
    name = api.function_name(callback)

    # The ADK reads from the signature how to call a callback.
    @functools.wraps(callback)
    def tell(*args: Any, **kwargs: Any) -> Any:
        requests = (value for value in (*args, *kwargs.values()) if isinstance(value, LlmRequest))
        looked = _Look(hears(), name, next(requests, None))
        return api.observe_result(callback(*args, **kwargs), looked.again)

    return tell


class _Look:
    """A request before a filter."""

    def __init__(
        self, listeners: tuple[Any, api.Run] | None, by: str, request: LlmRequest | None
    ) -> None:
        self._listeners, self._by, self._request = listeners, by, request
        self._before = self._now() if listeners is not None else []

    def _now(self) -> list[api.Message]:
        return _messages(self._request.contents) if self._request is not None else []

    def again(self, answer: Any) -> None:
        """Report the dropped messages; a callback that answers itself has dropped none."""
        if self._listeners is None or answer is not None:
            return
        after = self._now()
        if after == self._before:
            return
        log, run = self._listeners
        with log.writing():
            log.recorder.filtered(run, self._before, after, self._by)


listeners: Final = api.ContextListeners[AdkLog]("simkit_adk_log")
current_log = listeners.current
installation: Final = api.Installation(lambda: _rows())
"""The replacements in the ADK, installed while a turn of some scenario runs."""


class _Halts(logging.Filter):
    """A filter for records about runs that simkit has stopped: simkit reports those."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record has another subject."""
        return record.exc_info is None or api.halt_in(record.exc_info[1]) is None


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress log output if the application configures no logging.

    Python prints warnings and errors of loggers without a handler: here each failure that a
    scenario plans, twice, with its stack. Parallel agents that simkit stops are tasks with
    exceptions that nobody retrieves.
    """
    nobody, halts, tasks = logging.NullHandler(), _Halts(), logging.getLogger("asyncio")
    loggers = [logging.getLogger(name) for name in compat.LOGGERS]
    for logger in loggers:
        logger.addHandler(nobody)
    tasks.addFilter(halts)
    try:
        yield
    finally:
        tasks.removeFilter(halts)
        for logger in loggers:
            logger.removeHandler(nobody)


_credentials: Final[Any] = Credentials
_KEY: Final = "GOOGLE_API_KEY"
_PROJECT: Final = "GOOGLE_CLOUD_PROJECT"


@listeners.around
def _default_credentials(log: AdkLog, before: api.Replacement, *args: Any, **kwargs: Any) -> Any:
    """Return fake credentials: the machine's own must not be used with fake keys."""
    if os.environ.get(_KEY) != api.DUMMY_KEY:
        return before(*args, **kwargs)
    return _credentials(api.DUMMY_KEY), os.environ.get(_PROJECT) or api.DUMMY_KEY


def answered(kind: type) -> Iterator[api.Row]:
    """Yield replacements that let the scenario answer for tools of a class.

    The application's callbacks stay outside: they are called as always.
    """
    owner = next((cls for cls in kind.__mro__ if compat.RUN_TOOL in vars(cls)), None)
    if owner is not None:
        yield owner, compat.RUN_TOOL, _stood_in_for


@listeners.around
async def _stood_in_for(
    log: AdkLog, before: api.Replacement, self: Any, *, args: dict[str, Any], tool_context: Any
) -> Any:
    call = id(self), tool_context.function_call_id or ""
    outer = open_call.get()
    is_transfer = isinstance(self, TransferToAgentTool) or self.name == TRANSFER
    if is_transfer or outer == call:
        return await before(self, args=args, tool_context=tool_context)
    open_call.set(call)
    try:
        return await log.adapter_context.carry_out(
            self.name,
            args,
            call[1],
            lambda: before(self, args=args, tool_context=tool_context),
            _returns(self),
        )
    finally:
        open_call.set(outer)


def _returns(tool: Any) -> Any:
    """Return a tool's declared result: its function's annotation, or its agent."""
    if isinstance(tool, AgentTool):
        return getattr(tool.agent, "output_schema", None)
    return api.returned_by(
        tool.func if isinstance(tool, FunctionTool) else getattr(type(tool), compat.RUN_TOOL)
    )


def listening(log: AdkLog) -> AbstractContextManager[None]:
    """Report the ADK's actions in this context, and in what it starts, to a log."""
    return listeners.activate(log, installation)


def _rows() -> Iterator[api.Row]:
    yield *compat.RUN, _flown
    yield *compat.WORK, _worked
    yield *compat.MODEL_REQUEST, _wrap_requests
    yield *compat.TOOL_REQUEST, _carried_out
    yield *compat.CALLBACKS, _listed
    yield *compat.SUMMARISE, _summarised
    yield *compat.NEW_ID, _counted
    yield *compat.CREDENTIALS, _default_credentials


@listeners.around
def _counted(log: AdkLog, before: api.Replacement) -> str:
    """Return counted ids in place of the ADK's random ones: events, calls, sessions, turns."""
    return str(uuid.UUID(int=log.next_number()))


@listeners.around
async def _flown(
    log: AdkLog, before: api.Replacement, self: Any, **kwargs: Any
) -> AsyncGenerator[Any, None]:
    """Wrap a call of a runner."""
    api.keep_in_step()
    hear_sessions(self.session_service)
    place = log.begin(place_now(), kwargs.get("new_message"))
    try:
        await api.let_others_begin()
        async with aclosing(steps(place, before(self, **kwargs))) as events:
            async for event in events:
                yield event
    finally:
        log.ended(place.agent_run)


@listeners.around
async def _worked(
    log: AdkLog, before: api.Replacement, self: Any, parent_context: Any
) -> AsyncGenerator[Any, None]:
    """Wrap an agent's run, from its first event to its end, whatever ends it."""
    place = log.agent_began(place_now() or log.begin(None, parent_context.user_content), self)
    last: Any = None
    try:
        if place.opens_branch:
            await api.let_others_begin()
        async with aclosing(steps(place, before(self, parent_context))) as events:
            async for last in events:
                log.event_made(place, last)
                yield last
    except BaseException as problem:
        log.agent_ended(place, problem, last)
        raise
    log.agent_ended(place, None, last)


@listeners.around
async def _wrap_requests(
    log: AdkLog, before: api.Replacement, self: Any, *, callback_context: Any, llm_request: Any
) -> Any:
    """Wrap the preparation of a model request, in which plugins and callbacks see it."""
    place = place_now()
    run = place.working if place is not None else None
    if run is not None:
        api.keep_in_step()
        log.recorder.handoff_tools.learn({}, ROUTERS)
        log.recorder.handoff_tools.see(llm_request.tools_dict)
        log.recorder.set_output_tools(run, OUTPUT_TOOLS)
        await shortened(log, run, callback_context.get_invocation_context())
        installation.replace(heard_plugins(self.plugins, _compares))
    return await before(self, callback_context=callback_context, llm_request=llm_request)


def _compares() -> tuple[AdkLog, api.Run] | None:
    """Return the log, and the run whose request is prepared, if filters can be observed."""
    log, place = current_log(), place_now()
    run = place.working if place is not None and is_geminis(place.agent) else None
    return None if log is None or run is None else (log, run)


def _listed(before: Any) -> Any:
    """Return an agent's own callbacks, each of which may be a filter."""

    def canonical_before_model_callbacks(self: Any) -> list[Any]:
        callbacks: list[Any] = before.fget(self)
        return callbacks if current_log() is None else heard_callbacks(callbacks, _compares)

    return property(canonical_before_model_callbacks)


@listeners.around
async def _carried_out(
    log: AdkLog, before: api.Replacement, self: Any, *, tool: Any, **kwargs: Any
) -> Any:
    """Wrap the execution of a tool."""
    installation.replace(answered(type(tool)))
    return await before(self, tool=tool, **kwargs)


@listeners.around
async def _summarised(log: AdkLog, before: api.Replacement, self: Any, **kwargs: Any) -> Any:
    """Wrap the summary of old events, which a model makes without an agent."""
    current_place = place_now()
    if current_place is None:
        return await before(self, **kwargs)
    place = log.summarizer_began(current_place)
    try:
        with inside(place):
            summary = await before(self, **kwargs)
    except BaseException as problem:
        log.summarizer_ended(place, problem)
        raise
    log.summarizer_ended(place, None)
    return summary


def hear_sessions(service: Any) -> None:
    """Observe events appended to a service's sessions."""
    owner = next(cls for cls in type(service).__mro__ if compat.APPEND_EVENT in vars(cls))
    installation.replace([(owner, compat.APPEND_EVENT, _appended)])


@listeners.around
async def _appended(
    log: AdkLog, before: api.Replacement, self: Any, session: Any, event: Any
) -> Any:
    if not event.partial:
        log.appended(place_now(), session.state, event)
    return await before(self, session=session, event=event)


def here_now() -> Place | None:
    """Return the place of this code; None if nobody observes it."""
    return place_now() if current_log() is not None else None
