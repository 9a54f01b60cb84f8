"""Two traces of one scenario that should be equal: the first different event."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from simkit.checks.findings import Finding
from simkit.core.errors import TraceError
from simkit.core.text import parted_at, short_end, short_from, without_secrets_in
from simkit.report.events import event_line
from simkit.report.wording import WIDTH
from simkit.trace.store import decoded

NOT_DETERMINISTIC: Final = "not-deterministic"
BEFORE: Final = 3
"""The number of events shown before the different one."""
LEAD: Final = 40
"""The number of characters shown before the different one."""
WINDOW: Final = WIDTH - 4


def first_difference(
    first: Sequence[bytes], second: Sequence[bytes], where: str, how: str
) -> Finding:
    """Return the finding that two stored traces differ, with the events before the place.

    ``how`` describes what was different about the second run.
    """
    index = next(
        (
            index
            for index, (left, right) in enumerate(zip(first, second, strict=False))
            if left != right
        ),
        min(len(first), len(second)),
    )
    return Finding(
        NOT_DETERMINISTIC,
        "E",
        f"the second run ({how}) parts from the first at event {index} of {len(first) - 1}",
        where,
        context=tuple(_lines(first, second, index)),
        fix="Look for a set that is iterated, an id or hash of an object, a clock, or chance that "
        "does not come from the seed, in the functions of the pipeline.",
    )


def _lines(first: Sequence[bytes], second: Sequence[bytes], index: int) -> Iterator[str]:
    for before in range(max(index - BEFORE, 1), index):
        yield _readable(first, before)
    if index < len(first) and index < len(second):
        yield _readable(first, index)
        left, right = _parting(first[index].decode(), second[index].decode())
        yield f"first:  {left}"
        yield f"second: {right}"
    else:
        longer, which = (first, "first") if index < len(first) else (second, "second")
        yield _readable(longer, index)
        yield f"only the {which} run has this event"


def _readable(lines: Sequence[bytes], index: int) -> str:
    """Return an event on one line, with its number."""
    try:
        (event,) = decoded(b"\n".join((lines[0], lines[index]))).events
    except TraceError:
        return short_end(lines[index].decode(), WINDOW)
    return short_end(event_line(index, event), WINDOW)


def _parting(left: str, right: str) -> tuple[str, str]:
    """Return the two encoded events, cut around the first different character."""
    left, right = without_secrets_in(left), without_secrets_in(right)
    start, most = max(parted_at(left, right) - LEAD, 0), WINDOW - len("second: ")
    most += bool(start)
    return short_from(left, start, most), short_from(right, start, most)
