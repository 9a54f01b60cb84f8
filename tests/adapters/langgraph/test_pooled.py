"""What LangChain does in threads is in the order in which it was begun."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

if find_spec("langgraph") is None:
    pytest.skip("langgraph is not installed", allow_module_level=True)

from tests.adapters.running import run_app


def test_chains_beside_each_other_ask_in_their_order() -> None:
    ran = run_app(
        "langgraph_pooled:pro_and_con",
        """
        app: {path: [.], fresh: true}
        agents: {pro: pro, con: con}
        turns: [{user: Tea, replies: {pro: Wakes., con: Stains.}}]
        """,
    )

    assert [finding.what for finding in ran.judgement.findings] == []
    assert [call.agent for call in ran.view.calls.values()] == ["pro", "con"]


@pytest.mark.skipif(find_spec("langchain_openai") is None, reason="langchain-openai is missing")
def test_an_answer_is_read_where_it_was_awaited() -> None:
    ran = run_app(
        "langgraph_read:graph",
        """
        app: {path: [.], fresh: true}
        turns: [{user: Hi, replies: {ask: Hello.}}]
        """,
    )

    assert ran.view.turns[0].reply == "here"
