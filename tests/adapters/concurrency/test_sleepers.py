"""Timers of event loops end in virtual time: code that waits no longer than it wants gives up."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from simkit.capture.http.timers import waits_outside
from tests.adapters.running import check_app, run_app
from tests.processes import ROOT, run_python

APPS = ROOT / "tests" / "apps"
APP = '''
import asyncio
import socket
import time

import anyio
from openai import AsyncOpenAI

client = AsyncOpenAI()


async def asked(text):
    return (await client.responses.create(model="gpt-5", input=text)).output_text


def give_up(wait):
    async def run(text):
        answer = await asked(text)
        try:
            return await wait(answer)
        except TimeoutError:
            return "too slow"

    return run


async def asleep(seconds):
    await asyncio.sleep(seconds)
    return "slept"


async def scope(answer):
    with anyio.move_on_after(5):
        return await asleep(10)
    return "moved on"


async def some(answer):
    tasks = [asyncio.create_task(asleep(seconds)) for seconds in (10, 2)]
    done, pending = await asyncio.wait(tasks, timeout=5)
    return f"{len(done)} of 2"


async def nested(answer):
    try:
        async with asyncio.timeout(8):
            try:
                async with asyncio.timeout(5):
                    await asleep(10)
            except TimeoutError:
                await asleep(2)
            await asleep(2)
    except TimeoutError:
        return "the outer one"


async def blocked(answer):
    async with asyncio.timeout(5):
        time.sleep(10)
        await asyncio.sleep(0)
        return "slept"


async def postponed(answer):
    async with asyncio.timeout(5) as limit:
        limit.reschedule(asyncio.get_running_loop().time() + 20)
        return await asleep(10)


async def outside(answer):
    """A friend answers after 0.2 s of real time, while another task sleeps in virtual time."""
    mine, friend = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=mine)
    beat = asyncio.create_task(asleep(1_000))
    asyncio.get_running_loop().run_in_executor(None, lambda: None)
    async with asyncio.timeout(5):
        friend.send(b"here")
        text = (await reader.read(4)).decode()
    beat.cancel()
    writer.close()
    friend.close()
    return text


timeout = give_up(lambda answer: asyncio.wait_for(asked("more"), 5))
wait_for = give_up(lambda answer: asyncio.wait_for(asleep(10), 5))
in_time = give_up(lambda answer: asyncio.wait_for(asleep(4), 5))
gathered = give_up(lambda answer: asyncio.wait_for(asyncio.gather(asleep(1), asleep(10)), 5))
thread = give_up(lambda answer: asyncio.wait_for(asyncio.to_thread(time.sleep, 10), 5))
scope, some, nested = give_up(scope), give_up(some), give_up(nested)
blocked, postponed, outside = give_up(blocked), give_up(postponed), give_up(outside)
'''


def hold(pipeline: str, scenario: str, folder: Path) -> None:
    """Run a scenario; its claims hold, and nothing else is found."""
    (folder / "giving_up.py").write_text(APP, encoding="utf-8")
    ran = run_app(pipeline, scenario, folder)
    assert [finding.what for finding in ran.judgement.findings] == []


@pytest.mark.parametrize(
    ("way", "reply"),
    [
        ("wait_for", "too slow"),
        ("in_time", "slept"),
        ("gathered", "too slow"),
        ("thread", "too slow"),
        ("scope", "moved on"),
        ("some", "1 of 2"),
        ("nested", "the outer one"),
        ("blocked", "too slow"),
        ("postponed", "slept"),
        ("outside", "here"),
    ],
)
def test_code_gives_up_when_its_time_is_over(way: str, reply: str, tmp_path: Path) -> None:
    scenario = f"""
    agents: {{desk: {{model: gpt-5}}}}
    turns: [{{user: hi, replies: {{desk: Hello.}}, expect: {{reply: {reply}}}}}]
    """

    hold(f"giving_up:{way}", dedent(scenario), tmp_path)


class _Proactor:
    """A loop as of Windows, which waits by another way than a selector."""

    _selector = object()


def test_a_loop_that_does_not_show_its_sockets_may_wait_for_one() -> None:
    loop: Any = _Proactor()

    assert waits_outside(loop)


@pytest.mark.parametrize(("latency_ms", "reply"), [(10_000, "too slow"), (4_000, "More.")])
def test_an_answer_that_comes_too_late_is_not_waited_for(
    latency_ms: int, reply: str, tmp_path: Path
) -> None:
    scenario = f"""
    agents: {{desk: {{model: gpt-5}}}}
    turns:
    - user: hi
      replies: {{desk: [Hello., {{text: More., latency_ms: {latency_ms}}}]}}
      expect: {{reply: {reply}}}
    """

    hold("giving_up:timeout", dedent(scenario), tmp_path)


THREADS = ("future", "completion", "futures", "queued", "event", "semaphore", "end", "timer")
OWN = {"timeout": "look_in_loop", "scope": "look_in_loop", "thread": "look"}
"""Ways of calling an own tool, and its name."""
FRAMEWORKS = {
    "steps": ("too slow", "{result: here}"),
    "steps_in_loop": ("too slow", "{error: CancelledError}"),
    "openai_agents": ("Done.", "{result: {$contains: timed out}}"),
    "pydantic_ai": ("Done.", "{error: {$contains: Timed out}}"),
}
"""Way to the reply if a tool takes too long, and the tool's call.

A thread of LangGraph's works on, and the step waits for it.
"""


def waited(way: str, turns: str) -> None:
    """Run an application that waits 5 s for something; each line is a turn, and holds."""
    rule = "" if way in FRAMEWORKS else "agents: {desk: {model: gpt-5}}\n"
    tools = f", tools: {{{OWN[way]}: 'timed_waits:{OWN[way]}'}}" if way in OWN else ""
    check_app(f"timed_waits:{way}", f"app: {{path: [.]{tools}}}\n{rule}turns:\n{turns}")


@pytest.mark.parametrize("way", THREADS)
def test_a_thread_waits_no_longer_than_it_wants_in_virtual_time(way: str) -> None:
    line = '- {user: "SECONDS", replies: {desk: Hello.}, expect: {reply: WHAT}}\n'

    waited(
        way,
        line.replace("SECONDS", "4").replace("WHAT", "in time")
        + line.replace("SECONDS", "8").replace("WHAT", "too slow"),
    )


@pytest.mark.parametrize("way", OWN)
def test_a_tool_takes_the_time_that_its_result_has(way: str) -> None:
    result = f"tool_results: {{{OWN[way]}: {{returns: here, latency_ms: MS}}}}"
    line = f"- {{user: hi, replies: {{desk: Hello.}}, {result}, expect: {{reply: WHAT}}}}\n"

    waited(
        way,
        line.replace("MS", "4000").replace("WHAT", "here")
        + line.replace("MS", "8000").replace("WHAT", "too slow"),
    )


@pytest.mark.parametrize("way", FRAMEWORKS)
def test_a_framework_gives_a_tool_the_time_that_it_has(way: str) -> None:
    reply, call = FRAMEWORKS[way]
    last = ", Done." if reply == "Done." else ""

    waited(
        way,
        f"""
- user: One
  replies: {{desk: [{{calls: {{look: {{order: A}}}}}}, Done.]}}
  tool_results: {{look: {{returns: here, latency_ms: 4000}}}}
  expect: {{reply: Done., tool_calls: [{{tool: look, result: here}}]}}
- user: Two
  replies: {{desk: [{{calls: {{look: {{order: A}}}}}}{last}]}}
  tool_results: {{look: {{returns: here, latency_ms: 8000}}}}
  expect: {{reply: {reply}, tool_calls: [{call}]}}
""",
    )


@pytest.mark.slow
def test_a_wait_that_nobody_ends_is_over_at_once_in_virtual_time(tmp_path: Path) -> None:
    ways = [
        "in_loop",
        "beside_loop",
        "event",
        "condition",
        "semaphore",
        "barrier",
        "queue",
        "future",
        "timer",
        "polled",
        "joined",
    ]
    turns = "".join(f"- {{user: {way}, expect: {{reply: '8'}}}}\n" for way in (*ways, "joined"))
    head = f"version: 1\nscenario: waits\npipeline: lone_waits:run\napp: {{path: ['{APPS}']}}\n"
    file = tmp_path / "waits.scenario.yaml"
    file.write_text(f"{head}turns:\n{turns}", encoding="utf-8")

    done = run_python("-m", "simkit", "replay", str(file), folder=tmp_path)

    assert done.returncode == 0, done.stdout
