"""Whatever an agent puts out is told as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from simkit.adapters.plain_values import plain_or_text


@dataclass
class Seat:
    row: int


class Client:
    def __str__(self) -> str:
        return "a client"


def test_data_is_told_as_it_is_and_all_else_as_a_text() -> None:
    values = [plain_or_text(item) for item in (None, "2A", Seat(2), Client())]

    assert values == [None, "2A", {"row": 2}, "a client"]
