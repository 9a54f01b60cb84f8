"""Faults of real MCP servers, over each transport: one finding names server, tool and cause.

`nox -s mcp_clients` runs this file with both generations of the official SDK, as client and server.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from simkit import Outcome, simulate
from simkit.capture.http import stdio_servers
from tests.adapters.test_mcp_transports import CLIENTS, KNOWN_BY_MODEL
from tests.adapters.test_server_questions import TRANSPORTS
from tests.adapters.test_servers import FILES
from tests.conftest import sample_by_day
from tests.recording import prepared

if find_spec("mcp") is None:
    pytest.skip("mcp is not installed: `nox -s mcp_clients` has it", allow_module_level=True)

pytestmark = [pytest.mark.slow(20), pytest.mark.filterwarnings("default")]

SERVER = """
import asyncio, io, os, sys
try:
    from mcp.server.fastmcp import Context, FastMCP as Server
except ImportError:
    from mcp.server import MCPServer as Server
    from mcp.server.mcpserver import Context

KIND, PORT, FAULT = sys.argv[1:]
ANSWER = b"Buy milk."
server = Server("files")

def die():
    print("out of memory", file=sys.stderr, flush=True)
    os._exit(3)

if FAULT == "dies at its start":
    die()

@server.resource("file:///a.txt")
def a() -> str:
    return "hello"

@server.prompt()
def greet() -> str:
    return "Say hello."

@server.tool()
async def read_file(path: str, context: Context) -> str:
    "Read a file."
    if FAULT == "dies in a call":
        die()
    if FAULT == "hangs":
        await asyncio.sleep(3600)
    if FAULT == "answers with an error":
        raise ValueError("no such file")
    if FAULT == "dies after its tools changed":
        await context.session.send_tool_list_changed()
    return ANSWER.decode()

def said(data, write):
    "Write what the server says, or as much of it as the fault lets through."
    if FAULT == "closes half way" and ANSWER in data:
        write(data[: data.index(ANSWER) + 3])
        os._exit(3)
    write(data)
    if FAULT == "dies after its tools changed" and ANSWER in data:
        die()

class Output(io.RawIOBase):
    def writable(self):
        return True

    def write(self, data):
        said(bytes(data), REAL.write)
        REAL.flush()
        return len(data)

class Wrapped:
    is_last = False

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        async def halved(message):
            body = message.get("body", b"")
            cut = FAULT == "closes half way" and ANSWER in body
            if cut:
                message = {**message, "body": body[: body.index(ANSWER) + 3], "more_body": True}
            await send(message)
            if cut:
                await asyncio.sleep(0.05)
                die()
            self.is_last |= FAULT == "dies after its tools changed" and ANSWER in body
        if self.is_last:
            die()
        await self.app(scope, receive, halved)

if KIND == "stdio":
    REAL = sys.stdout.buffer
    sys.stdout = io.TextIOWrapper(Output(), write_through=True)
    server.run()
else:
    import uvicorn
    app = server.sse_app() if KIND == "sse" else server.streamable_http_app()
    uvicorn.run(Wrapped(app), port=int(PORT), log_level="error")
"""
FAULTS = {
    "dies at its start": "server `files` ended at its start: ",
    "dies in a call": "server `files` ended in the call of read_file: ",
    "dies after its tools changed": "server `files` ended ",
    "closes half way": "server `files` ended in the call of read_file: ",
    "hangs": "server `files` ended in the call of read_file: no answer for 10 s",
    "answers with an error": "Error executing tool read_file",
}
TURNS = """
turns:
  - user: What do my notes say?
    replies: {reader: [{calls: [read_file: {path: a}]}, {calls: [read_file: {path: b}]}, Done.]}
    expect:
      reply: Done.
      tool_calls: [{agent: reader, tool: read_file, server: files}, {tool: read_file}]
      context: {"reader[1]": {includes: [{tool: {$contains: Buy milk.}}]}}
"""
SHORT = TURNS.replace(", {calls: [read_file: {path: b}]}", "").replace(", {tool: read_file}]", "]")


@pytest.fixture
def address(entry: str, fault: str, tmp_path: Path) -> Iterator[str]:
    """The address of the official server, in a process of its own; empty over stdio."""
    (tmp_path / "server.py").write_text(SERVER, encoding="utf-8")
    if entry == "stdio":
        yield ""
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(tmp_path / "server.py"), entry, str(port), fault]
    server = subprocess.Popen(command)
    for _ in range(400):
        with socket.socket() as probe:
            if server.poll() is not None or probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}"
    server.kill()
    server.wait()


def outcome_of(
    folder: Path, client: str, entry: str, address: str, fault: str, rest: str = ""
) -> Outcome:
    """The run of a client with a faulty server."""
    for library in (client, *(["openai"] if client == "mcp" else [])):
        pytest.importorskip(library, reason=f"{library} is not installed: a session of nox has it")
    url = address and f"{address}/{'sse' if entry == 'sse' else 'mcp'}"
    command = [sys.executable, str(folder / "server.py"), "stdio", "0", fault]
    head = f"KIND, URL, COMMAND = {entry!r}, {url!r}, {command!r}\n"
    (folder / "reading.py").write_text(head + CLIENTS[client], encoding="utf-8")
    rules = "agents: {reader: {model: m}}\n" if client in KNOWN_BY_MODEL else ""
    match = f"match: {{$contains: {'127.0.0.1' if address else 'server.py'}}}"
    rest = rest or f"servers: {{files: {{{match}, mcp: real}}}}{TURNS}"
    rest = rest.replace("  files:\n", f"  files:\n    {match}\n")
    file = folder / "a.scenario.yaml"
    file.write_text(
        f"version: 1\nscenario: a\npipeline: reading:run\n{rules}app: {{path: [.], fresh: true}}\n"
        + rest,
        encoding="utf-8",
    )
    return simulate(prepared(file))


def check(outcome: Outcome, text: str) -> None:
    """One finding has the cause; it is the first, unless code has survived the server's end."""
    causes = [each for each in outcome.judgement.findings if not each.follows]
    named = [each for each in causes if text in str(each)]
    assert len(named) == 1
    assert named[0] is causes[0] or all(each.id == "claim" for each in causes[:-1])


@TRANSPORTS
@pytest.mark.parametrize("fault", sample_by_day(FAULTS, 3))
@pytest.mark.parametrize("client", CLIENTS)
def test_a_fault_of_a_real_server_is_one_finding(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    client: str,
    fault: str,
    entry: str,
    address: str,
) -> None:
    monkeypatch.setattr(stdio_servers, "PATIENCE_S", 10.0)

    outcome = outcome_of(tmp_path, client, entry, address, fault)
    check(outcome, FAULTS[fault])


DECLARED = {
    "dies at its start": ("fails: out of memory", "server `files` ended at its start: out of"),
    "dies in a call": (
        "fails: {at: read_file, text: out of memory}",
        "server `files` ended at call 1 of read_file: out of memory",
    ),
    "hangs": (
        "fails: {at: read_file, text: still busy, hangs: true}",
        "server `files` never answers call 1 of read_file: still busy",
    ),
    "changes its tools": (
        "changes: {after: read_file, tools: {read_page: {args: {path: string}}}}",
        "server `files` changed its tools after read_file",
    ),
}


@TRANSPORTS
@pytest.mark.parametrize("fault", sample_by_day(DECLARED, 2))
@pytest.mark.parametrize("client", CLIENTS)
def test_a_fault_of_a_declared_server_is_one_finding(
    tmp_path: Path, client: str, fault: str, entry: str
) -> None:
    address = "" if entry == "stdio" else "http://127.0.0.1:9"
    servers = FILES.replace("    mcp:\n", f"    mcp:\n      {DECLARED[fault][0]}\n")
    rest = TURNS if fault == "changes its tools" else SHORT
    rest = rest.replace("    replies", "    tool_results: {read_file: Buy milk.}\n    replies")
    first, second = (
        outcome_of(tmp_path, client, entry, address, fault, servers + rest) for _ in "12"
    )

    check(first, DECLARED[fault][1])
    assert first.trace.digest() == second.trace.digest()
