"""Claims that are not looked at are counted, and under --strict they fail."""

from __future__ import annotations

from msgspec.structs import replace

from simkit.checks.findings import Finding
from simkit.checks.judge import strictly
from simkit.report.github import result_annotations
from simkit.report.markdown import results_markdown
from simkit.report.results import Result, summary_of
from simkit.report.text import summary_lines, title_line
from simkit.trace.events import AnyEvent, RunStarted
from tests.checks.judging import MEALS, judged, with_claims

CLAIMS = """
context:
  nutrition:
    history: [{user: complete nonsense}]
    sections: [run]
    includes: [And now?]
"""


def as_code_unseen(event: AnyEvent) -> list[AnyEvent]:
    """Edits a trace so that its sections are declared unseen."""
    if isinstance(event, RunStarted):
        facts = replace(
            event.pipeline, observes=("runs", "handoffs", "state"), unseen=("sections",),
            unseen_reasons={"sections": "A message is known by\n its text."},
        )  # fmt: skip
        return [replace(event, driver="python", pipeline=facts)]
    return [event]


def test_claims_that_are_not_looked_at_are_told_with_their_reason() -> None:
    _, judgement = judged(with_claims(MEALS, CLAIMS), edit=as_code_unseen)

    assert judgement.passed
    assert [claim.what for claim in judgement.passed_over] == [
        "context.nutrition.sections was not looked at: sections: A message is known by its text.",
        "context.nutrition.history was not looked at: sections: A message is known by its text.",
    ]
    assert [claim.path[-1] for claim in judgement.passed_over] == ["sections", "history"]


def test_a_trace_of_an_older_version_holds_no_reason() -> None:
    def edit(event: AnyEvent) -> list[AnyEvent]:
        (result,) = as_code_unseen(event)
        if isinstance(result, RunStarted):
            return [replace(result, pipeline=replace(result.pipeline, unseen_reasons={}))]
        return [result]

    _, judgement = judged(with_claims(MEALS, CLAIMS), edit=edit)

    assert judgement.passed_over[0].what == (
        "context.nutrition.sections was not looked at: sections: declared `unseen`"
    )


def test_strictly_they_fail_and_so_does_a_denial_that_nothing_could_break() -> None:
    claims = CLAIMS + "    excludes: [{$contains: never said by anyone}]\n"
    _, judgement = judged(with_claims(MEALS, claims), edit=as_code_unseen)

    strict = strictly(judgement)

    assert judgement.exit_code == 0
    assert strict.exit_code == 1
    assert [finding.id for finding in strict.findings] == ["claim", "claim", "RUN-03"]
    assert not [warning for warning in strict.warnings if warning.id == "RUN-03"]


def test_where_all_was_looked_at_nothing_is_stricter() -> None:
    _, judgement = judged(with_claims(MEALS, "context: {nutrition: {includes: [And now?]}}"))

    assert judgement.passed_over == ()
    assert strictly(judgement) is judgement


def test_a_scenarios_line_and_the_total_say_how_many() -> None:
    _, judgement = judged(with_claims(MEALS, CLAIMS), edit=as_code_unseen)
    result = Result("f::n", "f", 1, "n", "held", passed_over=judgement.passed_over)

    assert title_line(result) == (
        "ok      n (2 claims not looked at: sections: A message is known by its text.)"
    )
    assert list(summary_lines(summary_of([result]), [], 1.0)) == [
        "1 scenario: 1 held, 2 claims not looked at (1.00 s)"
    ]


def test_a_workflow_is_told_how_many_claims_were_not_looked_at() -> None:
    subject = "turn 1's state was not looked at: filters: they are its own"
    over = Finding("claim", "E", subject, "a.scenario.yaml:9:1", ("turns", 0), 1)
    result = Result("a::s", "a.scenario.yaml", 3, "s", "held", passed_over=(over,))

    text = results_markdown([result])
    assert "## simkit: 1 scenario, 1 held, 1 claim not looked at\n" in text
    assert "held (1 claim not looked at: filters: they are its own)" in text
    (notice,) = result_annotations([result])
    assert notice.startswith("::notice file=a.scenario.yaml,line=3,title=s::1 claim not looked at")
