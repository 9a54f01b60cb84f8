"""`simkit replay --seeds`: how often each scenario holds over many seeds."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable

import pytest

from tests.cli.projects import BAD, ECHO, GOOD, MISSPELT, Done, write

Call = Callable[..., Done]
DRAWN = """\
---
scenario: names are short
pipeline: echo
turns:
  - user: I am ${fake.name}
    replies: {a: "Hello ${fake.name}"}
    expect: {reply: {$len: {$lte: 20}}}
"""


def test_the_rate_the_first_failing_seed_and_its_command_are_shown(simkit: Call) -> None:
    write("a.scenario.yaml", ECHO + GOOD + DRAWN)

    done = simkit("replay", "a.scenario.yaml", "--seeds", "40")

    assert done.code == 1
    lines = done.out.splitlines()
    assert lines[:2] == ["a.scenario.yaml", "  ok      it holds: held for 40 of 40 seeds"]
    match = re.fullmatch(r"  FAILED  names are short: held for (\d+) of 40 seeds", lines[2])
    assert match is not None
    assert 0 < int(match[1]) < 40
    assert lines[3] == (
        f"    {40 - int(match[1])} of 40: a.scenario.yaml:17:28: reply does not match"
    )
    assert re.fullmatch(r"2 scenarios, seeds 0 to 39: 1 held, 1 failed \(\d+\.\d\d s\)", lines[-1])
    again = simkit(*shlex.split(lines[4])[1:])
    assert again.code == 1
    assert "a.scenario.yaml:17:28: reply does not match" in again.out
    assert simkit("replay", "a.scenario.yaml", "--seeds", "40").out == done.out


def test_every_seed_is_the_run_that_this_seed_gives_alone(simkit: Call) -> None:
    write("a.scenario.yaml", ECHO + DRAWN)
    single = [simkit("replay", "a.scenario.yaml", "--seed", str(seed)) for seed in range(7, 13)]

    done = simkit("replay", "a.scenario.yaml", "--seeds", "6", "--seed", "7", "--format", "json")

    report = json.loads(done.out)
    (scenario,) = report["scenarios"]
    assert report["seeds"] == [*range(7, 13)]
    assert scenario["holds"] == sum(each.code == 0 for each in single)
    assert done.code == max(each.code for each in single)


def test_several_processes_report_the_same(simkit: Call) -> None:
    write("a.scenario.yaml", ECHO + GOOD + DRAWN)
    call = ("replay", "a.scenario.yaml", "--seeds", "8", "--format", "json")

    assert simkit(*call, "-j", "2").out == simkit(*call).out


def test_what_holds_for_every_seed_ends_with_0_and_quietly(simkit: Call) -> None:
    write("a.scenario.yaml", ECHO + GOOD)

    done = simkit("replay", "a.scenario.yaml", "--seeds", "3", "-q")

    assert done == Done(0, "\n1 scenario, seeds 0 to 2: 1 held (0.00 s)\n", "")


def test_what_is_broken_or_skipped_does_not_run_again(simkit: Call) -> None:
    write("a.scenario.yaml", ECHO + GOOD.replace("tags: [smoke]", "skip: not now") + MISSPELT)
    write("b.scenario.yaml", ECHO + BAD.replace("pipeline: echo", "pipeline: echo\nxfail: known"))

    done = simkit("replay", "a.scenario.yaml", "b.scenario.yaml", "--seeds", "3")

    assert done.code == 2
    assert "  skipped it holds: not now" in done.out
    assert "  BROKEN  misspelt: " in done.out
    assert "  ok      it's wrong: held for 3 of 3 seeds" in done.out


@pytest.mark.parametrize(
    "option",
    ["--verify", "--update", "--show=context", "--turn=1", "--agent=a", "--base=x",
     "--format=github"],
)  # fmt: skip
def test_options_for_a_single_run_are_refused(option: str, simkit: Call) -> None:
    done = simkit("replay", "--seeds", "3", option)

    assert done.code == 2
    assert "leave out" in done.err
