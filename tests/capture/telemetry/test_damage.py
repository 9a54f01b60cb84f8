"""Damaged exports end in a scenario that can be read, a list of what is missing, or one error."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from simkit.capture.telemetry.conversations import conversations_of
from simkit.capture.telemetry.exports import read_export
from simkit.capture.telemetry.losses import ONLY_CALLS
from simkit.capture.telemetry.records import steps_of
from simkit.cli.importing import import_trace, missing_lines, scenario_tree, scenarios_text
from simkit.cli.init.first_scenario import AppRequest
from simkit.core.errors import TraceError
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in
from tests.capture.telemetry.test_imports import EXPORTS, content_of, lines_and_turns
from tests.conftest import sample_by_day

COUNT: Final = 3_000 if os.environ.get("SIMKIT_NIGHTLY") else 150
FILES: Final = sorted(EXPORTS.glob("*.jsonl.gz"))
REQUEST: Final = AppRequest(name="app:run", messages=(), folders=(), options={})
WRONG: Final[list[Any]] = [
    None, 3, -1, 1.5, True, "x", "", [], {}, [1, None], {"a": 1}, "9" * 400, "2026-13-45",
    float("inf"), "\ud800", {"stringValue": None}, {"kvlistValue": {"values": [3]}},
    {"arrayValue": 3}, {"intValue": "x"}, "[" * 5_000, "{", "[{}]", '[{"role": "user"}]',
    '[{"role": "assistant", "parts": [3]}]', '[{"role": 3, "content": {}}]', '{"messages": 3}',
]  # fmt: skip


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the places in a value, those in texts of JSON too."""
    if at:
        yield at
    inner = value.items() if isinstance(value, dict) else ()
    for key, item in enumerate(value) if isinstance(value, list) else inner:
        yield from paths(item, (*at, key))


def damaged(value: Any, random: Random) -> Any:
    """Return a value of which one place is gone, or holds something else."""
    *above, last = random.choice([*paths(value)])
    place = value
    for key in above:
        place = place[key]
    item = place[last]
    if isinstance(item, str) and item[:1] in ("{", "[") and len(item) > 2 and random.random() < 0.7:
        place[last] = json.dumps(damaged(json.loads(item), random))
    elif random.random() < 0.4:
        del place[last]
    else:
        place[last] = random.choice(WRONG)
    return value


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


def lines_of(file: Path) -> list[str]:
    return gzip.decompress(file.read_bytes()).decode().splitlines()


@pytest.mark.parametrize("file", sample_by_day(FILES, 3), ids=lambda file: file.name)
def test_a_line_that_is_lost_is_said_or_cannot_be_known(file: Path) -> None:
    lines = lines_of(file)
    before, scenarios = lines_and_trees(lines)

    for place, line in enumerate(lines):
        missing, left = lines_and_trees([*lines[:place], *lines[place + 1 :]])
        if left and left != scenarios and not missing - before:
            assert ONLY_CALLS in missing
            # Nothing else in the file speaks of the last call of a client by hand.
            assert line == lines[-1]


@pytest.mark.parametrize("seed", range(COUNT // 50))
def test_a_damaged_part_is_no_error_of_simkit(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    for _ in range(50):
        lines = lines_of(random.choice(FILES))
        place = random.randrange(len(lines))
        lines[place] = json.dumps(damaged(json.loads(lines[place]), random))

        try:
            export = read_export("\n".join(lines).encode(), "trace.jsonl")
            conversations = [row for row in conversations_of(steps_of(export)) if not row.refused]
        except TraceError:
            continue
        if conversations:
            file = tmp_path / "t.scenario.yaml"
            trees = [scenario_tree(row, str(n), REQUEST, file) for n, row in
                     enumerate(conversations)]  # fmt: skip
            file.write_text(scenarios_text("trace.jsonl", export, trees), encoding="utf-8")
            library = Library()
            assert [library.prepared(item) for item in items_in(str(file), library.cache)]


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


def test_parts_that_say_nothing_are_said_to_be_missing() -> None:
    lines = content_of("agents", "handoffs-over-turns").decode().splitlines()
    spans = [json.loads(line) for line in lines]
    calls = [s for s in spans if s["data"][0].get("span_data", {}).get("type") == "generation"]

    def lines_with(*changes: tuple[str, Any]) -> str:
        changed = json.loads(json.dumps(calls[1]))
        for key, value in changes:
            changed["data"][0][key] = value
        rest = [changed if span is calls[1] else span for span in spans]
        return " ".join(lines_and_turns("\n".join(map(json.dumps, rest)).encode())[0])

    assert "the order of the calls is unknown" in lines_with(("started_at", None))
    assert "1 object of no known format" in lines_with(("object", "other"))
    assert "is its own ancestor" in lines_with(("parent_id", calls[1]["data"][0]["id"]))
    data = calls[1]["data"][0]["span_data"]
    assert "are no object" in lines_with(
        ("span_data", {**data, "output": [{"role": "assistant", "tool_calls": [
            {"id": "a", "function": {"name": "look_up", "arguments": "{cut"}}]}]})
    )  # fmt: skip
    rest = [span for span in spans if span is not calls[-1]]
    lines = lines_and_turns("\n".join(map(json.dumps, rest)).encode())[0]
    assert any("agent 'Human' ran, and the trace has no model call of it" in t for t in lines)
    empty = {**data, "input": [{"role": "system", "content": ""}, *data["input"][1:]]}
    assert "a message that it was sent is empty" in lines_with(("span_data", empty))


@pytest.mark.parametrize("wrong", [3, True, {}])
def test_a_text_of_another_type_is_missed(wrong: Any) -> None:
    lines = content_of("agents", "parallel").decode().splitlines()
    before, scenarios = lines_and_trees(lines)
    place = next(n for n, line in enumerate(lines) if '"type": "generation"' in line)
    span = json.loads(lines[place])
    span["data"][0]["span_data"]["input"][0]["content"] = wrong

    missing, left = lines_and_trees([*lines[:place], json.dumps(span), *lines[place + 1 :]])

    assert left != scenarios
    assert any("what the model was sent cannot be read" in line for line in missing - before)


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
