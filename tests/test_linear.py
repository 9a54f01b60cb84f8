"""Long conversations cost what they say, not its square: counted in lines run and bytes."""

from __future__ import annotations

import copy
import gc
import sys
from collections.abc import Callable, Sequence
from functools import cache
from types import FrameType
from typing import Any, NamedTuple

import pytest

from simkit.checks.judge import judge
from simkit.runtime.functions import function_named
from simkit.session.simulate import run, simulate
from simkit.spec.scenario.files import Prepared
from simkit.trace.store import decoded, event_decoder
from tests.building import prepared
from tests.conftest import IS_NIGHTLY

GROWTH_MAX = 1.10
"""How much more a turn may cost when the conversation is several times as long."""
SIZES = (250, 500, 1_000, 2_000) if IS_NIGHTLY else (250, 1_000)
SIZES_OF_VARIANTS = (200, 600)

PIPELINE = """
version: 1
pipeline: p
channels:
  decisions: {reducer: {append: {last: 10}}}
  outputs: {reducer: merge, scope: turn}
  total: {reducer: add}
  log: {reducer: append}
defaults:
  context:
    - instructions
    - previous_agents: {from: outputs}
    - history: HISTORY
    - current_message
  writes:
    messages: ["${run.final_message}"]
    outputs: {"${agent}": "${run}"}
    total: "${run.took_ms}"
    log: {agent: "${agent}"}
agents:
  router: {instructions: Route., writes: {decisions: ["${run.output}"]}}
  cook: {instructions: Cook., tools: [look]}
  coach: {instructions: Train., sees: [coach, cook]}
  scribe: {instructions: Sum up.}
tools: {look: {}}
flow: {router: {decide: router, to: "${run.output.to}"}}
limits: {turns: 5000, virtual_ms: 100000000}
"""
HISTORIES = {
    "unlimited": "{}",
    "filtered log": "{from: log, filters: [tool_messages, tool_calls, intermediate_ai]}",
    "windows": (
        "{from: log, filters: [tool_messages, tool_calls], "
        "window: {rounds: 20, messages: 30, tokens: 500}}"
    ),
    "handoff filter": "{from: log, filters: [handoffs, {agents: {not: [router]}}]}",
    "summary": "{window: {rounds: 10}, summary: scribe}",
}


def turn(number: int, history: str) -> str:
    agent = ("cook", "coach")[number % 2]
    lines = f"Answer {number} about question {number}."
    results = ""
    if agent == "cook":
        results = f"\n    tool_results: {{look: {{kcal: {number}}}}}"
        lines = f"[{{calls: {{look: {{n: {number}}}}}}}, '{lines}']"
    scribe = ""
    if history == "summary" and number > 10:
        # Every agent has a summary of its own, which it needs from the eleventh round on.
        scribe = ", scribe: [Sum., Sum.]"
    return f"""
  - user: Question {number} of many
    replies: {{router: {{json: {{to: {agent}}}}}, {agent}: {lines}{scribe}}}{results}
    expect:
      agents: [router, {agent}]
      reply: {{$contains: Answer {number}}}
      context:
        {agent}:
          includes: [{{user: {{$contains: Question {number} of}}}}]
          excludes: [{{role: assistant, content: {{$contains: nobody said this}}}}]
      state: {{decisions: {{$len: {min(10, number)}}}, messages: {{$len: {2 * number}}}}}"""


@cache
def conversation(turns: int, history: str = "unlimited") -> Prepared:
    pipeline = PIPELINE.replace("HISTORY", HISTORIES[history])
    claimed = "lints: {RUN-01: lines of the summary are shared by two agents}\n"
    text = "".join(turn(number, history) for number in range(1, turns + 1))
    return prepared(pipeline, f"{claimed if history == 'summary' else ''}turns:{text}")


class Cost(NamedTuple):
    """What one turn costs on average."""

    run: float
    judge: float
    read: float
    bytes: float


def counted(work: Callable[[], Any]) -> tuple[Any, int]:
    """Returns what the work returns, and how many lines it ran: each round of a loop counts.

    The count gates nothing by itself: tests compare it for one size with that for another. A count
    of calls would miss a loop that makes none.
    """
    lines = 0

    def count(_frame: FrameType, _event: str, _value: object) -> Any:
        nonlocal lines
        lines += 1
        return count

    earlier = sys.gettrace()
    gc.disable()  # a collection would run finalizers at any time
    sys.settrace(count)
    try:
        result = work()
    finally:
        sys.settrace(earlier)
        gc.enable()
    return result, lines


@cache
def cost(turns: int, history: str) -> Cost:
    scenario = conversation(turns, history)
    trace, ran = counted(lambda: run(scenario))
    scenario.document.position(())  # a long document makes its nodes again, once
    outcome, judged = counted(
        lambda: judge(scenario.scenario, scenario.document, trace, function_named)
    )
    content = trace.encoded()
    event_decoder()  # made once for all traces
    _, read = counted(lambda: decoded(content))
    assert [f.what for f in outcome.judgement.findings] == []
    assert sum(type(e).__name__ == "TurnFinished" for e in trace.events) == turns
    return Cost(ran / turns, judged / turns, read / turns, len(content) / turns)


def grown(costs: Sequence[Cost]) -> dict[str, list[float]]:
    """What costs more than it may at one of the sizes."""
    by_key = {key: [getattr(item, key) for item in costs] for key in Cost._fields}
    return {
        key: observed
        for key, observed in by_key.items()
        if max(observed) > GROWTH_MAX * min(observed)
    }


@pytest.mark.slow
def test_a_turn_costs_the_same_however_long_the_conversation_is() -> None:
    assert grown([cost(turns, "unlimited") for turns in SIZES]) == {}


@pytest.mark.slow
@pytest.mark.parametrize("history", [name for name in HISTORIES if name != "unlimited"])
def test_a_turn_costs_the_same_whatever_its_history_shows(history: str) -> None:
    assert grown([cost(turns, history) for turns in SIZES_OF_VARIANTS]) == {}


def test_growing_cost_would_be_seen() -> None:
    # The nearest that fails: every turn looks at all turns before it.
    def work(turns: int) -> int:
        return counted(lambda: [len(str(k)) for n in range(turns) for k in range(n)])[1]

    assert grown([Cost(work(n) / n, 1, 1, 1) for n in (50, 100)]) != {}


@pytest.mark.slow
def test_nothing_is_ever_copied_deeply(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = conversation(250)

    def refuse(*_: object, **__: object) -> Any:
        raise AssertionError("copy.deepcopy was called")

    with monkeypatch.context() as patched:  # pytest itself copies what a failure says.
        patched.setattr(copy, "deepcopy", refuse)
        passed = simulate(scenario).passed

    assert passed
