"""MCP over three transports, with the clients of frameworks: declared, real, recorded are alike.

Those that are not installed here have sessions of nox: `mcp_clients`, `frameworks`, `google_adk`.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import pytest

from simkit.session.execution.recorded import Recording
from simkit.session.simulate import record, simulate
from tests.adapters.test_server_questions import ENTRIES, NOW, address
from tests.adapters.test_servers import ASK, FILES, problems_of
from tests.conftest import sample_by_day
from tests.recording import prepared

__all__ = ("address",)

STREAMS = """
from mcp import ClientSession, StdioServerParameters
from mcp.client import sse, stdio, streamable_http

def opened():
    if KIND == "stdio":
        return stdio.stdio_client(StdioServerParameters(command=COMMAND[0], args=COMMAND[1:]))
    return sse.sse_client(URL) if KIND == "sse" else streamable_http.streamable_http_client(URL)
"""
OFFICIAL = f"""{ASK}{STREAMS}
import asyncio

async def run(message):
    async with opened() as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()
        loop = asyncio.get_running_loop()
        def call(name, args):
            called = asyncio.run_coroutine_threadsafe(session.call_tool(name, args), loop)
            return called.result().content[0].text
        found = (await session.list_resources()).resources
        text = (await session.read_resource(found[0].uri)).contents[0].text
        prompt = (await session.get_prompt("greet")).messages[0].content.text
        offers = [each.model_dump(by_alias=True) for each in (await session.list_tools()).tools]
        return await asyncio.to_thread(ask, f"{{message}} {{text}} {{prompt}}", offers, call)
"""
AGENTS = """
from agents import Agent, Runner, mcp

async def run(message):
    kinds = {"http": mcp.MCPServerStreamableHttp, "sse": mcp.MCPServerSse}
    params = {"url": URL} if URL else {"command": COMMAND[0], "args": COMMAND[1:]}
    made = kinds.get(KIND, mcp.MCPServerStdio)(
        params=params, name="files", client_session_timeout_seconds=60)
    async with made as server:
        reader = Agent("reader", instructions="Read.", mcp_servers=[server], model="m")
        return (await Runner.run(reader, message)).final_output
"""
PYDANTIC = """
from fastmcp.client import transports as t
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

async def run(message):
    over_http = {"http": t.StreamableHttpTransport, "sse": t.SSETransport}
    way = over_http[KIND](URL) if URL else t.StdioTransport(COMMAND[0], COMMAND[1:])
    reader = Agent("openai:m", name="reader", instructions="Read.", toolsets=[MCPToolset(way)])
    async with reader:
        return (await reader.run(message)).output
"""
LANGCHAIN = """
from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_openai import ChatOpenAI

async def run(message):
    way = {"url": URL} if URL else {"command": COMMAND[0], "args": COMMAND[1:]}
    client = MultiServerMCPClient({"files": {**way, "transport": KIND}})
    tools = await client.get_tools()
    reader = create_agent(ChatOpenAI(model="m"), tools, name="reader", system_prompt="Read.")
    return (await reader.ainvoke({"messages": [("user", message)]}))["messages"][-1].content
"""
GOOGLE_ADK = f"""{STREAMS}
from google.adk.agents import LlmAgent
from google.adk.runners import InMemoryRunner
from google.adk.tools.mcp_tool import mcp_session_manager as ways
from google.adk.tools.mcp_tool.mcp_toolset import McpToolset

async def run(message):
    over_http = {{"http": ways.StreamableHTTPConnectionParams, "sse": ways.SseConnectionParams}}
    command = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:])
    stdio = ways.StdioConnectionParams(server_params=command, timeout=60)
    tools = McpToolset(connection_params=over_http[KIND](url=URL) if URL else stdio)
    agent = LlmAgent(name="reader", model="gemini-2.0-flash", instruction="Read.", tools=[tools])
    *_, last = await InMemoryRunner(agent=agent, app_name="a").run_debug(message, quiet=True)
    await tools.close()
    return last.content.parts[0].text
"""
STRANDS = f"""{STREAMS}
from strands import Agent
from strands.models.openai import OpenAIModel
from strands.tools.mcp import MCPClient

def run(message):
    with MCPClient(opened) as client:
        tools, model = client.list_tools_sync(), OpenAIModel(model_id="m")
        agent = Agent(name="reader", model=model, tools=tools, callback_handler=None)
        return str(agent(message)).strip()
"""
LLAMA_INDEX = """
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai import OpenAI
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

async def run(message):
    client = BasicMCPClient(URL) if URL else BasicMCPClient(COMMAND[0], args=COMMAND[1:])
    tools = await McpToolSpec(client=client).to_tool_list_async()
    agent = FunctionAgent(name="reader", tools=tools, llm=OpenAI("gpt-4o"), streaming=False)
    return str(await agent.run(message))
"""
CREWAI = f"""{STREAMS}
from crewai import Agent
from crewai_tools import MCPServerAdapter

def run(message):
    way = {{"url": URL, "transport": {{"http": "streamable-http"}}.get(KIND, KIND)}}
    command = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:])
    with MCPServerAdapter(way if URL else command) as tools:
        agent = Agent(role="reader", goal="Read.", backstory="None.", tools=[*tools], llm="gpt-4o")
        return agent.kickoff(message).raw
"""
CLIENTS = {
    "mcp": OFFICIAL,
    "agents": AGENTS,
    "fastmcp": PYDANTIC,
    "langchain_mcp_adapters": LANGCHAIN,
    "google.adk": GOOGLE_ADK,
    "strands": STRANDS,
    "llama_index.tools.mcp": LLAMA_INDEX,
    "crewai_tools": CREWAI,
}
KNOWN_BY_MODEL = ("mcp", "agents", "fastmcp", "langchain_mcp_adapters")
TURNS = """
turns:
  - user: What do my notes say?
    replies: {reader: [{calls: [read_file: {path: a}]}, Done.]}
    expect:
      reply: Done.
      tool_calls: [{agent: reader, tool: read_file, server: files, args: {path: a}}]
      context: {"reader[1]": {includes: [{tool: {$contains: Buy milk.}}]}}
"""


@pytest.mark.slow(30)
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("client", "entry"), sample_by_day(product(CLIENTS, ENTRIES), 4))
def test_a_declared_a_real_and_a_recorded_server_show_the_model_the_same(
    tmp_path: Path, client: str, entry: str, address: str
) -> None:
    for library in (client, *(["openai"] if client == "mcp" else [])):
        pytest.importorskip(library, reason=f"{library} is not installed: a session of nox has it")
    file, code, server = (tmp_path / x for x in ("a.scenario.yaml", "reading.py", "server.py"))
    url = address and f"{address}/{'sse' if entry == 'sse' else 'mcp'}"
    command = [sys.executable, str(server), "stdio", "0"]
    head = f"KIND, URL, COMMAND = {entry!r}, {url!r}, {command!r}\n"
    code.write_text(head + CLIENTS[client], encoding="utf-8")
    rules = "agents: {reader: {model: m}}\n" if client in KNOWN_BY_MODEL else ""
    start = f"version: 1\nscenario: a\npipeline: reading:run\n{rules}"
    app = f"{start}app: {{path: [.], fresh: true}}\n"
    match = f"match: {{$contains: {'127.0.0.1' if address else 'server.py'}}}"

    def case(servers: str, turns: str = TURNS) -> None:
        file.write_text(f"{app}{servers}{turns}", encoding="utf-8")

    case(f"servers: {{files: {{{match}, mcp: real}}}}")
    real = simulate(prepared(file))
    case(f"cassette: notes\nservers: {{files: {{{match}, mcp: recorded}}}}")
    recorded = record(prepared(file), Recording("all", NOW)).outcome
    # Neither the command nor the address is needed again.
    server.unlink()
    moved = head.replace(address, "http://127.0.0.1:9") if address else head
    code.write_text(moved + CLIENTS[client], encoding="utf-8")
    replayed = simulate(prepared(file))
    results = TURNS.replace("    replies", "    tool_results: {read_file: Buy milk.}\n    replies")
    case(FILES.replace("  files:\n", f"  files:\n    {match}\n"), results)
    declared = [simulate(prepared(file)) for _ in range(2)]

    assert [problems_of(each) for each in (real, recorded, replayed, *declared)] == [[]] * 5
    assert len({each.trace.digest() for each in (real, recorded, replayed)}) == 1
    assert declared[0].trace.digest() == declared[1].trace.digest()
