"""A signal that comes where Python drops exceptions still stops a command."""

from __future__ import annotations

import signal
import sys
from types import SimpleNamespace

import pytest

from simkit.core.errors import Terminated
from simkit.core.stopping import terminable
from tests.processes import run_python

LOSES = """
import gc, signal, time, weakref
from simkit.core.stopping import terminable

class Finalised:
    pass

def stop(*told):
    signal.raise_signal(signal.{signal})

def collected(phase, info):
    gc.callbacks.remove(collected)
    stop()

def in_a_collection():
    gc.callbacks.append(collected)
    gc.collect()

def in_a_finaliser():
    type("Finalised", (), {{"__del__": stop}})()

def in_a_reference():
    value = Finalised()
    reference = weakref.ref(value, stop)
    del value

try:
    with terminable():
        {place}()
        {waits}
    print("it was lost")
except KeyboardInterrupt as problem:
    print(type(problem).__name__)
"""


@pytest.mark.parametrize("waits", ["time.sleep(60)", "while True: pass"])
@pytest.mark.parametrize("place", ["in_a_collection", "in_a_finaliser", "in_a_reference"])
@pytest.mark.parametrize(
    ("name", "raised"), [("SIGINT", "KeyboardInterrupt"), ("SIGTERM", "Terminated")]
)
def test_a_signal_is_not_lost(name: str, raised: str, place: str, waits: str) -> None:
    program = LOSES.format(signal=name, place=place, waits=waits)

    done = run_python("-c", program)

    assert done.stdout.strip() == raised
    assert "Traceback" not in done.stderr


def test_other_dropped_errors_are_printed_as_before() -> None:
    program = LOSES.format(signal=signal.SIGINT.name, place="in_a_finaliser", waits="pass")
    program = program.replace("signal.raise_signal(signal.SIGINT)", "raise ValueError('of it')")

    done = run_python("-c", program)

    assert done.stdout.strip() == "it was lost"
    assert "ValueError: of it" in done.stderr


def test_a_signal_that_comes_while_one_is_sent_again_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    signals: list[int] = []

    def start(work: object, numbers: tuple[int]) -> None:
        signals.append(*numbers)
        if len(signals) == 1:  # As a handler does that runs here.
            raise Terminated

    monkeypatch.setattr("simkit.core.stopping.start_raw_thread", start)
    with terminable():
        sys.unraisablehook(SimpleNamespace(exc_type=KeyboardInterrupt))

    assert signals == [signal.SIGINT, signal.SIGTERM]
