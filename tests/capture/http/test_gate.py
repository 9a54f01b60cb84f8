from __future__ import annotations

import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from simkit.capture.http.guards import guarded
from simkit.capture.http.request_router import (
    Forward,
    RequestRouter,
    current_gate,
    forwarding,
    leave,
    passing_through,
)
from simkit.core.errors import RunHalted
from simkit.providers.http import HttpRequest
from tests.capture.http.gates import Always

REQUEST = HttpRequest("GET", "https://api.example.com/x")


def gate() -> RequestRouter:
    return Always(Forward(None))


def test_inner_gate_holds_until_it_is_left() -> None:
    outer, inner = gate(), gate()
    gates = [current_gate(REQUEST)]
    with passing_through(outer):
        gates.append(current_gate(REQUEST))
        with passing_through(inner):
            gates.append(current_gate(REQUEST))
        gates.append(current_gate(REQUEST))
    gates.append(current_gate(REQUEST))

    assert gates == [None, outer, inner, outer, None]


def test_forwarded_request_meets_no_gate() -> None:
    with passing_through(gate()), forwarding():
        assert current_gate(REQUEST) is None


def test_context_that_left_belongs_to_the_only_gate_or_to_none() -> None:
    only = gate()
    with passing_through(only):
        context = contextvars.copy_context()
        context.run(leave)
        assert context.run(current_gate, REQUEST) is only
        with passing_through(gate()), pytest.raises(RunHalted, match="none of the 2 scenarios"):
            context.run(current_gate, REQUEST)


def test_worker_that_a_guarded_session_started_serves_another_session_by_no_wrong_gate() -> None:
    with ThreadPoolExecutor(1) as pool, passing_through(gate()):
        with guarded(lambda effect, where: None):
            pool.submit(bool).result()
        with passing_through(gate()), pytest.raises(RunHalted):
            pool.submit(current_gate, REQUEST).result()


def test_thread_goes_through_the_gate_of_the_context_it_is_given() -> None:
    mine, other = gate(), gate()
    gates: list[RequestRouter | None] = []
    with passing_through(other), passing_through(mine):
        context = contextvars.copy_context()
        thread = threading.Thread(target=lambda: gates.append(context.run(current_gate, REQUEST)))
        thread.start()
        thread.join()

    assert gates == [mine]


def test_what_is_no_host_is_refused_before_the_gate_opens() -> None:
    with pytest.raises(ValueError, match="is no host"), passing_through(gate(), ["a b*"]):
        pytest.fail("it opened")

    assert current_gate(REQUEST) is None
