"""The parts of a campaign: what a conversation, a chunk and a message to a worker cost."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import chdir
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from benchmarks.measuring import child_seconds, medians
from simkit.explore.choices import ChoiceLog
from simkit.explore.chunks import Chunk, Tally
from simkit.explore.conversations import ExploredRun, converse
from simkit.explore.drawing import draw
from simkit.explore.journal import fingerprints
from simkit.explore.processes import Answer, Setup, Task, versions
from simkit.explore.shrinking import Shrinker
from simkit.explore.subjects import Subject, pipeline_subject, simulation_subject
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import simulations_in
from tests.campaigns import SIMULATION
from tests.explore.test_shrinking import REFUNDING, refunds

ROOT = Path(__file__).resolve().parent.parent
KNOWN_BUGS = ROOT / "scenarios" / "known_bugs"
RUNS = 100
TURNS = 3


def declared(folder: Path) -> Subject:
    """Returns a declared pipeline of two agents and a tool, with users, faults and a claim."""
    file = folder / "desk.simulation.yaml"
    file.write_text(SIMULATION, encoding="utf-8")
    library = Library()
    (case,) = simulations_in(str(file), library.cache)
    return simulation_subject(library, case)


def drawn(subject: Subject | None, count: int = RUNS) -> Tally:
    """Returns the tally of conversations that are drawn, and run if there is a subject."""
    nothing = ExploredRun(({},), {}, 1)
    rare = len(subject.rare) if subject is not None else 4
    run = (lambda plan: nothing) if subject is None else partial(converse, subject)
    return draw(run, Chunk(0, 0, 1, count), turns_max=TURNS, rare=rare)


def rows(rounds: int) -> list[list[object]]:
    """Returns the cost of conversations, of chunks and of messages."""
    with TemporaryDirectory() as folder:
        subject = declared(Path(folder))
        with chdir(KNOWN_BUGS):
            code = pipeline_subject(Library(), "supervisor_230:app")
            drawn(code, 3)
            drawn(subject, 3)
            works: dict[str, Callable[[], object]] = {
                "drawing a conversation": lambda: drawn(None),
                "drawing and running one, a declared pipeline": lambda: drawn(subject),
                "drawing and running one, LangGraph's supervisor": lambda: drawn(code),
            }
            times = medians(works, rounds)
        table: list[list[object]] = [["", "CPU", "a second and core"]]
        for name, seconds in times.items():
            one = seconds / RUNS
            table.append([name, f"{one * 1000:.2f} ms", f"{1 / one:,.0f}"])
        table += shrinking_rows(subject, rounds)
        table += [long_row(rounds)]
        table += message_rows(subject, Path(folder), rounds)
    table.append(["starting a process of -j or of a worker", f"{_start():.2f} s", ""])
    return table


def shrinking_rows(subject: Subject, rounds: int) -> list[list[object]]:
    """Returns the time in which the causes of a chunk are made small."""
    tally = drawn(subject, 300)

    def shrink() -> None:
        for each in tally.causes:
            Shrinker(partial(converse, subject), each.cause).shrink(each.smallest.tape)

    seconds = medians({"shrink": shrink}, rounds)["shrink"]
    name = f"making {len(tally.causes)} findings small"
    return [[name, f"{seconds * 1000:.0f} ms", ""]]


def long_row(rounds: int) -> list[object]:
    """Returns the time in which a failure of 200 turns is made one of 20 reply lines."""
    with TemporaryDirectory() as folder:
        subject = refunds(10, Path(folder))
        record = converse(subject, REFUNDING)
        (cause,) = record.causes
        runs = 0

        def run(tape: ChoiceLog) -> ExploredRun:
            nonlocal runs
            runs += 1
            return converse(subject, tape)

        def shrink() -> None:
            nonlocal runs
            runs = 0
            Shrinker(run, cause).shrink(record.tape)

        seconds = medians({"shrink": shrink}, rounds)["shrink"]
    name = f"making 200 turns 20 reply lines, in {runs} conversations"
    return [name, f"{seconds * 1000:.0f} ms", ""]


def message_rows(subject: Subject, folder: Path, rounds: int) -> list[list[object]]:
    """Returns the sizes of a task and of an answer, and the time to merge an answer."""
    file = str(folder / "desk.simulation.yaml")
    setup = Setup(
        measures=False,
        name=file,
        profile=None,
        turns=TURNS,
        folder=str(folder),
        files=fingerprints([file]),
        versions=versions(),
    )
    task = msgspec.json.encode(Task(setup=setup, chunk=Chunk(7, 7_000_021, 7001, 1000)))
    tally = drawn(subject, 300)
    answer = msgspec.json.encode(Answer(tally=tally))

    def merge() -> None:
        whole = Tally()
        for _ in range(RUNS):
            part = msgspec.json.decode(answer, type=Answer).tally
            assert part is not None
            whole = whole.merged(part)

    seconds = medians({"merge": merge}, rounds)["merge"] / RUNS
    return [
        ["a task of a chunk", f"{len(task) / 1000:.1f} KB", ""],
        [f"an answer with {len(tally.causes)} causes", f"{len(answer) / 1000:.1f} KB", ""],
        ["reading and merging it", f"{seconds * 1000:.2f} ms", f"{1 / seconds:,.0f}"],
    ]


def _start() -> float:
    command = [sys.executable, "-c", "import simkit.explore.search, simkit.explore.processes"]
    return child_seconds(command, cwd=ROOT, env=dict(os.environ))
