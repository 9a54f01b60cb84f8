"""Whatever a file says, a user is told where and what, in one error, and never sees a traceback."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from simkit.core.errors import SourceError
from simkit.language.yaml import Document, SourcePath
from simkit.spec.scenario.files import Library, ScenarioCase, items_in
from tests.conftest import IS_NIGHTLY
from tests.golden import assert_says
from tests.refusals import FILE, Case, parametrized, refusal, refusal_of, table

ROOT: Final = Path(__file__).resolve().parent.parent
BASE, REFUSED, _ = table("bad_input.yaml")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(cwd: Path) -> None:
    (cwd / "personas").mkdir()
    (cwd / "personas" / "runner.yaml").write_text("version: 1\n")


def test_base_of_the_table_is_accepted() -> None:
    assert refusal_of(BASE) == ""


@parametrized(REFUSED)
def test_bad_input_is_refused_with_its_place_and_what_to_do(case: Case) -> None:
    assert_says(refusal_of(case.text), case.says)


# The file itself


def test_missing_file_is_refused() -> None:
    assert refusal() == f"{FILE}: there is no such file"


def test_empty_file_is_refused() -> None:
    assert refusal_of("# nothing yet\n") == (
        f"{FILE}:1:1: the file holds no document\n  write its text, or delete the file"
    )


def test_file_that_is_not_utf_8_is_refused() -> None:
    Path(FILE).write_bytes(BASE.encode().replace(b"pizza", b"pi\xe7a", 1))

    at = BASE.index("pizza") + 2
    assert refusal() == (
        f"{FILE}:22:13: byte {at} of the file (0xe7) is not UTF-8\n  save the file as UTF-8"
    )


def test_file_of_ten_megabytes_is_refused() -> None:
    assert refusal_of(BASE + "#" * 10_000_000) == (
        f"{FILE}: the file has {len(BASE) + 10_000_000:,} bytes; at most 4,000,000 are read\n"
        "  split it into several files"
    )


def test_deep_nesting_is_refused() -> None:
    assert refusal_of(f"scenario: {'[' * 5_000}") == (
        f"{FILE}:1:110: lists and mappings are nested deeper than 100 levels"
    )


def test_alias_bomb_is_refused() -> None:
    lines = ["x0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    for number in range(1, 9):
        items = ", ".join([f"*a{number - 1}"] * 10)
        lines.append(f"x{number}: &a{number} [{items}]")

    assert refusal_of("\n".join(lines)) == (
        f"{FILE}:6:5: aliases expand this to more than 1,000,000 values\n  at x5"
    )


# Files that name each other


def test_unknown_pipeline_file_names_those_beside_it() -> None:
    Path("coach.pipeline.yaml").write_text(BASE.partition("---\n")[0])

    reply = refusal_of(
        BASE.partition("---\n")[2].replace("pipeline: coach", "pipeline: couch.pipeline.yaml")
    )

    assert reply == (
        f"{FILE}:3:11: there is no file `couch.pipeline.yaml` beside this one\n"
        "  at pipeline\n"
        "  did you mean `coach.pipeline.yaml`?   known: coach.pipeline.yaml"
    )


def test_a_pipeline_file_with_another_ending_is_told_its_name() -> None:
    Path("coach.yaml").write_text(BASE.partition("---\n")[0])

    reply = refusal_of(
        BASE.partition("---\n")[2].replace("pipeline: coach", "pipeline: coach.yaml")
    )

    assert reply == (
        f"{FILE}:3:11: there is no pipeline `coach.yaml` in this file\n"
        "  at pipeline\n"
        "  Rename that file to `coach.pipeline.yaml`."
    )


def test_what_is_wrong_with_a_pipeline_is_said_of_its_own_file() -> None:
    pipeline = BASE.partition("---\n")[0].replace("[log_meal]", "[log]")
    Path("coach.pipeline.yaml").write_text(pipeline)

    reply = refusal_of(
        BASE.partition("---\n")[2].replace("pipeline: coach", "pipeline: coach.pipeline.yaml")
    )

    assert reply == (
        "coach.pipeline.yaml:13:13: unknown tool `log`\n"
        "  at agents.nutrition.tools[0]\n"
        "  known: log_meal"
    )


def test_use_that_goes_round_in_a_circle_is_refused() -> None:
    Path("a.yaml").write_text("version: 1\nuse: [b.yaml]\n")
    Path("b.yaml").write_text("version: 1\nuse: [a.yaml]\n")

    reply = refusal_of(BASE.replace("turns:", "use: [a.yaml]\nturns:"))

    assert reply == (
        "b.yaml:2:7: `use` goes round in a circle: t.scenario.yaml → a.yaml → b.yaml → a.yaml\n"
        "  at use[0]"
    )


def test_what_is_wrong_with_a_shared_file_is_said_of_that_file() -> None:
    Path("a.yaml").write_text("version: 1\ntool_result: {}\n")

    reply = refusal_of(BASE.replace("turns:", "use: [a.yaml]\nturns:"))

    assert reply == (
        "a.yaml:2:1: unknown key `tool_result`\n"
        "  at tool_result\n"
        "  did you mean `tool_results`?   "
        "known: agents, given, lints, needs, tool_results, use, version"
    )


# Anything else

WRONG: Final[tuple[Any, ...]] = (
    None, True, 7, 1.5, -1, "zzz", "", [], [None], [7], [[]], {}, {"zzz": 1}, [{}], "${",
    {"a": 1, "b": 2},
)  # fmt: skip
STEP: Final = 4 if IS_NIGHTLY else 32
FOREIGN: Final = re.compile(r"Input should|Extra inputs|[Uu]nable to|valid (string|dict|list)")
"""Words of pydantic's."""


def places(value: Any, at: SourcePath = ()) -> Iterator[SourcePath]:
    """Every place in a document."""
    yield at
    steps: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, (dict, list)):
        steps = value.items() if isinstance(value, dict) else enumerate(value)
    for step, inner in steps:
        yield from places(inner, (*at, step))


def planted(data: Any, path: SourcePath, wrong: Any) -> Any:
    """The data with another value at one place."""
    if not path:
        return wrong
    changed = copy.deepcopy(data)
    inside = changed
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = copy.deepcopy(wrong)
    return changed


def refusals_of(library: Library, document: Document, item: ScenarioCase) -> Iterator[str]:
    """What is said of a scenario with wrong values, some of them, in each place."""
    for number, path in enumerate(places(document.data)):
        for wrong in WRONG[number % STEP :: STEP]:
            broken = document.with_data(planted(document.data, path, wrong))
            try:
                library.with_document(broken).prepared(item)
            except SourceError as problem:
                yield str(problem)


@pytest.mark.parametrize(
    "file", ["fitness_coach/example.scenario.yaml", "handoff_pattern/example.scenario.yaml"]
)
def test_wrong_values_anywhere_are_refused_in_our_own_words(file: str) -> None:
    path = str(ROOT / "scenarios" / file)
    item, library = items_in(path)[0], Library()
    pipeline = library.prepared(item).pipeline_document

    results = [
        text
        for document in (library.documents(path)[item.index], pipeline)
        for text in refusals_of(library, document, item)
    ]

    assert len(results) > 50
    assert [text for text in results if FOREIGN.search(text)] == []
    assert all(re.match(r"\S+:\d+:\d+: ", text) for text in results)


# From outside


@pytest.mark.slow
def test_validate_prints_the_error_and_ends_with_2() -> None:
    (case,) = [case for case in REFUSED if case.name == "unknown claim"]
    Path(FILE).write_text(case.text, encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-m", "simkit", "validate", FILE],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    words = re.split(r"^(?=\S)", done.stderr, flags=re.MULTILINE)
    errors = "".join(text for text in words if ": warning VAL-" not in text)
    assert re.search(r": VAL-\d\d: ", errors)
    assert (done.returncode, re.sub(r"VAL-\d\d: ", "", errors)) == (2, case.says + "\n")
