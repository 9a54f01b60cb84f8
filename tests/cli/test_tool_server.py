"""`simkit mcp`: the tools that a coding agent has, through the official client."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from simkit.cli import tool_server
from simkit.core.errors import Unsupported
from tests.cli.projects import BAD, ECHO, write

GOOD = "scenarios/good.scenario.yaml"


@pytest.mark.slow
def test_each_tool_answers_with_the_commands_json(project: Path) -> None:
    write("bad.scenario.yaml", ECHO + BAD)

    assert tool_server.validate([GOOD])["summary"]["errors"] == 0
    assert tool_server.explain("HND-12")["explanations"][0]["id"] == "HND-12"
    answer = tool_server.replay(["bad.scenario.yaml"])
    assert answer["scenarios"][0]["findings"][0]["what"] == "reply does not match"


@pytest.mark.slow
def test_a_context_has_its_messages_and_the_reply(project: Path) -> None:
    (call,) = tool_server.context(f"{GOOD}::it holds", agent="a")["calls"]

    assert [(m["role"], m["content"]) for m in call["messages"]] == [
        ("system", "Say."),
        ("user", "hi"),
    ]
    assert call["reply"]["content"] == "hello"
    assert tool_server.context("nowhere.scenario.yaml")["error"]["type"] == "SourceError"
    nobody = tool_server.context(GOOD, agent="nobody")["error"]
    assert nobody["message"] == "there is no agent 'nobody'; agents of the whole run: a"
    assert tool_server.context(GOOD, turn=2)["error"]["message"].startswith("there is no turn 2")


@pytest.mark.slow
def test_an_agent_that_knows_nothing_else_finds_how_to_begin(project: Path) -> None:
    write("desk.py", "import os\nfrom openai import OpenAI\n\ndef ask(text):\n"
          "    messages = [{'role': 'user', 'content': os.environ['SHOP'] + text}]\n"
          "    done = OpenAI().chat.completions.create(model='m', messages=messages)\n"
          "    return done.choices[0].message.content\n")  # fmt: skip

    answer = tool_server.init("desk:ask", options=["env.SHOP=Ada's"], replies=["Gladly."])

    assert "## Ten mistakes" in tool_server.guide()["text"]
    assert (answer["error"], answer["exit_code"]) == (None, 0)
    assert "Gladly." in Path("scenarios/desk.scenario.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("path", "kind"),
    [("--help", "SourceError"), ("--update", "SourceError"), ("a\0b", "UsageError")],
)
def test_a_path_is_never_an_option(project: Path, path: str, kind: str) -> None:
    assert tool_server.replay([path])["error"]["type"] == kind


@pytest.mark.slow(10)
def test_the_official_client_lists_and_calls_the_tools(project: Path) -> None:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    calls: dict[str, dict[str, Any]] = {
        "validate": {"paths": [GOOD]},
        "replay": {"paths": [GOOD]},
        "explain": {"id": "HND-12"},
        "context": {"path": f"{GOOD}::it holds"},
        "coverage": {"paths": [GOOD]},
        "mutate": {"paths": [GOOD], "most": 3},
    }

    async def talk() -> tuple[list[str], list[Any], Any]:
        server = StdioServerParameters(command=sys.executable, args=["-m", "simkit", "mcp"])
        async with stdio_client(server) as pipes, ClientSession(*pipes) as session:
            await session.initialize()
            listed = await session.list_tools()
            done = [await session.call_tool(*call) for call in calls.items()]
            refused = await session.call_tool("replay", {"paths": ["nowhere.scenario.yaml"]})
            return [tool.name for tool in listed.tools], done, refused

    names, done, refused = anyio.run(talk)

    assert names[2:] == [tool.__name__ for tool in tool_server.TOOLS[2:]] == [*calls]
    answers = [json.loads(result.content[0].text) for result in done]
    assert [answer["exit_code"] for answer in answers] == [0] * len(calls)
    assert answers[1]["summary"]["held"] == 3
    dumped = refused.model_dump(by_alias=True)
    assert dumped["isError"]
    assert "there is no such file" in refused.content[0].text


def test_without_the_sdk_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    monkeypatch.setitem(sys.modules, "mcp.server.fastmcp", None)

    with pytest.raises(Unsupported, match="needs the official SDK of MCP: pip install"):
        tool_server.serve_tools()
