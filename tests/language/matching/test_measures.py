"""Numbers, texts and lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import pytest

from simkit.core.messages import ABSENT
from simkit.language.matching import holds

EVERY: list[Any] = [
    0,
    1,
    1.5,
    2,
    True,
    "1",
    "pizza for lunch",
    [1, 2],
    {"a": "pizza"},
    None,
    ABSENT,
]


@pytest.mark.parametrize(
    ("matcher", "expected"),
    [
        ({"$gt": 1}, [1.5, 2]),
        ({"$gte": 1}, [1, 1.5, 2]),
        ({"$lt": 1}, [0]),
        ({"$lte": 1.5}, [0, 1, 1.5]),
        ({"$gt": 0, "$lt": 2}, [1, 1.5]),
        ({"$approx": 1.4999999}, [1.5]),
        ({"$approx": {"value": 1.75, "abs": 0.25}}, [1.5, 2]),
        ({"$approx": {"value": 1, "rel": 0.5}}, [1, 1.5]),
        ({"$contains": "pizza"}, ["pizza for lunch", {"a": "pizza"}]),
        ({"$contains": ["pizza", "lunch"]}, ["pizza for lunch"]),
        ({"$contains": 1}, [1, 1.5, "1", [1, 2]]),
        ({"$contains": '"a": "p'}, [{"a": "pizza"}]),
        ({"$contains": "1, 2"}, [[1, 2]]),
        ({"$starts": "pizza"}, ["pizza for lunch"]),
        ({"$ends": "lunch"}, ["pizza for lunch"]),
        ({"$regex": "f.r"}, ["pizza for lunch"]),
        ({"$regex": "p.zza"}, ["pizza for lunch", {"a": "pizza"}]),
        ({"$regex": "^1"}, [1, 1.5, "1"]),
        ({"$regex": r"^\[1, 2\]$"}, [[1, 2]]),
        ({"$regex": "."}, [*EVERY[:-2]]),
        ({"$contains": "l"}, ["pizza for lunch"]),
        ({"$not": {"$regex": "u"}}, [0, 1, 1.5, 2, "1", [1, 2], {"a": "pizza"}, None, ABSENT]),
        ({"$regex": "^for"}, []),
        ({"$len": 2}, [[1, 2]]),
        ({"$len": 1}, ["1", {"a": "pizza"}]),
        ({"$len": {"$gt": 1}}, ["pizza for lunch", [1, 2]]),
    ],
)
def test_operator_holds_of_these_values_and_no_others(matcher: Any, expected: list[Any]) -> None:
    texts = [repr(value) for value in EVERY if holds(matcher, value)]

    assert texts == [repr(value) for value in expected]


def test_json_is_searched_with_letters_as_they_are_and_keys_in_their_order() -> None:
    assert holds({"$contains": '{"b": "é", "a": [null, true]}'}, {"b": "é", "a": (None, True)})


class Endless(Sequence[int]):
    """A long list whose elements must not be read."""

    def __len__(self) -> int:
        return 10**9

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: Any) -> Any:
        raise AssertionError("an element was read")


def test_length_of_a_list_is_taken_without_reading_it() -> None:
    assert holds({"$len": 10**9}, Endless())
    assert not holds({"$len": 3}, Endless())
