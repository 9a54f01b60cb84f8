from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import simkit
from simkit import Simulation
from simkit.cli.commands import cli
from simkit.core.text import counted, near, other_words, shell_word, short, short_both
from simkit.session.simulation import TurnOutcome


def test_counts_agree_with_their_nouns() -> None:
    assert counted(1, "scenario") == "1 scenario"
    assert counted(2, "scenario") == "2 scenarios"
    assert counted(0, "reply", "replies") == "0 replies"


def test_a_long_text_is_cut_on_one_line() -> None:
    assert short("one\n  two", 7) == "one two"
    assert short("one\n  two", 6) == "one t…"


def test_two_long_texts_are_cut_where_they_part() -> None:
    before, after = "b" * 30, "a" * 30

    assert short_both(f"{before}1{after}", f"{before}2{after}", 20) == (
        "…bbbbbbbbbb1aaaaaaa…", "…bbbbbbbbbb2aaaaaaa…",
    )  # fmt: skip
    assert short_both(f"{before}1", f"{before}2", 20) == (
        "…bbbbbbbbbbbbbbbbbb1", "…bbbbbbbbbbbbbbbbbb2",
    )  # fmt: skip
    assert short_both(f"1{after}", "2", 20) == ("1aaaaaaaaaaaaaaaaaa…", "2")
    assert short_both("a" * 20, "a" * 19, 20) == ("a" * 20, "a" * 19)


def test_two_texts_that_differ_in_white_space_alone_show_it() -> None:
    assert short_both("one\ntwo", "one two", 20) == ("'one\\ntwo'", "'one two'")


def test_a_text_with_an_apostrophe_is_a_readable_word_of_a_shell() -> None:
    assert shell_word("a.yaml::it's late") == '"a.yaml::it\'s late"'
    assert shell_word("a.yaml") == "a.yaml"
    assert shell_word("my file") == "'my file'"
    hostile = ["it's $HOME", "it's `id`", 'it\'s "so"', "it's \\", "it's !!", "it's\nso", "$(id)"]

    words = " ".join(shell_word(text) for text in hostile)

    printed = subprocess.run(
        ["sh", "-c", f"printf '%s\\0' {words}"], capture_output=True, text=True, check=True
    )
    assert printed.stdout.split("\0")[:-1] == hostile


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
@example("it's late")
def test_a_word_of_a_shell_is_the_text_again(text: str) -> None:
    assert shlex.split(shell_word(text)) == [text]


@pytest.mark.parametrize(
    ("word", "known", "name"),
    [
        ("CTX-1", ["CTX-21", "CTX-01", "CTX-11"], "CTX-01"),
        ("hnd12", ["HND-02", "HND-12"], "HND-12"),
        ("tool-result", ["tools", "tool_result"], "tool_result"),
        ("send", ["resume"], ""),
    ],
)
def test_hyphens_and_leading_zeros_do_not_part_a_word_from_its_own(
    word: str, known: list[str], name: str
) -> None:
    assert near(word, known) == name


def test_words_of_other_tools_lead_to_words_that_exist() -> None:
    known = {
        "commands": cli.commands,
        "attributes": [*vars(Simulation), *vars(TurnOutcome)],
        "package": simkit.__all__,
    }

    for kind, names in known.items():
        wrong = {to for words in other_words(kind).values() for to in words} - {*names}
        assert not wrong, kind
        assert not {*other_words(kind)} & {*names}, kind
