"""What is run for a change: tests near it, and tests and pages with the words that differ."""

from __future__ import annotations

from tests.changes import Words, changed_words, contained, find_tests_with, list_runs
from tests.near import ROOT, nearest_tests

BEFORE = 'def f(name):\n    return f"it of {name!r}" " is strangely odd"\n'


def words(source: str, file: str = "simkit/core/a.py") -> Words:
    return changed_words(file, BEFORE, source)


def test_words_that_are_gone_count_and_names_that_are_new() -> None:
    assert words(BEFORE) == set()
    assert words(BEFORE.replace("odd", "even")) == {("is", "strangely", "odd")}
    assert words(BEFORE.replace("f(", "renamed_function(")) == {("renamed_function",)}
    assert words(BEFORE + 'ID = "HND-99"') == {("HND-99",)}


def test_docstrings_count_where_pages_are_made_of_them() -> None:
    documented = f'"""A module that nobody read."""\n{BEFORE}'

    assert changed_words("simkit/core/a.py", documented, BEFORE) == set()
    assert ("module", "that", "nobody") in changed_words("simkit/spec/a.py", documented, BEFORE)


def test_words_are_found_over_the_ends_of_lines_and_literals() -> None:
    odd = ("is", "strangely", "odd")

    assert contained({odd}, 'assert "that is "\n    "strangely odd" in text') == {odd}
    assert contained({odd}, "is strangely even") == set()


def test_tests_with_the_words_are_run_alone_unless_the_words_stand_elsewhere() -> None:
    file = ROOT / "tests/core/test_text.py"
    name = "test_a_long_text_is_cut_on_one_line"

    assert find_tests_with(file, {(name,)}) == [f"tests/core/test_text.py::{name}"]
    assert find_tests_with(file, {("from", "simkit", "core")}) == ["tests/core/test_text.py"]
    assert "tests/test_bad_input.py" in find_tests_with(ROOT / "tests/bad_input.yaml", set())


def test_a_module_that_no_test_imports_runs_the_tests_of_its_folder() -> None:
    assert list_runs([("simkit/viewer/a_module.py", "", "")]) == [["tests/viewer"]]


def test_a_changed_message_runs_what_is_near_and_what_shows_it() -> None:
    file = "simkit/core/text.py"
    text = (ROOT / file).read_text("utf-8")
    message = '"the tutorial explains the words as the glossary does"'
    near, texts = list_runs([(file, f"{text}\nA = {message}\n", text)])

    assert near[0] == nearest_tests(file)[0]
    name = "test_a_changed_message_runs_what_is_near_and_what_shows_it"
    assert texts == ["-m", "", f"tests/test_changes.py::{name}"]
