"""What a world answers, whom, and that nothing is left of it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import os
import queue
import random
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from simkit.core.determinism import World
from simkit.core.determinism.worlds import PATIENCE, zone_of
from simkit.core.rng import Chance
from simkit.runtime.scheduler import VirtualClock
from tests.core.determinism.worlds import (
    CLOCKS,
    DERIVED,
    DRAWS,
    NOT_HELD,
    SECONDS,
    START,
    STOPWATCHES,
    world,
)


def answers(item: World, *tables: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    with item.at_work():
        return {name: read() for table in tables for name, read in table.items()}


@pytest.mark.parametrize("name", CLOCKS)
def test_clock_shows_the_scenarios_time(name: str) -> None:
    (output,) = answers(world(), {name: CLOCKS[name]}).values()

    if isinstance(output, datetime):
        moment = output if output.tzinfo else output.astimezone(UTC).replace(tzinfo=UTC)
        assert moment.year == 2027
        assert output.hour == (8 if output.tzinfo else 10)
    elif isinstance(output, int | float):
        assert output in (SECONDS, SECONDS * 10**9)
    else:
        assert "2027" in str(output)


@pytest.mark.parametrize("name", DERIVED)
def test_what_the_standard_library_makes_of_the_clock_follows_the_scenario(name: str) -> None:
    (once,) = answers(world(), {name: DERIVED[name]}).values()
    (again,) = answers(world(), {name: DERIVED[name]}).values()

    assert once == again


def test_log_records_count_from_the_scenarios_start() -> None:
    clock = VirtualClock(START)
    item, before = World(clock, world()._chance), DERIVED["LogRecord.relativeCreated"]()
    clock.advance_to(1_500)

    (output,) = answers(item, {"it": DERIVED["LogRecord.relativeCreated"]}).values()

    assert round(output) == 1_500
    assert DERIVED["LogRecord.relativeCreated"]() >= before


@pytest.mark.parametrize("name", NOT_HELD)
def test_what_is_not_held_is_documented(name: str) -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "environment.md"

    assert f"`{name}`" in page.read_text(encoding="utf-8").partition("does *not* control")[2]


NUMPY: dict[str, Callable[[Any], Any]] = {
    "random.rand": lambda numpy: numpy.random.rand(3).tolist(),
    "random.randint": lambda numpy: numpy.random.randint(10**9, size=3).tolist(),
    "default_rng": lambda numpy: numpy.random.default_rng().random(3).tolist(),
    "RandomState": lambda numpy: numpy.random.RandomState().rand(3).tolist(),
    "Generator(PCG64())": lambda numpy: numpy.random.Generator(numpy.random.PCG64()).random(),
    "seed()": lambda numpy: (numpy.random.seed(), numpy.random.rand())[1],
    "SeedSequence": lambda numpy: numpy.random.SeedSequence().entropy,
}
"""How numpy is asked for chance, without a seed of one's own."""


@pytest.mark.parametrize("name", NUMPY)
def test_numpy_draws_from_the_seed_in_threads_too(name: str) -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed; CI installs it")

    def drawn(seed: int) -> Any:
        with world(seed).at_work():
            folder = NUMPY[name](numpy)
            apart: list[Any] = []
            context = contextvars.copy_context()
            thread = threading.Thread(
                target=context.run, args=(lambda: apart.append(NUMPY[name](numpy)),)
            )
            thread.start()
            thread.join()
            return folder, apart

    assert drawn(1) == drawn(1)
    assert drawn(1)[0] != drawn(2)[0]
    assert drawn(1)[1] != drawn(2)[1]


def test_numpys_own_state_is_put_back_and_a_seed_of_ones_own_heeded() -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed; CI installs it")
    numpy.random.seed(3)
    before = numpy.random.get_state()[1].tolist()

    with world().at_work():
        numpy.random.seed(7)
        drawn = numpy.random.rand()

    assert numpy.random.get_state()[1].tolist() == before
    assert drawn == numpy.random.RandomState(7).rand()


@pytest.mark.parametrize("name", STOPWATCHES)
def test_stopwatch_goes_on_as_virtual_time_does(name: str) -> None:
    clock = VirtualClock(START)
    item = World(clock, world()._chance)

    (before,) = answers(item, {name: STOPWATCHES[name]}).values()
    clock.advance_to(1_500)
    (after,) = answers(item, {name: STOPWATCHES[name]}).values()

    assert after - before in (1.5, 1_500_000_000)


@pytest.mark.parametrize("name", DRAWS)
def test_draw_is_the_same_for_a_seed_and_another_for_another(name: str) -> None:
    table = {name: DRAWS[name]}

    first, again, other = (answers(world(seed), table) for seed in (1, 1, 2))

    assert first == again
    assert other != first


def test_nothing_that_is_drawn_comes_twice() -> None:
    with world().at_work():
        values = [uuid.uuid4() for _ in range(500)] + [uuid.uuid1() for _ in range(500)]

    assert len(set(values)) == len(values)


def test_a_new_draw_in_one_place_moves_nothing_elsewhere() -> None:
    def draw_here() -> uuid.UUID:
        return uuid.uuid4()

    with world().at_work():
        expected = [draw_here(), draw_here()]
    with world().at_work():
        first = draw_here()
        [uuid.uuid4() for _ in range(3)]

        assert [first, draw_here()] == expected


def test_a_turn_draws_the_same_whatever_came_before_it() -> None:
    item, other = world(), world()
    item.begin_turn("s1/1", 0)
    answers(item, DRAWS)
    item.begin_turn("s1/2", 1, seeds_anew=True)
    other.begin_turn("s1/2", 1, seeds_anew=True)

    assert answers(item, DRAWS) == answers(other, DRAWS)


def test_worlds_at_work_by_turns_have_their_own() -> None:
    alone = [answers(world(seed), DRAWS, DRAWS) for seed in (1, 2)]
    item, other = world(1), world(2)

    rows = [
        answers(item, DRAWS),
        answers(other, DRAWS),
        answers(item, DRAWS),
        answers(other, DRAWS),
    ]

    assert rows[2:] == alone


def test_tasks_threads_and_pools_have_the_same_time() -> None:
    counts: list[int] = []

    async def task() -> None:
        await asyncio.sleep(0)
        counts.append(round(time.time()))

    async def tasks() -> None:
        await asyncio.gather(task(), task())
        counts.append(round(await asyncio.to_thread(time.time)))

    with world().at_work():
        asyncio.run(tasks())
        context = contextvars.copy_context()
        thread = threading.Thread(
            target=context.run, args=(lambda: counts.append(int(time.time())),)
        )
        thread.start()
        thread.join()

    assert counts == [SECONDS] * 4


def test_who_is_no_part_of_it_has_the_real_time() -> None:
    entered, event, result = threading.Event(), threading.Event(), list[Any]()

    def read_elsewhere() -> None:
        entered.wait()
        result.extend((time.time(), time.monotonic()))
        event.set()

    before = time.time(), time.monotonic()
    other = threading.Thread(target=read_elsewhere)
    other.start()
    with world().at_work():
        entered.set()
        event.wait()
    other.join()

    assert [real - then < 60 for real, then in zip(result, before, strict=True)] == [True, True]
    assert [real >= then for real, then in zip(result, before, strict=True)] == [True, True]


async def loops_wait() -> float:
    loop = asyncio.get_running_loop()
    before = loop.time()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), 0.02)
    return loop.time() - before


WAITS: dict[str, Callable[[], Any]] = {
    "event loop": lambda: asyncio.run(loops_wait()) >= 0.02,
    "event": lambda: not threading.Event().wait(0.01),
    "condition": lambda: not _with(threading.Condition(), lambda c: c.wait_for(bool, 0.01)),
    "queue": lambda: _raises(queue.Empty, lambda: queue.Queue[int]().get(timeout=0.01)),
    "future": lambda: _raises(
        TimeoutError, lambda: concurrent.futures.Future[int]().result(timeout=0.01)
    ),
    "process": lambda: _raises(
        subprocess.TimeoutExpired,
        lambda: subprocess.run(
            [sys.executable, "-c", "import time; time.sleep(60)"], timeout=0.05, check=False
        ),
    ),
    "sqlite": lambda: sqlite3.connect(":memory:").execute("select 1").fetchone() == (1,),
}


def _with(lock: Any, work: Callable[[Any], Any]) -> Any:
    with lock:
        return work(lock)


def _raises(kind: type[BaseException], work: Callable[[], Any]) -> bool:
    with pytest.raises(kind):
        work()
    return True


@pytest.mark.parametrize("name", WAITS)
def test_what_waits_for_something_real_waits_in_real_time(name: str) -> None:
    with world().at_work():
        assert WAITS[name]()


def test_code_that_waits_by_looking_at_the_clock_comes_to_an_end() -> None:
    with world().at_work():
        end = time.monotonic() + 0.5
        readings = 0
        while time.monotonic() < end:
            readings += 1

    assert PATIENCE <= readings <= PATIENCE + 600


def state_of_the_process() -> list[Any]:
    """Everything that a world replaces, as it is now."""
    return [
        random.getstate(), random.Random.seed, random.seed, os.environ.get("TZ"), time.tzname,
        time.ctime, time.clock_gettime, getattr(uuid, "_node", None), repr(time.monotonic),
        repr(os.urandom), repr(time.time), time.localtime(0)[:6],
    ]  # fmt: skip


def test_everything_is_put_back_even_after_an_error() -> None:
    before = state_of_the_process()

    def broken() -> None:
        with world().at_work(), world(1).at_work():
            answers(world(2), CLOCKS, STOPWATCHES, DRAWS)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()

    assert state_of_the_process() == before
    assert uuid.uuid4() != uuid.uuid4()
    assert abs(time.time() - datetime.now(UTC).timestamp()) < 60


def test_errors_of_what_is_redirected_are_raised_as_they_were() -> None:
    with world().at_work():
        with pytest.raises(ValueError, match="negative argument not allowed"):
            os.urandom(-1)
        with pytest.raises(TypeError):
            os.urandom("x")  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            time.monotonic(1)  # type: ignore[call-arg]
        with pytest.raises(OSError, match="Invalid argument"):
            time.clock_gettime(99)


@pytest.mark.parametrize(
    ("real", "same"),
    [((), (True, True)), (("clock",), (False, True)), (("chance",), (True, False))],
)
def test_what_is_wanted_real_is_real(real: tuple[str, ...], same: tuple[bool, bool]) -> None:
    rows = [
        answers(world(real=real), {"clock": time.monotonic, "wall": time.time, "id": uuid.uuid4})
        for _ in range(2)
    ]

    assert tuple(rows[0][name] == rows[1][name] for name in ("clock", "id")) == same
    assert (rows[0]["wall"] == SECONDS) is ("clock" not in real)


def test_a_seed_of_ones_own_is_heeded() -> None:
    expected = random.Random(7).random()

    with world().at_work():
        random.seed(7)
        state = random.getstate()
        drawn = random.random()
        random.setstate(state)

        assert drawn == random.random() == random.Random(7).random() == expected


@pytest.mark.parametrize(
    ("start", "zone"),
    [
        ("2026-01-05T09:00:00Z", "UTC0"),
        ("2026-01-05T09:00:00+02:00", "<+0200>-02:00"),
        ("2026-01-05T09:00:00-03:30", "<-0330>+03:30"),
    ],
)
def test_local_time_is_that_of_the_start(start: str, zone: str) -> None:
    moment = datetime.fromisoformat(start)

    assert zone_of(moment) == zone
    with world(start=start).at_work():
        assert datetime.now().isoformat() == moment.replace(tzinfo=None).isoformat()  # noqa: DTZ005


def test_time_passes_between_turns_and_never_goes_back() -> None:
    item = world()
    results = []

    for name, before in (("s1/1", 0), ("s1/2", 1), ("s2/1", 0), ("s1/3", 2)):
        item.begin_turn(name, before)
        results.append(item.elapsed_ns())

    assert results == [0, 1_000_000, 1_000_000, 2_000_000]


def test_time_stands_still_before_it_goes_back_after_a_thousand_answers() -> None:
    clock = VirtualClock("2026-01-05T09:00:00+00:00")
    item = World(clock, Chance(0))
    item.begin_turn("s1/1", 0)
    times = [item.elapsed_ns()]
    for _ in range(1_500):
        clock.tick()
        times.append(item.elapsed_ns())
    clock.begin_turn()
    item.begin_turn("s1/2", 1)

    assert times == sorted(times)
    assert times[:3] == [0, 1_000, 2_000]
    assert times[-1] == 999_000
    assert item.elapsed_ns() == 1_000_000
