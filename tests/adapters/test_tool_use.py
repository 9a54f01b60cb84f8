"""The calls of a pipeline's own tools are carried out and written down, whoever makes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.trace import events as e
from tests.adapters.running import run_app
from tests.building import Ran

CODE = """
import asyncio

def look(at, *, twice=False):
    if at == "sun":
        raise ValueError("too bright")
    return {"at": at}

async def wait(at):
    await asyncio.sleep(0)
    if at == "sun":
        raise ValueError("too bright")
    return {"at": at}

def items(at):
    yield from ("one", at)

async def stream(at):
    yield "one"
    yield at

def tell(function, at):
    result = function(at)
    if hasattr(result, "__await__"):
        return asyncio.run(waited(result))
    if hasattr(result, "__aiter__"):
        return asyncio.run(collected(result))
    return result if isinstance(result, (dict, str)) else list(result)

async def waited(result):
    return await result

async def collected(result):
    return [item async for item in result]

def run(text):
    tool, at = text.split()
    try:
        return {"found": tell(globals()[tool], at)}
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tool_app.py").write_text(CODE, encoding="utf-8")
    return tmp_path


def used(folder: Path, text: str, results: str = "{}") -> Ran:
    names = ("look", "wait", "items", "stream")
    tools = ", ".join(f"{name}: tool_app:{name}" for name in names)
    return run_app(
        "tool_app:run",
        f"""
        app: {{path: [.], fresh: true, tools: {{{tools}}}}}
        turns:
          - user: {text}
            tool_results: {results}
        """,
        folder,
    )


@pytest.mark.parametrize(
    ("tool", "result"),
    [
        ("look", {"at": "sky"}), ("wait", {"at": "sky"}), ("items", ["one", "sky"]),
        ("stream", ["one", "sky"]),
    ],
)  # fmt: skip
def test_a_tool_that_the_scenario_leaves_alone_runs_and_is_seen(
    folder: Path, tool: str, result: object
) -> None:
    ran = used(folder, f"{tool} sky")
    (observed,) = ran.turn().tools

    assert ran.turn().reply == {"found": result}
    assert (observed.tool, observed.args, observed.result, observed.error) == (
        tool,
        {"at": "sky"},
        result,
        None,
    )


@pytest.mark.parametrize(
    ("tool", "result"),
    [("look", "grey"), ("wait", "grey"), ("items", ["grey"]), ("stream", ["grey"])],
)
def test_a_tool_that_the_scenario_answers_does_not_run(
    folder: Path, tool: str, result: object
) -> None:
    ran = used(folder, f"{tool} sky", f"{{{tool}: grey}}")
    (observed,) = ran.turn().tools

    assert ran.turn().reply == {"found": result}
    assert (observed.tool, observed.args, observed.result) == (tool, {"at": "sky"}, "grey")


@pytest.mark.parametrize("tool", ["look", "wait"])
def test_a_tool_that_raises_has_failed_and_the_code_is_told(folder: Path, tool: str) -> None:
    ran = used(folder, f"{tool} sun")

    assert ran.turn().reply == "ValueError: too bright"
    assert [event.error for event in ran.events(e.ToolFailed)] == ["ValueError: too bright"]


@pytest.mark.parametrize("tool", ["look", "wait", "items", "stream"])
def test_a_tool_may_fail_because_the_scenario_says_so(folder: Path, tool: str) -> None:
    ran = used(folder, f"{tool} sky", f"{{{tool}: {{error: no light}}}}")

    assert ran.turn().reply == "ToolFailure: no light"
    assert [event.error for event in ran.events(e.ToolFailed)] == ["no light"]


def test_a_tool_without_a_result_that_fits_ends_the_turn(folder: Path) -> None:
    ran = used(folder, "look sky", "{look: [{when: {at: sea}, returns: blue}]}")

    assert ran.error() == (
        "ToolMissing",
        "agent '' called tool 'look' in turn 1, but no result's `when` holds for its arguments.\n"
        'It was called with {"at": "sky"}.\n'
        "Add one under turns[0].tool_results.look.",
    )


def test_what_a_stream_has_given_is_its_result_where_nobody_wants_more(tmp_path: Path) -> None:
    code = CODE.replace("return result if", "return [next(result)] if at == 'first' else result if")
    (tmp_path / "first_app.py").write_text(code, encoding="utf-8")
    ran = run_app(
        "first_app:run",
        """
        app: {path: [.], tools: {items: "first_app:items"}}
        turns: [{user: items first, expect: {tool_calls: [{tool: items, result: [one]}]}}]
        """,
        tmp_path,
    )

    assert [finding.what for finding in ran.judgement.findings] == []


RECURSIVE = """
from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


def look(depth: int) -> str:
    "Looks."
    return f"<{look(depth - 1)}>" if depth else "ground"


async def wait(depth: int) -> str:
    "Waits."
    return f"<{await wait(depth - 1)}>" if depth else "ground"


model = ChatOpenAI(model="gpt-5-mini", api_key="none")
agent = create_agent(model, [tool(look), tool(wait)], system_prompt="Clerk.", name="clerk")


async def run(text):
    found = await agent.ainvoke({"messages": [("user", text)]})
    return found["messages"][-1].content
"""


@pytest.mark.parametrize("tool", ["look", "wait"])
def test_a_call_that_a_framework_carries_out_is_one_call_also_of_a_named_function(
    tmp_path: Path, tool: str
) -> None:
    (tmp_path / "deep_app.py").write_text(RECURSIVE, encoding="utf-8")
    app = f"app: {{path: [.], tools: {{{tool}: deep_app:{tool}}}}}"
    turn = f"{{user: Go, replies: {{clerk: [{{calls: {{{tool}: {{depth: DEPTH}}}}}}, Done.]}}}}"

    def results(depth: int) -> list[tuple[object, object]]:
        turns = turn.replace("DEPTH", str(depth))
        ran = run_app("deep_app:run", f"{app}\nturns: [{turns}]", tmp_path)
        assert [finding.what for finding in ran.judgement.findings] == []
        return [(item.args, item.result) for item in ran.turn().tools]

    assert results(0) == [({"depth": 0}, "ground")]
    assert results(1) == [({"depth": 1}, "<ground>"), ({"depth": 0}, "ground")]
