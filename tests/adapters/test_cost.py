"""What simkit costs around a pipeline that is code, as counts of function calls."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Prepared
from tests.adapters.running import prepared

APPS = Path(__file__).parent.parent.parent / "benchmarks" / "apps"
FEW, MANY = 4, 12
LANGGRAPH_MOST = {
    ("forgetful", "with_few"): 1.295,
    ("remembering_few", "with_nothing"): 1.12,
    ("forgetful", "with_many"): 1.06,
    ("remembering_many", "with_nothing"): 1.02,
}
"""Calls of a turn with everything on (trace, lints, claims), in calls of the same call of the bare
graph, by graph and input. PydanticAI, if another test has imported it, adds 0.01 to the first."""
FRAMEWORK_MOST = 8
"""Calls of a turn for a framework that is imported, and that the pipeline's code does not name."""


@pytest.fixture(autouse=True)
def applications(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(APPS)
    monkeypatch.setenv("OPENAI_API_KEY", "none")


def calls_of(function: Callable[[], object]) -> int:
    """The number of calls in this thread and those that it starts, functions in C included."""
    count = 0

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return count


def calls_of_a_turn(run: Callable[[int], object]) -> float:
    """The number of calls of one more turn, once everything was imported and read."""
    for turns in (FEW, MANY):
        run(turns)
    counts = {turns: calls_of(partial(run, turns)) for turns in (FEW, MANY)}
    return (counts[MANY] - counts[FEW]) / (MANY - FEW)


def runner(pipeline: str, app: str, turn: str, agents: str = "{}") -> Callable[[int], None]:
    """A function that runs a scenario of so many turns that are alike."""
    cases: dict[int, Prepared] = {}

    def run(turns: int) -> None:
        if turns not in cases:
            listed = "".join(f"  - {{user: 'hello {number}', {turn}}}\n" for number in range(turns))
            text = f"app: {{path: [.], {app}}}\nagents: {agents}\nturns:\n{listed}"
            cases[turns] = prepared(pipeline, text, APPS)
        assert simulate(cases[turns]).passed

    return run


def langgraph_runner(factory: str, input: str) -> Callable[[int], None]:
    """A function that runs a scenario on a graph of the desk, with so many turns."""
    config = "configurable: {thread_id: desk}"
    return runner(
        f"graph_desk:{factory}",
        f"input: graph_desk:{input}, config: {{{config}}}",
        "expect: {agents: [triage, billing, writer]}",
    )


@pytest.mark.slow
@pytest.mark.parametrize(("factory", "input"), LANGGRAPH_MOST)
def test_langgraph_costs_a_fixed_part_of_the_bare_graph(factory: str, input: str) -> None:
    desk = pytest.importorskip("graph_desk")
    config = {"configurable": {"thread_id": desk.THREAD}}

    def run_bare(turns: int) -> None:
        graph = getattr(desk, factory)()
        for number in range(turns):
            graph.invoke(getattr(desk, input)(f"hello {number}"), config)

    run = langgraph_runner(factory, input)

    assert calls_of_a_turn(run) <= LANGGRAPH_MOST[factory, input] * calls_of_a_turn(run_bare)


_GROWTH = """
import sys
sys.path.insert(0, sys.argv[1])
from tests.adapters.test_cost import calls_of_a_turn, langgraph_runner
run = langgraph_runner("forgetful", "with_few")
before = calls_of_a_turn(run)
import agents.run_context
print(calls_of_a_turn(run) - before)
"""


@pytest.mark.slow
def test_a_framework_that_somebody_else_has_imported_costs_next_to_nothing() -> None:
    """In a process of its own: other tests import frameworks, too."""
    pytest.importorskip("agents")
    pytest.importorskip("graph_desk")

    ran = subprocess.run(
        [sys.executable, "-c", _GROWTH, str(APPS)],
        cwd=APPS.parents[1],
        capture_output=True,
        text=True,
        check=True,
    )

    assert 0 < float(ran.stdout) <= FRAMEWORK_MOST


def test_code_that_names_clocks_and_processes_costs_what_other_code_costs() -> None:
    """Whatever names the code has, none of its calls is watched one by one."""
    pytest.importorskip("openai")
    turn = "replies: {desk: hello}, expect: {reply: hello}"
    counts = [
        calls_of_a_turn(runner(f"{module}:Desk", "call: ask", turn, "{desk: Help.}"))
        for module in ("wire_desk", "wire_desk_timed")
    ]

    assert counts[1] <= 1.05 * counts[0]
