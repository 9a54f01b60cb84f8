"""Input of a graph from the user's message, and reply from its state."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, get_type_hints

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.pregel import Pregel
from langgraph.types import Command

from simkit.adapters.api import (
    App,
    ScriptBroken,
    UserTurn,
    found_as,
    given_input,
    input_advice,
    input_example,
    input_fields,
    nearest_name,
)
from simkit.adapters.langgraph.channels import is_state
from simkit.adapters.langgraph.messages import text_of

MESSAGES: Final = "messages"


def given_to(graph: Pregel, app: App, turn: UserTurn) -> Any:
    """Return the graph's input; raise ScriptBroken if it is not clear.

    `app.input` defines it. Without it, a user's message that is a mapping is the input, and any
    other one joins `messages`, or is the one text that the graph takes.
    """
    text, template = turn.text if turn.value is None else turn.value, app.options.input
    if template is None and isinstance(text, Mapping):
        return dict(text)
    if template is not None:
        if isinstance(template, Mapping):
            _check_keys(template, graph, app)
        return given_input(template, text)
    keys = _keys(graph)
    if keys is None:
        return text
    if MESSAGES in keys:
        return {MESSAGES: [HumanMessage(turn.text)]}
    texts = [name for name, kind in keys.items() if kind in (str, str | None)]
    if len(texts) == 1 or len(keys) == 1:
        return {(texts or list(keys))[0]: text}
    names = ", ".join(f"`{name}`" for name in keys) or "nothing"
    example = input_example(_fields(graph) or {key: {} for key in keys})
    raise ScriptBroken(
        f"`{app.pipeline}` takes {names}, and no `messages`: which is the user's message?\n"
        f"Say it: `app: {{input: {example}}}`, or name a function of the message that "
        "returns the graph's input: `app: {input: module:function}`.",
        ("pipeline",),
    )


def input_advice_of(graph: Pregel, app: App, turn: UserTurn, problem: BaseException) -> str:
    """Return how to give a graph the keys that it lacked, if its failure names one; else empty."""
    if turn.resumes or app.options.input is not None or isinstance(turn.value, Mapping):
        return ""
    given, fields = given_to(graph, app, turn), _fields(graph)
    missing = [name for name in fields if not isinstance(given, Mapping) or name not in given]
    text = str(problem)
    if not any(re.search(rf"\b{re.escape(name)}\b", text) for name in missing):
        return ""
    return input_advice(app.pipeline, fields)


def _fields(graph: Pregel) -> Mapping[str, Any]:
    """Return the required keys of a graph's input with their JSON Schemas."""
    builder = getattr(graph, "builder", None)
    fields = input_fields(builder.input_schema) if builder is not None else None
    return {name: schema for name, schema in (fields or {}).items() if is_state(name)}


def _check_keys(template: Mapping[str, Any], graph: Pregel, app: App) -> None:
    """Raise ScriptBroken for a key that the graph would silently ignore."""
    keys = _keys(graph)
    for key in template:
        if keys is not None and key not in keys:
            nearest = nearest_name(key, keys)
            hint = f" Did you mean `{nearest}`?" if nearest else ""
            raise ScriptBroken(
                f"`{app.pipeline}` takes no {key!r}.{hint} It takes: {', '.join(keys)}.",
                ("app", "input", key),
            )


def _keys(graph: Pregel) -> Mapping[str, Any] | None:
    """Return the keys of a graph's input with their types; None if it takes any value."""
    builder = getattr(graph, "builder", None)
    if builder is None:
        return None
    schema = builder.input_schema
    try:
        hints = get_type_hints(schema)
    except (NameError, TypeError):
        hints = dict.fromkeys(builder.schemas.get(schema, ()), object)
    return {name: kind for name, kind in hints.items() if is_state(name)}


def answer_to(waiting: list[Mapping[str, Any]], value: Any) -> Command[Any] | None:
    """Return the command for the user's answer to a graph's questions.

    None for a graph at a breakpoint, which asks nothing and continues with None. Several questions
    at once are answered by a mapping from the asking node to the answer.
    """
    if all(not question["id"] for question in waiting):
        return None
    if len(waiting) > 1 and isinstance(value, Mapping):
        by_agent = {question["agent"]: question["id"] for question in waiting}
        if set(value) == set(by_agent):
            return Command(resume={by_agent[agent]: answer for agent, answer in value.items()})
    return Command(resume=value)


def reply_of(state: Any, key: str | None) -> Any:
    """Return a graph's reply.

    It is the state's value under a key, or the result of a function of the state; else its last
    message's text, or its only value.
    """
    if key is not None and ":" in key:
        return found_as(key)(state)
    if isinstance(state, BaseMessage):
        return text_of(state)
    if not isinstance(state, Mapping):
        return state
    if key is not None:
        value = state.get(key)
        return text_of(value) if isinstance(value, BaseMessage) else value
    if MESSAGES not in state and len(state) == 1:
        return reply_of(state, next(iter(state)))
    latest_first = reversed(state.get(MESSAGES) or ())
    reply = next((message for message in latest_first if _is_said_by_an_agent(message)), None)
    return text_of(reply) if reply is not None else None


def _is_said_by_an_agent(message: Any) -> bool:
    """Return whether a message may be a reply: a model's, or an agent's report.

    By convention, a report is a user's message with the agent's name (providers accept no assistant
    message at the end).
    """
    if isinstance(message, HumanMessage):
        return bool(message.name) and message.name.casefold() not in ("user", "human")
    return isinstance(message, AIMessage)
