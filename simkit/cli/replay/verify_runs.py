"""``--verify``: run everything again in another process, with other hashes on another day."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

import msgspec

from simkit.checks.findings import Finding
from simkit.cli.replay.second_run import Again, Answer, Job
from simkit.cli.running import Ran
from simkit.core.errors import SimkitError
from simkit.report.determinism import NOT_DETERMINISTIC, first_difference
from simkit.spec.scenario.items import ScenarioCase

_START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from simkit.cli.replay.second_run import serve; serve()"
)


DAYS_LATER: Final = 401
"""The number of days by which the other process is later, for code with real time."""


def other_hash_seed() -> str:
    """Return a PYTHONHASHSEED that is not this process's."""
    return "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"


def verified(pairs: Sequence[tuple[ScenarioCase, Ran]], seed: int | None) -> list[Finding | None]:
    """Return, for each scenario that ran, the finding that its second run differs.

    Raise SimkitError if the child process fails.
    """
    hash_seed = other_hash_seed()
    job = Job([Again(item, ran.result.digest) for item, ran in pairs], seed, DAYS_LATER)
    child = subprocess.run(
        [sys.executable, "-c", _START, json.dumps([path or os.getcwd() for path in sys.path])],
        input=msgspec.json.encode(job),
        stdout=subprocess.PIPE,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )
    if child.returncode:
        raise SimkitError(f"--verify: the second process ended with exit code {child.returncode}")
    answers = msgspec.json.decode(child.stdout, type=list[Answer])
    return [
        _difference(ran, answer, f"PYTHONHASHSEED={hash_seed}, {DAYS_LATER} days later")
        for (_, ran), answer in zip(pairs, answers, strict=True)
    ]


def _difference(ran: Ran, answer: Answer, how: str) -> Finding | None:
    result = ran.result
    where = f"{result.file}:{result.line}:1"
    if answer.error:
        return Finding(
            NOT_DETERMINISTIC,
            "E",
            f"the second run ({how}) could not be made",
            where,
            context=tuple(answer.error.splitlines()),
        )
    if answer.digest == result.digest:
        return None
    return first_difference(ran.lines, [line.encode() for line in answer.lines], where, how)
