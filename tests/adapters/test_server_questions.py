"""MCP servers that ask back, over three transports: elicitation, sampling, progress, silence.

`nox -s mcp_clients` runs this file with both generations of the official SDK, as client and server.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

from simkit import Outcome, simulate
from simkit.session.execution.recorded import Recording
from simkit.session.simulate import record
from tests.adapters.test_servers import AGENTS, ASK, problems_of, scenario
from tests.recording import prepared

if find_spec("mcp") is None:
    pytest.skip("mcp is not installed: `nox -s mcp_clients` has it", allow_module_level=True)

pytestmark = pytest.mark.slow

CLIENT = f"""{ASK}
import asyncio
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from openai import AsyncOpenAI

async def elicit(context, params):
    told.append(params.message)
    return types.ElicitResult(action="accept", content={{"sure": True}})

async def sample(context, params):
    asked = [{{"role": "user", "content": params.messages[-1].content.text}}]
    said = await AsyncOpenAI().chat.completions.create(model="m", messages=asked)
    text = types.TextContent(type="text", text=said.choices[0].message.content)
    return types.CreateMessageResult(role="assistant", content=text, model="m")

async def progress(done, total, message):
    told.append(message)

async def over(streams, message):
    global told
    told = []
    handlers = {{"elicitation_callback": elicit, "sampling_callback": sample}}
    async with streams as (reads, writes, *_), ClientSession(reads, writes, **HANDLERS) as session:
        await session.initialize()
        listed = [each.model_dump(by_alias=True) for each in (await session.list_tools()).tools]
        loop = asyncio.get_running_loop()
        def call(name, args):
            called = session.call_tool(name, args, progress_callback=progress)
            result = asyncio.run_coroutine_threadsafe(called, loop).result()
            return result.content[0].text
        return " ".join([await asyncio.to_thread(ask, message, listed, call), *told])

async def stdio(message):
    command = StdioServerParameters(command="npx", args=["-y", "@acme/server-files"])
    return await over(stdio_client(command), message)

async def http(message):
    return await over(streamable_http_client("https://files.example.com/mcp"), message)

async def sse(message):
    return await over(sse_client("https://files.example.com/sse"), message)
""".replace("**HANDLERS", "**handlers")
SDK = version("mcp")
NOW = "2026-01-05T09:00:00Z"
ENTRIES = ("stdio", "http", "sse")
TRANSPORTS = pytest.mark.parametrize("entry", ENTRIES)
DECLARED = """\
servers:
  files:
    mcp:
      tools:
        delete: {args: {path: string}, asks: Delete it?, answer: {sure: boolean}}
        sum_up: {args: {path: string}, samples: Sum up., progress: [Reading.]}
"""
TURNS = """\
turns:
  - user: Tidy up.
    tool_results: {delete: Deleted.}
    replies:
      reader: [{calls: [delete: {path: a}]}, {calls: [sum_up: {path: b}]}, Done.]
      files: Milk.
    expect:
      reply: Done. Delete it? Reading.
      agents: [reader, files]
      tool_calls: [{tool: delete, server: files}, {tool: sum_up, server: files}]
      context:
        files: {messages: [{user: Sum up.}]}
        reader[1]: {includes: [{tool: Deleted.}]}
        reader[2]: {includes: [{tool: Milk.}]}
"""
SERVER = """
import sys
from pydantic import BaseModel
try:
    from mcp.server.fastmcp import Context, FastMCP as Server
    from mcp import types
except ImportError:
    from mcp.server import MCPServer as Server
    from mcp.server.mcpserver import Context
    from mcp import types

server = Server("files")

@server.tool()
def read_file(path: str) -> str:
    "Read a file."
    return "Buy milk."

@server.resource("file:///a.txt")
def a() -> str:
    return "hello"

@server.prompt()
def greet() -> str:
    return "Say hello."

class Sure(BaseModel):
    sure: bool

@server.tool()
async def delete(path: str, context: Context) -> str:
    answer = await context.elicit("Delete it?", Sure)
    return "Deleted." if answer.action == "accept" and answer.data.sure else "Kept."

@server.tool()
async def sum_up(path: str, context: Context) -> str:
    await context.report_progress(1, 2, "Reading.")
    asked = types.SamplingMessage(
        role="user", content=types.TextContent(type="text", text="Sum up."))
    said = await context.session.create_message(
        [asked], max_tokens=9, related_request_id=context.request_id)
    return said.content.text

kind, port = sys.argv[1:]
if kind == "stdio":
    server.run()
else:
    import uvicorn
    app = server.sse_app() if kind == "sse" else server.streamable_http_app()
    uvicorn.run(app, port=int(port), log_level="error")
"""


def run(tmp_path: Path, entry: str, rest: str, code: str = CLIENT) -> Outcome:
    """The run of the client with a server."""
    return simulate(scenario(tmp_path, code, rest, entry))


@TRANSPORTS
def test_a_declared_server_asks_user_and_model(tmp_path: Path, entry: str) -> None:
    first, second = (run(tmp_path, entry, DECLARED + TURNS) for _ in "12")

    assert problems_of(first) == []
    assert first.trace.digest() == second.trace.digest()


@TRANSPORTS
def test_the_scenario_may_answer_in_the_users_place(tmp_path: Path, entry: str) -> None:
    answers = TURNS.replace("    replies", "    elicits: {files: {sure: true}}\n    replies")
    answers = answers.replace("Done. Delete it? R", "Done. R")
    assert problems_of(run(tmp_path, entry, DECLARED + answers)) == []

    no = answers.replace("{sure: true}", "decline").replace("Deleted.}]", "{$contains: decline}}]")
    no = no.replace("    tool_results: {delete: Deleted.}\n", "")
    assert problems_of(run(tmp_path, entry, DECLARED + no)) == []

    wrong = answers.replace("{sure: true}", "{sure: perhaps}")
    problem, *_ = problems_of(run(tmp_path, entry, DECLARED + wrong))
    assert "server `files` asks for another answer: sure: 'perhaps' is not of type" in problem
    assert "a.scenario.yaml:15" in problem


def test_an_answer_for_which_no_server_asks_is_an_error(tmp_path: Path) -> None:
    unasked = DECLARED.replace(", asks: Delete it?, answer: {sure: boolean}", "")
    answers = TURNS.replace("    replies", "    elicits: {files: {sure: true}}\n    replies")
    problems = problems_of(run(tmp_path, "stdio", unasked + answers))

    assert any("turn 1 answers server 'files', which did not ask" in x for x in problems)


@TRANSPORTS
def test_a_client_that_takes_no_questions_makes_the_tool_fail(tmp_path: Path, entry: str) -> None:
    turns = TURNS.replace("Done. Delete it? R", "Done. R").replace(
        "Deleted.}]", "{$contains: no questions}}]"
    )
    turns = turns.replace("    tool_results: {delete: Deleted.}\n", "")
    deaf = CLIENT.replace('"elicitation_callback": elicit, ', "")

    assert problems_of(run(tmp_path, entry, DECLARED + turns, deaf)) == []


def patient(seconds: int) -> str:
    """The client, which waits so long for a tool."""
    timeout = f"datetime.timedelta(seconds={seconds})" if SDK.startswith("1.") else seconds
    code = CLIENT.replace("=progress)", f"=progress, read_timeout_seconds={timeout})")
    return code.replace("import asyncio\n", "import asyncio\nimport datetime\n", 1)


@TRANSPORTS
def test_a_slow_server_outlasts_its_client_in_virtual_time(tmp_path: Path, entry: str) -> None:
    slow = TURNS.replace("{delete: Deleted.}", "{delete: {returns: Deleted., latency_ms: 60000}}")
    # The answer itself comes at once: only a limit in virtual time is over before it.
    runs = [run(tmp_path, entry, DECLARED + slow, patient(50)) for _ in "12"]

    cause = "ended with error FunctionFailed: server `files` took 60 s to answer delete"
    assert all(cause in problems_of(each)[0] for each in runs)
    assert runs[0].trace.digest() == runs[1].trace.digest()
    outlasted = run(tmp_path, entry, DECLARED + slow, patient(700))
    assert problems_of(outlasted) == []
    assert "NET-05" in [warning.id for warning in outlasted.judgement.warnings]


def test_a_line_that_calls_a_tool_which_has_gone_has_the_change_as_its_cause(
    tmp_path: Path,
) -> None:
    if find_spec("agents") is None:
        pytest.skip("agents is not installed: `nox -s mcp_clients` has it")
    change = "mcp:\n      changes: {after: delete, tools: {delete: {args: {path: string}}}}\n"
    declared = DECLARED.replace("mcp:\n", change)
    declared = declared.replace("asks: Delete it?, answer: {sure: boolean}", "returns: string")
    problem, *_ = problems_of(run(tmp_path, "over_stdio", declared + TURNS, AGENTS))

    assert "server `files` changed its tools after delete" in problem
    assert "calls tool 'sum_up', which agent 'reader' is not offered" in problem


@TRANSPORTS
@pytest.mark.parametrize("place", ["initialize", "tools/list", "sum_up"])
@pytest.mark.parametrize("code", [patient(50), CLIENT], ids=["with a limit", "without"])
def test_a_server_that_never_answers_is_the_cause_of_what_follows(
    tmp_path: Path, entry: str, place: str, code: str
) -> None:
    hangs = f"mcp:\n      fails: {{at: {place}, text: Still reading., hangs: true}}\n"
    turns = DECLARED.replace("mcp:\n", hangs) + TURNS
    first, second = (run(tmp_path, entry, turns, code) for _ in "12")

    problem, *_ = problems_of(first)
    waited = "Its client has waited for 240 s, and nothing else goes on."
    assert f"server `files` never answers call 1 of {place}: Still reading." in problem
    assert (waited in problem) == (code == CLIENT or place != "sum_up")
    assert first.trace.digest() == second.trace.digest()


@pytest.fixture
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of the official server, in a process of its own; empty over stdio."""
    kind = request.getfixturevalue("entry")
    (tmp_path / "server.py").write_text(SERVER, encoding="utf-8")
    if kind == "stdio":
        yield ""
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, str(tmp_path / "server.py"), kind, str(port)])
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


@TRANSPORTS
def test_a_real_server_that_asks_is_recorded_and_replayed_without_it(
    tmp_path: Path, entry: str, address: str
) -> None:
    code = CLIENT.replace("https://files.example.com", address or "x")
    command = repr([str(tmp_path / "server.py"), "stdio", "0"])
    code = code.replace('"npx"', repr(sys.executable)).replace(
        '["-y", "@acme/server-files"]', command
    )
    match = "127.0.0.1" if address else "server.py"
    recorded = (
        f"cassette: tidy\nservers: {{files: {{match: {{$contains: {match}}}, mcp: recorded}}}}\n"
    )
    real = recorded.replace("recorded", "real").replace("cassette: tidy\n", "")
    turns = TURNS.replace("    tool_results: {delete: Deleted.}\n", "")

    live = run(tmp_path, entry, real + turns, code)
    assert problems_of(live) == []
    scenario(tmp_path, code, recorded + turns, entry)
    done = record(prepared(tmp_path / "a.scenario.yaml"), Recording("all", NOW)).outcome
    assert problems_of(done) == []
    assert done.trace.digest() == live.trace.digest()

    replayed = simulate(prepared(tmp_path / "a.scenario.yaml"))
    assert problems_of(replayed) == []
    assert replayed.trace.digest() == live.trace.digest()
    other = code.replace('"sure": True', '"sure": False')
    problem, *_ = problems_of(run(tmp_path, entry, recorded + turns, other))
    assert "got another answer than in its recording: " in problem
