"""Threads take turns: who asks first does not depend on which thread is the quickest."""

from __future__ import annotations

import os
import threading

import pytest

from simkit.adapters.concurrency import watched_threads
from simkit.trace.events import MessageAdded, UncontrolledEffect
from tests.adapters.running import run_app
from tests.apps.threaded import WAYS

RUNS = 60 if os.environ.get("SIMKIT_NIGHTLY") else 2
SCENARIO = """
    app: {path: [.], tools: {looked_up: threaded:looked_up}}
    agents: {answerer: {system: You answer.}}
    lints: {RUN-01: of no matter here}
    turns:
      - user: Hello
        replies:
          answerer: [One., Two., Three., Four., Five., Six., Seven., Eight., Nine.]
          ann: One.
          ben: Two.
          cy: Three.
          dot: Four.
        tool_results:
          looked_up: [{returns: One.}, {returns: Two.}, {returns: Three.}, {returns: Four.}]
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", [way.__name__ for way in WAYS])
def test_a_run_is_the_same_every_time_whichever_way_threads_are_used(way: str) -> None:
    runs = [run_app(f"threaded:{way}", SCENARIO) for _ in range(RUNS)]

    errors = [turn.error for ran in runs for turn in ran.view.turns if turn.error]
    assert errors == []
    assert len({ran.trace.digest() for ran in runs}) == 1


def asked_by(way: str) -> list[str]:
    """Returns what models were asked, in the order in which they were."""
    ran = run_app(f"threaded:{way}", SCENARIO)
    messages = [event.message for event in ran.events(MessageAdded)]
    return [message.content for message in messages if message.role == "user"][1:]


@pytest.mark.parametrize(
    "way",
    [
        *("executor", "few_workers", "mapped", "shared_pool", "threads", "locked", "gathered"),
        *("in_executor", "thread_pool", "queued", "busy"),
    ],
)
def test_calls_are_answered_in_the_order_of_submission(way: str) -> None:
    assert asked_by(way) == [
        *("Hello ann", "Hello ben", "Hello cy", "Hello dot"),
        "Sum up: One., Two., Three., Four.",
    ]


def test_calls_that_wait_at_the_same_time_go_before_those_that_follow_from_them() -> None:
    assert asked_by("twice")[:8] == [
        *("Hello ann", "Hello ben", "Hello cy", "Hello dot"),
        *("Hello again ann", "Hello again ben", "Hello again cy", "Hello again dot"),
    ]


def test_threads_that_sleep_go_on_in_the_order_of_virtual_time() -> None:
    ran = run_app("threaded:sleeping", SCENARIO)

    events = [event for event in ran.events(MessageAdded) if event.message.role == "user"][1:]
    assert [(event.at, event.message.content) for event in events] == [
        (60_000, "Hello dot"),
        (120_000, "Hello cy"),
        (180_000, "Hello ben"),
        (240_000, "Hello ann"),
        (240_000, "Sum up: One., Two., Three., Four."),
    ]


def test_a_pool_that_is_still_starting_workers_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def slowly(thread: threading.Thread) -> None:
        lock = threading.Lock()
        lock.acquire()
        lock.acquire(timeout=0.05)
        start(thread)

    monkeypatch.setattr(threading.Thread, "_bootstrap_inner", slowly)

    assert asked_by("napping")[:4] == ["Hello dot", "Hello cy", "Hello ben", "Hello ann"]


def test_threads_that_never_end_hold_up_nobody() -> None:
    assert asked_by("left_behind") == ["Hello main", "Hello aside"]


def test_a_thread_that_works_for_long_is_told_and_no_longer_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watched_threads, "LIMIT_S", 0.05)

    ran = run_app("threaded:long", SCENARIO)

    (effect,) = ran.events(UncontrolledEffect)
    assert effect.effect == "a thread that did not come to rest within 0.05 s"
    assert effect.where.startswith("threaded.py:")
    assert effect.where.endswith(".for_long")
    assert [finding.id for finding in ran.judgement.findings] == ["RUN-02"]


def test_what_threads_reach_beyond_control_is_told_with_its_place() -> None:
    ran = run_app("threaded:started_in_threads", SCENARIO)

    effects = [
        (event.effect, event.where.rpartition(".")[2]) for event in ran.events(UncontrolledEffect)
    ]
    assert effects == [("process", "in_thread"), ("process", "in_pool")]
