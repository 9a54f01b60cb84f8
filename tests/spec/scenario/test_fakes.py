"""Every word of Faker's is the same on every day and in every process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simkit.core.errors import ReferenceInvalid
from simkit.core.rng import Chance
from simkit.spec.scenario.fakes import Fakes, Words

START = "2026-01-05T09:00:00Z"

ALL = """
import json, sys
import time_machine
from simkit.core.errors import ReferenceInvalid
from simkit.core.rng import Chance
from simkit.spec.scenario.fakes import Fakes, Words

def word(fakes, name):
    try:
        return fakes[name]
    except ReferenceInvalid as problem:
        return ["refused", str(problem)]

with time_machine.travel(sys.argv[1], tick=True):
    fakes = Fakes(Words("2026-01-05T09:00:00Z"), Chance(7).child("fake"))
    print(json.dumps({name: word(fakes, name) for name in fakes.known()}, sort_keys=True))
"""


def fakes_of(seed: int) -> Fakes:
    """The words of a scenario of this seed."""
    return Fakes(Words(START), Chance(seed).child("fake"))


def words_on(day: str, hash_seed: str) -> dict[str, Any]:
    """All words, in a process of its own, as if that were the day today."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ALL, day],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "TZ": "Asia/Tokyo" if day > "2030" else ""},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    return data


@pytest.mark.slow
def test_all_of_fakers_words_are_the_same_on_two_days_and_in_two_processes() -> None:
    words, other = words_on("2026-02-03", "1"), words_on("2041-11-30", "2")

    refused = [name for name, word in words.items() if isinstance(word, list) and "refused" in word]
    assert len(words) > 250
    assert {name: (words[name], other[name]) for name in words if words[name] != other[name]} == {}
    assert len(refused) < 12, refused
    assert " at 0x" not in json.dumps(words)


@pytest.mark.parametrize(
    ("word", "most"),
    [
        ("date_this_year", "2026-01-05"), ("date_this_month", "2026-01-05"),
        ("past_date", "2026-01-05"), ("date_time_this_year", "2026-01-05 09:00:00"),
        ('date_between("-2d", "-1d")', "2026-01-04"),
    ],
)  # fmt: skip
def test_dates_count_from_the_start(word: str, most: str) -> None:
    text = str(fakes_of(3)[word])

    assert "2025-12-01" < text <= most


@pytest.mark.parametrize(
    ("word", "fits"),
    [
        ("random_int(1, 6)", lambda result: 1 <= result <= 6),
        ("random_int(min=1, max=6)[2]", lambda result: 1 <= result <= 6),
        ("pyfloat(min_value=1.5, max_value=2.5)", lambda result: 1.5 <= result <= 2.5),
        ('random_element(("red", "blue"))', lambda result: result in ("red", "blue")),
        ("de_DE.postcode", lambda result: len(result) == 5),
        ("random_element", lambda result: result in "abc"),
        ("pyset(3)", lambda result: isinstance(result, list)),
        ("profile", lambda result: "@" in result["mail"]),
        ("bothify('??-##')", lambda result: result[2] == "-"),
    ],
)
def test_what_faker_has_can_be_asked_for(word: str, fits: Any) -> None:
    assert fits(fakes_of(1)[word])
    assert fakes_of(1)[word] == fakes_of(1)[word]


def test_arguments_are_the_same_however_they_are_spaced() -> None:
    fakes = fakes_of(1)

    assert fakes["random_int(1,999999)"] == fakes["random_int(1, 999999)"]
    assert fakes["random_int(1, 999999)"] != fakes["random_int(1, 999999)[1]"]


@pytest.mark.parametrize(
    ("word", "reply"),
    [
        ("random_int(6, 1)", "Faker's `random_int` failed: ValueError: "),
        ("random_int(x)", "`(x)` must be arguments as Python writes them: (1, 6), "),
        ("random_int(**{'min': 5})", "`(**{'min': 5})` must be arguments as Python writes them"),
        ("random_int(1, 6)(7)", "`(1, 6)(7)` must be arguments as Python writes them"),
        ("xx_XX.name", "Faker has no locale `xx_XX`"),
        ("seed_instance", "`seed_instance` is a method of Faker's that gives no word"),
        ("add_provider", "`add_provider` is a method of Faker's that gives no word"),
    ],
)
def test_what_faker_does_not_take_is_told(word: str, reply: str) -> None:
    with pytest.raises(ReferenceInvalid) as refused:
        fakes_of(1)[word]

    assert str(refused.value).startswith(reply)


def test_a_word_that_is_none_is_unknown() -> None:
    assert fakes_of(1).get("nmae") is None
