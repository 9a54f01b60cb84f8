"""The calls of a pipeline's own tools are carried out and written down, whoever makes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit import events as e
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
    (seen,) = ran.turn().tools

    assert ran.turn().reply == {"found": result}
    assert (seen.tool, seen.args, seen.result, seen.error) == (tool, {"at": "sky"}, result, None)


@pytest.mark.parametrize(
    ("tool", "result"),
    [("look", "grey"), ("wait", "grey"), ("items", ["grey"]), ("stream", ["grey"])],
)
def test_a_tool_that_the_scenario_answers_does_not_run(
    folder: Path, tool: str, result: object
) -> None:
    ran = used(folder, f"{tool} sky", f"{{{tool}: grey}}")
    (seen,) = ran.turn().tools

    assert ran.turn().reply == {"found": result}
    assert (seen.tool, seen.args, seen.result) == (tool, {"at": "sky"}, "grey")


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
