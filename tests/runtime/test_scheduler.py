"""Virtual time: waiting costs nothing, and order is a matter of the schedule alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from simkit.core.errors import ScriptMisfit
from simkit.runtime.ports import WaitingCall
from simkit.runtime.scheduler import Scheduler, Steps, TimedOut, VirtualClock, WaitForAll, within
from simkit.runtime.schedules import Fifo

START = "2026-01-05T09:00:00+00:00"


class World:
    """A clock, a scheduler, and what happened when."""

    def __init__(
        self, limit_ms: int = 1_000_000, picks: Callable[[Sequence[WaitingCall]], int] | None = None
    ) -> None:
        self.clock = VirtualClock(START)
        self.entries: list[tuple[int, str]] = []
        self.limit_ms = limit_ms
        schedule = Fifo()
        if picks is not None:
            schedule.pick = picks  # type: ignore[assignment, method-assign]
        self.scheduler = Scheduler(self.clock, schedule, self.check)

    def check(self, at: int) -> None:
        if at > self.limit_ms:
            raise RuntimeError(f"too late: {at}")

    def say(self, subject: str) -> None:
        self.entries.append((self.clock.now, subject))

    def work(self, name: str, *waits: int, fails: bool = False) -> Steps:
        try:
            for wait in waits:
                self.say(f"{name} waits {wait}")
                yield wait
            if fails:
                raise ValueError(name)
            self.say(f"{name} ends")
            return name.upper()
        except GeneratorExit:
            self.say(f"{name} is closed")
            raise


def together(*steps: Steps) -> Steps:
    results = yield WaitForAll(list(steps))
    return results


def test_time_jumps_to_what_is_next() -> None:
    world = World()

    assert world.scheduler.run(world.work("a", 5, 3_600)) == "A"
    assert world.entries == [(0, "a waits 5"), (5, "a waits 3600"), (3_605, "a ends")]


def test_parallel_work_overlaps_and_results_stand_in_the_order_asked() -> None:
    world = World()

    results = world.scheduler.run(together(world.work("slow", 10), world.work("fast", 4)))

    assert results == ["SLOW", "FAST"]
    assert world.entries == [
        (0, "slow waits 10"), (0, "fast waits 4"), (4, "fast ends"), (10, "slow ends"),
    ]  # fmt: skip


def test_groups_may_hold_groups() -> None:
    world = World()
    inner = together(world.work("b", 1), world.work("c", 2))

    assert world.scheduler.run(together(world.work("a", 5), inner)) == ["A", ["B", "C"]]
    assert world.clock.now == 5


def test_ready_work_runs_in_the_order_in_which_it_became_ready() -> None:
    world = World()
    work = [world.work("a", 2, 2), world.work("b", 4), world.work("c", 1, 3)]

    world.scheduler.run(together(*work))

    assert [subject for at, subject in world.entries if at == 4] == ["b ends", "c ends", "a ends"]


@pytest.mark.parametrize(
    ("pick", "order"), [(0, "abc"), (1, "bca"), (2, "cba")], ids=["first", "second", "last"]
)
def test_schedule_picks_among_the_calls_that_wait(pick: int, order: str) -> None:
    world = World(picks=lambda waiting: min(pick, len(waiting) - 1))

    def work(name: str) -> Steps:
        yield WaitingCall(name, name)
        world.say(name)

    world.scheduler.run(together(*map(work, "abc")))

    assert [subject for _, subject in world.entries] == list(order)


def test_a_call_waits_for_everything_that_can_be_done_now() -> None:
    callers: list[list[str]] = []

    def pick(waiting: Sequence[WaitingCall]) -> int:
        callers.append([call.agent for call in waiting])
        return len(waiting) - 1

    world = World(picks=pick)

    def work(name: str, *waits: int) -> Steps:
        yield from waits
        yield WaitingCall(name, name)
        world.say(name)
        yield WaitingCall(name, name)
        world.say(name)

    world.scheduler.run(together(work("a", 0), work("b"), work("c", 5)))

    assert world.entries == [(0, "a"), (0, "a"), (0, "b"), (0, "b"), (5, "c"), (5, "c")]
    assert callers == [["b", "a"], ["b", "a"], ["b"], ["b"], ["c"], ["c"]]


def test_an_error_of_the_schedule_ends_the_work() -> None:
    def pick(waiting: Sequence[WaitingCall]) -> int:
        raise ScriptMisfit("no")

    world = World(picks=pick)

    def work(name: str) -> Steps:
        try:
            yield WaitingCall(name, name)
        finally:
            world.say(name)

    with pytest.raises(ScriptMisfit):
        world.scheduler.run(together(*map(work, "ab")))

    assert [subject for _, subject in world.entries] == ["a", "b"]


def test_waiting_for_an_answer_takes_no_time_of_a_limit() -> None:
    world = World(picks=lambda waiting: 0)

    def work() -> Steps:
        yield 4
        yield WaitingCall("a", "a")
        yield 6
        return "A"

    assert world.scheduler.run(timed(world, work(), 10)) == "A"


def test_error_cancels_the_siblings_and_reaches_whoever_waits() -> None:
    world = World()
    work = [world.work("a", 3, fails=True), world.work("b", 9), world.work("c", 1, 9)]

    with pytest.raises(ValueError, match=r"^a$"):
        world.scheduler.run(together(*work))
    assert world.entries == [
        (0, "a waits 3"),
        (0, "b waits 9"),
        (0, "c waits 1"),
        (1, "c waits 9"),
        (3, "b is closed"),
        (3, "c is closed"),
    ]


def test_whoever_waits_may_go_on_after_an_error() -> None:
    world = World()

    def careful() -> Steps:
        try:
            yield WaitForAll([world.work("a", 1, fails=True), world.work("b", 9)])
        except ValueError:
            yield 5
        return "went on"

    assert world.scheduler.run(careful()) == "went on"
    assert world.clock.now == 6


def test_time_limit_is_raised_inside_the_work_that_would_pass_it() -> None:
    world = World(limit_ms=10)

    with pytest.raises(RuntimeError, match=r"^too late: 11$"):
        world.scheduler.run(together(world.work("a", 11), world.work("b", 20)))
    assert world.entries[-1] == (11, "b is closed")


def timed(world: World, steps: Steps, timeout_ms: int) -> Steps:
    result = yield from within(steps, world.clock, timeout_ms, lambda: world.say("time is up"))
    return result


def test_work_within_its_time_returns_what_it_returns() -> None:
    world = World()

    assert world.scheduler.run(timed(world, world.work("a", 4, 6), 10)) == "A"


def test_work_that_takes_longer_is_closed_when_its_time_is_up() -> None:
    world = World()

    with pytest.raises(TimedOut):
        world.scheduler.run(timed(world, world.work("a", 4, 7), 10))
    assert world.entries == [
        (0, "a waits 4"), (4, "a waits 7"), (10, "time is up"), (10, "a is closed"),
    ]  # fmt: skip


def test_shortest_of_nested_times_counts() -> None:
    world = World()
    inner = timed(world, world.work("a", 30), 20)

    with pytest.raises(TimedOut):
        world.scheduler.run(timed(world, inner, 10))
    assert world.entries == [(0, "a waits 30"), (10, "time is up"), (10, "a is closed")]


def test_error_that_reaches_timed_work_is_raised_inside_it() -> None:
    world = World(limit_ms=5)
    texts: list[str] = []

    def work() -> Steps:
        try:
            yield 8
        except RuntimeError as problem:
            texts.append(str(problem))
            raise

    with pytest.raises(RuntimeError, match=r"^too late: 8$"):
        world.scheduler.run(timed(world, work(), 100))
    assert texts == ["too late: 8"]


def test_timed_work_is_closed_before_the_work_around_it() -> None:
    world = World()

    def around() -> Steps:
        try:
            yield from timed(world, world.work("inner", 50), 100)
        except GeneratorExit:
            world.say("around is closed")
            raise

    with pytest.raises(ValueError, match=r"^a$"):
        world.scheduler.run(together(around(), world.work("a", 1, fails=True)))
    assert world.entries[-2:] == [(1, "inner is closed"), (1, "around is closed")]


def test_scheduler_runs_again_after_an_error() -> None:
    world = World()
    with pytest.raises(ValueError, match=r"^a$"):
        world.scheduler.run(together(world.work("a", fails=True), world.work("b", 100)))

    assert world.scheduler.run(world.work("c", 1)) == "C"


def test_clock_says_the_virtual_date() -> None:
    clock = VirtualClock("2026-01-05T09:00:00+02:00")
    clock.advance_to(1_500)
    clock.advance_to(1_000)

    assert clock.now == 1_500
    assert clock.moment().isoformat() == "2026-01-05T09:00:01.500000+02:00"
    assert clock.iso(250) == "2026-01-05T09:00:00.250+02:00"
    assert VirtualClock("2026-01-05T09:00:00+00:00").iso(0) == "2026-01-05T09:00:00.000Z"


def test_error_while_the_time_runs_out_is_raised_inside_the_work_too() -> None:
    world = World(limit_ms=5)

    def work() -> Steps:
        try:
            yield 100
        except RuntimeError as problem:
            world.say(str(problem))
            raise

    with pytest.raises(RuntimeError, match=r"^too late: 10$"):
        world.scheduler.run(timed(world, work(), 10))
    assert world.entries == [(10, "too late: 10")]
