from __future__ import annotations

from simkit.core.errors import SourceError
from simkit.language.yaml import load_text
from simkit.spec.validation.problems import Flaw, Problem, Problems

(PLAIN,) = load_text("a: [1,\n  2]\n", "b.yaml")
(OFF,) = load_text("a: 1\nlints: {VAL-14: kept}\n", "a.yaml")


def test_a_flaw_is_placed_in_its_file_with_what_the_catalogue_advises() -> None:
    problems = Problems()

    problems.add(PLAIN, [Flaw("VAL-14", ("a", 1), "it is odd"), Flaw("VAL-13", ("a",), "x", "y")])

    assert [problem.text for problem in problems.report(["b.yaml"], 0).problems] == [
        "b.yaml:1:4: VAL-13: x\n  at a\n  y",
        "b.yaml:2:3: warning VAL-14: it is odd\n  at a[1]\n  Remove it, or use it.",
    ]


def test_problems_come_in_the_order_of_the_call_and_of_lines_each_once() -> None:
    problems = Problems()
    for where in ("a.yaml:10:1", "a.yaml:9:1", "c.yaml:1:1", "b.yaml:2:1", "c.yaml", "a.yaml:9:1"):
        problems.refuse("VAL-01", SourceError(where, "no"))

    report = problems.report(["c.yaml", "a.yaml"], 7)

    assert [problem.where for problem in report.problems] == [
        "c.yaml", "c.yaml:1:1", "a.yaml:9:1", "a.yaml:10:1", "b.yaml:2:1",
    ]  # fmt: skip
    assert (report.files, report.scenarios) == (2, 7)


def test_what_a_document_turns_off_is_counted_and_not_told() -> None:
    problems = Problems()

    problems.add(OFF, [Flaw("VAL-14", ("a",), "row 1"), Flaw("VAL-14", ("a",), "row 2")])
    problems.add(OFF, [Flaw("VAL-24", (), "told")])

    report = problems.report(["a.yaml"], 0)
    assert [problem.what for problem in report.problems] == ["told"]
    assert report.turned_off == 1


def test_a_finding_is_turned_off_at_one_place_and_an_entry_that_does_nothing_is_told() -> None:
    (document,) = load_text(
        "lints:\n  VAL-10: {archive: later, cellar: gone}\n  VAL-24: {x: why}\n"
        "  VAL-14: {y: told of folders alone}\n  CTX-07: {z: a lint}\n", "b.yaml",
    )  # fmt: skip
    problems = Problems()

    problems.add(
        document,
        [
            Flaw("VAL-10", ("agents", "archive"), "nothing can start agent `archive`"),
            Flaw("VAL-10", ("agents", "archives"), "nothing can start agent `archives`"),
        ],
    )

    report = problems.report(["b.yaml"], 0)
    assert [(problem.code, problem.at) for problem in report.problems] == [
        ("VAL-10", "agents.archives"),
        ("VAL-33", "lints.VAL-10.cellar"),
        ("VAL-33", "lints.VAL-24.x"),
    ]
    assert report.turned_off == 1


def test_an_error_keeps_all_that_it_said() -> None:
    problems = Problems()
    error = SourceError("a.yaml:1:1", "unknown word `a`", "x.y", "b", ("b", "c"), "Write b.")

    problems.refuse("VAL-03", error)

    (problem,) = problems.report([], 0).problems
    assert problem == Problem(
        "VAL-03", "a.yaml:1:1", "unknown word `a`", "x.y", "b", ("b", "c"), "Write b."
    )
    assert problem.text == str(error).replace("1:1: ", "1:1: VAL-03: ")
