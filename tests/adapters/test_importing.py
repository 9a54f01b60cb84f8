"""Processes: of an import in each scenario, of the standard library in none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from simkit import load, simulate
from simkit.checks.judge import Outcome
from simkit.trace import events as e

ASKING = """
from openai import AsyncOpenAI, OpenAI


def ask(system, text):
    messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    return OpenAI().chat.completions.create(model="m", messages=messages).choices[0].message.content
"""
SCENARIO = """\
version: 1
scenario: {name}
pipeline: {module}:run
app: {{path: [.]}}
agents: {{a: {{system: {{$starts: You are a.}}}}}}
turns: [{{user: Hi, replies: {{a: "Yes"}}}}, {{user: Ho, replies: {{a: "Yes"}}}}]
"""


def outcomes(folder: Path, module: str, source: str) -> list[Outcome]:
    """Runs two scenarios of an application in this process."""
    (folder / f"{module}.py").write_text(ASKING + source, encoding="utf-8")
    names = ("one", "two")
    text = "---\n".join(SCENARIO.format(name=name, module=module) for name in names)
    file = folder / "both.scenario.yaml"
    file.write_text(text, encoding="utf-8")
    return [simulate(prepared) for prepared in load(file)]


def places(outcome: Outcome) -> list[tuple[str, int]]:
    """The effects that were recorded, each with its turn."""
    return [
        (event.where, event.turn)
        for event in outcome.trace.events
        if isinstance(event, e.UncontrolledEffect)
    ]


STARTING = """
import subprocess, sys
subprocess.run([sys.executable, "-c", "pass"], stderr=sys.stderr)


def run(text):
    return ask("You are a.", text)
"""


def test_a_process_of_an_import_is_told_in_each_scenario(tmp_path: Path) -> None:
    first, second = outcomes(tmp_path, "importing_process", STARTING)

    assert places(first) == [("importing_process.py:10 in <module>", 0)]
    assert places(second) == places(first)
    assert [finding.id for finding in first.judgement.findings] == ["RUN-02"]


PLATFORM = """
import platform


def run(text):
    return ask("You are a. CPU: " + platform.processor(), text)
"""


def test_what_the_standard_library_asks_of_the_machine_is_no_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import platform

    monkeypatch.setattr(platform, "_uname_cache", None)  # It asks once in a process.

    assert [places(outcome) for outcome in outcomes(tmp_path, "platform_app", PLATFORM)] == [[], []]


CHILD = """
import asyncio, sys

child = None


async def run(text):
    global child
    if child is None:
        reader = "for line in open(0): print(line, end='', flush=True)"
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", reader, stdin=-1, stdout=-1
        )
    child.stdin.write(b"hi\\n")
    text += (await child.stdout.readline()).decode()
    messages = [{"role": "system", "content": "You are a."}, {"role": "user", "content": text}]
    reply = await AsyncOpenAI().chat.completions.create(model="m", messages=messages)
    if text.startswith("Ho"):
        child.kill()
        await child.wait()
        child = None
    return reply.choices[0].message.content
"""


@pytest.mark.skipif(sys.platform == "win32", reason="asyncio has no such thread on Windows")
def test_the_thread_in_which_asyncio_waits_for_a_child_rests(tmp_path: Path) -> None:
    first, _ = outcomes(tmp_path, "child_app", CHILD)

    assert places(first) == [("child_app.py:18 in run", 1)]
