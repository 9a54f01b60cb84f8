"""Hooks into the ADK: runners, agents, model requests, sessions.

The replacements are for the whole process; the context decides which scenario's log gets a call.
Existing runners are covered as well, so no plugin is added to them: the application's own plugins
keep their order.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractContextManager, aclosing
from typing import Any, Final

from simkit.adapters.api import (
    ContextListeners,
    Installation,
    Replacement,
    Row,
    Run,
    keep_in_step,
    let_others_begin,
)
from simkit.adapters.google_adk import compat
from simkit.adapters.google_adk.filters import (
    heard_callbacks,
    heard_plugins,
    is_geminis,
    shortened,
)
from simkit.adapters.google_adk.log import OUTPUT_TOOLS, ROUTERS, AdkLog
from simkit.adapters.google_adk.places import Place, inside, place_now, steps
from simkit.adapters.google_adk.quiet import nobodys
from simkit.adapters.google_adk.tools import answered

_ears: Final = ContextListeners[AdkLog]("simkit_adk_log")
current_log, told_to = _ears.current, _ears.activate

installation: Final = Installation(lambda: _rows())
"""The replacements in the ADK, installed while a turn of some scenario runs."""


def listening(log: AdkLog) -> AbstractContextManager[None]:
    """Report the ADK's actions in this context, and in what it starts, to a log."""
    return told_to(log, installation)


def _rows() -> Iterator[Row]:
    yield *compat.RUN, _flown
    yield *compat.WORK, _worked
    yield *compat.MODEL_REQUEST, _wrap_requests
    yield *compat.TOOL_REQUEST, _carried_out
    yield *compat.CALLBACKS, _listed
    yield *compat.SUMMARISE, _summarised
    yield *compat.NEW_ID, _counted
    yield from nobodys(lambda: current_log() is not None)


def _counted(before: Replacement) -> Replacement:
    """Return counted ids in place of the ADK's random ones: events, calls, sessions, turns."""

    def new_uuid() -> str:
        log = current_log()
        return str(before() if log is None else uuid.UUID(int=log.next_number()))

    return new_uuid


def _flown(before: Replacement) -> Replacement:
    """Wrap a call of a runner."""

    @functools.wraps(before)
    async def run_async(self: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        log = current_log()
        if log is None:
            async with aclosing(before(self, **kwargs)) as events:
                async for event in events:
                    yield event
            return
        keep_in_step()
        hear_sessions(self.session_service)
        place = log.begin(place_now(), kwargs.get("new_message"))
        try:
            await let_others_begin()
            async with aclosing(steps(place, before(self, **kwargs))) as events:
                async for event in events:
                    yield event
        finally:
            log.ended(place.agent_run)

    return run_async


def _worked(before: Replacement) -> Replacement:
    """Wrap an agent's run, from its first event to its end, whatever ends it."""

    @functools.wraps(before)
    async def run_async(self: Any, parent_context: Any) -> AsyncGenerator[Any, None]:
        log = current_log()
        if log is None:
            async with aclosing(before(self, parent_context)) as events:
                async for event in events:
                    yield event
            return
        place = log.agent_began(place_now() or log.begin(None, parent_context.user_content), self)
        last: Any = None
        try:
            if place.opens_branch:
                await let_others_begin()
            async with aclosing(steps(place, before(self, parent_context))) as events:
                async for last in events:
                    log.event_made(place, last)
                    yield last
        except BaseException as problem:
            log.agent_ended(place, problem, last)
            raise
        log.agent_ended(place, None, last)

    return run_async


def _wrap_requests(before: Replacement) -> Replacement:
    """Wrap the preparation of a model request, in which plugins and callbacks see it."""

    @functools.wraps(before)
    async def run_before_model_callback(
        self: Any, *, callback_context: Any, llm_request: Any
    ) -> Any:
        listeners = _hears()
        if listeners is not None:
            log, run = listeners
            keep_in_step()
            log.recorder.handoff_tools.learn({}, ROUTERS)
            log.recorder.handoff_tools.see(llm_request.tools_dict)
            log.recorder.set_output_tools(run, OUTPUT_TOOLS)
            await shortened(log, run, callback_context.get_invocation_context())
            installation.replace(heard_plugins(self.plugins, _compares))
        return await before(self, callback_context=callback_context, llm_request=llm_request)

    return run_before_model_callback


def _hears() -> tuple[AdkLog, Run] | None:
    """Return the log, and the run whose request is being prepared."""
    log, place = current_log(), place_now()
    run = place.working if place is not None else None
    return None if log is None or run is None else (log, run)


def _compares() -> tuple[AdkLog, Run] | None:
    """Return the same if changes of the request by filters can be observed."""
    place = place_now()
    return _hears() if place is not None and is_geminis(place.agent) else None


def _listed(before: Any) -> Any:
    """Return an agent's own callbacks, each of which may be a filter."""

    def canonical_before_model_callbacks(self: Any) -> list[Any]:
        callbacks: list[Any] = before.fget(self)
        return callbacks if current_log() is None else heard_callbacks(callbacks, _compares)

    return property(canonical_before_model_callbacks)


def _carried_out(before: Replacement) -> Replacement:
    """Wrap the execution of a tool."""

    @functools.wraps(before)
    async def run_before_tool_callback(self: Any, *, tool: Any, **kwargs: Any) -> Any:
        if current_log() is not None:
            installation.replace(answered(type(tool), current_log))
        return await before(self, tool=tool, **kwargs)

    return run_before_tool_callback


def _summarised(before: Replacement) -> Replacement:
    """Wrap the summary of old events, which a model makes without an agent."""

    @functools.wraps(before)
    async def maybe_summarize_events(self: Any, **kwargs: Any) -> Any:
        log, current_place = current_log(), place_now()
        if log is None or current_place is None:
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

    return maybe_summarize_events


def hear_sessions(service: Any) -> None:
    """Observe events appended to a service's sessions."""
    owner = next(cls for cls in type(service).__mro__ if compat.APPEND_EVENT in vars(cls))
    installation.replace([(owner, compat.APPEND_EVENT, _appended)])


def _appended(before: Replacement) -> Replacement:
    @functools.wraps(before)
    async def append_event(self: Any, session: Any, event: Any) -> Any:
        log = current_log()
        if log is not None and not event.partial:
            log.appended(place_now(), session.state, event)
        return await before(self, session=session, event=event)

    return append_event


def here_now() -> Place | None:
    """Return the place of this code; None if nobody observes it."""
    return place_now() if current_log() is not None else None
