"""Results as Markdown, as the summary of a workflow's step shows it. Pure.

::

    ## simkit: 2 scenarios, 1 held, 1 failed

    Model calls: 3; tokens sent: 1,240.

    | scenario | outcome | model calls | tokens |
    |---|---|--:|--:|
    | `scenarios/refund.scenario.yaml::the clerk is late` | **failed** | 1 | 40 |

    ### Findings
    …
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from simkit.core.text import counted, short_end
from simkit.report.last_run import slug
from simkit.report.results import Result, lints_off, outcome_words, skips, summary_of
from simkit.report.text import passed_over_words, result_text

ROWS_MAX: Final = 200
"""The number of scenarios in the table; failed ones come first."""
TOLD_MAX: Final = 30
"""The number of scenarios with shown findings."""
CHARACTERS_MAX: Final = 12_000
"""The length of one scenario's findings: GitHub accepts 1 MiB for a whole step."""


def results_markdown(
    results: Sequence[Result],
    pictures: Mapping[str, str] = {},
    page: str = "",
    artifacts: str = "",
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
        outcome = f"**{result.outcome}**" if result.failed else result.outcome
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
