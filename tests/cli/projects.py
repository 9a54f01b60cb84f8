"""A folder with scenarios that hold, fail and are broken; how a call of the command line ended."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

from tests.processes import run_python

ROOT = Path(__file__).resolve().parents[2]
ECHO = """\
version: 1
pipeline: echo
agents: {a: {instructions: Say., handoffs: []}}
flow: {handoffs: {start: a}}
"""
GOOD = """\
---
version: 1
scenario: it holds
tags: [smoke]
pipeline: echo
turns: [{user: hi, replies: {a: hello}, expect: {reply: hello}}]
"""
ROWS = """\
---
version: 1
scenario: row ${column.n}
pipeline: echo
examples: [{n: one}, {n: two}]
turns: [{user: "${column.n}", replies: {a: hello}, expect: {reply: hello}}]
"""
BAD = """\
---
version: 1
scenario: it's wrong
pipeline: echo
turns:
  - user: hi
    replies: {a: hello}
    expect:
      reply: bye
"""
MISSPELT = """\
---
version: 1
scenario: misspelt
pipeline: echo
turns: [{user: hi, replies: {a: hello}, expect: {replly: hello}}]
"""

# No provider's own client: to import one takes longer than all else that these processes do.
CLIENT = """\
import json, urllib.request

def asked(messages):
    body = json.dumps({"model": "m", "messages": messages}).encode()
    url = "https://api.openai.com/v1/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, body)) as response:
        return json.load(response)["choices"][0]["message"]["content"]
"""


class Done(NamedTuple):
    """How a call ended."""

    code: int
    out: str
    err: str


Call: TypeAlias = Callable[..., Done]
"""Calls the command line with these arguments."""


def write(name: str, text: str) -> None:
    """Writes a file below the working directory."""
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text, encoding="utf-8")


def with_desk(simkit: Call, pipeline: str, scenario: str) -> Call:
    """Puts a desk and its scenario in place of the project's good one."""
    Path("scenarios/good.scenario.yaml").unlink()
    write("scenarios/desk.pipeline.yaml", pipeline)
    write("scenarios/refund.scenario.yaml", scenario)
    return simkit


def files_here() -> dict[str, tuple[int, bytes]]:
    """Returns the files below the working directory: when each was written, and its bytes."""
    paths = [file for file in Path().rglob("*") if file.is_file()]
    return {str(f): (f.stat().st_mtime_ns, f.read_bytes()) for f in paths}


def without_times(text: str) -> str:
    """Replaces the wall clock's part of the last line."""
    return re.sub(r"\(\d+\.\d\d s\)", "(0.00 s)", text)


def run_simkit(*words: str, folder: str | Path = ".", module: str = "simkit", **more: str) -> Done:
    """Calls the command line in a process of its own; ``more`` is added to its environment."""
    done = run_python("-m", module, *words, folder=folder, **more)
    return Done(done.returncode, done.stdout, done.stderr)
