"""Objects of a pipeline's own types as plain data, and what changed in them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel

from simkit.adapters.plain_values import NotPlain, Snapshots, fields_of, plain


class Colour(Enum):
    RED = "red"


class Seat(BaseModel):
    row: int = 1


@dataclass
class Passenger:
    name: str = "Ann"
    seat: Seat = field(default_factory=Seat)
    colours: tuple[Colour, ...] = (Colour.RED,)
    born: date = date(2000, 1, 2)
    lock: Any = field(default_factory=threading.Lock)
    _secret: str = "x"


class Bag:
    """Has fields, and declares none."""

    def __init__(self) -> None:
        self.items = ["shoe"]
        self._count = 1


def test_fields_that_are_data_are_read_and_others_left_out() -> None:
    found = dict(fields_of(Passenger(), "context"))

    assert found == {
        "name": "Ann", "seat": {"row": 1}, "colours": ["red"], "born": "2000-01-02"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("thing", "found"),
    [
        (None, {}),
        ({"a": 1, 2: "b"}, {"a": 1, "2": "b"}),
        ("words", {"context": "words"}),
        (Bag(), {"items": ["shoe"]}),
    ],
)
def test_what_declares_no_fields_is_read_too(thing: Any, found: dict[str, Any]) -> None:
    assert dict(fields_of(thing, "context")) == found


def test_an_object_that_leads_back_to_itself_is_no_data() -> None:
    loop: list[Any] = []
    loop.append(loop)

    with pytest.raises(NotPlain):
        plain(loop)


def test_only_what_changed_since_the_last_look_is_told() -> None:
    snapshots, passenger = Snapshots(), Passenger()
    first, is_new = snapshots.changes("s1", passenger, "context")
    passenger.seat.row = 7

    assert (sorted(first), is_new) == (["born", "colours", "name", "seat"], True)
    assert snapshots.changes("s1", passenger, "context") == ({"seat": {"row": 7}}, False)
    assert snapshots.changes("s1", passenger, "context") == ({}, False)
    assert snapshots.changes("s2", passenger, "context")[1]
