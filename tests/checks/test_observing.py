"""What a driver does not see can be neither claimed nor denied: such a claim never passes.

Claims that a file declares as unseen are skipped and counted; under --strict they fail.
"""

# ruff: noqa: E501  what is found stands here as it is said

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import fields, replace

from simkit.checks.findings import Finding
from simkit.checks.judge import CHECKS, strictly
from simkit.report.results import Result, summary_of
from simkit.report.text import result_annotations, results_markdown, summary_lines, title_line
from simkit.spec.scenario.claim_kinds import ClaimKind, aspect
from simkit.spec.scenario.claims import RUN_CLAIMS, TURN_CLAIMS
from simkit.trace import events as e
from tests.adapters.scribes import Desk, user
from tests.checks.judging import FIRST_MEAL, MEALS, describe_findings, judged, with_claims
from tests.checks.recorded_claims import RECORDED


def seeing_filters(event: e.AnyEvent) -> list[e.AnyEvent]:
    """Edits a trace so that its driver saw filters, and no sections."""
    if isinstance(event, e.RunStarted):
        return [replace(event, pipeline=replace(event.pipeline, observes=("filters",)))]
    return [event]


def test_who_sees_filters_sees_what_they_drop_without_sections() -> None:
    assert (
        describe_findings(MEALS, "context: {nutrition: {dropped: {$len: 4}}}", edit=seeing_filters)
        == ""
    )
    assert "dropped does not match" in describe_findings(
        MEALS, "context: {nutrition: {dropped: {$len: 3}}}", edit=seeing_filters
    )


UNSEEN_CLAIMS = """
context:
  nutrition:
    history: [{user: complete nonsense}]
    sections: [run]
    includes: [And now?]
"""


def as_code_unseen(event: e.AnyEvent) -> list[e.AnyEvent]:
    """Edits a trace so that its sections are declared unseen."""
    if isinstance(event, e.RunStarted):
        facts = replace(
            event.pipeline, observes=("runs", "handoffs", "state"), unseen=("sections",),
            unseen_reasons={"sections": "A message is known by\n its text."},
        )  # fmt: skip
        return [replace(event, driver="python", pipeline=facts)]
    return [event]


def test_claims_that_are_not_looked_at_are_told_with_their_reason() -> None:
    _, judgement = judged(with_claims(MEALS, UNSEEN_CLAIMS), edit=as_code_unseen)

    assert judgement.passed
    assert [claim.what for claim in judgement.passed_over] == [
        "context.nutrition.sections was not looked at: sections: A message is known by its text.",
        "context.nutrition.history was not looked at: sections: A message is known by its text.",
    ]
    assert [claim.path[-1] for claim in judgement.passed_over] == ["sections", "history"]


def test_a_trace_of_an_older_version_holds_no_reason() -> None:
    def edit(event: e.AnyEvent) -> list[e.AnyEvent]:
        (result,) = as_code_unseen(event)
        if isinstance(result, e.RunStarted):
            return [replace(result, pipeline=replace(result.pipeline, unseen_reasons={}))]
        return [result]

    _, judgement = judged(with_claims(MEALS, UNSEEN_CLAIMS), edit=edit)

    assert judgement.passed_over[0].what == (
        "context.nutrition.sections was not looked at: sections: declared `unseen`"
    )


def test_strictly_they_fail_and_so_does_a_denial_that_nothing_could_break() -> None:
    claims = UNSEEN_CLAIMS + "    excludes: [{$contains: never said by anyone}]\n"
    _, judgement = judged(with_claims(MEALS, claims), edit=as_code_unseen)

    strict = strictly(judgement)

    assert judgement.exit_code == 0
    assert strict.exit_code == 1
    assert [finding.id for finding in strict.findings] == ["claim", "claim", "RUN-03"]
    assert not [warning for warning in strict.warnings if warning.id == "RUN-03"]


def test_where_all_was_looked_at_nothing_is_stricter() -> None:
    _, judgement = judged(with_claims(MEALS, "context: {nutrition: {includes: [And now?]}}"))

    assert judgement.passed_over == ()
    assert strictly(judgement) == judgement


def test_a_scenarios_line_and_the_total_say_how_many() -> None:
    _, judgement = judged(with_claims(MEALS, UNSEEN_CLAIMS), edit=as_code_unseen)
    result = Result("f::n", "f", 1, "n", "held", passed_over=judgement.passed_over)

    assert title_line(result) == (
        "ok      n (2 claims not looked at: sections: A message is known by its text.)"
    )
    assert list(summary_lines(summary_of([result]), [], 1.0)) == [
        "1 scenario: 1 passed, 2 claims not looked at (1.00 s)"
    ]


def test_a_workflow_is_told_how_many_claims_were_not_looked_at() -> None:
    subject = "turn 1's state was not looked at: filters: they are its own"
    over = Finding("claim", "E", subject, "a.scenario.yaml:9:1", ("turns", 0), 1)
    result = Result("a::s", "a.scenario.yaml", 3, "s", "held", passed_over=(over,))

    text = results_markdown([result])
    assert "## simkit: 1 scenario, 1 passed, 1 claim not looked at\n" in text
    assert "passed (1 claim not looked at: filters: they are its own)" in text
    (notice,) = result_annotations([result])
    assert notice.startswith("::notice file=a.scenario.yaml,line=3,title=s::1 claim not looked at")


ON_THE_WIRE = {
    "error": "how a model call failed is answered by simkit itself",
    "interrupt": "a question is a reply line of the scenario",
    "reply": "the last thing that a model said",
    "context": "messages, tools, tokens and settings are the request's; sections are tested beside",
    "model_calls": "requests are counted",
    "events": "tested kind by kind",
    "judge": "simkit itself asks",
}
"""Claims that the bare wire shows, and why."""
CLAIMS = {name for name, row in TURN_CLAIMS.items() if row.needs} | {"tool_calls"}
"""Claims that need more: `tool_calls` needs what was asked for last."""


def bare(event: e.AnyEvent) -> list[e.AnyEvent]:
    """Make a trace one of a driver that sees requests and responses alone."""
    if isinstance(event, e.RunStarted):
        facts = replace(event.pipeline, observes=(), channels={}, is_open=True)
        return [replace(event, driver="wire", pipeline=facts)]
    if isinstance(event, (e.ToolCalled, e.ToolReturned, e.ToolFailed, e.StateUpdated)):
        return []
    unseen = {
        field: default_of(kind, field)
        for name, (kind, field) in RECORDED.items()
        if type(event) is kind and RUN_CLAIMS[name].null_needs
    }
    return [replace(event, **unseen)] if unseen else [event]


def with_runs(event: e.AnyEvent) -> list[e.AnyEvent]:
    """The same of a driver that sees whose calls are of one run."""
    events = bare(event)
    return [
        replace(item, pipeline=replace(item.pipeline, observes=("runs", "handoffs")))
        if isinstance(item, e.RunStarted)
        else item
        for item in events
    ]


def test_every_claim_is_seen_on_the_wire_or_says_what_it_needs() -> None:
    unsaid = {*CHECKS} - {*ON_THE_WIRE} - CLAIMS - {"runs"}

    assert not unsaid, f"say what a driver must see for {unsaid}: `needs` in its row"
    assert CLAIMS.isdisjoint(ON_THE_WIRE)


@pytest.mark.parametrize("name", sorted(CLAIMS))
def test_what_is_not_seen_is_a_finding_whatever_the_claim_says(name: str) -> None:
    result = describe_findings(FIRST_MEAL, f"{name}: {{$any: true}}", edit=bare)

    assert "is not observable by driver 'wire', which does not see" in result
    assert "does not match" not in result


@pytest.mark.parametrize("claim", RUN_CLAIMS)
def test_no_claim_on_a_run_holds_where_runs_are_not_seen(claim: str) -> None:
    result = describe_findings(
        MEALS, f"runs: {{nutrition: {{{claim}: {{$absent: true}}}}}}", edit=bare
    )

    assert f"runs.nutrition.{claim} is not observable" in result


def test_a_turn_in_which_no_tool_was_asked_for_called_none() -> None:
    assert describe_findings(MEALS, "tool_calls: []", edit=with_runs) == ""


@pytest.mark.parametrize(
    "matcher", ["null", "{$contains: lunch}", "{$not: {$contains: x}}", "{$any: true}"]
)
@pytest.mark.parametrize(
    "name", [name for name, row in RUN_CLAIMS.items() if row.null_needs and not row.needs]
)
def test_a_value_that_code_did_not_show_is_not_null(name: str, matcher: str) -> None:
    result = describe_findings(MEALS, f"runs: {{nutrition: {{{name}: {matcher}}}}}", edit=with_runs)

    words = aspect(RUN_CLAIMS[name].null_needs).words
    assert (
        f"runs.nutrition.{name} is not observable by driver 'wire', which does not see {words}"
        in result
    )


def hole_in(row: ClaimKind) -> str:
    """Return what lets a claim on a run hold although code never showed its value, if anything."""
    assert row.recorded_in is not None
    assert row.read is not None
    desk = Desk()
    desk.turn("Hello")
    desk.answers(desk.asks([user("Hello")]), "Hi.")
    desk.recorder.end_run(desk.run())
    desk.ends("Hi.")
    kind, field = row.recorded_in
    (event,) = [event for event in desk.trace.events if type(event) is kind]
    (run,) = desk.view.runs.values()
    if getattr(event, field) != default_of(kind, field):
        return ""  # The recorder of code fills it.
    if row.read(run) is not None:
        return f"{kind.__name__}.{field} is recorded by no code, but `read` returns a value"
    return "" if row.null_needs else "`read` returns null, but `null_needs` is empty"


def default_of(kind: type, field: str) -> Any:
    (of_field,) = (each for each in fields(kind) if each.name == field)
    return of_field.default


@pytest.mark.parametrize("name", RECORDED)
def test_the_recorder_of_code_fills_what_a_claim_reads_or_the_claim_is_not_observable(
    name: str,
) -> None:
    assert not hole_in(RUN_CLAIMS[name]), (
        f"`runs: {{a: {{{name}: …}}}}` may hold of code that shows nothing of it: {hole_in(RUN_CLAIMS[name])}. "
        "Record it in simkit/adapters/recorder/trace.py, or let `read` return None and name the "
        "aspect in `null_needs`"
    )


@pytest.mark.parametrize(
    ("row", "hole"),
    [
        (
            ClaimKind(read=lambda run: 0, recorded_in=(e.AgentStarted, "goal")),
            "AgentStarted.goal is recorded by no code, but `read` returns a value",
        ),
        (
            ClaimKind(read=lambda run: run.goal, recorded_in=(e.AgentStarted, "goal")),
            "`read` returns null, but `null_needs` is empty",
        ),
        (ClaimKind(read=lambda run: run.output, recorded_in=(e.AgentFinished, "output")), ""),
    ],
)
def test_a_claim_that_could_hold_falsely_of_code_is_noticed(row: ClaimKind, hole: str) -> None:
    assert hole_in(row) == hole


@pytest.mark.parametrize("matcher", ["[]", "{$len: 0}", "{$not: {$has: [{tool: log_meal}]}}"])
def test_a_tool_that_was_asked_for_and_not_seen_was_not_left_uncalled(matcher: str) -> None:
    result = describe_findings(FIRST_MEAL, f"tool_calls: {matcher}", edit=with_runs)

    assert (
        "tool_calls is not observable by driver 'wire', which does not see whether a tool ran that was asked for last"
        in result
    )
