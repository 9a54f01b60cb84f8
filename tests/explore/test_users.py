"""Users answer the questions of frameworks in the form that these want."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Final

import pytest

from simkit.explore.users import answer_to
from tests.cli.projects import Call, write

ACTION: Final = {"name": "pay", "args": {"amount": 3}}
REVIEW: Final = {
    "action_requests": [ACTION, {"name": "look", "args": {}}],
    "review_configs": [
        {"action_name": "pay", "allowed_decisions": ["approve", "edit", "reject"]},
        {"action_name": "look", "allowed_decisions": ["reject"]},
    ],
}


def chosen(place: int) -> Any:
    """Chooses the value at an index, or the last one."""

    def one_of(values: Sequence[Any]) -> Any:
        return values[min(place, len(values) - 1)]

    return SimpleNamespace(one_of=one_of)


@pytest.mark.parametrize(
    ("place", "decision"),
    [
        (0, {"type": "approve"}),
        (1, {"type": "reject", "message": "No."}),
        (2, {"type": "edit", "edited_action": ACTION}),
    ],
)
def test_each_call_under_review_gets_a_decision_that_it_allows(
    place: int, decision: dict[str, Any]
) -> None:
    answer = answer_to({"desk": [REVIEW]}, chosen(place))

    assert answer == {"decisions": [decision, {"type": "reject", "message": "No."}]}


def test_an_inbox_gets_what_its_request_allows() -> None:
    config = {"allow_ignore": True, "allow_respond": True, "allow_accept": False}
    request = {"action_request": {"action": "joke", "args": {}}, "config": config}

    answers = [answer_to([request], chosen(place)) for place in (0, 1)]

    assert answers == [
        [{"type": "ignore", "args": None}], [{"type": "response", "args": "Yes."}]
    ]  # fmt: skip


@pytest.mark.parametrize("question", ["Sure?", None, {"action_requests": 3}, [], [{"a": 1}]])
def test_any_other_question_is_answered_with_a_text(question: Any) -> None:
    assert answer_to(question, chosen(0)) == "Yes."


REVIEWED = """
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver


def pay(amount: int) -> str:
    "Pay."
    return f"Paid {amount}."


graph = create_agent(
    ChatOpenAI(model="gpt-5-mini"),
    [pay],
    middleware=[HumanInTheLoopMiddleware(interrupt_on={"pay": True})],
    checkpointer=InMemorySaver(),
)
"""
ASKING = """
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt


def node(state):
    return {"messages": [("ai", interrupt("Sure?")["words"])]}


graph = StateGraph(MessagesState).add_node(node).add_edge(START, "node")
graph = graph.compile(checkpointer=InMemorySaver())
"""


@pytest.mark.slow
def test_calls_of_langchains_agents_are_reviewed(simkit: Call) -> None:
    pytest.importorskip("langchain")
    pytest.importorskip("langchain_openai")
    write("reviewed_desk.py", REVIEWED)

    done = simkit("explore", "reviewed_desk:graph", "--runs", "25")

    # A message while the review waits leaves LangChain's call without an answer (langchain 1.4).
    assert (done.code, done.err) == (1, ""), done.out
    assert "1 of 1 tool" in done.out
    assert done.out.count("FOUND") == 1
    assert "CTX-02: agent 'agent' is sent 1 tool call without an answer" in done.out


@pytest.mark.slow
def test_a_guessed_answer_that_fails_is_no_finding(simkit: Call) -> None:
    pytest.importorskip("langgraph")
    write("asking_desk.py", ASKING)

    done = simkit("explore", "asking_desk:graph", "--runs", "5")

    assert done.code == 2
    assert "NOT EXPLORED  error: turn 2 ended with error FunctionFailed" in done.out
    assert "Nothing says how users answer this question" in done.out
    assert "FOUND" not in done.out
