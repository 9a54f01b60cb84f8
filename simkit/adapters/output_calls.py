"""Structured output by a tool call: the tool, and the place in its arguments. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from simkit.core.messages import JsonValue, ToolCall
from simkit.language.json_schema import schema_errors
from simkit.providers.values import Offer, ParsedRequest


def output_tool(
    model_request: ParsedRequest, value: JsonValue, tools: Mapping[str, str]
) -> Offer | None:
    """Return the offered tool that takes a structured output; None if it is given as text.

    It is the tool that must be called, or the first of the output ``tools`` that accepts this
    value; if none does, the first one, so that the code can reject it.
    """
    if model_request.output is not None:
        return None
    offers = {offer.name: offer for offer in model_request.offers}
    if model_request.choice in offers:
        return offers[model_request.choice]
    known = [offers[name] for name in tools if name in offers]
    matching = (
        candidate
        for candidate in known
        if not schema_errors(candidate.schema, args_of(value, candidate, tools))
    )
    return next(matching, next(iter(known), None))


def args_of(value: JsonValue, tool: Offer, tools: Mapping[str, str]) -> JsonValue:
    """Return the arguments with which a model calls ``tool`` to give a value as its output.

    ``tools`` names the argument that holds the output. If it names none, the arguments are the
    output, and a value that is no object is the one argument of a tool with one.
    """
    if tools.get(tool.name):
        return {tools[tool.name]: value}
    if isinstance(value, dict) or not isinstance(tool.schema, dict):
        return value
    names = list(tool.schema.get("properties", ()))
    return {names[0]: value} if len(names) == 1 else value


def output_of(call: ToolCall, tools: Mapping[str, str]) -> JsonValue:
    """Return the output in a call of an output tool, the opposite of `args_of`."""
    argument = tools[call.name]
    if not argument or not isinstance(call.args, dict):
        return call.args
    return call.args.get(argument)
