"""Claims on log records of code: level, logger, message, in order; other code's are none."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from simkit.core.errors import SourceError
from simkit.core.output import current_redactor
from simkit.report.last_run import Ledger, RunEntry
from simkit.session.simulate import simulate
from simkit.session.simulation import Simulation
from simkit.trace import events as e
from tests.adapters.running import prepared, run_app
from tests.building import run_yaml

DESK = "logging_desk:answer"
RULES = "agents: {desk: {system: Desk.}}\n"


def scenario(user: str, logs: str, reply: str = "Fine.") -> str:
    return f"""{RULES}turns:
  - user: {user}
    replies: {{desk: {reply}}}
    expect: {{logs: {logs}}}
"""


def find_problems(user: str, logs: str) -> list[str]:
    return [finding.what for finding in run_app(DESK, scenario(user, logs)).judgement.findings]


def test_records_of_every_level_are_claimed_whole_and_in_order() -> None:
    ran = run_app(
        DESK,
        scenario(
            "Hi",
            "[{level: DEBUG, logger: desk.orders, message: asked Hi}, "
            "{level: INFO, message: answered with 5 characters}]",
        ),
    )

    assert ran.judgement.findings == ()
    assert [event.agent for event in ran.trace.events if isinstance(event, e.LogRecorded)] == [
        "",
        "",
    ]


def test_what_differs_is_shown_with_what_was_logged() -> None:
    (finding,) = run_app(
        DESK, scenario("Hi", "[{level: INFO}, {message: nothing}]")
    ).judgement.findings

    assert finding.what == "logs does not match"
    assert [difference.actual for difference in finding.differences] == [
        '"DEBUG"',
        '"answered with 5 characters"',
    ]
    assert finding.context == (
        "log records in turn 1:",
        "  1. DEBUG desk.orders: asked Hi",
        "  2. INFO desk.orders: answered with 5 characters",
    )


def test_a_record_that_is_missing_or_too_many_fails() -> None:
    assert find_problems("Hi", "[{level: DEBUG}]") == ["logs does not match"]
    assert find_problems("Hi", "{$has: [{level: WARNING}]}") == ["logs does not match"]
    assert find_problems("Hi", "{$not: {$has: [{message: {$contains: answered}}]}}") != []


@pytest.mark.parametrize(
    ("user", "record"),
    [
        ("wrong", '{level: ERROR, message: order 7, error: "ValueError: no such order"}'),
        ("thread", "{level: WARNING, message: from a thread}"),
        ("misfit", "{message: two %s %s}"),
        ("root", "{logger: root, message: by the root}"),
        ("root", "{logger: desk.orders, message: through an adapter}"),
    ],
)
def test_however_user_code_logs_it_is_seen(user: str, record: str) -> None:
    assert find_problems(user, f"{{$has: [{record}]}}") == []


def test_libraries_and_disabled_loggers_make_no_records() -> None:
    ran = run_app(DESK, scenario("library", "{$len: 2}"))

    assert ran.judgement.findings == ()


def test_what_is_printed_is_the_same_and_code_that_asks_is_told_the_truth(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)

    ran = run_app(DESK, scenario("Hi", "{$len: 2}"))

    assert ran.turn().reply == "Fine. (spared)"
    assert [record.message for record in caplog.records] == ["answered with 5 characters"]
    assert logging.Logger.isEnabledFor.__module__ == "logging"


def test_without_a_claim_nothing_is_taken_down_and_the_trace_is_as_before() -> None:
    ran = run_app(DESK, f"{RULES}turns: [{{user: Hi, replies: {{desk: Fine.}}}}]")

    assert [event for event in ran.trace.events if isinstance(event, e.LogRecorded)] == []
    assert "logs" not in ran.view.pipeline.observes


def test_a_declared_pipeline_has_no_log_and_a_claim_on_it_is_not_observable() -> None:
    ran = run_yaml(
        "agents: {a: {instructions: A.}}\nflow: {handoffs: {start: a}}",
        "turns: [{user: Hi, replies: {a: B}, expect: {logs: []}}]",
    )

    assert [finding.what for finding in ran.judgement.findings] == [
        "logs is not observable by driver 'native', which does not see log records"
    ]


def test_a_field_that_no_record_has_is_refused_with_its_place() -> None:
    with pytest.raises(SourceError) as refused:
        prepared(DESK, scenario("Hi", "[{msg: asked}]"))

    assert "unknown field of a log record `msg`" in str(refused.value)
    assert "level, logger, message, error, agent" in str(refused.value)


def test_a_key_that_is_logged_is_in_no_stored_trace(tmp_path: Path) -> None:
    outcome = simulate(prepared(DESK, scenario("key", "{$has: [{logger: desk.keys}]}")))

    assert outcome.judgement.findings == ()
    ledger = Ledger(tmp_path)
    trace = outcome.redacted(current_redactor()).trace
    path = Path(ledger.keep("desk", trace.encoded()))
    ledger.close([RunEntry("desk", "held", "", str(path))], [])
    assert b"desk.keys" in path.read_bytes()
    assert b"sk-proj-a1B2" not in path.read_bytes()


def test_records_belong_to_their_turn() -> None:
    turns = (
        f"{RULES}turns:\n"
        "  - {user: One, replies: {desk: A}, expect: {logs: [{message: asked One}, {}]}}\n"
        "  - {user: Two, replies: {desk: B}, expect: {logs: {$has: [{message: asked Two}]}}}\n"
        "expect: {logs: {$len: 4}}\n"
    ).replace("{}]", "{level: INFO}]")

    assert run_app(DESK, turns).judgement.findings == ()


def test_python_reads_the_records_of_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "apps"))
    with Simulation(DESK, agents={"desk": {"system": "Desk."}}, app={"logs": True}) as sim:
        turn = sim.say("Hi", replies={"desk": "Fine."})

        assert [log["message"] for log in turn.logs] == ["asked Hi", "answered with 5 characters"]
        assert turn.reply


def test_python_is_told_how_records_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "apps"))
    with Simulation(DESK, agents={"desk": {"system": "Desk."}}) as sim:
        turn = sim.say("Hi", replies={"desk": "Fine."})

        with pytest.raises(SourceError, match="log records are not seen"):
            _ = turn.logs
        assert turn.reply


def test_what_somebody_else_has_put_into_logging_goes_on_and_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts: list[str] = []
    before = logging.Logger.callHandlers

    def watch(logger: logging.Logger, record: logging.LogRecord) -> None:
        texts.append(record.getMessage())
        before(logger, record)

    monkeypatch.setattr(logging.Logger, "callHandlers", watch)

    result = find_problems("wrong", "{$has: [{level: ERROR, message: order 7}]}")

    assert result == []
    assert texts == ["order 7"]
    assert logging.Logger.callHandlers is watch
