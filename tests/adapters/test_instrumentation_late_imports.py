"""Frameworks that code imports while it runs are seen as if it had imported them at its top."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from textwrap import dedent
from typing import Final

import pytest

from simkit.adapters.instrumentation import watching_imports
from tests.cli.projects import run_simkit
from tests.conftest import IS_NIGHTLY, sample_by_day
from tests.processes import run_python

PARTS: Final = {
    "agents": (
        """
        from agents import Agent, Runner, function_tool

        @function_tool
        def find(order: str) -> str:
            "Find an order."
            return "not scripted"

        billing = Agent(name="Billing", instructions="You bill")
        triage = Agent(name="Triage", instructions="You sort", tools=[find], handoffs=[billing])

        def answer(text):
            return Runner.run_sync(triage, text).final_output
        """,
        """
        turns:
          - user: Hi
            replies:
              Triage: [{calls: [find: {order: A-1}]}, {handoff: {to: Billing}}]
              Billing: Hello
            tool_results: {find: scripted}
            expect:
              reply: Hello
              agents: [Triage, Billing]
              tool_calls: [{agent: Triage, tool: find, result: scripted}]
        """,
    ),
    "langgraph": (
        """
        from typing import TypedDict

        from langchain_openai import ChatOpenAI
        from langgraph.graph import START, StateGraph

        class State(TypedDict):
            text: str
            count: int

        def writer(state):
            said = ChatOpenAI(model="gpt-4.1").invoke([("system", "You write"), state["text"]])
            return {"text": said.content, "count": 1}

        builder = StateGraph(State)
        builder.add_node("writer", writer)
        builder.add_node("checker", lambda state: {"count": 2})
        builder.add_edge(START, "writer")
        builder.add_edge("writer", "checker")
        graph = builder.compile()

        def answer(text):
            return graph.invoke({"text": text})["text"]
        """,
        """
        turns:
          - user: Hi
            replies: {writer: Hello}
            expect: {reply: Hello, agents: [writer, checker], state: {count: 2}}
        """,
    ),
    "pydantic_ai": (
        """
        from pydantic_ai import Agent

        helper = Agent("openai:gpt-4.1", name="helper", instructions="You help", output_type=bool)

        def answer(text):
            return f"It is {helper.run_sync(text).output}."
        """,
        """
        turns:
          - user: Hi
            replies: {helper: {json: {response: true}}}
            expect: {reply: It is True., runs: {helper: {output: true}}, tool_calls: []}
        """,
    ),
    "plain": (
        """
        from openai import OpenAI

        def answer(text):
            messages = [("system", "You chat"), ("user", text)]
            made = OpenAI().chat.completions.create(
                model="gpt-4.1", messages=[{"role": one, "content": said} for one, said in messages]
            )
            return made.choices[0].message.content
        """,
        """
        agents: {chat: {system: {$starts: You chat}}}
        turns: [{user: Hi, replies: {chat: Hello}, expect: {reply: Hello}}]
        """,
    ),
}
"""By framework: an application, and what a scenario says of it."""

DRIVERS: Final = {
    "in_function": "from parts_{part} import answer\n\n    return answer(text)",
    "by_text": "from importlib import import_module as get\n\n"
    "    return get('parts_' + '{part}').answer(text)",
}
NEEDED: Final = ("agents", "langgraph", "langchain_openai", "pydantic_ai", "openai")

pytestmark = pytest.mark.skipif(
    not all(find_spec(name) for name in NEEDED), reason=f"needs {', '.join(NEEDED)}"
)


def write(folder: Path, part: str, how: str) -> str:
    """Write an application, a driver that imports it late and a scenario; return its file."""
    code, scenario = map(dedent, PARTS[part])
    (folder / f"parts_{part}.py").write_text(code, encoding="utf-8")
    driver = f"def ask(text):\n    {DRIVERS[how].format(part=part)}\n"
    (folder / f"late_{part}_{how}.py").write_text(driver, encoding="utf-8")
    file = folder / f"{part}_{how}.scenario.yaml"
    head = f"version: 1\nscenario: {part}\npipeline: late_{part}_{how}:ask\napp: {{path: [.]}}\n"
    file.write_text(head + scenario, encoding="utf-8")
    return str(file)


@pytest.mark.slow
@pytest.mark.parametrize(("part", "how"), sample_by_day(product(PARTS, DRIVERS), 5))
def test_what_is_imported_late_is_seen_in_a_process_of_its_own(
    tmp_path: Path, part: str, how: str
) -> None:
    done = run_simkit("replay", "-q", write(tmp_path, part, how))

    assert done.code == 0, done.out


@pytest.mark.slow
def test_a_run_is_the_same_alone_and_after_every_other(tmp_path: Path) -> None:
    files = [write(tmp_path, part, how) for part in PARTS for how in DRIVERS]
    # Whoever comes first is alone: what the others do comes after it.
    firsts = range(0, len(files), 1 if IS_NIGHTLY else 4)

    digests = [_digests(files[place:] + files[:place]) for place in firsts]

    assert digests == [digests[0]] * len(digests)


def _digests(files: list[str]) -> dict[str, str]:
    done = run_python("-m", "tests.digests", *files)
    texts_by_name: dict[str, str] = json.loads(done.stdout)["digests"]
    return texts_by_name


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package that stands among the installed ones, with a module in it."""
    folder = tmp_path / "site-packages" / "late_frame"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("from late_frame import core\n", encoding="utf-8")
    (folder / "core.py").write_text("made = object()\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder.parent))
    yield "late_frame"
    for name in ("late_frame", "late_frame.core"):
        sys.modules.pop(name, None)


def test_a_package_is_told_before_any_of_it_is_imported_and_is_one_module(package: str) -> None:
    pairs: list[tuple[str, bool]] = []

    def imported(name: str) -> None:
        pairs.append((name, name in sys.modules))
        importlib.import_module(f"{name}.core")

    with watching_imports([package], imported):
        core = importlib.import_module(f"{package}.core")
        whole = importlib.import_module(package)

    assert pairs == [(package, False)]
    assert whole.core is core is sys.modules[f"{package}.core"]
    assert whole.__spec__ is not None
    assert whole.__spec__.origin == whole.__file__


def test_nobody_is_told_once_the_watch_is_over(package: str) -> None:
    texts: list[str] = []
    finders = [*sys.meta_path]

    with watching_imports([package], texts.append):
        pass
    importlib.import_module(package)

    assert texts == []
    assert sys.meta_path == finders


def test_a_users_package_of_a_frameworks_name_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_frame.py").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    texts: list[str] = []

    with watching_imports(["own_frame"], texts.append):
        importlib.import_module("own_frame")

    assert texts == []
    sys.modules.pop("own_frame")
