"""Filters of histories: the messages that each dropped from the next model input."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from agents import Handoff, HandoffInputData, RunConfig

from simkit.adapters.api import Message, Replacement, function_name, observe_result, parse_messages
from simkit.adapters.openai_agents import compat
from simkit.adapters.openai_agents.agent_runs import (
    AgentRun,
    AgentRunLog,
    current_log,
    flight_now,
    installation,
)

NESTED: Final = "nest_handoff_history"
"""The SDK's function that puts the history before a handoff into one message."""


def hear_filters(run_config: Any) -> None:
    """Observe the filters of a run's configuration."""
    if isinstance(run_config, RunConfig):
        rows = (
            (run_config, compat.HANDOFF_INPUT_FILTER, _of_a_handoff),
            (run_config, compat.CALL_MODEL_INPUT_FILTER, _of_a_call),
        )
        installation.replace([row for row in rows if getattr(*row[:2], None) is not None])


def hear_handoffs(handoffs: Iterable[Any]) -> None:
    """Observe the filters of handoffs."""
    installation.replace(
        [
            (handoff, compat.INPUT_FILTER, _of_a_handoff)
            for handoff in handoffs
            if isinstance(handoff, Handoff) and handoff.input_filter is not None
        ]
    )


Tell = Callable[[AgentRunLog, AgentRun, Any, Any], None]
"""Records a filter's input and its result."""


def _with_input(before: Replacement, tell: Tell) -> Replacement:
    """Return a filter that reports; a coroutine function stays one."""

    @functools.wraps(before)
    def wrapper(data: Any, *args: Any, **kwargs: Any) -> Any:
        log, agent_run = current_log(), flight_now()
        if log is None or agent_run is None:
            return before(data, *args, **kwargs)
        report = functools.partial(tell, log, agent_run, data)
        return observe_result(before(data, *args, **kwargs), report)

    return wrapper


def _of_a_handoff(before: Replacement) -> Replacement:
    def tell(log: AgentRunLog, agent_run: AgentRun, data: Any, filtered: Any) -> None:
        if isinstance(filtered, HandoffInputData):
            log.passed_on(agent_run, history_in(data), history_in(filtered), function_name(before))

    return _with_input(before, tell)


def hear_nesting(before: Replacement) -> Replacement:
    """Observe the SDK's own filter, which nests histories."""

    def tell(log: AgentRunLog, agent_run: AgentRun, data: Any, nested: Any) -> None:
        log.passed_on(agent_run, history_in(data), history_in(nested[0]), NESTED)

    return _with_input(before, tell)


def _of_a_call(before: Replacement) -> Replacement:
    @functools.wraps(before)
    def wrapper(payload: Any) -> Any:
        log, agent_run = current_log(), flight_now()
        if log is None or agent_run is None:
            return before(payload)
        # The filter may change its input list.
        sent_messages = messages_in(payload.model_data.input)

        def report(updated: Any) -> None:
            after = messages_in(getattr(updated, "input", ()))
            log.model_input(agent_run, payload.agent, sent_messages, after, function_name(before))

        return observe_result(before(payload), report)

    return wrapper


def history_in(data: HandoffInputData) -> list[Message]:
    """Return the conversation that the next agent gets."""
    history = data.input_history
    new = data.new_items if data.input_items is None else data.input_items
    items: list[Any] = (
        [{"role": "user", "content": history}] if isinstance(history, str) else [*history]
    )
    inputs = (item.to_input_item() for item in (*data.pre_handoff_items, *new) if _is_said(item))
    return messages_in([*items, *inputs])


def _is_said(item: Any) -> bool:
    """Return whether an item can be sent to a model: a pending approval cannot."""
    return getattr(item, "type", "") != "tool_approval_item"


def messages_in(items: Sequence[Any]) -> list[Message]:
    """Return items as messages, as a request would contain them."""
    return parse_messages(items, "openai-responses")
