"""Agents whose own capabilities have a hand in everything."""

from __future__ import annotations

from typing import Any

from pydantic_ai import Agent, ModelMessage
from pydantic_ai.capabilities import AbstractCapability, ProcessHistory

calls: list[str] = []


class Careful(AbstractCapability[Any]):
    """Notes what it is asked, and shouts what a tool says."""

    async def wrap_run(self, ctx: Any, *, handler: Any) -> Any:
        """The run."""
        calls.append("wrap_run")
        return await handler()

    async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> Any:
        """A request, with all that is done to it."""
        calls.append("wrap_model_request")
        return await handler(request_context)

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        """A request."""
        calls.append("before_model_request")
        return request_context

    async def prepare_model_request(self, ctx: Any, request_context: Any) -> Any:
        """An attempt at it."""
        calls.append("prepare_model_request")
        return request_context

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> Any:
        """What the model has answered."""
        calls.append("after_model_request")
        return response

    async def wrap_tool_execute(
        self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any
    ) -> Any:
        """A tool, with all that is done to its call."""
        calls.append("wrap_tool_execute")
        return await handler(args)

    async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
        """A tool's call."""
        calls.append("before_tool_execute")
        return args

    async def after_tool_execute(
        self, ctx: Any, *, call: Any, tool_def: Any, args: Any, result: Any
    ) -> Any:
        """What a tool says."""
        calls.append("after_tool_execute")
        return result.upper()


careful = Agent("openai-chat:gpt-4o", name="careful", capabilities=[Careful()])


@careful.tool_plain
def greet(name: str) -> str:
    """Greets somebody."""
    raise ConnectionError("nobody is there")


async def ask(text: str) -> str:
    """Answers one question."""
    calls.clear()
    return (await careful.run(text)).output


def keep_last(messages: list[ModelMessage]) -> list[ModelMessage]:
    """Keeps one message, be it the result of a call."""
    return messages[-1:]


def shout(messages: list[ModelMessage]) -> list[ModelMessage]:
    """Changes what a user says."""
    for part in (part for message in messages for part in message.parts):
        if part.part_kind == "user-prompt":
            part.content = str(part.content).upper()
    return messages


hasty = Agent(
    "openai-chat:gpt-4o",
    name="hasty",
    capabilities=[ProcessHistory(keep_last), ProcessHistory(shout)],
)


@hasty.tool_plain
def look_up(name: str) -> str:
    """Looks somebody up."""
    return f"{name} is in"
