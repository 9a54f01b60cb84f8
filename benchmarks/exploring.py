"""The cost of exploring: a conversation of five turns beside a scenario of five turns, and drawing.

The simulation's models answer with the scenario's lines, so that both do the same work. Choosing,
and keeping what was chosen as lines, is what exploring adds; Hypothesis draws the numbers.

The last rows are whole campaigns: every order of three parallel agents, with a bug that needs two
of their answers in a certain order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.conversations import PIPELINE, conversation
from benchmarks.measuring import medians
from simkit.explore.choices import Plan, TurnPlan
from simkit.explore.conversations import ExploredRun, converse, converse_by
from simkit.explore.subjects import Subject, simulation_subject
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import simulations_in
from tests.explore.searching import search, search_all

TURNS = 5
CONVERSATIONS = 100
SIMULATION = """
---
version: 1
simulation: generated
pipeline: support
models:
  triage: {json: {to: [billing, writer]}}
  billing: "The bill."
  writer: "The letter."
"""


CLERKS = """
version: 1
pipeline: clerks
channels:
  decision: {scope: turn}
  totals: {reducer: append, scope: turn}
defaults: {context: [instructions, current_message]}
agents:
  head: {instructions: You decide., writes: {decision: "${run.output}"}}
  a: {instructions: You are a., tools: [look], writes: {totals: ["${run.reply}"]}}
  b: {instructions: You are b., tools: [look], writes: {totals: ["${run.reply}"]}}
  c: {instructions: You are c., tools: [look], writes: {totals: ["${run.reply}"]}}
tools: {look: {args: {type: object}}}
flow: {router: {decide: head, to: "${run.output.to}"}}
---
version: 1
simulation: three clerks
pipeline: clerks
turns: 1
users: {u: {says: Hello.}}
tools: {look: {returns: ok}}
"""
FUNCTION = "{function: benchmarks.apps.clerks:%s}"
IN_TWO_CALLS = f"""
models: {{head: {FUNCTION % "opened"}, {", ".join(f"{n}: {FUNCTION % 'clerk'}" for n in "abc")}}}
always: {{state: {{totals: {{$not: ['1', '1', '2']}}}}}}
"""
IN_ONE_CALL = """
models: {head: {json: {to: {parallel: [a, b, c]}}}, a: A, b: B, c: C}
always: {state: {totals: {$not: [C, A, B]}}}
"""


@cache
def subject(text: str = PIPELINE + SIMULATION) -> Subject:
    """Returns a simulation; without a text, that of the generated conversation's pipeline."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "generated.simulation.yaml"
        file.write_text(text, encoding="utf-8")
        library = Library()
        (case,) = simulations_in(str(file), library.cache)
        return simulation_subject(library, case)


def rows(rounds: int) -> list[list[object]]:
    """Returns times of a scenario, of a simulated conversation, and of drawing one."""
    scenario = conversation(TURNS, claims=False)
    plan = Plan(tuple(TurnPlan() for _ in range(TURNS)))
    nothing = ExploredRun(({},), {}, 1)

    def draw() -> None:
        search(lambda plan: nothing, runs=CONVERSATIONS, turns_max=TURNS, seed=0)

    explore = partial(converse, subject(), plan)
    subjects: dict[str, Callable[[], object]] = {
        "a scenario of 5 turns": lambda: [simulate(scenario) for _ in range(CONVERSATIONS)],
        "a simulated conversation of 5 turns": lambda: [explore() for _ in range(CONVERSATIONS)],
        "drawing its numbers": draw,
    }
    for work in subjects.values():
        work()
    times = medians(subjects, rounds)
    base = next(iter(times.values()))
    table: list[list[object]] = [["", "CPU", "to the scenario"]]
    for name, seconds in times.items():
        one = seconds / CONVERSATIONS
        table.append([name, f"{one * 1000:.2f} ms", f"{seconds / base:.2f}×"])
    return [*table, *order_rows(rounds, base / CONVERSATIONS)]


def order_rows(rounds: int, base: float) -> list[list[object]]:
    """Returns times of campaigns that take every order; ``base`` is a scenario's time."""
    campaigns = {}
    for name, text in (("", IN_ONE_CALL), (" of two calls, with functions", IN_TWO_CALLS)):
        run = partial(converse_by, subject(CLERKS + text))
        work = partial(search_all, run, runs=1_000, turns_max=1)
        campaign = work()
        (found,) = campaign.discoveries
        orders = f"all {campaign.runs} orders of three agents{name}"
        campaigns[orders] = work
        campaigns[f"… until the bug is found, in run {found.first}"] = partial(
            search_all, run, runs=found.first, turns_max=1
        )
    times = medians(campaigns, rounds)
    return [
        [name, f"{seconds * 1000:.2f} ms", f"{seconds / base:.2f}×"]
        for name, seconds in times.items()
    ]
