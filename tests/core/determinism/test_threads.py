"""Worlds at work in several threads at once: each gives what it gives alone."""

from __future__ import annotations

import os
import random
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from random import choice, gauss, getstate, seed, setstate
from random import random as random_by_name
from typing import Any

import pytest
import time_machine

from simkit import Simulation
from simkit.core.determinism import World
from tests.core.determinism.worlds import CLOCKS, DRAWS, STOPWATCHES, world

TABLE: dict[str, Callable[[], Any]] = {
    **CLOCKS,
    **STOPWATCHES,
    **DRAWS,
    "random, by name": random_by_name,
    "choice, by name": lambda: choice(range(10**9)),
    "gauss, by name": lambda: gauss(0, 1),
    "shuffle": lambda: random.sample(range(1_000), 5),
    "seed, by name": lambda: (seed(7), random_by_name())[1],
    "state, by name": lambda: (setstate(getstate()), random.random())[1],
    "names of files": lambda: next(tempfile._get_candidate_names()),  # type: ignore[attr-defined]
    "a second uuid1": lambda: uuid.uuid1(),
}


def answers(item: World, step: Callable[[], object]) -> list[Any]:
    """Returns what a world answers, and in between lets others have their way."""
    results = []
    for _ in range(3):
        with item.at_work():
            for name, read in TABLE.items():
                step()
                results.append((name, read()))
    return results


def test_worlds_in_two_threads_give_what_each_gives_alone() -> None:
    alone = [answers(world(number), lambda: None) for number in (1, 2)]
    steps = threading.Barrier(2)
    together: dict[int, list[Any]] = {}

    def work(number: int) -> None:
        together[number] = answers(world(number), lambda: steps.wait(60))

    threads = [threading.Thread(target=work, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [together[1], together[2]] == alone


def test_the_process_has_its_own_chance_beside_a_world() -> None:
    random.seed(3)
    expected = [random.random(), random.gauss(0, 1), random.getrandbits(8), random.random()]
    random.seed(3)
    numbers = [random.random()]
    with world().at_work():
        random.random()
        other = threading.Thread(
            target=lambda: numbers.extend((random.gauss(0, 1), random.getrandbits(8)))
        )
        other.start()
        other.join()
    numbers.append(random.random())

    assert numbers == expected


def test_zones_are_put_back_in_whatever_order_scenarios_end() -> None:
    before = time.tzname
    zone, other = world().in_its_zone(), world(start="2027-03-01T10:00:00-05:00").in_its_zone()

    zone.__enter__()
    other.__enter__()
    zone.__exit__(None, None, None)
    other.__exit__(None, None, None)

    assert time.tzname == before


def test_an_environment_that_is_a_plain_mapping_may_stand_in_for_the_processs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = {"TZ": "Asia/Tokyo"}
    monkeypatch.setattr(os, "environ", own)

    with world().in_its_zone(), world().at_work():
        assert own != {"TZ": "Asia/Tokyo"}

    assert own == {"TZ": "Asia/Tokyo"}


PIPELINE = """\
version: 1
pipeline: drawing
agents: {drawer: {function: "tests.core.determinism.test_threads:draw"}}
flow: {handoffs: {start: drawer}}
"""
_steps: list[threading.Barrier] = []


def draw(context: Any) -> str:
    """Is an agent that draws, in step with the other scenario's."""
    results = []
    for _ in range(5):
        for step in _steps:
            step.wait(60)
        results.append(f"{random.random()} {uuid.uuid4()} {uuid.uuid1()} {random.gauss(0, 1)}")
    return "\n".join(results)


@pytest.mark.parametrize("seeds", [(1, 2), (5, 5)])
def test_simulations_in_two_threads_give_what_each_gives_alone(seeds: tuple[int, int]) -> None:
    def led(number: int) -> list[str | None]:
        with Simulation(PIPELINE, seed=number) as desk:
            return [desk.say(text).reply for text in ("One", "Two")]

    alone = [led(number) for number in seeds]
    together: list[Any] = [None, None]

    def work(place: int) -> None:
        together[place] = led(seeds[place])

    _steps.append(threading.Barrier(2))
    try:
        threads = [threading.Thread(target=work, args=(place,)) for place in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        _steps.clear()

    assert together == alone


def test_a_clock_that_a_thread_has_asked_tells_the_time_after_the_end_of_the_world() -> None:
    # A thread of the code may have reached simkit's function when another ends the turn.
    with world(1).at_work():
        tell = time_machine.traveller_stack[-1].time_ns

    assert abs(tell() - time.time_ns()) < 60 * 1_000_000_000
