"""Native turns against LangGraph with fake models: default lints, and the whole trace.

Three agents a turn, or two of which one calls a tool and passes control to the other.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.conversations import PIPELINE, conversation, desk, prepared_from, scenario_text
from benchmarks.graph import langgraph, langgraph_desk
from benchmarks.measuring import child_seconds, medians
from simkit.session.simulate import run, simulate
from simkit.spec.scenario.files import Prepared


def rows(rounds: int) -> list[list[object]]:
    """Returns turns per second of each subject, and how often simkit is faster."""
    table: list[list[object]] = []
    for turns, saver in ((1_000, False), (200, True)):
        ours = conversation(turns, claims=False)
        subjects: dict[str, Callable[[], object]] = {"simkit": partial(_simulated, ours)}
        name = "LangGraph + InMemorySaver" if saver else "LangGraph"
        try:
            subjects[name] = langgraph(turns, saver)
        except ImportError:
            table.append([f"{turns} turns", name, "not installed", ""])
        times = medians(subjects, rounds)
        for subject, seconds in times.items():
            ratio = f"{seconds / times['simkit']:.0f}×" if subject != "simkit" else "1×"
            table.append([f"{turns} turns", subject, f"{turns / seconds:.0f} turns/s", ratio])
    table += _with_tool_and_handoff(rounds)
    for turns in (1_000, 2_000, 3_000):
        table += _command(rounds, turns)
    table.append(["300 seeds / 300 scenarios", "simkit", *_seeds(rounds)])
    return table


def _with_tool_and_handoff(rounds: int) -> list[list[object]]:
    """Returns what a turn with a tool and a handoff costs, with schemas for both."""
    turns, words = 500, "a tool and a handoff"
    ours = desk(turns)
    table: list[list[object]] = []
    subjects: dict[str, Callable[[], object]] = {
        "simkit": partial(_simulated, ours),
        "simkit, without judgement": partial(run, ours),
    }
    what = f"{turns} turns with {words}"
    try:
        subjects["LangGraph"] = langgraph_desk(turns)
    except ImportError:
        table.append([what, "LangGraph", "not installed", ""])
    times = medians(subjects, rounds)
    for subject, seconds in times.items():
        ratio = "" if subject.startswith("simkit,") else f"{seconds / times['simkit']:.0f}×"
        table.append([what, subject, f"{turns / seconds:.0f} turns/s", ratio])
    return table


def _seeds(rounds: int) -> tuple[str, str]:
    """Returns how long one scenario with 300 seeds takes, and its share of 300 scenarios' time."""
    texts = [scenario_text(5, claims=True, word=f"case {number}") for number in range(300)]
    scenario = prepared_from(texts[0])
    times = medians(
        {
            "seeds": lambda: [simulate(scenario, seed=seed) for seed in range(len(texts))],
            "scenarios": lambda: [simulate(prepared_from(text)) for text in texts],
        },
        rounds,
    )
    share = times["seeds"] / times["scenarios"]
    return f"{times['seeds'] / len(texts) * 1_000:.1f} ms each", f"{share:.2f}×"


def _command(rounds: int, turns: int) -> list[list[object]]:
    """Returns what the whole command costs: start-up, YAML, run, judgement, trace on disk.

    LangGraph is a process, too, with and without what it takes for no turn: its imports.
    """
    with tempfile.TemporaryDirectory() as folder:
        text = f"{PIPELINE.strip()}\n---\n{scenario_text(turns, claims=False)}"
        (Path(folder) / "generated.scenario.yaml").write_text(text, encoding="utf-8")
        words = [sys.executable, "-m", "simkit", "replay", "-q", "generated.scenario.yaml"]
        ours = statistics.median(
            child_seconds(words, cwd=Path(folder), env=os.environ) for _ in range(rounds)
        )
    what = f"{turns} turns, the whole command"
    rows: list[list[object]] = [[what, "simkit replay -q", f"{turns / ours:.0f} turns/s", "1×"]]
    if importlib.util.find_spec("langgraph") is None:
        return [*rows, [what, "LangGraph", "not installed", ""]]
    # Its time grows with the square of the turns.
    whole = _process_of_langgraph(turns, min(rounds, 3) if turns <= 1_000 else 1)
    imports = _process_of_langgraph(0, min(rounds, 3))
    for name, theirs in (("LangGraph", whole), ("LangGraph, no imports", whole - imports)):
        rows.append([what, name, f"{turns / theirs:.0f} turns/s", f"{theirs / ours:.1f}×"])
    return rows


def _process_of_langgraph(turns: int, rounds: int) -> float:
    words = [sys.executable, "-m", "benchmarks.graph", str(turns)]
    place = Path(__file__).resolve().parent.parent
    return statistics.median(child_seconds(words, cwd=place, env=os.environ) for _ in range(rounds))


def _simulated(ours: Prepared) -> int:
    return len(simulate(ours).trace.encoded())
