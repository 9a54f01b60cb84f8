"""Implementation of ``simkit mcp``: the commands as tools of coding agents, over stdio.

Each tool runs a command in a process of its own, where the user's code can print and leave what it
wants, and returns its answer in JSON.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from subprocess import DEVNULL, run
from typing import Any, Final

from simkit.cli.init.files import SKILL
from simkit.core.errors import Unsupported
from simkit.core.requirements import install_command
from simkit.core.stopping import BROKEN

INSTRUCTIONS: Final = (
    "simkit tests what each agent of a multi-agent pipeline is sent, offline and the same every "
    "time. Call `guide` first: it says how scenario files are written. Then init, replay, read "
    "the findings, look at a context, change the code or the claim, replay again; mutate last."
)


def answer_of(command: str, arguments: Sequence[str] = (), *options: str) -> dict[str, Any]:
    """Run a command with ``--format json``; return its answer. No argument is read as an option."""
    words = [sys.executable, "-m", "simkit", command, *options, "--format", "json", "--"]
    try:
        done = run([*words, *arguments], stdin=DEVNULL, capture_output=True, text=True, check=False)
    except (OSError, ValueError) as problem:  # A character that no command line has.
        return _refused("UsageError", f"an argument of `{command}` cannot be passed on: {problem}")
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return _refused("Bug", done.stderr or done.stdout)
    return answer


def _refused(kind: str, message: str) -> dict[str, Any]:
    return {"exit_code": BROKEN, "error": {"type": kind, "message": message}}


def guide() -> dict[str, Any]:
    """Return how scenarios are written: concepts, the loop, ten mistakes. Read it first."""
    return {"exit_code": 0, "text": SKILL.read_text(encoding="utf-8")}


def init(
    app: str, options: list[str] | None = None, replies: list[str] | None = None
) -> dict[str, Any]:
    """Run an app (MODULE:NAME) once without a model, and write a first scenario that holds.

    ``options`` are KEY=VALUE below `app:` (`env.SHOP=test`), ``replies`` what its models answer.
    """
    given = [f"--option={pair}" for pair in options or ()]
    return answer_of("init", (), f"--app={app}", *given, *(f"--reply={r}" for r in replies or ()))


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
    chosen = [f"--agent={agent}"] * bool(agent) + [f"--turn={turn}"] * bool(turn)
    answer = answer_of("replay", [path], "--show=context", *chosen)
    calls = [
        {"scenario": scenario["name"], **call}
        for scenario in answer.get("scenarios", ())
        for call in scenario["contexts"]
    ]
    return {"error": answer.get("error"), "exit_code": answer.get("exit_code"), "calls": calls}


def coverage(paths: list[str]) -> dict[str, Any]:
    """List what no scenario makes the pipelines do, each with a way to cover it."""
    return answer_of("coverage", paths)


def mutate(paths: list[str], most: int = 100) -> dict[str, Any]:
    """Mutate runs; return the mutants: those with `killed_by` null have the claim that would
    catch them under `expect`."""
    return answer_of("mutate", paths, f"--max={most}")


TOOLS: Final = (guide, init, validate, replay, explain, context, coverage, mutate)


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
