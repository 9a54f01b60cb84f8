"""Findings as text: place, headline, the scenario's own lines, differences, reasons, advice.

::

    scenarios/x.scenario.yaml:41:11: context.workout_coach.history does not match (turn 2, call 1)
        history:
          - user: I ate pizza
      at [0].content: wanted "I ate pizza", found "I ate pizza for lunch"
      left out by tool_messages: 1 message
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from simkit.checks.findings import CLAIM, Difference, Finding
from simkit.core.text import counted, short
from simkit.report.results import Group, OutcomeName, Result, Summary, grouped, outcome_words
from simkit.report.wording import Paint, Tone, columns, plain, wrapped

FINDINGS_MAX: Final = 30
WARNINGS_MAX: Final = 10
NOTED_MAX: Final = 5
WARNING_LINES_MAX: Final = 3
"""The number of warnings shown of a scenario that held, among others."""


def findings_text(findings: Sequence[Finding], paint: Paint = plain, most: int = 0) -> str:
    """Return findings as text, an empty line between two.

    Consequences are listed under their cause. With ``most``, only the first are shown.
    """
    groups = grouped(findings)
    visible = groups[:most] if most else groups
    return "\n\n".join("\n".join(group_lines(group, paint)) for group in visible)


def group_lines(group: Group, paint: Paint = plain) -> Iterator[str]:
    """Yield a finding's lines, and those of its consequences."""
    yield from finding_lines(group.cause, paint)
    yield from following_lines(group)


def following_lines(group: Group) -> Iterator[str]:
    """Yield the consequences of a finding, a line each, under their number."""
    if group.following:
        yield f"  {group.headline}:"
    for finding in group.following:
        yield from wrapped(headline(finding), f"    {finding.where}: ", "      ")


def finding_lines(finding: Finding, paint: Paint = plain) -> Iterator[str]:
    """Yield one finding's lines; the first is ``file:line:column: what``, as editors expect."""
    yield from _headline(finding, paint)
    yield from detail_lines(finding, paint)


def detail_lines(finding: Finding, paint: Paint = plain) -> Iterator[str]:
    """Yield the lines below a finding's headline."""
    for line in finding.excerpt.splitlines():
        yield f"    {line}".rstrip()
    detail = ""
    for difference in finding.differences:
        # Several differences may share one reason, which is shown once.
        note = "" if difference.note == detail else difference.note
        detail = difference.note
        yield from _difference_lines(msgspec.structs.replace(difference, note=note), paint)
    for line in finding.context:
        yield from wrapped(line, "  ", "  " + " " * (len(line) - len(line.lstrip()) + 2))
    if finding.fix:
        yield from (paint(line, "strong") for line in wrapped(finding.fix, "  → "))


def headline(finding: Finding) -> str:
    """Return the finding in one line, without its place in the file."""
    lint = "" if finding.id == CLAIM else f"{finding.id}: "
    return f"{lint}{finding.what}{_whereabouts(finding)}"


def _headline(finding: Finding, paint: Paint) -> Iterator[str]:
    lead = f"{finding.where}: "
    if finding.severity == "W":
        lead += "warning "
    first, *rest = wrapped(headline(finding), lead, "  ")
    tone: Tone = "warning" if finding.severity == "W" else "bad"
    yield paint(first, tone)
    for line in rest:
        yield paint(line, tone)


def _whereabouts(finding: Finding) -> str:
    """Return turn, agent and call, unless the headline contains them."""
    words = []
    if finding.turn and f"turn {finding.turn}" not in finding.what:
        words.append(f"turn {finding.turn}")
    if finding.agent and finding.agent not in finding.what:
        words.append(f"agent {finding.agent}")
    if finding.call is not None and f"call [{finding.call}]" not in finding.what:
        words.append(f"call [{finding.call}]")
    return f" ({', '.join(words)})" if words else ""


def _difference_lines(difference: Difference, paint: Paint) -> Iterator[str]:
    at = f"at {difference.at}: " if difference.at else ""
    if difference.expected or difference.actual:
        expected, actual = difference.expected, difference.actual
        if len(f"  {at}wanted {expected}, found {actual}") <= columns():
            yield f"  {at}wanted {paint(expected, 'good')}, found {paint(actual, 'bad')}"
        else:
            if at:
                yield f"  {at.rstrip()}"
            yield from _painted("    wanted ", expected, "good", paint)
            yield from _painted("    found  ", actual, "bad", paint)
        if difference.note:
            yield from wrapped(difference.note, "    ")
    elif difference.note:
        yield from wrapped(f"{at}{difference.note}", "  ", "    ")


def _painted(lead: str, text: str, tone: Tone, paint: Paint) -> Iterator[str]:
    for number, line in enumerate(wrapped(text, lead)):
        start = lead if number == 0 else " " * len(lead)
        yield start + paint(line[len(lead) :], tone)


def result_text(result: Result, paint: Paint = plain) -> str:
    """Return everything to report of a scenario below its title; empty if it simply held.

    Of many findings the first are shown; the JSON format has all of them.
    """
    blocks = (judged_text(result, paint), reproduce_line(result))
    return "\n\n".join(block for block in blocks if block)


def reproduce_line(result: Result) -> str:
    """Return the command that runs a scenario again, if it failed."""
    return f"reproduce: {result.reproduce}" if result.failed else ""


def judged_text(result: Result, paint: Paint = plain) -> str:
    """Return a scenario's findings, warnings and notes."""
    blocks = [
        result.error,
        findings_text(result.findings, paint, FINDINGS_MAX),
        _more(grouped(result.findings), FINDINGS_MAX, "finding"),
        findings_text(result.warnings, paint, WARNINGS_MAX),
        _more(result.warnings, WARNINGS_MAX, "warning"),
        "\n".join(
            line
            for finding in result.noted[:NOTED_MAX]
            for line in wrapped(headline(finding), "noted: ")
        ),
        _more(result.noted, NOTED_MAX, "noted finding"),
    ]
    return "\n\n".join(block for block in blocks if block)


def _more(findings: Sequence[object], most: int, noun: str) -> str:
    rest = len(findings) - most
    return f"… and {counted(rest, f'more {noun}')}; --format json lists all" if rest > 0 else ""


def warning_lines(result: Result, paint: Paint = plain) -> Iterator[str]:
    """Yield a scenario's first warnings, each on one line."""
    indent = " " * 10
    for finding in result.warnings[:WARNING_LINES_MAX]:
        line = short(f"warning {headline(finding)}", columns() - len(indent))
        yield indent + paint(line, "warning")
    rest = len(result.warnings) - WARNING_LINES_MAX
    if rest > 0:
        yield f"{indent}… and {counted(rest, 'more warning')}"


def title_line(result: Result, paint: Paint = plain) -> str:
    """Return the scenario's line: its outcome, its name, and the reason if there is one."""
    word, tone = _WORDS[result.outcome]
    reason = f" ({result.reason})" if result.reason else ""
    over = f" ({passed_over_words(result.passed_over)})" if result.passed_over else ""
    return f"{paint(f'{word:<7}', tone)} {result.name or result.file}{reason}{over}"


def passed_over_words(claims: Sequence[Finding]) -> str:
    """Return the number of skipped claims, and why: ``2 claims not looked at: …``."""
    reasons = dict.fromkeys(claim.what.partition(" was not looked at: ")[2] for claim in claims)
    return f"{counted(len(claims), 'claim')} not looked at: {'; '.join(reasons)}"


_WORDS: Final[Mapping[OutcomeName, tuple[str, Tone]]] = {
    "held": ("ok", "good"),
    "failed": ("FAILED", "bad"),
    "broken": ("BROKEN", "bad"),
    "skipped": ("skipped", "warning"),
    "xfailed": ("xfailed", "warning"),
}


def summary_lines(
    summary: Summary,
    off: Sequence[tuple[str, str, int]],
    seconds: float,
    paint: Paint = plain,
    skips: Sequence[tuple[str, int]] = (),
) -> Iterator[str]:
    """Yield the waivers and skips, and the summary line."""
    for reason, count in skips:
        # On one line, since it may end with a command to copy.
        yield f"skipped: {counted(count, 'scenario')}: {reason}"
    for lint, reason, count in off:
        yield from wrapped(
            f"{lint} in {counted(count, 'scenario')}: {reason}", "lint turned off: ", "  "
        )
    parts = [*([] if summary.held else ["0 held"]), *outcome_words(summary)]
    line = f"{counted(summary.scenarios, 'scenario')}: {', '.join(parts)} ({seconds:.2f} s)"
    yield paint(line, "bad" if summary.exit_code else "good")
