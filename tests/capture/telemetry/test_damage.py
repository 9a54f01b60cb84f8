"""Damaged exports end in a scenario that can be read, a list of what is missing, or one error."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from simkit.capture.telemetry.conversations import conversations_of
from simkit.capture.telemetry.exports import read_export
from simkit.capture.telemetry.gaps import ONLY_CALLS
from simkit.capture.telemetry.records import steps_of
from simkit.cli.importing import import_trace, missing_lines, scenario_tree, scenarios_text
from simkit.cli.init.first_scenario import AppRequest
from simkit.core.errors import TraceError
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in
from tests.capture.telemetry.damages import NOTHING, Damage
from tests.capture.telemetry.test_imports import EXPORTS, content_of, lines_and_turns
from tests.conftest import IS_NIGHTLY, sample_by_day

COUNT: Final = 150 if IS_NIGHTLY else 4
"""Of a hundred damages each."""
FILES: Final = sorted(EXPORTS.glob("*.jsonl.gz"))
REQUEST: Final = AppRequest(name="app:run", messages=(), folders=(), options={})


def lines_and_trees(lines: list[str]) -> tuple[Counter[str], list[Any]]:
    """Return each line that is said of a file, and the scenarios that are written."""
    try:
        export = read_export("\n".join(lines).encode(), "trace.jsonl")
        conversations = conversations_of(steps_of(export))
    except TraceError as problem:
        return Counter([str(problem)]), []
    texts = [*missing_lines(export, conversations), *(t for c in conversations for t in c.refused)]
    whole = [row for row in conversations if not row.refused]
    return Counter(texts), [scenario_tree(row, "n", REQUEST, Path("t")) for row in whole]


@cache
def lines_of(file: Path) -> list[str]:
    return gzip.decompress(file.read_bytes()).decode().splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("file", sample_by_day(FILES, 3), ids=lambda file: file.name)
def test_a_line_that_is_lost_is_said_or_cannot_be_known(file: Path) -> None:
    lines = lines_of(file)
    before, scenarios = lines_and_trees(lines)

    for place in range(len(lines)):
        missing, left = lines_and_trees([*lines[:place], *lines[place + 1 :]])
        if left and left != scenarios and not missing - before:
            assert ONLY_CALLS in missing


@cache
def sound(file: Path) -> tuple[Counter[str], list[Any]]:
    return lines_and_trees(lines_of(file))


def is_silent(file: Path, damage: Damage) -> bool:
    """Return whether a damage makes another scenario, and no line says so or could."""
    (before, scenarios), (missing, left) = sound(file), lines_and_trees(damage.lines)
    if not left or left == scenarios or missing - before:
        return False
    if damage.is_unknowable("\n".join(lines_of(file))):
        return False
    # Of clients by hand, which have no spans around their calls, a general line says it.
    is_lost = damage.kind != "value" or damage.new in (NOTHING, None, [], {})
    return not (is_lost and ONLY_CALLS in missing)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(COUNT))
def test_a_damage_is_said_and_no_error_of_simkit(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    for _ in range(100):
        file = random.choice(FILES)
        damage = Damage(lines_of(file), random)

        assert not is_silent(file, damage), f"{file.name}: {damage}"

        _, trees = lines_and_trees(damage.lines)
        if trees and random.random() < 0.1:
            export = read_export("\n".join(damage.lines).encode(), "trace.jsonl")
            target = tmp_path / "t.scenario.yaml"
            apart = [{**tree, "scenario": f"n{place}"} for place, tree in enumerate(trees)]
            target.write_text(scenarios_text("trace.jsonl", export, apart), encoding="utf-8")
            library = Library()
            assert [library.prepared(item) for item in items_in(str(target), library.cache)]


@pytest.mark.parametrize("place", range(1, len(FILES), 1 if IS_NIGHTLY else 7))
def test_two_traces_in_one_file_are_two_scenarios(place: int) -> None:
    first, other = FILES[place - 1], FILES[place]
    if first.name.partition("--")[0] != other.name.partition("--")[0]:
        first = FILES[place - 2]
    # Both were made by the same seed.
    letters = str.maketrans("abcdef", "bcdefa")
    text = "\n".join(lines_of(other)).replace('"s1', '"s2')
    others = re.sub("[0-9a-f]{12,}", lambda m: m[0].translate(letters), text).splitlines()

    missing, trees = lines_and_trees([*lines_of(first), *others])

    both = [*sound(first)[1], *lines_and_trees(others)[1]]
    is_told = any("names no conversation" in line for line in missing)
    assert not trees or is_told or sorted(map(repr, trees)) == sorted(map(repr, both))


@pytest.mark.parametrize("file", FILES[::3], ids=lambda file: file.name)
def test_order_and_repetition_change_nothing(file: Path) -> None:
    lines = []
    for number, line in enumerate(lines_of(file)):
        value = json.loads(line)
        # Time stood while these were made.
        for resource in value.get("resourceLogs", ()):
            record = resource["scopeLogs"][0]["logRecords"][0]
            record["timeUnixNano"] = str(1_767_603_600_000_000_000 + number)
        for resource in value.get("resourceSpans", ()):
            span = resource["scopeSpans"][0]["spans"][0]
            span["startTimeUnixNano"] = str(int(span["startTimeUnixNano"]) + number)
        lines.append(json.dumps(value))
    before = lines_and_turns("\n".join(lines).encode())

    Random(7).shuffle(lines)

    assert lines_and_turns("\n".join([*lines, *lines]).encode()) == before


def test_a_result_whose_span_is_gone_is_in_the_next_context_or_missed() -> None:
    lines = content_of("agents", "handoffs-over-turns").decode().splitlines()
    rest = [line for line in lines if '"name": "book_seat", "type": "function"' not in line
            and '"type": "function", "name": "book_seat"' not in line]  # fmt: skip
    export = read_export("\n".join(rest).encode(), "trace.jsonl")
    (row,) = conversations_of(steps_of(export))

    results = [turn.get("tool_results") for turn in
               scenario_tree(row, "n", REQUEST, Path("t.scenario.yaml"))["turns"]]  # fmt: skip

    assert len(rest) < len(lines)
    assert results[0] == {"look_up": "There are 3.", "book_seat": "booked 1A"}


@pytest.mark.parametrize(
    "content", [b"\x1f\x8b\x08\x00", gzip.compress(b"{}", mtime=0)[:-9], b"\x00\xff"]
)
def test_a_broken_file_is_one_error(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "t.json.gz"
    file.write_bytes(content)

    with pytest.raises(TraceError, match=r"t.json.gz: (it|no) "):
        import_trace(str(file), "", [], [], "")
