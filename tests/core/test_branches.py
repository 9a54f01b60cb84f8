"""A tool call of one of several parallel agents belongs to the agent that made it."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.core.branches import Branch
from tests.adapters.running import run_app

HEAD = """
    import asyncio
    import contextvars
    import threading
    from concurrent.futures import ThreadPoolExecutor
    from openai import AsyncOpenAI, OpenAI

    def search(query):
        raise NotImplementedError

    async def seek(query):
        raise NotImplementedError

    def prompt(name, text):
        return {"model": "m", "messages": [
            {"role": "system", "content": "You are " + name}, {"role": "user", "content": text}]}

    def answer(name, text):
        reply = OpenAI().chat.completions.create(**prompt(name, text))
        return search(reply.choices[0].message.content)

    async def ask(name, text):
        reply = await AsyncOpenAI().chat.completions.create(**prompt(name, text))
        return reply.choices[0].message.content

    async def work(name, text):
        return await seek(await ask(name, text))

    async def apart(name, text):
        query = await asyncio.create_task(ask(name, text))
        return (await asyncio.gather(seek(query)))[0]
"""

WAYS = {
    "gather": """
        async def run(text):
            return ",".join(await asyncio.gather(work("a", text), work("b", text), work("c", text)))
    """,
    "gather of tasks of tasks": """
        async def run(text):
            return ",".join(await asyncio.gather(*(apart(name, text) for name in "abc")))
    """,
    "group of tasks": """
        async def run(text):
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(apart(name, text)) for name in "abc"]
            return ",".join(task.result() for task in tasks)
    """,
    "contexts of their own": """
        async def run(text):
            tasks = [asyncio.create_task(work(name, text), context=contextvars.copy_context())
                     for name in "abc"]
            return ",".join([await task for task in tasks])
    """,
    "threads": """
        def run(text):
            found = {}
            def keep(name):
                found[name] = answer(name, text)

            threads = [threading.Thread(target=keep, args=(name,)) for name in "abc"]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return ",".join(found[name] for name in "abc")
    """,
    "a pool": """
        def run(text):
            with ThreadPoolExecutor(2) as pool:
                return ",".join(pool.map(lambda name: answer(name, text), "abc"))
    """,
    "threads of a loop": """
        async def run(text):
            return ",".join(await asyncio.gather(
                *(asyncio.to_thread(answer, name, text) for name in "abc")))
    """,
    "one after the other": """
        async def run(text):
            return ",".join([await work(name, text) for name in "abc"])
    """,
}


SCENARIO = """
    app: {path: [.], tools: {search: "branched:search", seek: "branched:seek"}}
    agents: {a: {system: You are a}, b: {system: You are b}, c: {system: You are c}}
    turns:
      - user: go
        replies: {a: for a, b: for b, c: for c}
        tool_results: {WAY: [A, B, C]}
"""


@pytest.mark.parametrize("way", WAYS)
def test_parallel_agents_own_tool_calls_are_their_own(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = "seek" if "async" in WAYS[way] and "to_thread" not in WAYS[way] else "search"
    module = f"branched_{len(way)}"
    (tmp_path / f"{module}.py").write_text(dedent(HEAD) + dedent(WAYS[way]))
    monkeypatch.syspath_prepend(tmp_path)

    text = SCENARIO.replace("WAY", tool).replace("branched", module)
    ran = run_app(f"{module}:run", text, tmp_path)

    tools = ran.view.turns[0].tools
    assert sorted((call.agent, call.args["query"]) for call in tools) == [
        ("a", "for a"), ("b", "for b"), ("c", "for c"),
    ]  # fmt: skip


def test_an_agent_that_another_branch_asked_is_not_known_here() -> None:
    turn = Branch()
    first, second = Branch(turn), Branch(turn)
    runs = ["A", "B"]

    first.ask("A")
    second.ask("B")

    assert [first.run_of(runs), second.run_of(runs), turn.run_of(runs)] == ["A", "B", None]
    assert Branch(first).run_of(runs) == "A"
    assert Branch(turn).run_of(runs) is None


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=30))
def test_side_by_side_each_branch_keeps_its_own_run(steps: list[tuple[int, bool]]) -> None:
    turn, runs = Branch(), [object() for _ in range(5)]
    branches = [Branch(turn) for _ in runs]
    places_met = set[int]()
    for place, is_inner in steps:
        branch = branches[place]
        (Branch(branch) if is_inner else branch).ask(runs[place])
        places_met.add(place)

        expected = [run if k in places_met else None for k, run in enumerate(runs)]
        assert [branch.run_of(runs) for branch in branches] == expected
        assert turn.run_of(runs) is (runs[place] if len(places_met) == 1 else None)


def test_after_branches_the_next_one_is_known_again() -> None:
    turn = Branch()
    first, second = Branch(turn), Branch(turn)
    first.ask("A")
    second.ask("B")

    Branch(turn).ask("C")

    assert turn.run_of(["A", "B", "C"]) == "C"
