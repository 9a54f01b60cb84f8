"""What keeps a file from running has a code that says of what kind it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.cli.validate import checked
from tests.spec.validation.cases import FILE

PIPELINE = """\
version: 1
pipeline: desk
channels: {messages: {reducer: append}}
agents:
  triage: {instructions: Help., tools: [find]}
  refunds: {instructions: Refund.}
flow: {handoffs: {start: triage}}
"""
SCENARIO = """\
---
version: 1
scenario: a refund
pipeline: desk
turns: [{user: Hi, replies: {triage: Hello}}]
"""
GRAPH = (
    "{graph: {nodes: {triage: {start: true}, refunds: {}}, edges: [{from: triage, to: refunds}]}}"
)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("user: Hi", "user: Hi\t", ("VAL-01", 12, "a tab cannot indent or separate")),
        (
            "scenario: a refund\n",
            "",
            ("VAL-01", 9, "a document with `turns:` is a scenario, and needs `scenario:` with its "
             "name"),
        ),
        ("user: Hi", "usr: Hi", ("VAL-02", 12, "unknown key `usr`")),
        ("start: triage", "start: 7, x: 1", ("VAL-02", 7, "unknown key `x`")),
        ("start: triage", "start: triag", ("VAL-03", 7, "unknown agent `triag`")),
        ("{triage: Hello}", "{triag: Hello}", ("VAL-03", 12, "unknown agent `triag`")),
        ("pipeline: desk\nturns", "pipeline: dsk\nturns",
         ("VAL-03", 11, "there is no pipeline `dsk` in this file")),
        ("{triage: Hello}", "{refunds: Hello}",
         ("VAL-20", 12, "agent `refunds` has reply lines, but nothing can ever start it")),
        ("{handoffs: {start: triage}}", GRAPH,
         ("VAL-04", 7, "no edge leads on from node `refunds`, and it is no exit")),
        ("user: Hi,", "user: Hi, restart: true,",
         ("VAL-05", 12, "nothing has run before the first turn that could be restarted")),
        ("turns:", "lints: {VAL-05: no}\nturns:", ("VAL-03", 12, "unknown lint `VAL-05`")),
        ("flow:", "lints: {CTX-07: no}\nflow:", ("VAL-03", 7, "unknown finding `CTX-07`")),
    ],
)  # fmt: skip
def test_a_refusal_has_the_code_of_its_kind(
    cwd: Path, old: str, new: str, problem: tuple[str, int, str],
) -> None:  # fmt: skip
    text = PIPELINE + SCENARIO
    assert text.count(old) == 1
    Path(FILE).write_text(text.replace(old, new), encoding="utf-8")

    problems = [item for item in checked([FILE]).problems if item.severity == "E"]

    assert [(item.code, int(item.where.split(":")[1]), item.what) for item in problems] == [problem]


def test_a_shape_that_a_pipeline_file_breaks_is_told_once_for_all_scenarios(cwd: Path) -> None:
    Path("desk.pipeline.yaml").write_text(PIPELINE.replace("start", "strat"), encoding="utf-8")
    for name in ("a", "b"):
        text = SCENARIO.replace("pipeline: desk", "pipeline: desk.pipeline.yaml")
        Path(f"{name}.scenario.yaml").write_text(text, encoding="utf-8")

    assert [problem.text for problem in checked(["."]).problems] == [
        "desk.pipeline.yaml:7:19: VAL-02: unknown key `strat`\n"
        "  at flow.handoffs.strat\n"
        "  did you mean `start`?   known: start"
    ]
