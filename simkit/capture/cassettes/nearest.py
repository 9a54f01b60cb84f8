"""The recording nearest to a request that none answers: searched only then, and among few."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from simkit.capture.cassettes.keys import Question
from simkit.capture.cassettes.normalising import canonical, json_of
from simkit.capture.cassettes.reasons import Asking, Heard
from simkit.providers.http import path_of

COMPARED_MAX: Final = 1_000
"""Recordings that are compared with a request, those that have not answered yet first."""


def nearest(asking: Asking, heard: Heard) -> int | None:
    """Returns the place of the recording that is most like the request; None if nothing is.

    One of the same agent at the same address comes first, then one at the same address. What was
    asked elsewhere is similar only where the body is equal, or the path but for its query.
    """
    items = heard.cassette.interactions
    its_own = [number for number, item in enumerate(items) if item.agent == asking.agent]
    return nearest_of(asking.question, heard.questions, heard.played, frozenset(its_own))


def nearest_of(
    question: Question,
    questions: Sequence[Question],
    played: bytes = b"",
    preferred: frozenset[int] = frozenset(),
) -> int | None:
    """Returns the place of the question that is most like another one; None if nothing is.

    Those that are ``preferred`` come first, then those that have not been ``played``.
    """
    played = played or bytes(len(questions))
    there = [n for n, other in enumerate(questions) if other.address == question.address]
    there = there or [n for n, other in enumerate(questions) if _is_moved(other, question)]
    its_own = [number for number in there if number in preferred]
    candidates = sorted(its_own or there, key=lambda number: played[number])[:COMPARED_MAX]
    if not candidates:
        return None
    parts = _parts(question.body)

    def likeness(number: int) -> tuple[float, int, int]:
        body = questions[number].body
        other = _parts(body)
        shared = len(parts & other) / max(len(parts | other), 1)
        return shared, _shared_ends(question.body, body), -played[number]

    return max(candidates, key=likeness)


def _is_moved(one: Question, other: Question) -> bool:
    """Whether two questions are the same but for the path or the query."""
    if one.method != other.method:
        return False
    paths = (path_of(one.address), path_of(other.address))
    return paths[0] == paths[1] or (bool(one.body) and one.body == other.body)


def _parts(body: bytes) -> set[bytes]:
    """Returns what a body consists of: its messages and its other entries, one by one."""
    try:
        value = json_of(body)
    except ValueError:
        return {body}
    if not isinstance(value, dict):
        return {body}
    found = set()
    for key, entry in value.items():
        items = entry if isinstance(entry, list) else [entry]
        found |= {key.encode("utf-8", "surrogatepass") + b":" + canonical(item) for item in items}
    return found


def _shared_ends(one: bytes, other: bytes) -> int:
    """Returns how many bytes two bodies have in common at their beginning and their end."""
    most = min(len(one), len(other))
    head = _shared_head(one[:most], other[:most])
    rest = most - head
    return head + _shared_head(one[len(one) - rest :][::-1], other[len(other) - rest :][::-1])


def _shared_head(one: bytes, other: bytes) -> int:
    """Returns how many bytes two texts of one length have in common at their beginning."""
    low, high = 0, len(one)
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
