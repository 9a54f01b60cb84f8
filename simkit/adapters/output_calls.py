"""Structured output by a tool call. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from simkit.core.messages import JsonValue
from simkit.language.json_schema import schema_errors
from simkit.providers.values import Offer, ParsedRequest


def output_tool(
    model_request: ParsedRequest, value: JsonValue, tools: Sequence[str]
) -> Offer | None:
    """Return the offered tool that takes a structured output; None if it is given as text.

    It is the tool that must be called, or the first of the ``tools`` for output that accepts this
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
        if not schema_errors(candidate.schema, args_of(value, candidate))
    )
    return next(matching, next(iter(known), None))


def args_of(value: JsonValue, tool: Offer) -> JsonValue:
    """Return the arguments by which a tool gets a value.

    A value that is no object is the one argument of a tool with one.
    """
    if isinstance(value, dict) or not isinstance(tool.schema, dict):
        return value
    names = list(tool.schema.get("properties", ()))
    return {names[0]: value} if len(names) == 1 else value
