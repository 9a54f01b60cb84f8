"""What `nox -s golden` writes, and that it finds every test that compares whole texts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import golden
from tests.golden import CaseText, assert_file_is, assert_part_is, assert_says, assert_tables_are

ROOT = Path(__file__).resolve().parent.parent
CASES = """\
# A comment.
refused:
  - name: one
    says: |-
      a.yaml:1:1: no
        known: a, b

  - name: two  # Another.
    says: short
"""
PAGE = "# Lints\n\n| A-01 | one |\n| A-02 | two |\n\nMore.\n\n| A-01 | again |\n"
ROW = re.compile(r"\| A-\d\d \|")


@pytest.fixture(params=[False, True], ids=["compares", "writes"])
def writes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setenv(golden.VARIABLE, "1" if request.param else "0")
    return bool(request.param)


def case(tmp_path: Path, place: int, text: str) -> CaseText:
    file = tmp_path / "cases.yaml"
    file.write_text(CASES, encoding="utf-8")
    return CaseText.at(file, ("refused", place, "says"), text, {"<ALL>": "a, b"})


@pytest.mark.parametrize(
    ("place", "old", "new"),
    [
        (0, "      a.yaml:1:1: no\n        known: a, b\n", "      x: y\n\n        z\n"),
        (1, "says: short\n", "says: |-\n      x: y\n\n        z\n"),
    ],
)
def test_a_case_is_written_and_all_else_stays(
    tmp_path: Path, writes: bool, place: int, old: str, new: str
) -> None:
    target = case(tmp_path, place, "whatever")

    if writes:
        assert_says("x: y\n\n  z", target)
    else:
        with pytest.raises(AssertionError, match="nox -s golden"):
            assert_says("x: y\n\n  z", target)

    expected = CASES.replace(old, new) if writes else CASES
    assert (tmp_path / "cases.yaml").read_text(encoding="utf-8") == expected
    assert expected.count("\n\n  - name: two") == 1


def test_a_list_that_grows_stays_a_placeholder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(golden.VARIABLE, "1")
    expected = case(tmp_path, 1, "known: <ALL>")

    assert expected == "known: a, b"
    assert_says("all: a, b", expected)

    assert "all: <ALL>" in (tmp_path / "cases.yaml").read_text(encoding="utf-8")


def test_what_should_be_silent_is_never_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(golden.VARIABLE, "1")

    with pytest.raises(AssertionError, match="nox -s golden"):
        assert_says("it says something", "")


def test_files_parts_and_tables_are_written(tmp_path: Path, writes: bool) -> None:
    file = tmp_path / "page.md"
    file.write_text(PAGE, encoding="utf-8")
    comparisons = [
        lambda: assert_tables_are(file, ROW, [["| A-01 | 1 |"], ["| A-01 | 2 |", "| A-02 | 3 |"]]),
        lambda: assert_part_is(file, "More.\n", "Less.\n"),
    ]

    for compare in comparisons:
        if writes:
            compare()
        else:
            with pytest.raises(AssertionError, match="nox -s golden"):
                compare()

    text = "# Lints\n\n| A-01 | 1 |\n\nLess.\n\n| A-01 | 2 |\n| A-02 | 3 |\n"
    assert file.read_text(encoding="utf-8") == (text if writes else PAGE)


def test_what_is_equal_is_left_as_it_is(tmp_path: Path, writes: bool) -> None:
    file = tmp_path / "page.md"
    file.write_text(PAGE, encoding="utf-8")

    assert_file_is(file, PAGE)
    assert_part_is(file, "More.\n", "More.\n")
    assert_says("same", case(tmp_path, 1, "same"))

    assert file.read_text(encoding="utf-8") == PAGE
    assert (tmp_path / "cases.yaml").read_text(encoding="utf-8") == CASES


def test_every_module_that_compares_whole_texts_has_the_marker() -> None:
    files = [file for file in sorted((ROOT / "tests").rglob("test_*.py")) if file != Path(__file__)]
    texts = {file: file.read_text(encoding="utf-8") for file in files}
    comparing = [file for file, text in texts.items() if "from tests.golden import" in text]
    marked = re.compile(r"@pytest\.mark\.golden|@parametrized\(|@cases\(")

    assert len(comparing) > 10
    assert [file.name for file in comparing if not marked.search(texts[file])] == []
