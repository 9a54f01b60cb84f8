"""Filters of histories: the messages that each dropped from the next model input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from agents import Handoff, HandoffInputData, RunConfig

from simkit.adapters.api import Message, Replacement, function_name, observe_result, parse_messages
from simkit.adapters.openai_agents import compat
from simkit.adapters.openai_agents.agent_runs import (
    AgentRunLog,
    flight_now,
    installation,
    listeners,
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


def _of_a_handoff(before: Replacement) -> Replacement:
    """Observe an application's filter of the history at a handoff."""
    return _reporting(function_name(before), lambda filtered: filtered)(before)


def hear_nesting(before: Replacement) -> Replacement:
    """Observe the SDK's own filter, which nests histories."""
    return _reporting(NESTED, lambda nested: nested[0])(before)


def _reporting(name: str, data_in: Callable[[Any], Any]) -> Callable[[Replacement], Replacement]:
    """Report the histories before and after a filter; ``data_in`` reads the latter in a result."""

    @listeners.around
    def filtering(
        log: AgentRunLog, before: Replacement, data: Any, *args: Any, **kwargs: Any
    ) -> Any:
        agent_run = flight_now()

        def report(result: Any) -> None:
            after = data_in(result)
            if agent_run is not None and isinstance(after, HandoffInputData):
                agent_run.filters.append((history_in(data), history_in(after), name))

        return observe_result(before(data, *args, **kwargs), report)

    return filtering


@listeners.around
def _of_a_call(log: AgentRunLog, before: Replacement, payload: Any) -> Any:
    """Observe an application's filter of the input of a model call."""
    agent_run = flight_now()
    if agent_run is None:
        return before(payload)
    # The filter may change its input list.
    sent_messages = messages_in(payload.model_data.input)

    def report(updated: Any) -> None:
        after = messages_in(getattr(updated, "input", ()))
        log.model_input(agent_run, payload.agent, sent_messages, after, function_name(before))

    return observe_result(before(payload), report)


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
