"""Accepting, over the scenarios of the reference systems: a broken claim, and none at all."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simkit.checks.findings import CLAIM
from simkit.checks.judge import judge
from simkit.core.errors import SimkitError
from simkit.language.yaml import SourcePath, load_text
from simkit.runtime.functions import function_named
from simkit.session.simulate import run
from simkit.spec.scenario.files import Library, Prepared, items_in
from simkit.trace.views import view_of
from simkit.trace.views.view import said_in
from simkit.update.edits import Put, Relist, Sheet
from simkit.update.proposals import changed_text, fixes
from simkit.update.replacing import Obstacle, line_start
from tests.conftest import sample_by_day
from tests.update.running import propose_claims, ran_all

ROOT = Path(__file__).resolve().parents[2]
FILES = sample_by_day(
    sorted(
        str(file.relative_to(ROOT))
        for file in ROOT.glob("scenarios/*/*.scenario.yaml")
        if file.parent.name != "known_bugs"  # Their claims fail until a bug is mended elsewhere.
    ),
    12,
)
BY_HAND = {"excludes", "includes", "findings", "satisfies"}
ROUNDS_MAX = 4


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def leaves(value: Any, path: SourcePath) -> Iterator[tuple[SourcePath, Any]]:
    """Every list and scalar of a set of claims, with its place."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
        return
    yield path, value
    for place, inner in enumerate(value if isinstance(value, list) else ()):
        yield from leaves(inner, (*path, place))


def broken(value: Any, path: SourcePath, chance: random.Random) -> Put | Relist:
    """An edit after which a claim says something else."""
    if isinstance(value, list):
        if len(value) > 1:
            return Relist(path, (chance.randrange(len(value)),), ())
        return Relist(path, (), ((0, value[0] if value else "x"),))
    if isinstance(value, bool):
        return Put(path, not value)
    if isinstance(value, int | float):
        return Put(path, value + 3)
    return Put(path, f"{value}x")


def with_texts(file: str, text: str) -> Library:
    library = Library()
    for document in load_text(text, file):
        library = library.with_document(document)
    return library


def breakages(file: str, text: str) -> Iterator[tuple[str, Prepared, Any]]:
    """For each scenario of a file one text in which a claim of it fails, and its trace."""
    chance = random.Random(file)
    sheet = Sheet(text)
    for item in items_in(file):
        turns = load_text(text, file)[item.index].data["turns"]
        results = [leaf for place, turn in enumerate(turns)
                   for leaf in leaves(turn.get("expect", {}), ("turns", place, "expect"))
                   if not BY_HAND & set(leaf[0])]  # fmt: skip
        trace = run(Library().prepared(item))
        view = view_of(trace.events)
        for path, value in chance.sample(results, len(results)):
            try:
                changes = sheet.replacements(item.index, broken(value, path, chance))
                bad = sheet.with_replacements(changes)
                prepared = with_texts(file, bad).prepared(item).after(said_in(view))
            # What an alias repeats, a name that leads nowhere, an empty list where none may be.
            except (Obstacle, SimkitError):
                continue
            verdict = judge(prepared.scenario, prepared.document, trace, function_named).judgement
            if any(finding.id == CLAIM for finding in verdict.findings):
                yield bad, prepared, (trace, view, verdict)
                break


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_a_broken_claim_is_mended_and_no_other_byte_changes(file: str) -> None:
    text = Path(file).read_bytes().decode()
    count = 0

    for bad, prepared, (trace, view, verdict) in breakages(file, text):
        proposal = fixes(prepared, view, verdict)
        new, notes = changed_text(file, bad, [proposal])

        again = with_texts(file, new).prepared(prepared.item).after(said_in(view))
        left = judge(again.scenario, again.document, trace, function_named).judgement.findings
        assert notes or not [finding for finding in left if finding.id == CLAIM]
        assert outside_of_claims(new, file) == outside_of_claims(text, file)
        if not notes:
            assert touched_lines(bad, new) <= lines_of(bad, proposal, prepared)
        count += 1

    assert count or not any("expect" in turn for turn in turns_of(text, file))


def turns_of(text: str, file: str) -> Iterator[Any]:
    for document in load_text(text, file):
        yield from document.data.get("turns", ())


def outside_of_claims(text: str, file: str) -> str:
    """The text without what stands under `expect:`."""
    pieces, at = [], 0
    for start, end in sorted(claim_spans(text, file)):
        pieces.append(text[at:start])
        at = max(at, end)
    return "".join([*pieces, text[at:]])


def claim_spans(text: str, file: str) -> Iterator[tuple[int, int]]:
    """Where the values of `expect:` stand."""
    sheet = Sheet(text)
    for index, document in enumerate(load_text(text, file)):
        root = sheet.layout(index)
        for place, turn in enumerate(document.data.get("turns", ())):
            if "expect" in turn:
                *_, spot = root.chain(("turns", place, "expect"))
                yield spot.start, spot.end


def touched_lines(before: str, after: str) -> set[str]:
    """The lines of a text that are no longer there."""
    return set(before.splitlines()) - set(after.splitlines())


def lines_of(text: str, proposal: Any, prepared: Prepared) -> set[str]:
    """The lines on which what a proposal changes is written."""
    sheet = Sheet(text)
    lines: set[str] = set()
    for edit in proposal.edits:
        *_, spot = sheet.layout(prepared.item.index).chain(edit.edit.path)
        start = line_start(text, max(spot.lead, 0))
        lines |= set(text[start : spot.end].splitlines())
        lines |= {text[line_start(text, spot.end) :].splitlines()[0]}
    return lines


def stripped(text: str, file: str) -> str:
    """The text without any turn's `expect:`."""
    sheet = Sheet(text)
    results = []
    for index, document in enumerate(load_text(text, file)):
        for place, turn in enumerate(document.data.get("turns", ())):
            if "expect" in turn:
                *_, spot = sheet.layout(index).chain(("turns", place))
                which = spot.names.index("expect")
                key, value = spot.keys[which], spot.items[which]
                start = text.rindex("\n", 0, key.start)
                results.append((start, value.end))
    for start, end in reversed(results):
        text = text[:start] + text[end:]
    return text


STRIPPED = [
    "agent_engine/decision", "agent_engine/example", "agent_engine/memory",
    "fitness_coach/example", "fitness_coach/handoff", "fitness_coach/routing",
    "handoff_pattern/delegation", "handoff_pattern/example", "handoff_pattern/timeouts",
    "research_assistant/clarification", "research_assistant/example",
    "supervisor_context/example", "supervisor_context/goals",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", STRIPPED)
def test_first_claims_hold_at_once(name: str) -> None:
    file = f"scenarios/{name}.scenario.yaml"
    text = stripped(Path(file).read_text(encoding="utf-8"), file)
    assert not any("expect" in turn for turn in turns_of(text, file))

    for _ in range(ROUNDS_MAX):
        # An error that nobody claims ends the conversation, so it goes on in the next round.
        proposals = [propose_claims(*ran) for ran in ran_all(file, text)]
        longer, notes = changed_text(file, text, proposals)
        assert notes == []
        if longer == text:
            break
        text = longer

    assert all("expect" in turn for turn in turns_of(text, file))
    assert [
        finding.what for _, outcome in ran_all(file, text) for finding in outcome.judgement.findings
        if finding.id == CLAIM
    ] == []  # fmt: skip
