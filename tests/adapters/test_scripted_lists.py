"""A list under a tool's name answers one call each; a tool that returns lists must say which."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NewType

import pytest

from simkit.core.errors import ScriptBroken, SourceError
from simkit.runtime.ports import ToolReply
from simkit.runtime.tool_use import refuse_unwrapped, returned_by
from tests.adapters.running import run_app
from tests.building import Ran, run_yaml

if TYPE_CHECKING:
    from nowhere import Unknown  # type: ignore[import-not-found]

# What the tools of frameworks say

LANGGRAPH = """
from langchain.agents import create_agent
from langchain_core.tools import BaseTool, tool
from langchain_openai import ChatOpenAI


@tool
def listed(word: str) -> list[str]:
    "Looks a word up."
    return [word]


@tool
async def later(word: str) -> list[str]:
    "Looks a word up."
    return [word]


@tool(response_format="content_and_artifact")
def pair(word: str) -> tuple[str, dict]:
    "Looks a word up."
    return word, {}


@tool(response_format="content_and_artifact")
def listed_pair(word: str) -> tuple[list[str], dict]:
    "Looks a word up."
    return [word], {}


@tool
def plain(word: str) -> str:
    "Looks a word up."
    return word


class Own(BaseTool):
    name: str = "own"
    description: str = "Looks a word up."

    def _run(self, word: str) -> list[str]:
        return [word]


tools = [listed, later, pair, listed_pair, plain, Own()]
model = ChatOpenAI(model="gpt-5-mini", api_key="none")
agent = create_agent(model, tools, system_prompt="You are clerk.", name="clerk")
"""

OPENAI_AGENTS = """
from agents import Agent, FunctionTool, function_tool


@function_tool
def listed(word: str) -> list[str]:
    return [word]


@function_tool
async def later(word: str) -> list[str]:
    return [word]


@function_tool
def plain(word: str) -> str:
    return word


async def run(context, arguments) -> list[str]:
    return ["a word"]

SCHEMA = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"],
          "additionalProperties": False}
own = FunctionTool(name="own", description="", params_json_schema=SCHEMA, on_invoke_tool=run)
agent = Agent(name="clerk", instructions="You are clerk.", tools=[listed, later, plain, own])
"""

PYDANTIC_AI = """
from pydantic_ai import Agent, ToolReturn

agent = Agent("openai-chat:gpt-4o", name="clerk", instructions="You are clerk.")


@agent.tool_plain
def listed(word: str) -> list[str]:
    return [word]


@agent.tool_plain
async def later(word: str) -> list[str]:
    return [word]


@agent.tool_plain
def own(word: str) -> ToolReturn[list[str]]:
    return ToolReturn([word])


@agent.tool_plain
def plain(word: str) -> str:
    return word
"""

APPS = {"langgraph": LANGGRAPH, "openai_agents": OPENAI_AGENTS, "pydantic_ai": PYDANTIC_AI}


def run(folder: Path, framework: str, tool: str, results: str) -> Ran:
    name = f"lists_of_{framework}"
    (folder / f"{name}.py").write_text(dedent(APPS[framework]), encoding="utf-8")
    scenario = f"""
turns:
  - user: Which seats?
    replies: {{clerk: [{{calls: [{{{tool}: {{word: seats}}}}]}}, Three.]}}
    tool_results: {{{tool}: {results}}}
    expect: {{reply: Three., tool_calls: [{{tool: {tool}}}]}}
"""
    return run_app(f"{name}:agent", scenario, folder)


@pytest.mark.parametrize(
    ("framework", "tool"),
    [
        *(("langgraph", tool) for tool in ("listed", "later", "listed_pair", "own")),
        *(("openai_agents", tool) for tool in ("listed", "later", "own")),
        *(("pydantic_ai", tool) for tool in ("listed", "later", "own")),
    ],
)
def test_a_tool_that_a_framework_knows_says_that_it_returns_lists(
    tmp_path: Path, framework: str, tool: str
) -> None:
    with pytest.raises(SourceError) as error:
        run(tmp_path, framework, tool, "[a4]")

    assert error.value.what == (
        f"tool '{tool}' returns a list, and its results answer one call each: this call would get "
        f'"a4" alone.\nWrite `{tool}: {{returns: ["a4"]}}` for a list that answers every call, or '
        "a list of lists for one call after the other."
    )
    assert error.value.where == f"{tmp_path}/test.scenario.yaml:8:{23 + len(tool)}"


@pytest.mark.parametrize(
    ("framework", "tool", "results", "result"),
    [
        ("langgraph", "plain", "[a4]", "a4"),
        ("langgraph", "pair", "[a4]", "a4"),
        ("langgraph", "listed", "{returns: [a4]}", ["a4"]),
        ("langgraph", "listed", "[[a4]]", ["a4"]),
        ("openai_agents", "plain", "[a4]", "a4"),
        ("openai_agents", "listed", "{returns: [a4]}", ["a4"]),
        ("openai_agents", "listed", "[[a4]]", ["a4"]),
        ("pydantic_ai", "plain", "[a4]", "a4"),
        ("pydantic_ai", "listed", "{returns: [a4]}", ["a4"]),
        ("pydantic_ai", "listed", "[[a4]]", ["a4"]),
    ],
)
def test_what_is_meant_is_given(
    tmp_path: Path, framework: str, tool: str, results: str, result: Any
) -> None:
    ran = run(tmp_path, framework, tool, results)

    assert [finding.what for finding in ran.judgement.findings] == []
    assert [item.result for item in ran.turn().tools] == [result]


# What a function says


class Row(NamedTuple):
    seat: str


Rows = NewType("Rows", list[Row])


class Bench:
    def rows(self) -> list[str]: ...  # type: ignore[empty-body]
    def __call__(self) -> list[str]: ...  # type: ignore[empty-body]


def listed() -> list[int]: ...  # type: ignore[empty-body]
def unknown_argument(seat: Unknown) -> list[int]: ...  # type: ignore[empty-body]
def maybe_listed() -> tuple[int, ...] | None: ...
def noted() -> Annotated[Sequence[str], "seats"]: ...  # type: ignore[empty-body]
def promised() -> Awaitable[list[str]]: ...  # type: ignore[empty-body]
def named() -> Rows: ...  # type: ignore[empty-body]
def bare() -> list: ...  # type: ignore[empty-body]
def texts() -> str: ...  # type: ignore[empty-body]
def raw() -> bytes: ...  # type: ignore[empty-body]
def mapped() -> dict[str, list[int]]: ...  # type: ignore[empty-body]
def either() -> list[int] | str: ...  # type: ignore[empty-body]
def anything() -> Any: ...
def unknown() -> Unknown: ...
def streamed() -> Iterator[str]: ...  # type: ignore[empty-body]
def silent(): ...


@functools.wraps(listed)
def wrapped(*args: Any) -> Any: ...


def is_refused(returns: Any, result: Any = "a4", at: tuple[int, ...] | None = (1,)) -> bool:
    try:
        refuse_unwrapped("find", ToolReply(result, at=at), returns)
    except ScriptBroken:
        return True
    return False


@pytest.mark.parametrize(
    "function",
    [listed, unknown_argument, maybe_listed, noted, promised, named, bare, wrapped,
     functools.partial(listed), Bench().rows, Bench()],
)  # fmt: skip
def test_a_list_is_known_by_the_annotation(function: Callable[..., Any]) -> None:
    assert is_refused(returned_by(function))


@pytest.mark.parametrize(
    "function",
    [texts, raw, mapped, either, anything, unknown, streamed, silent, len, None, str],
)  # fmt: skip
def test_what_may_be_something_else_is_no_list(function: Callable[..., Any] | None) -> None:
    assert not is_refused(returned_by(function))


@pytest.mark.parametrize(
    ("schema", "is_list"),
    [
        ({"type": "array"}, True),
        ({"type": ["array", "null"]}, True),
        ({"anyOf": [{"type": "array"}, {"type": "null"}]}, True),
        ({"$ref": "#/$defs/Seats", "$defs": {"Seats": {"type": "array"}}}, True),
        ({"allOf": [{"type": ["array", "string"]}, {"type": "array"}]}, True),
        ({"anyOf": [{"type": "array"}, {"type": "string"}]}, False),
        ({"anyOf": [{"type": "array"}, {}]}, False),
        ({"oneOf": [{"$ref": "#"}, {"type": "string"}]}, False),
        ({"$ref": "#/$defs/Gone"}, False),
        ({"items": {"type": "string"}}, False),
        ({"type": "object"}, False),
        ({}, False),
        (None, False),
    ],
)
def test_a_list_is_known_by_the_schema(schema: Any, is_list: bool) -> None:
    assert is_refused(schema) == is_list


def test_what_is_a_list_null_or_a_failure_answers_as_it_is_written() -> None:
    assert not is_refused(list[str], ["a4"])
    assert not is_refused(list[str], at=None)
    assert not is_refused(list[str] | None, None)
    assert is_refused(list[str], None)
    refuse_unwrapped("find", ToolReply(error="No", at=(1,)), list[str])


@pytest.mark.parametrize(
    "returns",
    ["{type: array}", "{type: [array, 'null']}", "{$ref: Seats}",
     "{anyOf: [{type: array}, {type: 'null'}]}"],
)  # fmt: skip
def test_a_declared_tool_says_it_by_its_schema(returns: str) -> None:
    pipeline = (
        "version: 1\npipeline: p\nschemas: {Seats: {type: array}}\n"
        f"tools: {{find: {{returns: {returns}}}}}\n"
        "agents: {clerk: {instructions: Help., tools: [find]}}\nflow: {handoffs: {start: clerk}}\n"
    )
    turn = "{user: Hi, replies: {clerk: [{calls: {find: {}}}, Done.]}, tool_results: {find: [a4]}}"

    with pytest.raises(SourceError, match=r"Write `find: \{returns: \[\"a4\"\]\}`"):
        run_yaml(pipeline, f"turns: [{turn}]")
