"""The check of the proof that lints are silent, on one trace."""

from __future__ import annotations

from collections.abc import Iterable

from simkit.checks.endings import Endings
from simkit.checks.lints import Watch, all_lints
from simkit.trace import events as e
from simkit.trace.store import Trace
from tests.checks.lints.test_screening import UNREADABLE, foretells, hits_of, thorough_lints


def watched(events: Iterable[e.AnyEvent]) -> Watch:
    trace, watch = Trace(), Watch(all_lints())
    trace.events.extend(events)
    watch.see(trace)
    return watch


def check_proof(events: list[e.AnyEvent]) -> bool:
    """Whether the proof holds; then thorough lints must find what is found beside it."""
    try:
        watch = watched(events)
    except UNREADABLE:
        return False
    if watch._silence is None or foretells(events):
        # No driver writes a message to the state before it has added it to the log.
        return False
    if watch.plain_turns is not None:
        assert vars(Endings(events, watch.plain_turns)) == vars(Endings(events))
    expected = hits_of(thorough_lints(), events)
    assert expected is None or watch.hits == expected
    return expected is not None
