"""Rules of the research assistant that relate one part of a conversation to another.

Each takes the trace's view, and returns true or what is wrong. The numbers are those of the rules.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from simkit.trace.views import RunView, TurnView, View

WINDOW = 10
START: dict[str, Any] = {
    "next_agent": "orchestrator",
    "last_agent": None,
    "clarification_needed": False,
    "clarification_count": 0,
    "missing_context": [],
    "context": {},
    "iteration": 0,
    "final_answer": None,
    "confidence_score": None,
}
"""The values at the beginning (189)."""
OF_TURN = ("next_agent", "final_answer", "confidence_score")
"""What begins anew with each turn: the last answer is not that of the next question (213)."""


def each_run_receives_and_leaves_the_documents_state(view: View) -> bool | str:
    """182-200, 206-212: the state of every session, from run to run and turn to turn."""
    sessions: dict[str, dict[str, Any]] = {}
    for turn in view.turns:
        state = sessions.setdefault(turn.session, dict(START))
        state.update({channel: START[channel] for channel in OF_TURN})
        expected = "orchestrator"
        for run in turn.runs:
            if run.agent != expected:
                return f"{run.agent} runs after {state['last_agent']}, not {expected}"
            wrong = _difference(state, run.received) or _messages_before(turn, run)
            if wrong:
                return f"{run.agent} receives {wrong}"
            _leave(state, turn, run)
            expected = state["next_agent"]
        if expected != "END":
            return f"{expected} does not run"
        wrong = _difference(state, turn.state)
        if wrong:
            return f"turn {turn.number} leaves {wrong}"
        answer = turn.runs[-1].message
        if answer is not None and turn.reply not in (answer.content, answer.data):
            return f"the turn's reply is {turn.reply}"
    return True


def _difference(expected: dict[str, Any], state: Any) -> str:
    for channel, value in expected.items():
        if channel not in state or state[channel] != value:
            return f"{channel} {state.get(channel)!r}, not {value!r}"
    return "" if state.get("session_id") == "abc123" else "no session_id"


def _leave(state: dict[str, Any], turn: TurnView, run: RunView) -> None:
    """Write to the state what the document says that a run leaves."""
    state["last_agent"] = run.agent
    state["iteration"] += 1
    if run.agent == "orchestrator":
        _decide(state, turn, run)
    elif run.agent == "clarification":
        state["next_agent"] = "END"
    elif run.agent == "research":
        called = [call.name for message in run.messages for call in message.calls]
        state["context"] = {
            "observations": [f"Used tool: {called[0]}"] if called else [],
            "tool_history": called,
            "final_output": run.messages[-1].content,
        }
        state["next_agent"] = "synthesis"
    else:
        state["final_answer"] = run.output["answer"]
        state["confidence_score"] = run.output["confidence"]
        state["next_agent"] = "END"


def _decide(state: dict[str, Any], turn: TurnView, run: RunView) -> None:
    said = run.received["messages"]
    is_answer = len(said) > 1 and said[-2].agent == "clarification" and said[-1].role == "user"
    if state["clarification_needed"] and is_answer:
        # 196, 197: the answer to a clarification needs no decision.
        state.update(next_agent="research", clarification_needed=False)
        state.update(clarification_count=0, missing_context=[])
        assert not run.calls, "the orchestrator's model decides about an answer"
        return
    assert len(run.calls) == 1, "the orchestrator's model is not asked"
    reply = run.messages[-1].content
    if "CLARIFICATION" not in reply:
        state.update(next_agent="research", clarification_needed=False)
        return
    state["next_agent"], state["clarification_needed"] = "clarification", True
    state["clarification_count"] += 1
    if isinstance(run.output, dict):
        state["missing_context"] = run.output["missing"]


def _messages_before(turn: TurnView, run: RunView) -> str:
    """Return what is wrong with the messages that a run receives (181, 195, 204, 211, 212)."""
    assert turn.message is not None
    expected = [message.content for message in turn.state_before["messages"]]
    expected.append(turn.message.content)
    for other in turn.runs:
        if other is run:
            break
        if other.agent in ("clarification", "research"):
            expected.append(other.messages[-1].content)
    received = [message.content for message in run.received["messages"]]
    return "" if received == expected else f"the messages {received}, not {expected}"


def _first_calls(view: View) -> Iterator[tuple[RunView, Any]]:
    for turn in view.turns:
        yield from ((run, call.context) for run in turn.runs for call in run.calls)


def agents_read_the_last_ten_messages(view: View) -> bool | str:
    """179, 202, 203: the last ten, the query last; for the orchestrator as one text."""
    for run, context in _first_calls(view):
        last = run.received["messages"][-WINDOW:]
        expected = [message.content for message in last]
        if run.agent == "orchestrator":
            words = {"user": "User", "assistant": "AI"}
            expected = ["\n".join(f"{words[m.role]}: {m.content}" for m in last)]
        history = [message.content for message in context.section("history")]
        if run.agent != "synthesis" and history != expected:
            return f"{run.agent} reads {history}, not {expected}"
        missing = run.received["missing_context"]
        shown = " ".join(part.content for part in context.section("shared"))
        if run.agent == "clarification" and not all(part in shown for part in missing):
            return f"clarification is not told that {missing} is missing"
    return True


def synthesis_reads_the_research_and_the_question(view: View) -> bool | str:
    """136, 138, 188: what research stored, as JSON in its prompt, and the user's question."""
    for turn in view.turns:
        for run in turn.runs:
            for call in run.calls if run.agent == "synthesis" else ():
                system, *rest = call.context.messages
                assert turn.message is not None
                if [message.content for message in rest] != [turn.message.content]:
                    return f"synthesis reads {[message.content for message in rest]}"
                start, end = system.content.find("{"), system.content.rfind("}")
                if (
                    start < 0
                    or json.loads(system.content[start : end + 1]) != turn.state["context"]
                ):
                    return f"synthesis is told {system.content}"
    return True


def an_interrupt_waits_for_its_answer(view: View) -> bool | str:
    """194-196: the question ends the turn, its answer resumes the agent, and research follows."""
    waits, ended = "", None
    steps = {"clarification": "research", "research": "synthesis", "synthesis": ""}
    for turn in view.turns:
        agents = [run.agent for run in turn.runs]
        if (
            waits
            and turn.resumes is not None
            and any(call.agent == "orchestrator" for call in turn.calls)
        ):
            return "the orchestrator's model is asked about an answer"
        waits = str(turn.interrupt) if turn.interrupt is not None else ""
        last = turn.runs[-1].agent if turn.runs else "clarification"
        if waits and last != "clarification":
            return f"{last} waits for the user"
        if not waits and (
            last != "synthesis" or turn.state["final_answer"] != turn.runs[-1].output
        ):
            return f"{agents} ran, and the answer is {turn.state['final_answer']}"
        if not waits and (turn.state["next_agent"], turn.state["last_agent"]) != ("END", last):
            return f"{turn.state['next_agent']} is next, and {turn.state['last_agent']} was last"
        start = turn.runs[0].received["last_agent"] if turn.resumes is None and turn.runs else None
        if start != (ended if turn.resumes is None else None):
            return f"the last agent of the turn before was {start}, not {ended}"
        ended = turn.state["last_agent"]
        for before, after in pairwise(agents):
            if before in steps and steps[before] != after:
                return f"{after} runs after {before}"
    return True
