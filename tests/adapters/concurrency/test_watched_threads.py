"""Every turn ends: threads that never come to rest are named, and hold up nobody."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from simkit.adapters.concurrency import pools, thread_turns, watched_threads
from simkit.adapters.concurrency.sleepers import SleepingTask
from simkit.adapters.concurrency.thread_turns import ThreadTurns
from simkit.capture.http.request_router import Owner, owned_by
from simkit.core.gc_pause import current_frames
from simkit.trace.events import MessageAdded, RunFinished, UncontrolledEffect
from tests.adapters.running import run_app
from tests.building import Ran

SCENARIO = """
    app: {path: [.]}
    agents: {answerer: {system: You answer.}}
    lints: {RUN-01: of no matter here}
    turns:
      - user: Hello
        replies:
          answerer: [One., Two., Three., Four., Five., Six., Seven., Eight., Nine.]
"""


def ran(way: str) -> Ran:
    return run_app(f"stubborn:{way}", SCENARIO)


def effects(outcome: Ran) -> list[str]:
    return [event.effect for event in outcome.events(UncontrolledEffect)]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["left_in_loop", "tries_a_lock"])
def test_a_thread_that_waits_in_an_unusual_way_holds_up_nobody(way: str) -> None:
    outcome = ran(way)

    assert outcome.view.turns[0].error is None
    assert effects(outcome) == []


@pytest.mark.slow
@pytest.mark.parametrize("way", ["never_begins", "changes_its_place"])
def test_a_thread_that_never_rests_is_reported(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_threads, "LIMIT_S", 0.1)

    outcome = ran(way)

    assert outcome.view.turns[0].error is None
    assert set(effects(outcome)) <= {"a thread that did not come to rest within 0.1 s"}


@pytest.mark.slow
def test_a_turn_ends_though_a_thread_goes_on_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_turns, "AFTER_REPLY", 20)

    outcome = ran("asks_for_ever")

    assert "threads that go on and on after the turn's reply" in effects(outcome)
    # What is asked when the run is over is no part of it, nor of the next one.
    assert outcome.trace.events[-1] is outcome.events(RunFinished)[-1]
    assert effects(ran("raw")) == []


@pytest.mark.slow
def test_threads_that_are_started_below_threading_have_their_turns() -> None:
    outcome = ran("raw")

    messages = [
        event.message for event in outcome.events(MessageAdded) if event.message.role == "user"
    ]
    assert [message.content for message in messages][1:] == [
        *("Hello ann", "Hello ben", "Hello cy", "Hello dot", "Hello: 4")
    ]
    assert effects(outcome) == []


@pytest.mark.slow
def test_a_thread_that_outlives_its_scenario_asks_nobody_in_the_next() -> None:
    first, second = ran("leaves_a_thread"), ran("leaves_a_thread")

    assert [first.turn().reply, second.turn().reply] == ["One.", "One."]
    (reply,) = sys.modules["stubborn"].gone_on
    assert "a task or thread of a scenario that is over" in reply


@pytest.mark.slow
def test_a_worker_that_waits_for_work_serves_the_next_scenario() -> None:
    first, second = ran("shares_a_worker"), ran("shares_a_worker")

    assert [first.turn().reply, second.turn().reply] == ["One.", "One."]


def turns() -> ThreadTurns:
    return ThreadTurns(lambda: 0, lambda at: None)


def run_in_parallel(other: ThreadTurns, work: Callable[[], object]) -> list[object]:
    """Returns what comes of work while another scenario takes a turn in another thread."""
    began, over, result = threading.Event(), threading.Event(), list[object]()

    def take() -> None:
        with owned_by(Owner()), pools.taking_turns(other):
            began.set()
            over.wait()

    thread = threading.Thread(target=take)
    thread.start()
    began.wait()
    try:
        result.append(work())
    finally:
        over.set()
        thread.join()
    return result


def test_a_scenario_between_its_turns_has_no_part_in_anothers() -> None:
    other, mine = turns(), Owner()

    def started() -> ThreadTurns | None:
        with owned_by(mine):
            return pools._turns.current()

    def ended() -> ThreadTurns | None:
        mine.is_over = True
        return started()

    assert run_in_parallel(other, started) == [None]
    # As code without a scenario of its own, it is that of the only one there is.
    assert run_in_parallel(other, ended) == [other]
    assert run_in_parallel(other, pools._turns.current) == [other]


def test_a_thread_that_ended_is_not_taken_for_the_next_with_its_identifier() -> None:
    item = turns()
    over = threading.Event()
    with ThreadPoolExecutor(1) as pool, item.led():
        (worker,) = {pool.submit(threading.current_thread).result()}
        thread = threading.Thread(target=bool)
        thread.start()
        thread.join()
        busy = pool.submit(lambda: [None for _ in iter(over.is_set, True)])
        thread._ident = worker.ident  # type: ignore[attr-defined]
        item.threads.watch([thread])

        item.stop()

        over.set()
        busy.result()
    assert item.threads.left == []


def test_what_is_called_in_the_midst_of_a_look_does_not_wait_for_itself() -> None:
    def advance_to(at: int) -> None:
        """Stands for a finalizer, which the collector may call anywhere."""
        item.stop()

    item = ThreadTurns(lambda: 0, advance_to)

    with item.led():
        item.sleep(1)

    assert item.threads.left == []


@pytest.mark.parametrize("way", ["task", "thread"])
def test_what_waits_for_the_lock_of_who_looks_does_not_rest(way: str) -> None:
    """A task that was woken forgets that it slept: it must not be taken for one that waits."""
    item, loop = turns(), asyncio.new_event_loop()
    task = SleepingTask(0, loop)
    loop.close()
    ways = {"task": lambda: item._tasks._forget(task), "thread": item.stop}
    thread = threading.Thread(target=ways[way])

    with item._lock:
        thread.start()
        assert thread.ident is not None
        inner = ("_forget", "_stop")
        while (frame := current_frames()[thread.ident]).f_code.co_name not in inner:
            time.sleep(0.001)
        rest = item.threads.waiting(frame, thread.ident, current_frames())

    thread.join()
    assert rest == "no"


def test_a_thread_that_has_ended_wakes_nobody_while_the_system_still_lists_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = watched_threads.WatchedThreads(threading.RLock(), "", (), ())
    thread = threading.Thread(target=lambda: threads.begin(threading.get_ident(), 1))
    thread.start()
    thread.join()
    me = threading.get_ident()
    listed = {threading.get_native_id(), thread.native_id}
    monkeypatch.setattr(watched_threads, "current_frames", lambda: {me: sys._getframe()})
    monkeypatch.setattr(watched_threads, "native_ids", lambda: listed)

    assert threads.only_wait(me)
    listed.add(-1)  # A thread of native code.
    assert not threads.only_wait(me)
