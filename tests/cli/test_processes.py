"""`simkit replay -j`: several processes print what one prints."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from simkit.cli import processes
from tests.cli.projects import Done, without_times, write

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


def scenarios(count: int) -> str:
    return ECHO + "".join(SCENARIO % place for place in range(count))


@pytest.mark.slow
def test_many_scenarios_give_the_same_output_in_processes(process: Callable[..., Done]) -> None:
    write("scenarios/many.scenario.yaml", scenarios(310))

    alone, several = process("replay"), process("replay", "-j", "3")

    assert alone == several
    assert alone.code == 0


WITHOUT_COPIES = """
from simkit.cli import main, processes
from simkit.session.workers import worker
if __name__ == "__main__":
    worker.application_process = lambda *_: None
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
        (["echo"] * 299, {}, False),
        (["echo"] * 300, {}, True),
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
