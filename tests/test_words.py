from __future__ import annotations

from simkit.words import counted, short


def test_counts_agree_with_their_nouns() -> None:
    assert counted(1, "scenario") == "1 scenario"
    assert counted(2, "scenario") == "2 scenarios"
    assert counted(0, "reply", "replies") == "0 replies"


def test_a_long_text_is_cut_on_one_line() -> None:
    assert short("one\n  two", 7) == "one two"
    assert short("one\n  two", 6) == "one t…"
