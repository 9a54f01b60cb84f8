"""PydanticAI's messages as simkit's: the texts that providers get."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydantic_ai import messages as m

from simkit.adapters import api


def as_messages(model_messages: Iterable[m.ModelMessage]) -> list[api.Message]:
    """Return a history as messages, with its system prompts."""
    messages: list[api.Message] = []
    for model_message in model_messages:
        if isinstance(model_message, m.ModelRequest):
            messages.extend(_request_messages(model_message.parts))
        elif model_message.parts:
            messages.append(as_message(model_message))
    return messages


def sent_by(request: Any) -> list[api.Message]:
    """Return the messages to a model, instructions first."""
    parts = request.model_request_parameters.instruction_parts
    messages = [api.Message("system", m.InstructionPart.join(parts) or "")] if parts else []
    return [*messages, *as_messages(request.messages)]


def as_message(response: m.ModelResponse) -> api.Message:
    """Return a model's response as a message."""
    text = "".join(part.content for part in response.parts if isinstance(part, m.TextPart))
    calls = tuple(
        api.ToolCall(part.tool_call_id, part.tool_name, args_of(part.args))
        for part in response.parts
        if isinstance(part, m.ToolCallPart)
    )
    return api.Message("assistant", text, calls=calls)


def args_of(args: Any) -> Any:
    """Return the arguments of a call as an object, or else as text."""
    if isinstance(args, str):
        return api.parse_arguments(args)
    return {} if args is None else args


def _request_messages(parts: Iterable[Any]) -> Iterator[api.Message]:
    for part in parts:
        if isinstance(part, m.SystemPromptPart):
            yield api.Message("system", part.content)
        elif isinstance(part, m.UserPromptPart):
            yield api.Message("user", text_of(part.content))
        elif isinstance(part, m.ToolReturnPart):
            yield result_of(part)
        elif isinstance(part, m.RetryFeedbackPart):
            yield api.Message("user", part.model_response())


def result_of(part: m.ToolReturnPart) -> api.Message:
    """Return the answer of a tool, or of the framework in its place."""
    return api.Message(
        "tool", part.model_response_str(), call_id=part.tool_call_id, tool=part.tool_name
    )


def text_of(content: str | Sequence[Any] | None) -> str:
    """Return a user's content as text, with placeholders for other parts."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(
        _content_text(content_item)
        for content_item in content
        if not isinstance(content_item, m.CachePoint)
    )


def _content_text(item: Any) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, m.TextContent):
        return item.content
    kind = str(getattr(item, "kind", "file")).removesuffix("-url")
    if isinstance(item, m.BinaryContent):
        kind = item.media_type.partition("/")[0]
        return api.attachment_text(kind, data=item.data, media_type=item.media_type)
    return api.attachment_text(kind, str(getattr(item, "url", getattr(item, "file_id", ""))))


def reason_of(feedback: Any) -> str:
    """Return why an output was rejected: a validator's message, or each error with its place."""
    if not isinstance(feedback, list):
        return str(feedback)
    return "; ".join(_located(item) for item in feedback)


def _located(problem: Any) -> str:
    if not isinstance(problem, dict):
        return str(problem)
    path = ".".join(str(step) for step in problem.get("loc", ()))
    return f"{path}: {problem.get('msg', '')}" if path else str(problem.get("msg", ""))
