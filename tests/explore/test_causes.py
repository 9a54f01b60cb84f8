"""What an application needs beside its models, such as the network, is told, and is no finding."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simkit import explore
from simkit.explore.causes import NO_PAST
from simkit.explore.shrinking import Shrinker
from tests.adapters.running import APPS
from tests.cli.projects import Call, write

pytestmark = pytest.mark.slow

DESK = """
import json
import socket
import urllib.request

import simkit
from openai import OpenAI

TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("search", "dial")
]


def fetch(url):
    return urllib.request.urlopen(url).read().decode()


def search():
    return fetch("http://search.example/")


def dial():
    return str(socket.create_connection(("dial.example", 5432)))


def answer(text):
    messages = [{"role": "user", "content": text}]
    for _ in range(9):
        with simkit.agent("desk"):
            reply = OpenAI().chat.completions.create(
                model="m", messages=messages, tools=TOOLS
            ).choices[0].message
        if not reply.tool_calls:
            return reply.content
        messages.append(reply.model_dump(exclude_none=True))
        for call in reply.tool_calls:
            result = globals()[call.function.name](**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


def at_once(text):
    return fetch("http://rates.example/")
"""
NATIVE = """
pipeline: desk
agents: {desk: {instructions: Search., tools: [search], context: [instructions, current_message]}}
tools: {search: {args: {type: object}, function: network_desk:search}}
flow: {handoffs: {start: desk}}
---
simulation: the desk searches
pipeline: desk
"""


def lines_after(out: str, start: str) -> list[str]:
    """Return the lines below the first one that begins like this, up to the next empty one."""
    lines = out.partition(start)[2].splitlines()[1:]
    return [line.removeprefix("         ") for line in lines[: lines.index("")]]


def test_the_lines_that_are_printed_let_it_be_explored(simkit: Call) -> None:
    write("network_desk.py", DESK)

    done = simkit("explore", "network_desk:answer", "--runs", "30")

    assert done.code == 2
    assert "FOUND" not in done.out
    assert not Path("found").exists()
    assert (
        "  NOT EXPLORED  tool 'search' needs the network, which is refused: network_desk.py:"
        in (done.out)
    )
    assert "  NOT EXPLORED  tool 'dial' needs the network, which is refused: " in done.out
    lines = done.out.partition("*.simulation.yaml:\n")[2].partition("\n\n")[0].splitlines()
    write("a.simulation.yaml", "\n".join(line.removeprefix(" " * 11) for line in lines))
    answered = simkit("explore", "a.simulation.yaml", "--runs", "30")
    assert answered.code == 0, answered.out
    assert "reached 1 of 1 agent, 2 of 2 tools" in answered.out


FRAMEWORK = """
import urllib.request

from agents import Agent, function_tool


@function_tool
def search_flights(city: str) -> str:
    \"\"\"Search flights.\"\"\"
    return urllib.request.urlopen(f"http://flights.example/{city}").read().decode()


app = Agent(name="desk", instructions="Book.", model="gpt-5-mini", tools=[search_flights])
"""


def test_a_tool_of_a_framework_that_needs_the_network_is_answered_and_said(simkit: Call) -> None:
    write("flights.py", FRAMEWORK)

    done = simkit("explore", "flights:app", "--runs", "10", "--format", "json")

    answer = json.loads(done.out)
    assert done.code == 0, done.out
    assert answer["subjects"][0]["not_explored"] == []
    assert answer["subjects"][0]["reached"]["tool"] == [1, 1]
    note = "`search_flights`: needs the network, so it answers `Done.` without running"
    assert note in done.out + done.err


def test_an_application_without_a_past_is_a_note_and_no_conversation_is_made_small_for_it(
    simkit: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Shrinker, "shrink", lambda *_: pytest.fail("made small"))
    (Path.cwd() / "unasked_code.py").symlink_to(APPS / "unasked_code.py")

    done = simkit("explore", "unasked_code:Memory", "--runs", "10")

    assert f"\n  NOTE   {NO_PAST} (1 run)\n" in done.out
    assert done.out.endswith("nothing was found: no error, no lint, no limit\n")
    assert done.code == 0


def test_a_part_that_is_no_tool_is_told_apart(simkit: Call) -> None:
    write("network_desk.py", DESK)

    done = simkit("explore", "network_desk:at_once", "--runs", "30")

    assert done.code == 2
    assert "each of them ends in its first turn, before a model is asked" in done.out
    assert "  NOT EXPLORED  the pipeline needs the network, which is refused: network_desk.py:" in (
        done.out
    )
    assert done.out.endswith("nothing else was found: no error, no lint, no limit\n")
    assert "or allow the host: `allow_hosts: [rates.example]`." in done.out


def test_a_tool_of_a_declared_pipeline_is_no_bug_either(simkit: Call) -> None:
    write("network_desk.py", DESK)
    write("a.simulation.yaml", NATIVE)

    done = simkit("explore", "a.simulation.yaml", "--runs", "30")
    result = explore("a.simulation.yaml", runs=30)

    assert done.code == 2
    assert lines_after(done.out, "NOT EXPLORED")[1:] == [
        "Let the simulation answer in its place, in a.simulation.yaml:",
        "  tools: {search: {returns: Found.}}",
    ]
    assert (result.passed, result.findings) == (False, ())
    (part,) = result.refused
    assert part.startswith("tool 'search' needs the network, which is refused: network_desk.py:")
    assert f"not explored: {part}" in str(result)
    write("a.simulation.yaml", f"{NATIVE}tools: {{search: {{returns: Found.}}}}\n")
    assert simkit("explore", "a.simulation.yaml", "--runs", "30").code == 0
    assert explore("a.simulation.yaml", runs=30).passed


def test_a_test_of_pytest_fails_with_the_lines(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(network_desk=DESK)
    pytester.makefile(".simulation.yaml", a=NATIVE)

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "not explored: tool 'search' needs the network, which is refused: network_desk.py:*",
            "  tools: {search: {returns: Found.}}",
        ]
    )


ASK: str = """
import simkit
import openai

def ask(text, **options):
    with simkit.agent("desk"):
        return openai.OpenAI().responses.create(model="m", input=text, **options)
"""


@pytest.mark.parametrize("folder", ["src/", "lib/", ""])
def test_code_is_found_where_a_scenario_finds_it(folder: str, simkit: Call) -> None:
    write("pyproject.toml", "[project]\nname = 'shop'\n")
    package = f"shop_{folder.strip('/') or 'flat'}"
    write(f"{folder}{package}/__init__.py", "")
    write(
        f"{folder}{package}/desk.py", f"{ASK}\ndef answer(text):\n    return ask(text).output_text"
    )

    done = simkit("explore", f"{package}.desk:answer", "--runs", "2")

    assert (done.code, done.err) == (0, ""), done.out


NETWORK: str = f"""{ASK}
import asyncio
import httpx

class Search:
    async def find(self, text):
        async with httpx.AsyncClient() as client:
            return (await client.get("https://search.example/", params={{"q": text}})).text

async def answer(text):
    found = await asyncio.gather(Search().find(text))
    return ask(found[0]).output_text
"""


def test_a_refused_request_is_no_finding(process: Call) -> None:
    write("searching.py", NETWORK)

    done = process("explore", "searching:answer", "--runs", "3")

    assert done.code == 2
    assert "NOT EXPLORED" in done.out
    assert "FOUND" not in done.out
    # The commands by which it was started are no code of the user's.
    assert "in <module>" not in done.out


def test_a_method_of_a_client_is_stood_in_for(simkit: Call) -> None:
    write("searching_by_client.py", NETWORK)
    simulation = """
simulation: it finds
pipeline: searching_by_client:answer
app: {tools: {find: "searching_by_client:Search.find"}}
users: {ada: {says: [Hello]}}
tools: {find: {returns: A page.}}
"""
    write("it.simulation.yaml", simulation)

    done = simkit("explore", "it.simulation.yaml", "--runs", "3")

    assert (done.code, done.err) == (0, ""), done.out


GEMINI: str = """
import simkit
import httpx

URL = "https://generativelanguage.googleapis.com/v1beta/models/gemini-3:generateContent"


def answer(text):
    contents = [{"role": "user", "parts": [{"text": text}]}]
    with simkit.agent("desk"):
        reply = httpx.post(URL, json={"contents": contents, "tools": [{"google_search": {}}]})
    assert "groundingMetadata" not in reply.json()["candidates"][0]
"""


def test_a_search_by_gemini_is_cited(simkit: Call) -> None:
    write("grounding.py", GEMINI)

    done = simkit("explore", "grounding:answer", "--runs", "10")

    assert done.code == 1
    assert "AssertionError" in done.out


def test_a_search_of_the_providers_own_is_cited_or_not(simkit: Call) -> None:
    """Both happen: a reply that cites no page, and one that does."""
    for number, check in enumerate(("assert pages", "assert not pages")):
        reply = "reply = ask(text, tools=[{'type': 'web_search'}])"
        pages = "pages = reply.output[-1].content[0].annotations"
        body = "\n    ".join([reply, pages, check, "return reply.output_text"])
        write(f"citing_{number}.py", f"{ASK}\ndef answer(text):\n    {body}")

        done = simkit("explore", f"citing_{number}:answer", "--runs", "20", "--to", f"to{number}")

        assert done.code == 1
        assert done.out.count("FOUND") == 1
        assert "AssertionError" in done.out
        again = simkit("replay", f"to{number}")
        assert again.code == 1
        assert "AssertionError" in again.out
