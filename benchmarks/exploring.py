"""The cost of exploring: a conversation of five turns beside a scenario of five turns, and drawing.

The simulation's models answer with the scenario's lines, so that both do the same work. Choosing,
and keeping what was chosen as lines, is what exploring adds; Hypothesis draws the numbers.
"""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.conversations import PIPELINE, conversation
from benchmarks.measuring import calls, medians
from simkit.explore.choices import Plan, TurnPlan
from simkit.explore.conversations import ExploredRun, Subject, converse
from simkit.explore.search import search
from simkit.explore.subjects import simulation_subject
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import simulations_in

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


@cache
def subject() -> Subject:
    """Returns the simulation of the generated conversation's pipeline."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "generated.simulation.yaml"
        file.write_text(PIPELINE + SIMULATION, encoding="utf-8")
        library = Library()
        (case,) = simulations_in(str(file), library.cache)
        return simulation_subject(library, case)


def rows(rounds: int) -> list[list[object]]:
    """Returns times and calls of a scenario, of a simulated conversation, and of drawing one."""
    scenario = conversation(TURNS, claims=False)
    plan = Plan(tuple(TurnPlan() for _ in range(TURNS)))
    nothing = ExploredRun(({},), {}, 1)

    def draw() -> None:
        search(lambda plan: nothing, runs=CONVERSATIONS, turns_max=TURNS, seed=0)

    explore = partial(converse, subject(), plan)
    subjects = {
        "a scenario of 5 turns": lambda: [simulate(scenario) for _ in range(CONVERSATIONS)],
        "a simulated conversation of 5 turns": lambda: [explore() for _ in range(CONVERSATIONS)],
        "drawing its numbers": draw,
    }
    works = (lambda: simulate(scenario), explore, draw)
    for work in works:
        work()
    counts = [calls(work) for work in works]
    counts[2] //= CONVERSATIONS
    times = medians(subjects, rounds)
    base = next(iter(times.values()))
    table: list[list[object]] = [["", "CPU", "to the scenario", "calls"]]
    for (name, seconds), count in zip(times.items(), counts, strict=True):
        one = seconds / CONVERSATIONS
        table.append([name, f"{one * 1000:.2f} ms", f"{seconds / base:.2f}×", count])
    return table
