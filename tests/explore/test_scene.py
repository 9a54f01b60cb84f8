"""A model that must call a tool calls one, and one that may not call any calls none."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest

from simkit.core.messages import CallLine, Calls
from simkit.explore.scene import ACTIONS_MAX, TurnCalls
from simkit.providers.values import ParsedRequest
from simkit.runtime.ports import ModelRequest
from tests.cli.projects import Call, write

LOOP = """
import json

import simkit
from openai import OpenAI

CLIENT = OpenAI()
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {
        "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}}}
    for name in ("look", "write", "check", "mend", "finish")
]


def answer(text):
    messages = [{"role": "user", "content": text}]
    for _ in range(12):
        with simkit.agent("worker"):
            message = CLIENT.chat.completions.create(
                model="m", messages=messages, tools=TOOLS, %s
            ).choices[0].message
        %s
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            if call.function.name == "finish":
                return json.loads(call.function.arguments)["text"]
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "ok"})
    raise RuntimeError("it never came to its end")
"""
ANTHROPIC = """
import simkit
from anthropic import Anthropic

CLIENT = Anthropic()
TOOL = {"name": "note", "input_schema": {"type": "object", "properties": {}}}


def answer(text):
    with simkit.agent("worker"):
        reply = CLIENT.messages.create(
            model="m", max_tokens=100, messages=[{"role": "user", "content": text}],
            tools=[TOOL, {**TOOL, "name": "other"}], tool_choice=%s,
        )
    kinds = [block.type for block in reply.content]
    %s
    return "noted"
"""
MODES: Final = ("auto", "required", "none")
ONE_CALL = "assert len(message.tool_calls or [1]) == 1"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "checks"),
    [
        ("tool_choice='required'", "assert message.tool_calls"),
        (
            "tool_choice={'type': 'function', 'function': {'name': 'finish'}}",
            "assert [call.function.name for call in message.tool_calls] == ['finish']",
        ),
        ("tool_choice='none'", "assert not message.tool_calls; return message.content"),
        ("tool_choice='required', parallel_tool_calls=False", ONE_CALL),
        (
            "tool_choice={'type': 'allowed_tools', 'allowed_tools': {'mode': 'required', 'tools': "
            "[{'type': 'function', 'function': {'name': 'finish'}}]}}",
            "assert {call.function.name for call in message.tool_calls} == {'finish'}",
        ),
    ],
    ids=["any tool", "one tool", "no tool", "one call at a time", "a list of tools"],
)
def test_a_loop_is_answered_as_its_request_says(options: str, checks: str, simkit: Call) -> None:
    """None of its checks fails, and it always comes to the tool that ends it."""
    write("forced_loop.py", LOOP % (options, checks))

    done = simkit("explore", "forced_loop:answer", "--runs", "15")

    assert (done.code, done.err) == (0, ""), done.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("choice", "checks"),
    [
        ("{'type': 'any'}", "assert 'tool_use' in kinds"),
        (
            "{'type': 'tool', 'name': 'note'}",
            "assert {b.name for b in reply.content if b.type == 'tool_use'} == {'note'}",
        ),
        (
            "{'type': 'any', 'disable_parallel_tool_use': True}",
            "assert kinds.count('tool_use') == 1",
        ),
    ],
    ids=["any tool", "one tool", "one call at a time"],
)
def test_the_words_of_anthropic_mean_the_same(choice: str, checks: str, simkit: Call) -> None:
    pytest.importorskip("anthropic")
    write("forced_note.py", ANTHROPIC % (choice, checks))

    done = simkit("explore", "forced_note:answer", "--runs", "15")

    assert (done.code, done.err) == (0, ""), done.out


def request(choice: str) -> ModelRequest:
    """Asks for an answer with three tools."""
    tools = ("a", "b", "c")
    return ModelRequest(
        "worker", 1, "r1", "c1", tools, None, list, dict, lambda text: text, choice=choice
    )


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", (("a", "b", "c"), False)),
        ("none", ((), False)),
        ("required", (("a", "b", "c"), True)),
        ("any", (("a", "b", "c"), True)),
        ("b", (("b",), True)),
        ("a_tool_of_the_provider", (("a", "b", "c"), False)),
    ],
)
def test_what_is_tools_for(choice: str, expected: tuple[tuple[str, ...], bool]) -> None:
    assert TurnCalls().tools_for(request(choice)) == expected


def test_a_list_of_allowed_tools_leaves_out_the_others() -> None:
    narrowed = {word: msgspec.structs.replace(request(word), allowed=("c", "x")) for word in MODES}

    assert [TurnCalls().tools_for(each) for each in narrowed.values()] == [
        (("c",), False), (("c",), True), ((), False),
    ]  # fmt: skip
    assert TurnCalls().tool_in_place(narrowed["required"]) == "c"


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({}, None),
        ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [
            {"type": "function", "function": {"name": "look"}}]}}}, ("look",)),
        ({"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [
            {"type": "function", "name": "look"}, {"type": "mcp", "server_label": "wiki"},
            {"type": "image_generation"}]}}, ("look", "wiki", "image_generation")),
        ({"tool_choice": {"type": "allowed_tools", "mode": "required", "tools": []}}, None),
        ({"toolConfig": {"functionCallingConfig": {
            "mode": "ANY", "allowedFunctionNames": ["look", "note"]}}}, ("look", "note")),
        ({"toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}}}, None),
    ],
)  # fmt: skip
def test_the_tools_that_a_request_allows_are_read(
    settings: dict[str, Any], names: tuple[str, ...] | None
) -> None:
    assert ParsedRequest("openai-chat", "m", (), settings=settings).allowed == names


def test_a_model_that_must_go_on_comes_to_every_tool() -> None:
    calls = TurnCalls()
    for _ in range(ACTIONS_MAX):
        calls.act("worker")
        calls.add("worker", Calls((CallLine("a", {}),)))

    assert calls.tools_for(request("required")) == (["b", "c"], True)
    assert calls.tool_in_place(request("required")) == "b"
    assert calls.tool_in_place(request("auto")) is None
