"""Workflow commands: what GitHub reads as an annotation."""

from __future__ import annotations

import pytest

from simkit.report.github import annotation, annotation_at, split_place


def test_annotation_names_place_title_and_message() -> None:
    assert annotation(
        "error", "it is so\nand so, 100 %", file="a,b.yaml", line=3, column=5, title="x: y"
    ) == ("::error file=a%2Cb.yaml,line=3,col=5,title=x%3A y::it is so%0Aand so, 100 %25")


def test_annotation_without_a_place_is_the_message_alone() -> None:
    assert annotation("notice", "all held") == "::notice::all held"


@pytest.mark.parametrize(
    ("where", "parts"),
    [
        ("a.yaml:3:5", ("a.yaml", 3, 5)),
        ("a.yaml:3", ("a.yaml", 3, 0)),
        ("a.yaml", ("a.yaml", 0, 0)),
        (r"C:\a.yaml:3:5", (r"C:\a.yaml", 3, 5)),
    ],
)
def test_a_place_is_file_line_and_column(where: str, parts: tuple[str, int, int]) -> None:
    assert split_place(where) == parts


def test_annotation_at_a_place_in_words() -> None:
    assert annotation_at("warning", "a.yaml:3:5", "hm", "CTX-07") == (
        "::warning file=a.yaml,line=3,col=5,title=CTX-07::hm"
    )
