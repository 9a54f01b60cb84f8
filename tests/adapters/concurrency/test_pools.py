"""What is submitted to a thread pool belongs to who submits it, not to who started the worker."""

from __future__ import annotations

import contextvars
from concurrent.futures import ThreadPoolExecutor

from simkit.adapters.concurrency.pools import carrying_contexts, taking_turns
from simkit.adapters.concurrency.thread_turns import ThreadTurns
from simkit.capture.http.processes import Children
from simkit.capture.http.request_router import passing_through
from tests.capture.http.gates import Always, json_answer

name = contextvars.ContextVar[str]("name", default="nobody")


def submit_named(pool: ThreadPoolExecutor, agent: str) -> tuple[str, int]:
    name.set(agent)

    def named(by: str, *, number: int) -> tuple[str, int]:
        return f"{name.get()}{by}", number

    return pool.submit(named, "!", number=3).result()


def test_every_piece_of_work_carries_the_context_of_who_submits_it() -> None:
    gate = Always(json_answer("{}"))
    with ThreadPoolExecutor(1) as pool, carrying_contexts, passing_through(gate):
        pairs = [submit_named(pool, "ann"), submit_named(pool, "ben")]

    assert pairs == [("ann!", 3), ("ben!", 3)]


def test_nothing_changes_where_no_scenario_runs() -> None:
    before = ThreadPoolExecutor.submit
    with ThreadPoolExecutor(1) as pool, carrying_contexts:
        completed = contextvars.Context().run(submit_named, pool, "ann")

    assert completed == ("nobody!", 3)
    assert ThreadPoolExecutor.submit is before


def test_the_server_for_child_processes_waits_for_no_turn() -> None:
    turns = ThreadTurns(lambda: 0, lambda at: None)
    children = Children(lambda method, url: None)
    before = turns.submitted()

    with carrying_contexts, taking_turns(turns):
        children.environment({})
    children.close()

    assert turns.submitted() == before + 1
