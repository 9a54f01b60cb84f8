"""The garbage collector is left out of work, and only of that."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from simkit.garbage import collected_later


@pytest.fixture(autouse=True)
def _collector_as_before() -> Iterator[None]:
    was_enabled = gc.isenabled()
    yield
    (gc.enable if was_enabled else gc.disable)()


def test_the_collector_waits_until_the_work_is_done() -> None:
    gc.enable()

    with collected_later():
        inside = gc.isenabled()

    assert (inside, gc.isenabled()) == (False, True)


def test_the_collector_comes_back_after_an_error() -> None:
    gc.enable()

    with pytest.raises(ValueError, match="broken"), collected_later():
        raise ValueError("broken")

    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()

    with collected_later(), collected_later():
        pass

    assert not gc.isenabled()
