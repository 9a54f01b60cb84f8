"""Implementation of ``simkit mcp``: the commands as tools of coding agents, over stdio.

Each tool runs a command in a process of its own, where the user's code can print and leave what it
wants, and returns its answer in JSON.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from typing import Any, Final

from simkit.checks.claims import listed
from simkit.core.errors import Unsupported
from simkit.core.requirements import install_command
from simkit.core.stopping import BROKEN

INSTRUCTIONS: Final = (
    "simkit tests what each agent of a multi-agent pipeline is sent, offline and the same every "
    "time. Loop: replay, read the findings, look at a context, change the code or the claim, "
    "replay again; then mutate shows what no claim notices."
)


def answer_of(command: str, arguments: Sequence[str] = (), *options: str) -> dict[str, Any]:
    """Run a command with ``--format json``; return its answer. No argument is read as an option."""
    words = [sys.executable, "-m", "simkit", command, *options, "--format", "json", "--"]
    try:
        done = subprocess.run(
            [*words, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
    except (OSError, ValueError) as problem:  # A character that no command line has.
        return _refused("UsageError", f"an argument of `{command}` cannot be passed on: {problem}")
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return _refused("Bug", done.stderr or done.stdout)
    return answer


def _refused(kind: str, message: str) -> dict[str, Any]:
    return {"exit_code": BROKEN, "error": {"type": kind, "message": message}}


def validate(paths: list[str]) -> dict[str, Any]:
    """Check scenario and pipeline files without running them."""
    return answer_of("validate", paths)


def replay(paths: list[str], pipeline: str = "") -> dict[str, Any]:
    """Run scenarios (PATH or PATH::NAME); return findings, and a trace for each scenario."""
    return answer_of("replay", paths, *([f"--pipeline={pipeline}"] if pipeline else []))


def explain(id: str) -> dict[str, Any]:
    """Explain a finding or an error by its id: the rule, the usual cause, the fix."""
    return answer_of("explain", [id])


def context(path: str, agent: str = "", turn: int = 0) -> dict[str, Any]:
    """Run one scenario, and return what each agent was sent and what was left out."""
    answer = answer_of("replay", [path], "--show", "context")
    calls = [
        {"scenario": scenario["name"], **call}
        for scenario in answer.get("scenarios", ())
        for call in scenario["contexts"]
    ]
    chosen = [c for c in calls if agent in ("", c["agent"]) and turn in (0, c["turn"])]
    if calls and not chosen:
        known = dict.fromkeys(f"{call['agent']} in turn {call['turn']}" for call in calls)
        return _refused("UsageError", f"there is no such model call; there are: {listed(known)}")
    return {"error": answer.get("error"), "exit_code": answer.get("exit_code"), "calls": chosen}


def coverage(paths: list[str]) -> dict[str, Any]:
    """List what no scenario makes the pipelines do, each with a way to cover it."""
    return answer_of("coverage", paths)


def mutate(paths: list[str], most: int = 100) -> dict[str, Any]:
    """Mutate runs; return the mutants that no claim catches, each with a claim that would."""
    return answer_of("mutate", paths, f"--max={most}")


TOOLS: Final = (validate, replay, explain, context, coverage, mutate)


def serve_tools() -> int:
    """Answer a coding agent until it closes the pipe; return 0. Raise Unsupported without SDK."""
    _server().run("stdio")
    # Version 1 of the SDK has closed it, and what ends the command would write to it.
    sys.stdout = io.StringIO()
    return 0


_CLASSES: Final = (("mcp.server.mcpserver", "MCPServer"), ("mcp.server.fastmcp", "FastMCP"))
"""The server's class in version 2 of the SDK, and in version 1."""


def _with_errors(tool: Callable[..., dict[str, Any]], kind: type[Exception]) -> Any:
    """Return a tool that raises the SDK's error where a command has no result."""

    @wraps(tool)
    def call(**arguments: Any) -> dict[str, Any]:
        answer = tool(**arguments)
        if answer.get("error") is not None:
            raise kind(answer["error"]["message"])
        return answer

    return call


def _server() -> Any:
    for module, name in _CLASSES:
        try:
            server_class: Any = getattr(import_module(module), name)
        except (ImportError, AttributeError):
            continue
        server: Any = server_class("simkit", instructions=INSTRUCTIONS)
        for tool in TOOLS:
            server.tool()(_with_errors(tool, import_module(f"{module}.exceptions").ToolError))
        return server
    raise Unsupported(f"`simkit mcp` needs the official SDK of MCP: {install_command('mcp')}")
