"""What an application needs beside its models is told, and is no finding of its code."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cli.conftest import process as process
from tests.cli.conftest import project as project
from tests.cli.conftest import simkit as simkit
from tests.cli.projects import Done, write

Call = Callable[..., Done]
ASK: str = """
import simkit
import openai

def ask(text, **options):
    with simkit.agent("desk"):
        return openai.OpenAI().responses.create(model="m", input=text, **options)
"""


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_refused_request_is_no_finding(process: Call) -> None:
    write("searching.py", NETWORK)

    done = process("explore", "searching:answer", "--runs", "3")

    assert done.code == 2
    assert "NOT EXPLORED" in done.out
    assert "FOUND" not in done.out
    # The commands by which it was started are no code of the user's.
    assert "in <module>" not in done.out


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_search_by_gemini_is_cited(simkit: Call) -> None:
    write("grounding.py", GEMINI)

    done = simkit("explore", "grounding:answer", "--runs", "10")

    assert done.code == 1
    assert "AssertionError" in done.out


@pytest.mark.slow
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
