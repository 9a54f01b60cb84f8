"""An agent whose tools come from an MCP server."""

from __future__ import annotations

from agents import Agent, Runner
from agents.mcp import MCPServerStdio


async def run(message: str) -> str:
    """Answers the user."""
    files = {"command": "npx", "args": ["-y", "@acme/server-files", "/data"]}
    async with MCPServerStdio(params=files, name="files") as server:  # type: ignore[arg-type]
        agent = Agent("reader", instructions="Read what is asked for.", mcp_servers=[server])
        return str((await Runner.run(agent, message)).final_output)
