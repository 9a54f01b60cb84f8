"""The gate for speed: how many instructions a turn takes, held against the numbers in `gate.json`.

`python -m benchmarks.gate` fails if one takes over 15 % more than is stored; `--write` stores what
is measured. Valgrind counts, so that other load changes nothing. A process prepares workloads, and
forks for each of them, once for its turns and once for twice as many: their difference is what the
turns cost, without start-up. It is stored in runs of a fixed loop, so that it holds for other
builds of CPython, too.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

STORED: Final = Path(__file__).with_name("gate.json")
APPS: Final = Path(__file__).with_name("apps")
MORE_MAX: Final = 0.15
"""How much more than the stored number fails."""
TURNS: Final = 20
LOOP: Final = "a fixed loop"
Workload: TypeAlias = Callable[[int], object]
"""Does a number of turns, or items."""

ITEM: Final = """version: 1
scenario: number {place}
pipeline: p.pipeline.yaml
turns:
  - user: Where is my order {place}?
    replies: {{triage: {{json: {{to: billing}}}}, billing: It is on its way.}}
    expect: {{agents: [triage, billing], reply: {{$contains: way}}}}
  - user: Thanks
    replies: {{triage: {{json: {{to: billing}}}}, billing: You are welcome.}}
    expect: {{agents: [triage, billing]}}
"""
GRAPH: Final = """
version: 1
scenario: graph
pipeline: graph_desk:forgetful
app: {{path: ['{apps}'], input: 'graph_desk:with_few', config: {{configurable: {{thread_id: d}}}}}}
turns: [{turns}]
"""
GRAPH_TURN: Final = "{user: Hello, expect: {agents: [triage, billing, writer]}}"


def declared_workloads(folder: Path) -> dict[str, Workload]:
    """Return the workloads of declared pipelines."""
    from benchmarks.conversations import conversation, desk
    from benchmarks.suites import PIPELINE
    from simkit.session.simulate import run, simulate
    from simkit.spec.scenario.files import Library, items_in

    def items(count: int) -> None:
        file = folder / f"{count}.scenario.yaml"
        texts = [ITEM.format(place=place) for place in range(count)]
        file.write_text("---\n".join(texts), "utf-8")
        library = Library()
        assert all(simulate(library.prepared(case)).passed for case in items_in(str(file)))

    (folder / "p.pipeline.yaml").write_text(PIPELINE, "utf-8")
    return {
        # Numbers below 257 are made once: memory that a loop asks for costs as it happens to lie.
        LOOP: lambda count: sum(n % 7 for _ in range(4 * count) for n in range(250)),
        "run of three agents": lambda count: run(conversation(count, claims=False)),
        "run with a tool, a handoff and schemas": lambda count: run(desk(count)),
        "run and judgement, with claims": lambda count: simulate(conversation(count)),
        "item: read, prepare, run, judge": items,
    }


def adapter_workloads(folder: Path) -> dict[str, Workload]:
    """Return the workloads of an adapter: importing its framework takes longest of all."""
    from simkit.session.simulate import simulate
    from simkit.spec.scenario.files import Library, items_in

    def graph(count: int) -> None:
        file = folder / f"{count}.scenario.yaml"
        turns = ", ".join([GRAPH_TURN] * count)
        file.write_text(GRAPH.format(apps=APPS, turns=turns), "utf-8")
        (case,) = items_in(str(file))
        assert simulate(Library().prepared(case)).passed

    return {"LangGraph turn, recorded and judged": graph}


GROUPS: Final = {"declared": declared_workloads, "adapter": adapter_workloads}


def fork_each(group: str) -> None:
    """Do the workloads of a group in forked processes; print the number of each process."""
    with TemporaryDirectory() as folder:
        for name, workload in GROUPS[group](Path(folder)).items():
            for count in (TURNS, 2 * TURNS):
                workload(count)  # What a process makes once is made here.
            for count in (TURNS, 2 * TURNS):
                pid = os.fork()
                if not pid:
                    workload(count)
                    os._exit(0)
                os.waitpid(pid, 0)
                print(json.dumps([pid, name, count]), flush=True)


def start_counting(group: str) -> subprocess.Popen[str]:
    """Start the workloads of a group under valgrind."""
    words = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    words += [sys.executable, "-m", "benchmarks.gate", "--fork", group]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(
        words,
        cwd=STORED.parent.parent,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def instructions(out: str, err: str) -> dict[str, float]:
    """Return the instructions of one turn of each workload, by what its processes printed."""
    counts = {
        int(pid): int(number.replace(",", ""))
        for pid, number in re.findall(r"^==(\d+)== I\s+refs:\s+([\d,]+)", err, re.MULTILINE)
    }
    by_size: dict[str, dict[int, int]] = {}
    for line in out.splitlines():
        pid, name, count = json.loads(line)
        by_size.setdefault(name, {})[count] = counts[pid]
    return {name: (sizes[2 * TURNS] - sizes[TURNS]) / TURNS for name, sizes in by_size.items()}


def measured() -> dict[str, float]:
    """Return what a turn of each workload costs, in runs of the fixed loop."""
    found: dict[str, float] = {}
    for process in [start_counting(group) for group in GROUPS]:
        out, err = process.communicate()
        if process.returncode:
            raise SystemExit(f"gate: a workload failed:\n{err[-3_000:]}")
        found |= instructions(out, err)
    loop = found.pop(LOOP)
    return {name: round(number / loop, 2) for name, number in found.items()}


def report(now: Mapping[str, float], stored: Mapping[str, float]) -> list[str]:
    """Print each cost beside the stored one; return the workloads that cost too much."""
    exceeded = []
    for name, cost in now.items():
        more = cost / stored[name] - 1
        print(f"{name}: {cost:.2f} loops a turn, stored {stored[name]:.2f} ({more:+.1%})")
        if more > MORE_MAX:
            exceeded.append(name)
    return exceeded


def main() -> None:
    """Measure, and compare or store."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gate")
    parser.add_argument("--write", action="store_true", help="Store what is measured.")
    parser.add_argument("--fork", choices=GROUPS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fork:
        fork_each(options.fork)
        return
    if shutil.which("valgrind") is None:
        raise SystemExit("gate: there is no valgrind on this machine: speed is NOT measured")
    now = measured()
    if options.write:
        STORED.write_text(f"{json.dumps(now, indent=2)}\n", encoding="utf-8")
        return
    exceeded = report(now, json.loads(STORED.read_text(encoding="utf-8")))
    if exceeded:
        raise SystemExit(
            f"gate: over {MORE_MAX:.0%} more instructions than stored: {', '.join(exceeded)}.\n"
            "Find out why. If it must be so, `python -m benchmarks.gate --write` stores the cost."
        )


if __name__ == "__main__":
    main()
