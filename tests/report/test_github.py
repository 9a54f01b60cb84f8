"""Workflow commands: what GitHub reads as an annotation."""

from __future__ import annotations

import pytest

from simkit.checks.findings import Difference, Finding
from simkit.report.results import Result
from simkit.report.text import annotation, annotation_at, result_annotations, split_place

LATE = Finding(
    "claim", "E", "reply does not match", "s/x.scenario.yaml:7:21", turn=1, agent="clerk",
    differences=(Difference("", '"Bye"', '"sk-1"'),), excerpt="expect: {reply: Bye}",
)  # fmt: skip
EMPTY = Finding("RUN-03", "W", "excludes proves nothing", "s/x.scenario.yaml:9:5", fix="Leave it.")
FAILED = Result(
    "s/x.scenario.yaml::late", "s/x.scenario.yaml", 1, "late", "failed", 0,
    findings=(LATE,), warnings=(EMPTY,),
)  # fmt: skip


def broken(error: str) -> Result:
    return Result("s/y.scenario.yaml", "s/y.scenario.yaml", 4, "", "broken", error=error)


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


def test_every_finding_is_annotated_at_its_line_errors_first() -> None:
    torn = broken("s/y.scenario.yaml:3:1: a tab cannot indent\n  use spaces")

    assert list(result_annotations([FAILED, torn])) == [
        "::error file=s/x.scenario.yaml,line=7,col=21,title=late::reply does not match (turn 1, "
        'agent clerk)%0A    expect: {reply: Bye}%0A  wanted "Bye", found "sk-1"',
        "::error file=s/y.scenario.yaml,line=3,col=1,title=s/y.scenario.yaml::a tab cannot indent"
        "%0A  use spaces",
        "::warning file=s/x.scenario.yaml,line=9,col=5,title=late::RUN-03: excludes proves nothing"
        "%0A  → Leave it.",
    ]


def test_what_holds_is_not_annotated() -> None:
    result = Result("f::n", "f", 1, "n", "held", noted=(EMPTY,))

    assert list(result_annotations([result])) == []


def test_an_error_without_a_place_is_annotated_at_its_scenario() -> None:
    assert list(result_annotations([broken("no module 'shop'")])) == [
        "::error file=s/y.scenario.yaml,line=4,title=s/y.scenario.yaml::no module 'shop'"
    ]


def test_files_are_named_from_the_root_of_the_repository() -> None:
    lines = result_annotations([broken("../x.pipeline.yaml:3:1: torn")], "services/coach")

    assert [line.split(",")[0] for line in lines] == ["::error file=services/x.pipeline.yaml"]


def test_annotations_hold_no_secret() -> None:
    lines = list(result_annotations([FAILED], "", lambda text: text.replace("sk-1", "[redacted]")))

    assert 'found "[redacted]"' in lines[0]
    assert not any("sk-1" in line for line in lines)
