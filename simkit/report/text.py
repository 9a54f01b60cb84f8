"""Findings as text: where, what, the scenario's own lines, what differs, why, and what to do now.

::

    scenarios/x.scenario.yaml:41:11: context.workout_coach.history does not match (turn 2, call 1)
        history:
          - user: I ate pizza
      at [0].content: wanted "I ate pizza", found "I ate pizza for lunch"
      left out by tool_messages: 1 message
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simkit.expect.findings import Difference, Finding
from simkit.report.results import Result, Summary
from simkit.report.wording import WIDTH, Paint, counted, plain, wrapped

CLAIM = "claim"
"""The id of findings that are no lint."""


def findings_text(findings: Sequence[Finding], paint: Paint = plain) -> str:
    """Returns findings as text, an empty line between two."""
    return "\n\n".join("\n".join(finding_lines(finding, paint)) for finding in findings)


def finding_lines(finding: Finding, paint: Paint = plain) -> Iterator[str]:
    """Yields one finding's lines; the first is ``file:line:column: what``, as editors read it."""
    yield from _headline(finding, paint)
    for line in finding.excerpt.splitlines():
        yield f"    {line}".rstrip()
    for difference in finding.differences:
        yield from _difference_lines(difference, paint)
    for line in finding.context:
        yield from wrapped(line, "  ", "  " + " " * (len(line) - len(line.lstrip()) + 2))
    if finding.fix:
        yield from wrapped(finding.fix, "  → ")


def headline(finding: Finding) -> str:
    """Returns the finding in one line, without its place in the file."""
    lint = "" if finding.id == CLAIM else f"{finding.id}: "
    return f"{lint}{finding.what}{_whereabouts(finding)}"


def _headline(finding: Finding, paint: Paint) -> Iterator[str]:
    lead = f"{finding.where}: "
    if finding.severity == "W":
        lead += "warning "
    first, *rest = wrapped(headline(finding), lead, "  ")
    tone = "warning" if finding.severity == "W" else "strong"
    yield paint(first, tone)
    for line in rest:
        yield paint(line, tone)


def _whereabouts(finding: Finding) -> str:
    """Returns turn, agent and call, as far as the headline does not say them already."""
    words = []
    if finding.turn and f"turn {finding.turn}" not in finding.what:
        words.append(f"turn {finding.turn}")
    if finding.agent and finding.agent not in finding.what:
        words.append(f"agent {finding.agent}")
    if finding.call is not None and f"call {finding.call + 1}" not in finding.what:
        words.append(f"call {finding.call + 1}")
    return f" ({', '.join(words)})" if words else ""


def _difference_lines(difference: Difference, paint: Paint) -> Iterator[str]:
    at = f"at {difference.at}: " if difference.at else ""
    if difference.wanted or difference.found:
        whole = f"  {at}wanted {difference.wanted}, found {difference.found}"
        if len(whole) <= WIDTH:
            wanted, found = paint(difference.wanted, "good"), paint(difference.found, "bad")
            yield f"  {at}wanted {wanted}, found {found}"
        else:
            if at:
                yield f"  {at.rstrip()}"
            yield from _painted(wrapped(difference.wanted, "    wanted "), "wanted", "good", paint)
            yield from _painted(wrapped(difference.found, "    found  "), "found", "bad", paint)
        if difference.note:
            yield from wrapped(difference.note, "    ")
    elif difference.note:
        yield from wrapped(f"{at}{difference.note}", "  ", "    ")


def _painted(lines: list[str], word: str, tone: str, paint: Paint) -> Iterator[str]:
    lead, _, first = lines[0].partition(word)
    shade = "good" if tone == "good" else "bad"
    yield lead + word + paint(first, shade)
    for line in lines[1:]:
        yield paint(line, shade)


def result_text(result: Result, paint: Paint = plain) -> str:
    """Returns all that is to be said of a scenario that does not simply hold: empty if it does."""
    blocks = []
    if result.error:
        blocks.append(result.error)
    if result.findings:
        blocks.append(findings_text(result.findings, paint))
    if result.warnings:
        blocks.append(findings_text(result.warnings, paint))
    if result.failed:
        blocks.append(f"reproduce: {result.reproduce}")
    return "\n\n".join(blocks)


def noted_lines(result: Result) -> Iterator[str]:
    """Yields what was found and is no finding, because the scenario claims or allows it."""
    for finding in result.noted:
        yield from wrapped(headline(finding), "noted: ", "       ")


def title_line(result: Result, paint: Paint = plain) -> str:
    """Returns the scenario's line: its outcome, its name, and why if there is a reason."""
    word = _WORDS[result.outcome]
    tones = {"held": "good", "failed": "bad", "broken": "bad"}
    tone = tones.get(result.outcome, "warning")
    shown = paint(f"{word:<7}", "good" if tone == "good" else "bad" if tone == "bad" else "warning")
    extras = [result.reason] if result.reason else []
    if result.warnings:
        extras.append(counted(len(result.warnings), "warning"))
    extra = f" ({'; '.join(extras)})" if extras else ""
    return f"{shown} {result.name or result.file}{extra}"


_WORDS = {
    "held": "ok", "failed": "FAILED", "broken": "BROKEN", "skipped": "skipped", "xfailed": "xfailed",
}  # fmt: skip


def summary_lines(
    summary: Summary, off: Sequence[tuple[str, str, int]], seconds: float, paint: Paint = plain
) -> Iterator[str]:
    """Yields what was relaxed, and the line that counts everything."""
    for lint, reason, count in off:
        yield from wrapped(
            f"{lint} in {counted(count, 'scenario')}: {reason}", "lint turned off: ", "  "
        )
    parts = [f"{summary.held} held"]
    for count, word in (
        (summary.failed, "failed"),
        (summary.broken, "broken"),
        (summary.skipped, "skipped"),
        (summary.xfailed, "failed as expected"),
        (summary.warnings, "warning" if summary.warnings == 1 else "warnings"),
    ):
        if count:
            parts.append(f"{count} {word}")
    line = f"{counted(summary.scenarios, 'scenario')}: {', '.join(parts)} ({seconds:.2f} s)"
    yield paint(line, "bad" if summary.exit_code else "good")
