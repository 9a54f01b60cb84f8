"""The tables of the reference systems say what is so: scenarios, claims, mutations, numbers."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from simkit.checks.judge import Outcome
from simkit.language.paths import parse
from simkit.session.simulate import simulate
from simkit.trace.events import ContextBuilt
from tests.building import load
from tests.mutations import (
    Mutation,
    is_written,
    item,
    items,
    library,
    mutations,
    pipeline_document,
    unmutated,
)
from tests.twins import Mutant, mutants

DOCS = Path(__file__).resolve().parent.parent / "docs" / "explanation"
INDEX = DOCS / "reference-systems.md"
TABLES = {
    "fitness-coach.md": ("fitness_coach", range(1, 72)),
    "agent-engine.md": ("agent_engine", range(72, 136)),
    "supervisor-context.md": ("supervisor_context", range(136, 175)),
    "research-assistant.md": ("research_assistant", range(175, 214)),
    "handoff-pattern.md": ("handoff_pattern", range(214, 267)),
}
WHOLE = "whole.scenario.yaml"
"""It claims all of each pipeline, so that it is named after files that are about a rule."""
IMPROVEMENTS = "improvements.scenario.yaml"
ENHANCEMENTS = "enhancements.scenario.yaml"

LINKS = re.compile(r"\[(\w+)\]\(([^)]+)\)")
UNSEEN = "not observable:"


@dataclass(frozen=True, slots=True)
class Row:
    """One rule of a table."""

    number: int
    words: str
    links: tuple[str, ...]
    """The files of the scenarios that assert it."""
    unseen: str
    """Why the rule cannot be observed; empty where it is asserted."""


def cells(line: str) -> list[str]:
    """The cells of one line of a Markdown table."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def lines_of_table(text: str, first: str) -> list[list[str]]:
    """The lines of the table whose heading begins with a cell, without the heading."""
    texts: list[list[str]] = []
    for line in text.splitlines():
        if texts or (line.startswith("|") and cells(line)[0] == first):
            if not line.startswith("|"):
                break
            texts.append(cells(line))
    return texts[2:]


def rows_in(text: str) -> list[Row]:
    """The rules of a page; raises ValueError for a row that is neither of the two kinds."""
    return [_row(*line) for line in lines_of_table(text, "#")]


def _row(number: str, words: str, asserted: str) -> Row:
    if asserted.startswith(UNSEEN):
        return Row(int(number), words, (), asserted.removeprefix(UNSEEN).strip())
    links = LINKS.findall(asserted)
    if ", ".join(f"[{stem}]({link})" for stem, link in links) != asserted or not links:
        raise ValueError(f"rule {number} cannot be read: {asserted}")
    return Row(int(number), words, tuple(link for _, link in links), "")


def page(table: str) -> list[Row]:
    return rows_in((DOCS / "reference-systems" / table).read_text(encoding="utf-8"))


def mutations_in(folder: str) -> list[Mutation | Mutant]:
    """The faults of a folder: those of its pipelines, and those in code that break rules."""
    in_code = [mutant for mutant in mutants() if mutant.folder == folder and mutant.rules]
    return [*(mutation for mutation in mutations() if mutation.folder == folder), *in_code]


def lints_seen(outcome: Outcome) -> set[str]:
    judged = outcome.judgement
    return {entry.id for entry in (*judged.findings, *judged.warnings, *judged.noted)}


@pytest.mark.parametrize("table", TABLES)
def test_every_rule_has_exactly_one_row_in_order(table: str) -> None:
    _, rules = TABLES[table]

    assert [row.number for row in page(table)] == list(rules)


@pytest.mark.parametrize("table", TABLES)
def test_every_row_quotes_the_document_and_is_asserted_or_says_why_not(table: str) -> None:
    rows = page(table)

    assert [row.number for row in rows if len(row.words.strip("` ")) < 8] == []
    assert [row.number for row in rows if not row.links and len(row.unseen.split()) < 5] == []


def claims_of(table: str, row: Row) -> set[tuple[str, str]]:
    """What asserts a rule: `file::name` of a scenario, and the path of a claim in it."""
    own = [each for each in mutations_in(TABLES[table][0]) if row.number in each.rules]
    return {(mutation.scenario, red) for mutation in own for red in mutation.red}


def files_of(table: str, row: Row) -> list[str]:
    """The two files of scenarios that have the most claims that assert a rule."""
    counts = Counter(scenario.partition("::")[0] for scenario, _ in claims_of(table, row))
    return sorted(counts, key=lambda file: (file == WHOLE, -counts[file], file))[:2]


@pytest.mark.parametrize("table", TABLES)
def test_every_claim_that_asserts_a_rule_is_written_in_an_existing_scenario(table: str) -> None:
    folder, _ = TABLES[table]

    for row in page(table):
        for scenario, claim in claims_of(table, row):
            place = item(folder, scenario)
            answer = is_written(place.file, place.index, parse(claim))
            assert answer, f"rule {row.number}: {claim} is not in {scenario}"


@pytest.mark.parametrize("table", TABLES)
def test_a_row_links_the_files_in_which_its_mutations_turn_most_claims_red(table: str) -> None:
    folder, _ = TABLES[table]

    for row in page(table):
        links = [f"../../../scenarios/{folder}/{file}" for file in files_of(table, row)]
        assert list(row.links) == links, f"rule {row.number}"


@pytest.mark.parametrize("table", TABLES)
def test_every_mutation_breaks_rules_of_its_table(table: str) -> None:
    folder, rules = TABLES[table]

    assert {rule for each in mutations_in(folder) for rule in each.rules} <= {*rules}


def test_a_row_that_is_not_observable_has_a_reason() -> None:
    text = "| # | rule | scenarios |\n|---|---|---|\n"
    line = "| 9 | some words | not observable: it is about a log's wording |\n"

    assert rows_in(text + line) == [Row(9, "some words", (), "it is about a log's wording")]


def test_a_row_of_neither_kind_is_refused() -> None:
    text = "| # | rule | scenarios |\n|---|---|---|\n"

    with pytest.raises(ValueError, match="rule 9 cannot be read: somewhere"):
        rows_in(text + "| 9 | some words | somewhere |\n")


def test_the_index_links_the_tables_and_counts_their_rows() -> None:
    lines = lines_of_table(INDEX.read_text(encoding="utf-8"), "system")

    counted = []
    for table, (folder, rules) in TABLES.items():
        rows = page(table)
        counted.append(
            [
                f"reference-systems/{table}",
                f"{rules.start}–{rules.stop - 1}",
                str(sum(1 for row in rows if row.links)),
                str(sum(1 for row in rows if row.unseen)),
                str(len(mutations_in(folder))),
            ]
        )
    links = [re.findall(r"\]\(([^)]+)\)", line[0])[0] for line in lines]
    assert [[link, *line[1:]] for link, line in zip(links, lines, strict=True)] == counted


def test_the_index_says_what_each_improvement_saves() -> None:
    lines = lines_of_table(INDEX.read_text(encoding="utf-8"), "rule")

    today = None
    for number, name, *tokens in lines:
        last = _last_contexts("fitness_coach", f"{IMPROVEMENTS}::{name.strip('*')}")
        coach = sum(event.tokens for event in last if event.agent.endswith("_coach"))
        others = sum(event.tokens for event in last) - coach
        others -= sum(event.tokens for event in last if event.agent == "router")
        today = coach + others if today is None else today
        measured = [str(coach), str(others), str(today - coach - others)]
        assert tokens == measured, f"rule {number}"
    assert {name.strip("*") for _, name, *_ in lines} == set(items("fitness_coach", IMPROVEMENTS))


def test_the_index_says_what_each_enhancement_saves() -> None:
    lines = lines_of_table(INDEX.read_text(encoding="utf-8"), "enhancement")

    today = 0
    for enhancement, name, *tokens in lines:
        last = _last_contexts("supervisor_context", f"{ENHANCEMENTS}::{name.strip('*')}")
        report = sum(event.tokens for event in last if event.agent.endswith("reporting_agent"))
        spent = sum(event.tokens for event in last)
        today = spent if enhancement == "–" else today
        assert tokens == [str(report), str(spent - report), str(today - spent)], name
    assert sorted(enhancement for enhancement, *_ in lines) == [
        "compression", "filtering", "persistence", "querying", "validation", "–", "–",
    ]  # fmt: skip


def _last_contexts(folder: str, scenario: str) -> list[ContextBuilt]:
    """What was sent in a scenario's last turn."""
    events = unmutated(folder, scenario).trace.events
    built = [event for event in events if isinstance(event, ContextBuilt)]
    return [event for event in built if event.turn == built[-1].turn]


def test_every_anti_pattern_is_caught_where_the_index_says_and_not_in_the_good_handoff() -> None:
    lines = lines_of_table(INDEX.read_text(encoding="utf-8"), "anti-pattern")
    names = {mutation.id for mutation in mutations_in("handoff_pattern")}

    lints = 0
    for _, catches, output, good in lines:
        if good == "–":
            assert catches.startswith("by construction")
            continue
        clean = unmutated("handoff_pattern", _scenario(good))
        assert clean.passed
        if output.startswith("`"):
            assert output.strip("`") in names
            continue
        lints += 1
        assert catches in lints_seen(unmutated("handoff_pattern", _scenario(output)))
        assert catches not in lints_seen(clean)
    assert lints == 3


def _scenario(cell: str) -> str:
    stem, _, name = cell.partition(": ")
    return f"{stem}.scenario.yaml::{name.strip('*')}"


@pytest.mark.parametrize(("output", "other"), [("printed", "meant"), ("meant", "printed")])
def test_each_snippet_holds_as_it_is_shown_and_not_as_the_other_one(
    output: str, other: str
) -> None:
    text = (DOCS / "reference-systems" / "research-assistant.md").read_text(encoding="utf-8")
    section = text[text.index("## What the document's snippets do") :]
    column = {"printed": 1, "meant": 3}[output]

    names = [line[column].strip("*") for line in lines_of_table(section, "lines")]
    for name in names:
        scenario = f"snippets.scenario.yaml::{name}"
        mine = pipeline_document("research_assistant", scenario)
        theirs = load(mine.file.replace(f"as_{output}", f"as_{other}"))[0]
        swapped = library().with_document(mine.with_data(theirs.data))
        assert unmutated("research_assistant", scenario).passed
        assert not simulate(swapped.prepared(item("research_assistant", scenario))).passed
    assert len(names) == len(items("research_assistant", "snippets.scenario.yaml")) // 2
