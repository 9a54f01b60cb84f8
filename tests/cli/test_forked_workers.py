"""Copies of a process work on batches: their results come in order, or an error does."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from simkit.cli import processes
from simkit.cli.forked_workers import forked_results
from simkit.session.execution.fork_server import can_fork
from tests.cli.projects import Done, without_times, write

pytestmark = pytest.mark.skipif(not can_fork(), reason="processes are not copied here")

ECHO = """\
version: 1
pipeline: echo
agents: {a: {instructions: Say.}}
flow: {handoffs: {start: a}}
"""
SCENARIO = """\
---
version: 1
scenario: number %d
pipeline: echo
turns: [{user: hi, replies: {a: hello}, expect: {reply: hello}}]
"""


def results_in_child(work: str) -> str:
    """What a process with one thread prints about the results of ``work(batch)``."""
    code = (
        "import os, sys, time\nfrom simkit.cli.forked_workers import WorkerDied, forked_results\n"
        f"first = os.getpid()\n{work}\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout


def test_results_come_in_order_from_other_processes() -> None:
    printed = results_in_child(
        "def work(batch):\n"
        "    time.sleep(0.05 * (batch == 0))\n"
        "    return batch * 2, os.getpid() != first\n"
        "print(*forked_results(work, range(9), 3))"
    )

    assert printed == " ".join(f"({place * 2}, True)" for place in range(9)) + "\n"


@pytest.mark.parametrize("processes", [1, 2, 9])
def test_any_number_of_processes_does_all_batches(processes: int) -> None:
    printed = results_in_child(f"print(sum(forked_results(int, range(5), {processes})))")

    assert printed == "10\n"


def test_no_batches_need_no_process() -> None:
    assert list(forked_results(int, [], 2)) == []


DEATHS = {
    "at work": "lambda batch: os._exit(3) if batch == 2 else batch",
    "with a child that holds its pipe": "lambda batch: os.fork() and os._exit(0) or time.sleep(5)",
}


@pytest.mark.parametrize("work", DEATHS.values(), ids=[*DEATHS])
def test_a_worker_that_dies_is_an_error_and_ends_the_others(work: str) -> None:
    printed = results_in_child(
        f"results = forked_results({work}, range(4), 2)\n"
        "try: print(list(results))\n"
        "except WorkerDied: print('died')\n"
        "try: os.waitpid(-1, os.WNOHANG)\n"
        "except ChildProcessError: print('nobody is left')"
    )

    assert printed == "died\nnobody is left\n"


def test_what_a_worker_raises_is_raised() -> None:
    printed = results_in_child(
        "def work(batch): raise ValueError(batch)\n"
        "try: list(forked_results(work, [7], 2))\n"
        "except ValueError as problem: print(repr(problem))"
    )

    assert printed == "ValueError(7)\n"


def test_what_cannot_be_sent_is_raised_as_its_text() -> None:
    printed = results_in_child(
        "class Odd(Exception):\n"
        "    def __init__(self, what, why): super().__init__(f'{what} {why}')\n"
        "def work(batch): raise Odd(batch, 'less')\n"
        "try: list(forked_results(work, [7], 2))\n"
        "except RuntimeError as problem: print(problem)"
    )

    assert printed == "Odd('7 less')\n"


def test_workers_end_with_their_first_process(tmp_path: Path) -> None:
    results_in_child(
        "def work(batch):\n"
        f"    open({str(tmp_path)!r} + f'/{{os.getpid()}}', 'w').close()\n"
        "    return batch\n"
        "results = forked_results(work, range(4), 2); next(results)\n"
        "os._exit(0)"
    )

    workers = [file.name for file in tmp_path.iterdir()]
    assert workers
    while [name for name in workers if Path("/proc", name).exists()]:
        time.sleep(0.02)  # Until the limit of a test.


def scenarios(count: int) -> str:
    return ECHO + "".join(SCENARIO % place for place in range(count))


@pytest.mark.slow
def test_many_scenarios_give_the_same_output_in_processes(process: Callable[..., Done]) -> None:
    write("scenarios/many.scenario.yaml", scenarios(60))

    alone, several = process("replay"), process("replay", "-j", "3")

    assert alone == several
    assert alone.code == 0


WITHOUT_COPIES = """
from simkit.cli import main, processes
if __name__ == "__main__":
    processes.can_fork = lambda: False
    processes.SIZE_MIN = 1
    main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--seeds", "3")], ids=["once", "seeds"])
def test_where_no_process_can_be_copied_the_output_is_the_same(
    process: Callable[..., Done], options: tuple[str, ...]
) -> None:
    write("scenarios/many.scenario.yaml", scenarios(5))
    write("no_copies.py", WITHOUT_COPIES)
    command = ("replay", "scenarios", *options)

    done = subprocess.run(
        [sys.executable, "no_copies.py", *command, "-j", "2"],
        capture_output=True, text=True, check=False, timeout=120, env=os.environ,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    assert without_times(done.stdout) == process(*command).out


class Entry:
    def __init__(self, pipeline: str) -> None:
        self.pipeline = pipeline


@pytest.mark.parametrize(
    ("pipelines", "options", "is_worth_it"),
    [
        (["echo"] * 49, {}, False),
        (["echo"] * 50, {}, True),
        (["echo", "app:run"], {}, True),
        (["app:run"], {}, False),
        (["echo"] * 2, {"pipeline": "app:run"}, True),
        (["echo"], {"pipeline": "app:run"}, False),
    ],
)
def test_a_few_scenarios_of_declared_pipelines_run_in_one_process(
    pipelines: list[str], options: dict[str, str], is_worth_it: bool
) -> None:
    from simkit.cli.running import Job

    entries = [Entry(pipeline) for pipeline in pipelines]

    assert processes.pays(entries, Job(**options)) == is_worth_it  # type: ignore[arg-type]
