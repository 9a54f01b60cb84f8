"""What came of each scenario, as every writer needs it, and of all of them together."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from simkit.checks.findings import Finding

OutcomeName = Literal["held", "failed", "broken", "skipped", "xfailed"]


class Result(msgspec.Struct, frozen=True):
    """What came of one scenario, or of a file that cannot be read."""

    id: str
    """``file::name``; the path alone for a file that cannot be read."""
    file: str
    line: int
    name: str
    outcome: OutcomeName
    """``xfailed``: it failed, as its ``xfail`` says. ``broken``: the file or script is at fault."""
    seed: int | None = None
    """The seed it ran with; None if it did not run."""
    digest: str = ""
    """Of the trace; equal for equal runs."""
    pipeline: str = ""
    turns: int = 0
    model_calls: int = 0
    tokens: int = 0
    """What all model calls together were sent."""
    virtual_ms: int = 0
    findings: tuple[Finding, ...] = ()
    """What fails it."""
    warnings: tuple[Finding, ...] = ()
    noted: tuple[Finding, ...] = ()
    """What was found, but is claimed or allowed."""
    lints_off: tuple[tuple[str, str], ...] = ()
    """Lints turned off, each with the reason."""
    passed_over: tuple[Finding, ...] = ()
    """Claims that were not looked at, each with why."""
    error: str = ""
    """Why it is broken, where no finding says it."""
    reason: str = ""
    """Why it is skipped or expected to fail."""
    trace: str = ""
    """The file that holds its trace; empty if none was kept."""
    on: str = ""
    """The pipeline that it ran on, where the call named another than its own."""
    strict: bool = False
    """Whether the call was strict about claims that prove nothing."""

    @property
    def failed(self) -> bool:
        """Whether it makes the whole command fail."""
        return self.outcome in ("failed", "broken")

    @property
    def reproduce(self) -> str:
        """The command that runs this again, quoted for the shell."""
        seed = "" if self.seed is None else f" --seed {self.seed}"
        other = f" --pipeline {shlex.quote(self.on)}" if self.on else ""
        strict = " --strict" if self.strict else ""
        return f"simkit replay {shlex.quote(self.id)}{other}{seed}{strict}"


class Summary(msgspec.Struct, frozen=True):
    """All scenarios of one command together."""

    scenarios: int
    held: int
    failed: int
    broken: int
    skipped: int
    xfailed: int
    warnings: int
    exit_code: int
    """0 all held, 1 findings, 2 something was broken."""
    passed_over: int = 0
    """Claims that were not looked at."""


def summary_of(results: Iterable[Result]) -> Summary:
    """Return the numbers; broken (2) beats failed (1)."""
    counts = dict.fromkeys(("held", "failed", "broken", "skipped", "xfailed"), 0)
    warnings = passed_over = 0
    for result in results:
        counts[result.outcome] += 1
        warnings += len(result.warnings)
        passed_over += len(result.passed_over)
    code = 2 if counts["broken"] else (1 if counts["failed"] else 0)
    return Summary(
        sum(counts.values()), warnings=warnings, passed_over=passed_over, exit_code=code, **counts
    )


def skips(results: Iterable[Result]) -> list[tuple[str, int]]:
    """Return each reason for which scenarios were skipped, and how many."""
    times: dict[str, int] = {}
    for result in results:
        if result.outcome == "skipped":
            times[result.reason] = times.get(result.reason, 0) + 1
    return sorted(times.items())


def lints_off(results: Sequence[Result]) -> list[tuple[str, str, int]]:
    """Return each lint that was turned off, with the reason, and in how many scenarios."""
    times: dict[tuple[str, str], int] = {}
    for result in results:
        for pair in result.lints_off:
            times[pair] = times.get(pair, 0) + 1
    return [(lint, reason, count) for (lint, reason), count in sorted(times.items())]
