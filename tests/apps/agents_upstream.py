"""Plays the SDK's own examples, unchanged: what the user says answers their `input`, by lines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from typing import Any
from unittest import mock

Main = Callable[..., Awaitable[Any]]


def _played(name: str) -> Callable[[str], Awaitable[None]]:
    main: Main = import_module(f"examples.{name}").main

    async def play(text: str) -> None:
        lines = iter(text.splitlines())

        def answer(prompt: str) -> str:
            line = next(lines, None)
            if line is None:
                raise EOFError
            return line

        with mock.patch("builtins.input", answer), suppress(EOFError):
            await main()

    return play


message_filter = _played("handoffs.message_filter")
message_filter_streaming = _played("handoffs.message_filter_streaming")
agents_as_tools = _played("agent_patterns.agents_as_tools")
deterministic = _played("agent_patterns.deterministic")
forcing_tool_use = _played("agent_patterns.forcing_tool_use")
input_guardrails = _played("agent_patterns.input_guardrails")
output_guardrails = _played("agent_patterns.output_guardrails")
llm_as_a_judge = _played("agent_patterns.llm_as_a_judge")
parallelization = _played("agent_patterns.parallelization")
routing = _played("agent_patterns.routing")
streaming_guardrails = _played("agent_patterns.streaming_guardrails")
sqlite_session = _played("memory.sqlite_session_example")


def airline() -> dict[str, Any]:
    """What the airline's agents run with."""
    context = import_module("examples.customer_service.main").AirlineAgentContext()
    return {"context": context}
