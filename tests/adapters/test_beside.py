"""What was begun side by side goes to work as one group."""

from __future__ import annotations

from simkit.adapters.observation import ParallelGroups
from tests.adapters.scribes import Desk


def make_groups() -> ParallelGroups[str]:
    return ParallelGroups(Desk().recorder)


def test_all_that_was_begun_in_one_place_is_one_group() -> None:
    runs, group, other_group = make_groups(), object(), object()
    for item, place in [("left", group), ("elsewhere", other_group), ("right", group)]:
        runs.begin(item, place)

    assert runs.those_with("right") == ["left", "right"]
    assert [runs.starts(text) for text in ("right", "elsewhere", "left")] == ["g1", "", "g1"]


def test_what_is_at_work_is_beside_nothing_that_is_begun_later() -> None:
    runs = make_groups()
    runs.begin("first", None)
    groups = [runs.starts("first")]
    runs.begin("second", None)
    groups += [runs.starts("second"), runs.starts("second")]

    assert groups == ["", "", ""]
    assert runs.those_with("second") == []


def test_what_has_ended_before_it_went_to_work_is_no_part_of_a_group() -> None:
    runs = make_groups()
    runs.begin("first", None)
    runs.begin("second", None)
    runs.ended("first")

    assert runs.starts("second") == ""


def test_another_turn_knows_nothing_of_what_was_begun() -> None:
    runs = make_groups()
    runs.begin("first", None)
    runs.clear()
    runs.begin("second", None)

    assert runs.starts("second") == ""
