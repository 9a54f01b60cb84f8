"""Tool functions that the code of parallel nodes calls belong to these nodes."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tests.adapters.running import run_app

GRAPHS = """
    import asyncio
    import operator
    from typing import Annotated, TypedDict
    from langchain_openai import ChatOpenAI
    from langgraph.graph import START, StateGraph
    from langgraph.types import Send

    model = ChatOpenAI(model="gpt-5-mini")

    class State(TypedDict, total=False):
        question: str
        found: Annotated[list[str], operator.add]

    async def seek(query):
        raise NotImplementedError

    def search(query):
        raise NotImplementedError

    def awaited(name):
        async def node(state):
            query = (await model.ainvoke(f"{name}: {state['question']}")).content
            return {"found": [await seek(query)]}
        return node

    def gathered(name):
        async def node(state):
            query = (await model.ainvoke(f"{name}: {state['question']}")).content
            return {"found": await asyncio.gather(seek(query))}
        return node

    def yielded(name):
        async def node(state):
            query = (await model.ainvoke(f"{name}: {state['question']}")).content
            yield {"found": [await seek(query)]}
        return node

    def plain(name):
        def node(state):
            return {"found": [search(model.invoke(f"{name}: {state['question']}").content)]}
        return node

    def inner(name):
        graph = StateGraph(State).add_node(name + "_inner", awaited(name))
        return graph.add_edge(START, name + "_inner").compile()

    def build(make, is_sent=False):
        graph = StateGraph(State)
        names = ["heart_agent", "sleep_agent"]
        for name in names:
            graph.add_node(name, make(name))
            if not is_sent:
                graph.add_edge(START, name)
        if is_sent:
            graph.add_conditional_edges(START, lambda state: [Send(n, state) for n in names], names)
        return graph.compile()

    WAYS = {name: build(globals()[name]) for name in ("awaited", "gathered", "yielded", "plain")}
    inside, sent = build(inner), build(awaited, is_sent=True)
    awaited_graph, gathered_graph, yielded_graph, plain_graph = WAYS.values()
"""


@pytest.mark.parametrize("way", ["awaited_graph", "gathered_graph", "yielded_graph", "plain_graph",
                                 "sent", "inside", "awaited_graph, call: astream"])  # fmt: skip
def test_a_tool_call_of_a_parallel_node_belongs_to_it(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, _, call = way.partition(", ")
    agents = [f"{part}_agent{'_inner' * (way == 'inside')}" for part in ("heart", "sleep")]
    tool, module = "search" if graph == "plain_graph" else "seek", "parallel_tools"
    (tmp_path / f"{module}.py").write_text(dedent(GRAPHS))
    monkeypatch.syspath_prepend(tmp_path)
    text = f"""
        app:
          path: [.]
          input: {{question: "${{user}}"}}
          output: found
          tools: {{{tool}: "{module}:{tool}"}}
          {call}
        turns:
          - user: tea
            replies: {{{agents[0]}: for the heart, {agents[1]}: for the sleep}}
            tool_results: {{{tool}: [H, S]}}
    """

    ran = run_app(f"{module}:{graph}", text, tmp_path)

    assert sorted((call.agent, call.args["query"]) for call in ran.view.turns[0].tools) == [
        (agents[0], "for the heart"), (agents[1], "for the sleep"),
    ]  # fmt: skip
