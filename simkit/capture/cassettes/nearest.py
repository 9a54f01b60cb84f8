"""The recording nearest to a missed request: searched only then, and among few."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from simkit.capture.cassettes.keys import Question
from simkit.capture.cassettes.normalising import canonical, json_of
from simkit.capture.cassettes.reasons import Asking, PlayState
from simkit.providers.http import path_of

COMPARED_MAX: Final = 1_000
"""The number of recordings compared with a request, unused ones first."""


def nearest(call: Asking, state: PlayState) -> int | None:
    """Return the index of the most similar recording; None if none is similar.

    A recording of the same agent at the same address comes first, then one at the same address. A
    request to another address is similar only if the body is equal, or the path without its query.
    """
    items = state.cassette.interactions
    its_own = [number for number, item in enumerate(items) if item.agent == call.agent]
    return nearest_of(call.question, state.questions, state.played, frozenset(its_own))


def nearest_of(
    question: Question,
    questions: Sequence[Question],
    played: bytes = b"",
    preferred: frozenset[int] = frozenset(),
) -> int | None:
    """Return the index of the most similar question; None if none is similar.

    Those in ``preferred`` come first, then those not ``played``.
    """
    played = played or bytes(len(questions))
    same_address = [n for n, other in enumerate(questions) if other.address == question.address]
    same_address = same_address or [
        n for n, other in enumerate(questions) if _is_moved(other, question)
    ]
    its_own = [number for number in same_address if number in preferred]
    candidates = sorted(its_own or same_address, key=lambda number: played[number])[:COMPARED_MAX]
    if not candidates:
        return None
    parts = _parts(question.body)

    def likeness(number: int) -> tuple[float, int, int]:
        body = questions[number].body
        other = _parts(body)
        shared = len(parts & other) / max(len(parts | other), 1)
        return shared, _shared_ends(question.body, body), -played[number]

    return max(candidates, key=likeness)


def _is_moved(left: Question, right: Question) -> bool:
    """Return whether two questions are equal except for the path or the query."""
    if left.method != right.method:
        return False
    paths = (path_of(left.address), path_of(right.address))
    return paths[0] == paths[1] or (bool(left.body) and left.body == right.body)


def _parts(body: bytes) -> set[bytes]:
    """Return the parts of a body: its messages and its other entries, one by one."""
    try:
        value = json_of(body)
    except ValueError:
        return {body}
    if not isinstance(value, dict):
        return {body}
    parts_found = set()
    for key, entry in value.items():
        items = entry if isinstance(entry, list) else [entry]
        parts_found |= {
            key.encode("utf-8", "surrogatepass") + b":" + canonical(item) for item in items
        }
    return parts_found


def _shared_ends(left: bytes, right: bytes) -> int:
    """Return the number of equal bytes at the beginning and at the end of two bodies."""
    most = min(len(left), len(right))
    head = _shared_head(left[:most], right[:most])
    rest = most - head
    return head + _shared_head(left[len(left) - rest :][::-1], right[len(right) - rest :][::-1])


def _shared_head(left: bytes, right: bytes) -> int:
    """Return the number of equal bytes at the beginning of two texts of equal length."""
    low, high = 0, len(left)
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
