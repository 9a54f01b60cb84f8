"""Turns that end at a tool: before it does anything, or after its effect and before its result."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from simkit.checks.comparative_runs import resumed_differs
from simkit.core.errors import SourceError
from simkit.runtime.models.faults import tool_moment
from simkit.trace.events import ToolCalled, ToolReturned
from tests.adapters.running import run_app
from tests.building import Ran, run_yaml
from tests.session.execution.test_cut_turns import describe_findings, ends, faults, run_code

DESK: Final = """
version: 1
pipeline: p
channels: {used: {reducer: append, scope: session}}
agents:
  desk: {instructions: Help., tools: [look, refund], writes: {used: ["${run.tools_called}"]}}
tools:
  look: {}
  refund: {function: "cut_bank:refund", args: {type: object}}
flow: {handoffs: {start: desk}}
"""
BANK: Final = """
import asyncio
import os

import openai

client = openai.AsyncOpenAI(api_key="sk-test")


def balance():
    return open("paid.txt").read() if os.path.exists("paid.txt") else ""


def refund():
    with open("paid.txt", "a") as file:
        file.write("x")
    return "paid"


async def refund_later():
    return refund()


async def ask(text):
    messages = [{"role": "system", "content": "You are the desk."}]
    messages.append({"role": "user", "content": text})
    await client.chat.completions.create(model="gpt-5-mini", messages=messages)


async def not_the_same(text):
    with open("asked.txt", "a+") as file:
        file.write("x")
    for _ in range(1 if os.path.getsize("asked.txt") == 1 else 2):
        await ask(text)
    await refund_later()


async def tasks(text):
    await ask(text)
    await refund_later()
    return balance()


async def threads(text):
    await ask(text)
    await asyncio.to_thread(refund)
    return balance()


async def in_loop(text):
    await ask(text)
    refund()
    await asyncio.sleep(1)
    return balance()


def sync(text):
    refund()
    return balance()
"""


@pytest.fixture
def bank(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (cwd / "cut_bank.py").write_text(BANK, encoding="utf-8")
    monkeypatch.syspath_prepend(str(cwd))
    return cwd


def payments(folder: Path) -> str:
    file = folder / "paid.txt"
    return file.read_text() if file.exists() else ""


def native(cut: str, schedule: str = "") -> Ran:
    return run_yaml(
        DESK,
        f"""
        turns:
          - user: Refund me.
            replies: {{desk: {{calls: [look: {{}}, refund: {{}}]}}}}
            tool_results: {{look: 1}}
            {schedule}
            {cut}
            expect: {{state: {{used: []}}, reply: null}}
          - user: Refund me, please.
            replies: {{desk: [{{calls: [refund: {{}}]}}, Done.]}}
            expect: {{reply: Done.}}
        """,
    )


def tool_events(ran: Ran, turn: int = 1) -> list[str]:
    """The tools of a turn that were called, and those that returned, as events tell it."""
    return [
        f"{type(event).__name__} {event.tool}"
        for event in ran.trace.events
        if isinstance(event, (ToolCalled, ToolReturned)) and event.turn == turn
    ]


@pytest.mark.parametrize(
    ("cut", "words", "effects", "events"),
    [
        ("crash: {tool: refund}", "crash at call 1 of refund()", "x", ["ToolCalled look"]),
        (
            "crash: {agent: desk, tool: refund, at: end}",
            "crash at the end of call 1 of refund() by desk",
            "xx",
            ["ToolCalled look", "ToolCalled refund", "ToolReturned look"],
        ),
        (
            'cancel: {tool: "*", call: 2, at: end}',
            "cancel at the end of call 1 of refund()",
            "xx",
            ["ToolCalled look", "ToolCalled refund", "ToolReturned look"],
        ),
        ("cancel: {tool: look}", "cancel at call 1 of look()", "x", []),
    ],
)
def test_a_turn_ends_before_a_tool_or_after_its_effect(
    cut: str, words: str, effects: str, events: list[str], bank: Path
) -> None:
    ran = native(cut)

    assert describe_findings(ran) == []
    end = "ProcessCrashed" if cut.startswith("crash") else "TurnCancelled"
    assert (ends(ran), faults(ran)) == ([end, ""], [words])
    # A conversation with a crash is compared with one without (STA-06), which pays, too.
    times = 2 if cut.startswith("crash") else 1
    assert (payments(bank), tool_events(ran)) == (effects * times, events)


def test_calls_of_tools_are_counted_as_they_begin(bank: Path) -> None:
    ran = native('crash: {tool: "*", call: 2}', "schedule: [desk, refund(), look()]")

    assert describe_findings(ran) == []
    assert faults(ran) == ["crash at call 1 of look()"]
    assert tool_events(ran) == ["ToolCalled refund", "ToolReturned refund"]


@pytest.mark.parametrize(
    ("cut", "problem"),
    [
        (
            "crash: {tool: refund, call: 2}",
            "turn 1 ended before its `crash`, call 2 of refund(): its tool calls were 1 of look() "
            "by desk, 1 of refund() by desk.\nName a call that it makes.",
        ),
        ("cancel: {tool: refnd}", "unknown tool `refnd`"),
        ("cancel: {tool: refund, at: ende}", "`at` cannot be `ende`"),
        ("cancel: {call: 1, at: end}", "`at` says when in a tool's call, and no tool is named"),
    ],
)
@pytest.mark.usefixtures("bank")
def test_a_moment_of_a_tool_that_is_none_is_told(cut: str, problem: str) -> None:
    with pytest.raises(SourceError) as caught:
        run_yaml(
            DESK,
            f"""
            turns:
              - user: Hi
                replies: {{desk: [{{calls: [look: {{}}, refund: {{}}]}}, Done.]}}
                tool_results: {{look: 1}}
                {cut}
            """,
        )

    assert problem in str(caught.value)


def of_code(way: str, cut: str, function: str) -> Ran:
    return run_code(
        f"cut_bank:{way}",
        f"""
        app: {{path: [.], tools: {{refund: "cut_bank:{function}"}}}}
        agents: {{desk: {{system: You are the desk.}}}}
        turns:
          - user: Refund me.
            replies: {{desk: Ok.}}
            {cut}
        """,
    )


@pytest.mark.parametrize(
    ("way", "function", "cut", "effects"),
    [
        ("tasks", "refund_later", "cancel: {tool: refund}", ""),
        ("tasks", "refund_later", "cancel: {tool: refund, at: end}", "x"),
        ("tasks", "refund_later", "crash: {tool: refund}", ""),
        ("tasks", "refund_later", "crash: {tool: refund, at: end}", "x"),
        # No cancellation reaches a thread, nor a function that does not wait.
        ("threads", "refund", "cancel: {tool: refund}", "x"),
        ("threads", "refund", "crash: {tool: refund}", ""),
        ("threads", "refund", "crash: {tool: refund, at: end}", "x"),
        ("in_loop", "refund", "cancel: {tool: refund}", "x"),
        ("in_loop", "refund", "crash: {tool: refund}", ""),
    ],
)
@pytest.mark.parametrize("results", ["", "schedule: [desk]"])
def test_code_ends_at_its_own_function(
    way: str, function: str, cut: str, effects: str, results: str, bank: Path
) -> None:
    ran = of_code(way, f"{cut}\n            {results}", function)

    assert describe_findings(ran) == []
    assert ends(ran) == ["ProcessCrashed" if cut.startswith("crash") else "TurnCancelled"]
    assert payments(bank) == effects
    returned = any(isinstance(event, ToolReturned) for event in ran.trace.events)
    assert returned == (cut == "cancel: {tool: refund}" and way in ("threads", "in_loop"))


@pytest.mark.parametrize(("cut", "is_compared"), [("crash: {tool: refund}", False), ("", True)])
@pytest.mark.usefixtures("bank")
def test_what_code_did_in_a_turn_that_was_cut_off_is_not_compared(
    cut: str, is_compared: bool
) -> None:
    first, second = (
        run_code(
            "cut_bank:not_the_same",
            f"""
            app: {{path: [.], tools: {{refund: "cut_bank:refund_later"}}}}
            agents: {{desk: {{system: You are the desk.}}}}
            turns:
              - user: Refund me.
                replies: {{desk: [Ok., Ok.]}}
                {cut}
            """,
        ).view
        for _ in range(2)
    )

    assert [len(view.turns[0].calls) for view in (first, second)] == [1, 2]
    assert bool(resumed_differs(first, second, {2: ("turns", 0, "crash")})) == is_compared


@pytest.mark.parametrize(("at", "began"), [("start", []), ("end", ["ToolCalled choose_seat"])])
def test_a_process_that_has_ended_begins_no_tool_in_its_threads(at: str, began: list[str]) -> None:
    pytest.importorskip("langchain")
    ran = run_app(
        "booking_langgraph:threads_of_tasks",
        f"""
        agents: {{desk: {{system: {{$contains: You are the desk.}}}}}}
        turns:
          - user: Book.
            replies: {{desk: {{calls: [choose_seat: {{seat: 12A}}, charge: {{card: visa}}]}}}}
            crash: {{tool: choose_seat, at: {at}}}
          - {{user: Again., replies: {{desk: Hello.}}}}
        """,
        fits=False,  # Nothing of it outlives its process.
    )

    assert ends(ran)[0] == "ProcessCrashed"
    assert tool_events(ran) == began


@pytest.mark.parametrize("at", ["start", "end"])
def test_a_result_of_the_scenario_is_cut_too(at: str, bank: Path) -> None:
    cut = f"cancel: {{tool: refund, at: {at}}}\n            tool_results: {{refund: fine}}"
    ran = of_code("tasks", cut, "refund_later")

    assert (describe_findings(ran), ends(ran)) == ([], ["TurnCancelled"])
    assert payments(bank) == ""
    assert tool_events(ran) == (["ToolCalled refund"] if at == "end" else [])


@pytest.mark.usefixtures("bank")
def test_sync_code_is_not_cancelled_at_a_tool() -> None:
    with pytest.raises(SourceError, match="cannot be cancelled: no task of asyncio runs it"):
        of_code("sync", "cancel: {tool: refund}", "refund")


@pytest.mark.parametrize(
    ("words", "moment"),
    [
        ("crash at call 1 of refund()", {"tool": "refund"}),
        ("cancel at the end of call 2 of look()", {"tool": "look", "call": 2, "at": "end"}),
        ("crash at call 2 of billing", None),
        ("rate_limit on call 2", None),
    ],
)
def test_a_fault_in_a_trace_tells_the_moment(
    words: str, moment: dict[str, str | int] | None
) -> None:
    assert tool_moment(words) == moment
