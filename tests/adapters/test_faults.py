"""Faults at the wire: what the real clients do, and what is said of code that takes them wrongly.

The desks stand in tests/apps/faulty_desk.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from simkit.providers.failures import FAILURES
from simkit.trace.events import FaultInjected, ModelFailed, ModelRetried
from tests.adapters.running import run_app
from tests.building import Ran

CLIENTS = ["openai_sync", "openai_async", "anthropic_sync", "anthropic_async"]
PILLS = "Take two pills a day, but never with milk or on an empty stomach."
LATER = "{error: {type: rate_limit, retry_after: 2}}"


def ran(desk: str, *lines: str, more: str = "", expect: str = "{}") -> Ran:
    """One turn of a desk whose model answers with these lines."""
    scenario = f"""
agents: {{desk: {{system: You help.}}}}
{more}
turns:
  - user: hello
    replies: {{desk: [{", ".join(lines)}]}}
    expect: {expect}
"""
    return run_app(f"faulty_desk:{desk}", scenario)


def finding_ids(ran: Ran) -> list[str]:
    """The lints that fail the scenario, or warn."""
    return [f.id for f in (*ran.judgement.findings, *ran.judgement.warnings)]


def attempts(ran: Ran) -> list[tuple[int, int]]:
    """When each call was made again, and which attempt it is."""
    return [(e.at, e.attempt) for e in ran.events(ModelRetried)]


# What clients do by themselves


@pytest.mark.parametrize("desk", CLIENTS)
def test_clients_wait_as_long_as_they_are_asked_to_in_virtual_time(desk: str) -> None:
    outcome = ran(desk, LATER, "Done.", expect="{reply: Done.}")

    assert attempts(outcome) == [(2000, 2)]
    assert finding_ids(outcome) == []


@pytest.mark.parametrize("desk", CLIENTS)
@pytest.mark.parametrize("kind", ["authentication", "context_overflow", "rate_limit"])
def test_clients_do_not_try_again_what_they_are_not_told_to(desk: str, kind: str) -> None:
    outcome = ran(desk, f"{{error: {kind}}}", expect=f"{{error: {{type: {kind}}}}}")

    assert attempts(outcome) == []
    assert finding_ids(outcome) == []


@pytest.mark.parametrize("desk", CLIENTS)
@pytest.mark.parametrize("kind", ["connection", "timeout"])
def test_clients_try_again_where_no_answer_came_at_times_that_the_seed_decides(
    desk: str, kind: str
) -> None:
    first, second = (ran(desk, f"{{error: {kind}}}", "Done.") for _ in range(2))
    other = ran(desk, f"{{error: {kind}}}", "Done.", more="seed: 8")

    assert first.trace.encoded() == second.trace.encoded()
    assert attempts(first) != attempts(other)
    assert [attempt for _, attempt in attempts(first)] == [2]
    assert finding_ids(first) == []


@pytest.mark.parametrize("desk", CLIENTS)
@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("{error: connection}", "connection"),
        ("{error: timeout}", "timeout"),
        ("{error: {type: rate_limit, retry_after: 2}}", "rate_limit"),
        ("{error: {type: overloaded, retry_after: 1}}", "overloaded"),
        ("{text: Too late., latency_ms: 700000}", "timeout"),
    ],
)
def test_a_failure_that_nothing_follows_reaches_the_code_whatever_its_client_tries(
    desk: str, line: str, kind: str
) -> None:
    outcome = ran(desk, line, expect=f"{{error: {{type: {kind}}}}}")

    assert [attempt for _, attempt in attempts(outcome)] == [2, 3]
    assert [event.error for event in outcome.events(ModelFailed)] == [kind, kind, kind]
    assert finding_ids(outcome) == []


@pytest.mark.parametrize("desk", CLIENTS)
def test_lines_that_follow_answer_the_attempts_of_a_client(desk: str) -> None:
    outcome = ran(desk, "{error: timeout}", "{error: connection}", "Done.", expect="{reply: Done.}")

    assert [event.error for event in outcome.events(ModelFailed)] == ["timeout", "connection"]
    assert finding_ids(outcome) == []


@pytest.mark.parametrize("desk", CLIENTS)
def test_an_answer_that_comes_later_than_its_client_waits_is_a_timeout(desk: str) -> None:
    outcome = ran(desk, "{text: Too late., latency_ms: 700000}", "Done.", expect="{reply: Done.}")

    assert [(e.at, e.error) for e in outcome.events(ModelFailed)] == [(600_000, "timeout")]
    assert finding_ids(outcome) == []


@pytest.mark.parametrize("desk", CLIENTS)
def test_an_answer_that_is_slow_takes_virtual_time(desk: str) -> None:
    outcome = ran(desk, "{text: Done., latency_ms: 500000}", expect="{reply: Done.}")

    assert outcome.trace.events[-1].at == 500_000
    assert finding_ids(outcome) == []


@pytest.mark.parametrize("desk", ["openai_sync", "anthropic_sync", "careful_stream"])
def test_characters_of_several_bytes_may_come_in_pieces(desk: str) -> None:
    outcome = ran(desk, "{text: Grüße aus Köln 🙂, chunks: bytes}")

    assert outcome.turn().reply == "Grüße aus Köln 🙂"


@pytest.mark.parametrize(
    ("kind", "raised"),
    [
        ("truncated", "JSONDecodeError"),
        ("malformed_frame", "JSONDecodeError"),
        ("empty_choices", "IndexError"),
    ],
)
def test_a_reply_that_is_none_reaches_the_code(kind: str, raised: str) -> None:
    outcome = ran("openai_sync", f"{{error: {kind}}}", expect="{error: FunctionFailed}")

    error = outcome.turn().error
    assert error is not None
    assert f"raised {raised}: " in error.message
    assert [e.error for e in outcome.events(ModelFailed)] == [kind]


@pytest.mark.slow
def test_every_failure_of_the_vocabulary_is_one_event_at_the_wire() -> None:
    for kind in FAILURES:
        outcome = ran("careful_stream", f"{{error: {kind}}}")

        assert [e.error for e in outcome.events(ModelFailed)] == [kind]


# What is said of code that takes them wrongly


@pytest.mark.parametrize(
    ("desk", "lines", "lint"),
    [
        ("careless_retries", ["{error: invalid_request}", "Done."], "NET-01"),
        ("careless_retries", [LATER, "Done."], "NET-02"),
        ("careless_haste", [LATER, "Done."], "NET-02"),
        ("careless_storm", ["{error: overloaded}"] * 6 + ["Done."], "NET-04"),
        *[
            ("careless_stream", [f"{{error: {{type: {kind}, message: '{PILLS}'}}}}"], "NET-03")
            for kind in ("cut_stream", "stall", "truncated")
        ],
    ],
)
def test_code_that_takes_a_failure_wrongly_is_found(desk: str, lines: list[str], lint: str) -> None:
    assert finding_ids(ran(desk, *lines)) == [lint]


def test_what_broke_off_is_found_in_what_is_remembered() -> None:
    scenario = f"""
agents: {{desk: {{system: You help.}}}}
app: {{path: [.]}}
turns:
  - {{user: hello, replies: {{desk: {{error: {{type: cut_stream, message: "{PILLS}"}}}}}}}}
  - {{user: again, replies: {{desk: Done.}}}}
"""
    outcome = run_app("faulty_desk:careless_memory", scenario)

    (finding,) = outcome.judgement.findings
    assert finding.id == "NET-03"
    assert finding.what == (
        "the half reply 'Take two pills a day, but never with mil' stands in a context of agent "
        "'desk' in turn 2: cut_stream ended call c1 of agent 'desk' in turn 1"
    )
    assert finding.where.endswith("test.scenario.yaml:8:5")


@pytest.mark.parametrize(
    ("desk", "lines"),
    [
        ("careless_retries", ["{error: {status: 409}}", "Done."]),
        ("careless_retries", ["{error: {type: overloaded, retry_after: 1}}", "Done."]),
        ("careless_haste", ["{error: {type: overloaded, retry_after: 0.5}}", "Done."]),
        ("careless_storm", ["{error: overloaded}"] * 4 + ["Done."]),
        ("falls_back", ["{error: not_found}", "Done."]),
        ("falls_back", [LATER, "Done."]),
        ("gives_up", [LATER]),
        ("careful_stream", [f"{{error: {{type: truncated, message: '{PILLS}'}}}}"]),
        ("goes_on", [f"{{error: {{type: cut_stream, message: '{PILLS}'}}}}", "k or wine."]),
    ],
)  # fmt: skip
def test_the_nearest_that_is_right_passes(desk: str, lines: list[str]) -> None:
    assert finding_ids(ran(desk, *lines)) == []


# Planned faults


def fault(**keys: Any) -> str:
    return f"faults: [{keys}]".replace("'", "")


@pytest.mark.parametrize("desk", CLIENTS)
def test_a_planned_fault_leaves_the_line_to_the_attempt_after_it(desk: str) -> None:
    outcome = ran(
        desk, "Done.", expect="{reply: Done.}",
        more=fault(agent="desk", error="{type: overloaded, retry_after: 3}"),
    )  # fmt: skip

    assert [e.fault for e in outcome.events(FaultInjected)] == ["overloaded on call 1"]
    assert attempts(outcome) == [(3000, 2)]
    assert finding_ids(outcome) == []


def test_lines_that_a_planned_fault_leaves_over_are_none_too_many() -> None:
    outcome = ran("gives_up", "Done.", more=fault(error="overloaded"))

    assert outcome.turn().reply == "The desk is closed."
    assert finding_ids(outcome) == []


@pytest.mark.slow
def test_faults_drawn_from_the_seed_are_the_same_every_time() -> None:
    def drawn(seed: int) -> list[str]:
        more = f"seed: {seed}\n" + fault(share=0.5, error="overloaded")
        outcome = ran("careless_storm", "Done.", more=more)
        return [e.fault for e in outcome.events(FaultInjected)]

    assert drawn(3) == drawn(3)
    assert len({tuple(drawn(seed)) for seed in range(8)}) > 1
