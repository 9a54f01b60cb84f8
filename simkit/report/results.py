"""Results of scenarios, their summary, and findings grouped by cause, for every writer.

A result is what the judgement of a run comes to, or why a scenario did not run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, Literal, NamedTuple

import msgspec

from simkit.checks.claims import cut_short
from simkit.checks.findings import CLAIM, Finding
from simkit.checks.judge import Outcome
from simkit.core.text import counted, shell_word
from simkit.spec.lint_catalogue import LINTS
from simkit.spec.scenario.files import Prepared
from simkit.spec.scenario.items import ScenarioCase
from simkit.trace import events as e

OutcomeName = Literal["held", "failed", "broken", "skipped", "xfailed"]
READ_AS: Final[Mapping[OutcomeName, str]] = {
    "held": "passed", "failed": "failed", "broken": "error", "skipped": "skipped",
    "xfailed": "failed as expected",
}  # fmt: skip
"""Outcome to the word that people read for it."""


class Result(msgspec.Struct, frozen=True):
    """The result of one scenario, or of an unreadable file."""

    id: str
    """``file::name``; the path alone for an unreadable file."""
    file: str
    line: int
    name: str
    outcome: OutcomeName
    """``xfailed``: it failed, as its ``xfail`` expects. ``broken``: the file or script is wrong."""
    seed: int | None = None
    """The seed of the run; None if it did not run."""
    digest: str = ""
    """The digest of the trace; empty if it did not run."""
    pipeline: str = ""
    turns: int = 0
    model_calls: int = 0
    tokens: int = 0
    """The number of tokens of all contexts together."""
    virtual_ms: int = 0
    findings: tuple[Finding, ...] = ()
    """The findings that fail it."""
    warnings: tuple[Finding, ...] = ()
    noted: tuple[Finding, ...] = ()
    """Findings that fail nothing: hits of lints that are claimed or allowed, and what fails a
    scenario that is expected to fail."""
    lints_off: tuple[tuple[str, str], ...] = ()
    """Lints that are turned off, each with the reason."""
    passed_over: tuple[Finding, ...] = ()
    """Claims that were skipped, each with the reason."""
    error: str = ""
    """Why it is broken, if no finding says it."""
    reason: str = ""
    """Why it is skipped or expected to fail."""
    trace: str = ""
    """The file with its trace; empty if none was kept."""
    on: str = ""
    """The pipeline that it ran on, if the command named another one."""
    strict: bool = False
    """Whether the command was strict about claims that prove nothing."""
    again: str = ""
    """The command that runs it again, if that is not simkit's."""

    @property
    def failed(self) -> bool:
        """Return whether it makes the command fail."""
        return self.outcome in ("failed", "broken")

    @property
    def reproduce(self) -> str:
        """Return the command that runs this again, quoted for the shell.

        A text of an earlier scenario is carried over only in one process with that scenario.
        """
        if self.again:
            return self.again
        seed = "" if self.seed is None else f" --seed {self.seed}"
        other = f" --pipeline {shell_word(self.on)}" if self.on else ""
        strict = " --strict" if self.strict else ""
        is_carried = any(finding.id == "RUN-08" for finding in self.findings)
        scenarios = f"--in-process {shell_word(self.file)}" if is_carried else shell_word(self.id)
        return f"simkit replay {scenarios}{other}{seed}{strict}"


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
    """The exit code: 0 all held, 1 findings, 2 something was broken."""
    passed_over: int = 0
    """The number of skipped claims."""


def summary_of(results: Iterable[Result]) -> Summary:
    """Return the numbers; broken (2) beats failed (1)."""
    counts = dict.fromkeys(READ_AS, 0)
    warnings = passed_over = 0
    for result in results:
        counts[result.outcome] += 1
        warnings += len(result.warnings)
        passed_over += len(result.passed_over)
    code = 2 if counts["broken"] else (1 if counts["failed"] else 0)
    return Summary(
        sum(counts.values()), warnings=warnings, passed_over=passed_over, exit_code=code, **counts
    )


def outcome_words(summary: Summary) -> list[str]:
    """Return the numbers that are not 0, in words: ``2 passed``, ``1 failed``, ``1 warning``."""
    words = [
        counted(count, word, "" if name == "broken" else word)
        for name, word in READ_AS.items()
        if (count := getattr(summary, name))
    ]
    words += [counted(summary.warnings, "warning")] if summary.warnings else []
    over = summary.passed_over
    return [*words, *([f"{counted(over, 'claim')} not looked at"] if over else [])]


def skips(results: Iterable[Result]) -> list[tuple[str, int]]:
    """Return each reason for skipping, and the number of scenarios."""
    return sorted(Counter(r.reason for r in results if r.outcome == "skipped").items())


def lints_off(results: Sequence[Result]) -> list[tuple[str, str, int]]:
    """Return each lint that was turned off, with the reason and the number of scenarios."""
    times = Counter(chain.from_iterable(result.lints_off for result in results))
    return [(lint, reason, count) for (lint, reason), count in sorted(times.items())]


class Group(NamedTuple):
    """One finding with what follows from it, and the warnings of the same call."""

    cause: Finding
    following: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()


def grouped(findings: Sequence[Finding]) -> list[Group]:
    """Return the findings in order, each with its consequences."""
    named = {finding.place_and_what for finding in findings if not finding.follows}
    following: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.follows in named:
            following.setdefault(finding.follows, []).append(finding)
    # Two findings may have the same text: the first of them lists the consequences.
    groups = []
    for finding in findings:
        if finding.follows not in named:
            others = following.pop(finding.place_and_what, ())
            warnings = [other for other in others if other.severity == "W" != finding.severity]
            rest = [other for other in others if other not in warnings]
            groups.append(Group(finding, tuple(rest), tuple(warnings)))
    return groups


def result_of(prepared: Prepared, outcome: Outcome, seed: int | None) -> Result:
    """Return the result of a scenario; an expected failure inverts it.

    ``seed`` is the caller's in place of the scenario's own.
    """
    scenario, judgement, view = prepared.scenario, outcome.judgement, outcome.view
    findings, noted = judgement.findings, judgement.noted
    name: OutcomeName = "held" if judgement.passed else "failed"
    reason = ""
    if judgement.exit_code == 2:
        name = "broken"
    elif scenario.xfail is not None and not judgement.passed:
        name, findings, reason = "xfailed", (), scenario.xfail.reason
        noted = (*judgement.findings, *noted)
    elif scenario.xfail is not None and scenario.xfail.strict:
        name = "failed"
        findings = (_unexpectedly_held(prepared, scenario.xfail.reason),)
    return not_run(
        prepared.item, name, seed=scenario.seed if seed is None else seed,
        digest=outcome.trace.digest(),
        pipeline=prepared.pipeline.pipeline, findings=findings, warnings=judgement.warnings,
        noted=noted, lints_off=judgement.lints_off, reason=reason,
        passed_over=judgement.passed_over, **counts_of(view.events),
    )  # fmt: skip


def counts_of(events: Sequence[e.Event]) -> dict[str, int]:
    """Return the fields of a result that count what happened in a run."""
    turns = calls = tokens = 0
    tokens_of: dict[str, int] = {}
    for event in events:
        if type(event) is e.ContextBuilt:
            tokens_of[event.call] = event.tokens
        elif type(event) is e.ModelCalled:
            calls, tokens = calls + 1, tokens + tokens_of.get(event.call, 0)
        elif type(event) is e.TurnStarted:
            turns += 1
    now = events[-1].at if events else 0
    return {"turns": turns, "model_calls": calls, "tokens": tokens, "virtual_ms": now}


def finding_of_death(prepared: Prepared, turn: int, how: str) -> Finding:
    """Return the finding that a scenario's process ended in a turn; 0 is before the first."""
    path: tuple[str | int, ...] = ("turns", turn - 1) if turn else ("turns",)
    when = f"in turn {turn}" if turn else "before its first turn"
    headline = f"the process of this scenario ended {when}: {how}"
    where, fix = prepared.document.position(path), LINTS["RUN-09"].advice(is_code=True)
    return Finding("RUN-09", "E", headline, where, path, turn, fix=fix)


def result_of_death(prepared: Prepared, seed: int | None, turn: int, how: str) -> Result:
    """Return the result of a scenario whose process ended in a turn; 0 is before the first."""
    scenario, finding = prepared.scenario, finding_of_death(prepared, turn, how)
    is_expected = scenario.xfail is not None
    return not_run(
        prepared.item, "xfailed" if is_expected else "failed",
        seed=scenario.seed if seed is None else seed, pipeline=prepared.pipeline.pipeline,
        findings=() if is_expected else (finding,), turns=turn,
        reason=scenario.xfail.reason if scenario.xfail is not None else "",
    )  # fmt: skip


def changed_before(prepared: Prepared, changed: Sequence[tuple[str, str]]) -> Finding:
    """Return the note on variables that other scenarios, with its name beside each, changed."""
    names = [f"`{name}` by '{scenario}'" for name, scenario in changed]
    text = "\n".join(
        ["earlier scenarios of this process changed variables of the pipeline:", *cut_short(names)]
    )
    where, fix = prepared.document.position(("scenario",)), LINTS["RUN-08"].advice(is_code=True)
    return Finding("RUN-08", "W", text, where, ("scenario",), fix=fix)


def asked_by_libraries(prepared: Prepared, hosts: Sequence[tuple[str, str]]) -> Finding:
    """Return the warning of libraries that asked hosts by themselves, and went on without them."""
    names = ", ".join(f"`{library}` asked {host}" for library, host in hosts)
    where = prepared.document.position(("turns",))
    return Finding(
        "RUN-02", "W", f"{names}: there is no network, and the run went on without it", where,
        ("turns",), fix="Turn it off in the library, or allow the host: `allow_hosts`.",
    )  # fmt: skip


def refused_late(prepared: Prepared, refused: Sequence[str]) -> list[Finding]:
    """Return a finding for each effect that code was refused after its run."""
    where, fix = prepared.document.position(("turns",)), LINTS["RUN-02"].advice(is_code=True)
    return [Finding("RUN-02", "E", text, where, ("turns",), fix=fix) for text in refused]


def not_run(item: ScenarioCase, outcome: OutcomeName, **facts: Any) -> Result:
    """Return the result of a scenario that did not run, with the given facts."""
    return Result(item.id, item.file, item.line, item.name, outcome, **facts)


def _unexpectedly_held(prepared: Prepared, reason: str) -> Finding:
    headline, where = f"the scenario passed, but is expected to fail: {reason}", ("xfail",)
    fix = "Remove `xfail`, or write `strict: false` under it."
    return Finding(CLAIM, "E", headline, prepared.document.position(where), where, fix=fix)


# Results as one JSON object, for programs


def json_text(results: Sequence[Result], version: str, libraries: Mapping[str, str]) -> str:
    """Return the JSON object, indented."""
    whole = {
        "simkit": version,
        "libraries": dict(libraries),
        "scenarios": [scenario_object(result) for result in results],
        "lints_off": [
            {**_off(lint, reason), "scenarios": count} for lint, reason, count in lints_off(results)
        ],
        "summary": msgspec.to_builtins(summary_of(results)),
    }
    return msgspec.json.format(msgspec.json.encode(whole), indent=2).decode()


def scenario_object(result: Result) -> dict[str, Any]:
    """Return the object of one scenario."""
    fields: dict[str, Any] = msgspec.to_builtins(result)
    for name in ("findings", "warnings", "noted", "passed_over"):
        fields[name] = [_group_object(group) for group in grouped(getattr(result, name))]
    for finding in fields["findings"]:
        if finding["id"] == CLAIM:
            _complete(finding, result)
    fields["lints_off"] = [_off(lint, reason) for lint, reason in result.lints_off]
    fields["reproduce"] = result.reproduce
    del fields["on"], fields["strict"], fields["again"]  # The command shows both.
    return fields


def _complete(finding: dict[str, Any], result: Result) -> None:
    """Give a failing claim what people read elsewhere: the claim, the run, the ways out."""
    actual = (*finding["context"], finding["what"])[0]
    whole = {"at": "", "wanted": finding["excerpt"], "found": actual, "note": ""}
    finding["differences"] = finding["differences"] or [whole]
    accept = f"simkit replay {shell_word(result.id)} --update"
    finding["fix"] = finding["fix"] or (
        f"If the claim is right, change the application. If the run is right: `{accept}`."
    )


def _off(lint: str, reason: str) -> dict[str, Any]:
    code, _, at = lint.partition(" at ")
    return {"id": code, "at": at, "reason": reason}


def _group_object(group: Group) -> dict[str, Any]:
    return {
        **_finding_object(group.cause),
        "following": [{**_finding_object(finding), "following": []} for finding in group.following],
    }


def _finding_object(finding: Finding) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(finding)
    del fields["follows"], fields["event"]  # Its place shows the one; pages show the other.
    return fields
