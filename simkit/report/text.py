"""Findings as text: place, headline, the scenario's own lines, differences, reasons, advice.

For GitHub they are annotations at lines of a pull request, and Markdown.

::

    scenarios/x.scenario.yaml:41:11: context.workout_coach.history does not match (turn 2, call 1)
        history:
          - user: I ate pizza
      at message 1, content: wanted "I ate pizza", found "I ate pizza for lunch"
      left out by tool_messages: 1 message
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from posixpath import join, normpath
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from simkit.checks.findings import CLAIM, Difference, Finding
from simkit.checks.judge import Judgement
from simkit.core.output import clean
from simkit.core.redact import Redactor
from simkit.core.text import counted, short_end
from simkit.report.last_run import slug
from simkit.report.results import (
    READ_AS,
    Group,
    OutcomeName,
    Result,
    Summary,
    grouped,
    lints_off,
    outcome_words,
    skips,
    summary_of,
)
from simkit.report.table import rows_of, table
from simkit.report.wording import Paint, Tone, block, columns, place_words, plain, wrapped
from simkit.trace.views import View

WARNINGS: Final = "simkit warnings"
PASSED_OVER: Final = "simkit claims not looked at"
"""The section of a test's report for findings that fail nothing; the property with their number."""
FINDINGS_MAX: Final = 30
WARNINGS_MAX: Final = 10
NOTED_MAX: Final = 5
LINES_MAX: Final = 12
WARNING_LINES_MAX: Final = 3
"""The number of warnings shown of a scenario that held, among others."""


def findings_text(findings: Sequence[Finding], paint: Paint = plain) -> str:
    """Return findings as text, an empty line between two.

    Consequences are counted under their cause.
    """
    return "\n\n".join("\n".join(group_lines(group, paint)) for group in grouped(findings))


def group_lines(group: Group, paint: Paint = plain) -> Iterator[str]:
    """Yield a finding's lines, its warnings, and where its consequences are.

    The first line is ``file:line:column: what``, as editors expect.
    """
    finding = group.cause
    is_warning = finding.severity == "W"
    lead = f"{finding.where}: {'warning ' if is_warning else ''}"
    tone: Tone = "warning" if is_warning else "bad"
    yield from (paint(line, tone) for line in wrapped(headline(finding), lead, "  "))
    yield from detail_lines(group, paint)


def following_line(group: Group) -> str:
    """Return the number and the lines of a finding's consequences; empty without any."""
    lines = sorted({split_place(finding.where)[1] for finding in group.following})
    follow = "follows" if len(group.following) == 1 else "follow"
    numbers = ", ".join(map(str, lines[:LINES_MAX])) + (", …" if len(lines) > LINES_MAX else "")
    at = f"line {numbers}" if len(lines) == 1 else f"lines {numbers}"
    more = counted(len(group.following), "more finding")
    return f"{more} {follow} from it, in {at}; the page shows all" if lines else ""


def detail_lines(group: Group, paint: Paint = plain) -> Iterator[str]:
    """Yield the lines below a finding's headline."""
    finding = group.cause
    if finding.code:
        yield f"  {'sent' if finding.call is not None else 'after the call'} by {finding.code}"
    for warning in group.warnings:
        yield from wrapped(headline(warning), "  warning ", "    ")
        yield from wrapped(warning.fix, "    → ") if warning.fix else ()
    for line in finding.excerpt.splitlines():
        yield f"    {line}".rstrip()
    detail = ""
    for difference in finding.differences:
        # Several differences may share one reason, which is shown once.
        note = "" if difference.note == detail else difference.note
        detail = difference.note
        at = place_words(difference.at, finding.path)
        yield from _difference_lines(msgspec.structs.replace(difference, at=at, note=note), paint)
    for line in finding.context:
        yield from wrapped(line, "  ", "  " + " " * (len(line) - len(line.lstrip()) + 2))
    if finding.fix:
        yield from (paint(line, "strong") for line in wrapped(finding.fix, "  → "))
    yield from wrapped(following_line(group), "  ", "    ") if group.following else ()


def headline(finding: Finding) -> str:
    """Return the finding in one line, without its place in the file."""
    lint = "" if finding.id == CLAIM else f"{finding.id}: "
    return f"{lint}{finding.what}{_whereabouts(finding)}"


def _whereabouts(finding: Finding) -> str:
    """Return turn, agent and call, unless the headline contains them."""
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
    """Return everything to report of a scenario below its title; empty if it simply passed.

    Of many findings the first are shown; the JSON format has all of them.
    """
    blocks = (judged_text(result, paint), reproduce_line(result))
    return "\n\n".join(block for block in blocks if block)


def failure_text(judgement: Judgement, view: View | None) -> str:
    """Return the text of a failing test of pytest: findings, and what happened in the run."""
    near_warnings = [warning for warning in judgement.warnings if warning.follows]
    groups = grouped((*judgement.findings, *near_warnings))
    rows = [] if view is None else table(rows_of(view))
    blocks = (*_blocks_of(groups, FINDINGS_MAX, "finding", plain), block(rows))
    return "\n\n".join(filter(None, blocks))


def reproduce_line(result: Result) -> str:
    """Return the command that runs a scenario again, if it failed."""
    return f"reproduce: {result.reproduce}" if result.failed else ""


def judged_text(result: Result, paint: Paint = plain) -> str:
    """Return a scenario's findings, warnings and notes."""
    groups = grouped((*result.findings, *result.warnings))
    failing = [group for group in groups if group.cause.severity == "E"]
    warnings = [group for group in groups if group.cause.severity == "W"]
    blocks = [
        result.error,
        *_blocks_of(failing, FINDINGS_MAX, "finding", paint),
        *_blocks_of(warnings, WARNINGS_MAX, "warning", paint),
        "\n".join(
            line
            for finding in result.noted[:NOTED_MAX]
            for line in wrapped(headline(finding), "noted: ")
        ),
        _more(result.noted, NOTED_MAX, "noted finding"),
    ]
    return "\n\n".join(block for block in blocks if block)


def _blocks_of(groups: Sequence[Group], most: int, noun: str, paint: Paint) -> Iterator[str]:
    for group in groups[:most]:
        yield "\n".join(group_lines(group, paint))
    yield _more(groups, most, noun)


def _more(findings: Sequence[object], most: int, noun: str) -> str:
    rest = len(findings) - most
    return f"… and {counted(rest, f'more {noun}')}; --format json lists all" if rest > 0 else ""


def warning_lines(result: Result, paint: Paint = plain) -> Iterator[str]:
    """Yield the headlines of a scenario's first warnings."""
    indent = " " * 10
    for finding in result.warnings[:WARNING_LINES_MAX]:
        lead = f"{indent}warning {finding.where}: "
        for line in wrapped(headline(finding), lead, f"{indent}  "):
            yield paint(line, "warning")
    rest = len(result.warnings) - WARNING_LINES_MAX
    if rest > 0:
        yield f"{indent}… and {counted(rest, 'more warning')}"


def title_line(result: Result, paint: Paint = plain) -> str:
    """Return the scenario's line: its outcome, its name, and the reason if there is one."""
    word, tone = OUTCOME_WORDS[result.outcome]
    reason = f" ({result.reason})" if result.reason else ""
    over = f" ({passed_over_words(result.passed_over)})" if result.passed_over else ""
    return f"{paint(f'{word:<7}', tone)} {result.name or result.file}{reason}{over}"


def passed_over_words(claims: Sequence[Finding]) -> str:
    """Return the number of skipped claims, and why: ``2 claims not looked at: …``."""
    reasons = dict.fromkeys(claim.what.partition(" was not looked at: ")[2] for claim in claims)
    return f"{counted(len(claims), 'claim')} not looked at: {'; '.join(reasons)}"


def note_unfailing(
    item: Any,
    warnings: Sequence[Finding],
    passed_over: Sequence[Finding] = (),
    redactor: Redactor | None = None,
) -> None:
    """Add findings that fail nothing to the report of a test of pytest.

    JUnit files contain properties, but no sections.
    """
    words = passed_over_words(passed_over)
    for section, findings, head in (WARNINGS, warnings, ""), (PASSED_OVER, passed_over, words):
        if findings:
            text = "\n".join(filter(None, (head, findings_text(findings))))
            item.add_report_section("call", section, clean(text, redactor))
            item.user_properties.append((section, len(findings)))
    if passed_over:
        item.user_properties.append((f"{PASSED_OVER}: why", clean(words, redactor)))


OUTCOME_WORDS: Final[Mapping[OutcomeName, tuple[str, Tone]]] = {
    "held": ("ok", "good"),
    "failed": ("FAILED", "bad"),
    "broken": ("ERROR", "bad"),
    "skipped": ("skipped", "warning"),
    "xfailed": ("xfailed", "warning"),
}


def summary_lines(
    summary: Summary,
    off: Sequence[tuple[str, str, int]],
    seconds: float,
    paint: Paint = plain,
    skips: Sequence[tuple[str, int]] = (),
    more: str = "",
) -> Iterator[str]:
    """Yield the waivers and skips, and the summary line, which ends with ``more``."""
    for reason, count in skips:
        # On one line, since it may end with a command to copy.
        yield f"skipped: {counted(count, 'scenario')}: {reason}"
    for lint, reason, count in off:
        yield from wrapped(
            f"{lint} in {counted(count, 'scenario')}: {reason}", "lint turned off: ", "  "
        )
    parts = [*([] if summary.held else ["0 passed"]), *outcome_words(summary)]
    line = f"{counted(summary.scenarios, 'scenario')}: {', '.join(parts)} ({seconds:.2f} s){more}"
    yield paint(line, "bad" if summary.exit_code else "good")


# Results for GitHub: annotations at lines of a pull request, and Markdown. Pure


Level: TypeAlias = Literal["error", "warning", "notice"]
LEVELS: Final = get_args(Level)
"""From the worst on."""
PLACED: Final = re.compile(r"(?P<where>[^\n]+?:\d+:\d+): (?P<what>.*)", re.DOTALL)
"""An error that begins with its place."""


def annotation(
    level: Level, message: str, *, file: str = "", line: int = 0, column: int = 0, title: str = ""
) -> str:
    """Return one workflow command, which GitHub shows at the file's line."""
    fields = {"file": file, "line": line, "col": column, "title": title}
    given = [f"{key}={_data(str(value))}" for key, value in fields.items() if value]
    properties = ",".join(each.replace(":", "%3A").replace(",", "%2C") for each in given)
    return f"::{level}{' ' if properties else ''}{properties}::{_data(message)}"


def annotation_at(level: Level, where: str, message: str, title: str = "") -> str:
    """Return the command for a place ``file:line:column``, whose numbers may be missing."""
    file, line, column = split_place(where)
    return annotation(level, message, file=file, line=line, column=column, title=title)


def result_annotations(
    results: Sequence[Result], folder: str = "", redact: Callable[[str], str] = lambda text: text
) -> Iterator[str]:
    """Yield a workflow command for every finding and every broken file, the errors first.

    ``folder`` is the folder of the results' files, relative to the root of the repository, from
    which GitHub counts paths. GitHub shows only the first of many commands.
    """
    annotations = chain.from_iterable(_annotations_of(result) for result in results)
    for level, where, message, name in sorted(annotations, key=lambda line: LEVELS.index(line[0])):
        yield annotation_at(level, _from_root(where, folder), redact(message), redact(name))


def _annotations_of(result: Result) -> Iterator[tuple[Level, str, str, str]]:
    """Yield level, place, message and title of everything to report about a scenario."""
    title = result.name or result.file
    if result.error:
        placed = PLACED.match(result.error)
        where = placed["where"] if placed else f"{result.file}:{result.line}"
        yield "error", where, placed["what"] if placed else result.error, title
    for group in grouped((*result.findings, *result.warnings)):
        level: Level = "warning" if group.cause.severity == "W" else "error"
        yield level, group.cause.where, _message(group), title
    if result.passed_over:
        where = f"{result.file}:{result.line}"
        yield "notice", where, passed_over_words(result.passed_over), title


def _message(group: Group) -> str:
    return "\n".join((headline(group.cause), *detail_lines(group)))


def _from_root(where: str, folder: str) -> str:
    path = where.replace("\\", "/")
    return normpath(join(folder, path)) if path else ""


def split_place(where: str) -> tuple[str, int, int]:
    """Return file, line and column of ``file:line:column``; 0 for a missing number."""
    head, _, tail = where.rpartition(":")
    if not tail.isdigit():
        return where, 0, 0
    file, _, line = head.rpartition(":")
    if not line.isdigit():
        return head, int(tail), 0
    return file, int(line), int(tail)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


# Results as Markdown, as the summary of a workflow's step shows it. Pure


ROWS_MAX: Final = 200
"""The number of scenarios in the table; failed ones come first."""
TOLD_MAX: Final = 30
"""The number of scenarios with shown findings."""
CHARACTERS_MAX: Final = 12_000
"""The length of one scenario's findings: GitHub accepts 1 MiB for a whole step."""


def results_markdown(
    results: Sequence[Result], pictures: Mapping[str, str] = {}, page: str = "", artifacts: str = ""
) -> str:
    """Return the results of the scenarios: a table, their tokens, and every finding.

    ``pictures`` are Mermaid diagrams of runs, by scenario, which stand beside the findings.
    ``page`` is the file with all runs, and ``artifacts`` the address from which it can be loaded.
    """
    return "\n\n".join(_blocks(results, pictures, page, artifacts)) + "\n"


def _blocks(
    results: Sequence[Result], pictures: Mapping[str, str], page: str, artifacts: str
) -> Iterator[str]:
    summary = summary_of(results)
    heading = [counted(len(results), "scenario"), *outcome_words(summary)]
    yield f"## simkit: {', '.join(heading)}"
    calls, tokens = (sum(r.model_calls for r in results), sum(r.tokens for r in results))
    yield f"Model calls: {_number(calls)}; tokens sent: {_number(tokens)}."
    if page:
        where = f", if the workflow uploads it: [artifacts of this run]({artifacts})"
        yield f"The page of these runs is {code(page)}{where if artifacts else ''}."
    ordered = sorted(results, key=lambda result: not result.failed)
    yield "\n".join(_table(ordered))
    if len(ordered) > ROWS_MAX:
        yield f"… and {counted(len(ordered) - ROWS_MAX, 'more scenario')}"
    for reason, count in skips(results):
        yield f"{counted(count, 'scenario')} skipped: {code(reason)}"
    for lint, reason, count in lints_off(results):
        yield f"{lint} is turned off in {counted(count, 'scenario')}: {code(reason)}"
    yield from _findings([r for r in ordered if r.failed or r.warnings], pictures, page)


def _table(results: Sequence[Result]) -> Iterator[str]:
    yield "| scenario | outcome | model calls | tokens |"
    yield "|---|---|--:|--:|"
    for result in results[:ROWS_MAX]:
        word = READ_AS[result.outcome]
        outcome = f"**{word}**" if result.failed else word
        reason = f": {code(result.reason)}" if result.reason else ""
        if result.passed_over:
            reason += f" ({passed_over_words(result.passed_over)})"
        cells = (
            code(result.id),
            outcome + reason,
            _number(result.model_calls),
            _number(result.tokens),
        )
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _findings(results: Sequence[Result], pictures: Mapping[str, str], page: str) -> Iterator[str]:
    if results:
        yield "### Findings"
    for result in results[:TOLD_MAX]:
        text = short_end(result_text(result), CHARACTERS_MAX)
        link = f" at {code(f'{page}#{slug(result.id)}')}" if page else ""
        yield f"**{code(result.id)}**{link}"
        yield fenced(text)
        if result.id in pictures:
            yield f"```mermaid\n{pictures[result.id]}\n```"
    if len(results) > TOLD_MAX:
        yield f"… and those of {counted(len(results) - TOLD_MAX, 'more scenario')}"


def code(text: str) -> str:
    """Return a text as code on one line, without any Markdown in it."""
    line = " ".join(text.split())
    fence = _fence(line, 1)
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"


def fenced(text: str) -> str:
    """Return a text as a block of code, without any Markdown in it."""
    fence = _fence(text, 3)
    return f"{fence}text\n{text}\n{fence}"


def _fence(text: str, least: int) -> str:
    """Return more backticks than any sequence in a text."""
    return "`" * max(least, 1 + max(map(len, re.findall("`+", text)), default=0))


def _number(count: int) -> str:
    return f"{count:,}"
