from __future__ import annotations

from simkit.core.rng import Chance


def draws(chance: Chance) -> list[float]:
    return [chance.random.random() for _ in range(3)]


def test_equal_seeds_and_names_give_equal_draws() -> None:
    assert draws(Chance(7).child("fake")) == draws(Chance(7).child("fake"))


def test_other_seeds_and_names_give_other_draws() -> None:
    sources = [Chance(7), Chance(8), Chance(7).child("fake"), Chance(7).child("fake").child("name")]

    assert len({tuple(draws(source)) for source in sources}) == len(sources)


def test_a_draw_moves_no_other_source() -> None:
    parent = Chance(7)
    parent.random.random()

    assert draws(parent.child("faults")) == draws(Chance(7).child("faults"))
