"""What a process of its own costs a scenario of code, beyond its run.

Fifty scenarios of two turns on two LangGraph applications, and the first of them alone: each in a
process of its own, and all in one. The difference of the two commands is what 49 scenarios cost.
CPU times of a child and its children. One application has fake models; the other has OpenAI's
client, which builds what it keeps anew in each process.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from benchmarks.measuring import child_seconds
from benchmarks.wire import APPS

COUNT: Final = 50
TEXTS: Final = ("What is two plus two?", "And twice that?")
FAKE: Final = """\
version: 1
scenario: {name}
pipeline: graph_desk:forgetful
app: {{path: [{apps}], input: "graph_desk:with_few"}}
turns:
"""
FAKE_TURN: Final = "  - {{user: '{text}', expect: {{reply: {{$contains: fox}}}}}}\n"
CLIENT: Final = """\
version: 1
scenario: {name}
pipeline: experts:app
app: {{path: [{apps}]}}
turns:
"""
CLIENT_TURN: Final = """\
  - user: '{text}'
    replies:
      supervisor: [{{calls: [{{transfer_to_math_expert: {{}}}}]}}, It is done.]
      math_expert: The sum is known.
    expect: {{reply: It is done.}}
"""
APPLICATIONS: Final[Mapping[str, tuple[str, str]]] = {
    "fake models": (FAKE, FAKE_TURN),
    "OpenAI's client": (CLIENT, CLIENT_TURN),
}
WAYS: Final[Mapping[str, tuple[str, ...]]] = {"one": ("--in-process",), "own": ()}


def rows(rounds: int) -> list[list[object]]:
    """Returns what one more scenario takes in one process and in its own, and both commands."""
    table: list[list[object]] = [
        ["LangGraph, 50 scenarios", "in one process", "in its own", "beyond", "whole command"]
    ]
    for name, (head, turn) in APPLICATIONS.items():
        with tempfile.TemporaryDirectory() as folder:
            for file, count in (("first", 1), ("all", COUNT)):
                turns = "".join(turn.format(text=text) for text in TEXTS)
                documents = [head.format(name=n, apps=APPS) + turns for n in range(count)]
                path = Path(folder) / f"{file}.scenario.yaml"
                path.write_text("---\n".join(documents), encoding="utf-8")
            seconds = _medians(Path(folder), rounds)
        one, own = (
            (seconds["all", way] - seconds["first", way]) / (COUNT - 1) * 1000 for way in WAYS
        )
        whole = seconds["all", "own"] / seconds["all", "one"]
        beyond = f"{own - one:.0f} ms"
        table.append([name, f"{one:.0f} ms", f"{own:.0f} ms", beyond, f"{whole:.2f}×"])
    return table


def _medians(folder: Path, rounds: int) -> dict[tuple[str, str], float]:
    env = {"OPENAI_API_KEY": "none", **os.environ}
    times: dict[tuple[str, str], list[float]] = {}
    for _ in range(rounds):
        for file in ("first", "all"):
            for way, options in WAYS.items():
                words = ("-m", "simkit", "replay", "-q", *options, f"{file}.scenario.yaml")
                taken = child_seconds([sys.executable, *words], cwd=folder, env=env)
                times.setdefault((file, way), []).append(taken)
    return {key: statistics.median(found) for key, found in times.items()}
