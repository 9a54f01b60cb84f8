"""Chunks of a campaign: their tallies in any order, their drawn numbers, values of schemas."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simkit.checks.findings import Finding
from simkit.explore import choices
from simkit.explore.causes import Cause
from simkit.explore.choices import (
    ChoiceLog,
    Choices,
    Plan,
    RandomChoices,
    TurnLog,
    TurnPlan,
    value_of,
)
from simkit.explore.chunks import (
    RUNS_LEAST,
    RUNS_MOST,
    Chunk,
    Tally,
    TallyBuilder,
    chunks_of,
    merged,
)
from simkit.explore.claims import Part, Reach
from simkit.explore.conversations import ExploredRun
from simkit.explore.drawing import ANSWERS_MAX, draw, enabled_things, turn_plan
from simkit.language.json_schema import schema_errors

CAUSES = st.sampled_from(
    [Cause("HND-03", "a", ""), Cause("claim", "", "x"), Cause("CTX-01", "", "")]
)
PARTS = st.frozensets(st.sampled_from([Part("agent", "a"), Part("tool", "t"), Part("tool", "u")]))
TAPES = st.lists(st.builds(TurnLog, st.lists(st.integers(0, 2), max_size=2).map(tuple)), max_size=3)
RECORDS = st.builds(
    lambda tape, causes, calls, offered, reached: ExploredRun(
        tuple({} for _ in tape),
        {cause: Finding(cause.id, "E", f"{tape}", "") for cause in causes},
        calls,
        reach=Reach(offered, reached),
        tape=ChoiceLog(tuple(tape)),
    ),
    TAPES,
    st.sets(CAUSES),
    st.integers(0, 5),
    PARTS,
    PARTS,
)


def tally_of(record: ExploredRun, number: int) -> Tally:
    builder = TallyBuilder(number)
    builder.add(record)
    return builder.tally()


def joined(tallies: list[Tally], rng: random.Random) -> Tally:
    """Joins two neighbours at a time, whichever."""
    while len(tallies) > 1:
        place = rng.randrange(len(tallies) - 1)
        tallies[place : place + 2] = [tallies[place].merged(tallies[place + 1])]
    return tallies[0]


@given(st.lists(RECORDS, min_size=1, max_size=8), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_merging_is_commutative_and_associative(
    records: list[ExploredRun], rng: random.Random
) -> None:
    builder = TallyBuilder(1)
    for record in records:
        builder.add(record)
    tallies = [tally_of(record, number) for number, record in enumerate(records, 1)]
    rng.shuffle(tallies)

    whole = joined([*tallies], rng)

    assert whole == builder.tally() == merged(tallies)
    assert whole.merged(Tally()) == whole == Tally().merged(whole)
    assert len({tally.cause for tally in whole.causes}) == len(whole.causes)


@given(RECORDS)
@settings(deadline=None)
def test_a_tally_is_the_same_after_it_was_sent(record: ExploredRun) -> None:
    tally = tally_of(record, 7)

    assert msgspec.json.decode(msgspec.json.encode(tally), type=Tally) == tally


def test_of_two_that_are_as_small_the_first_one_counts() -> None:
    cause = Cause("a", "", "")
    tapes = [ChoiceLog((TurnLog((digit,)),)) for digit in (2, 1, 1)]
    records = [
        ExploredRun(({},), {cause: Finding("a", "E", str(number), "")}, 1, tape=tape)
        for number, tape in enumerate(tapes)
    ]

    whole = merged(tally_of(record, number + 1) for number, record in enumerate(records))

    (tally,) = whole.causes
    assert (tally.runs, tally.first) == (3, 1)
    assert (tally.smallest.run, tally.smallest.finding.what) == (2, "1")


@pytest.mark.parametrize("runs", [1, 49, 50, 99, 100, 300, 12_345, 1_000_000])
def test_chunks_are_all_runs_once_and_depend_on_nothing_else(runs: int) -> None:
    chunks = chunks_of(runs, 5, before=2)

    numbers = [
        number for chunk in chunks for number in range(chunk.first, chunk.first + chunk.runs)
    ]
    assert numbers == list(range(3, runs + 3))
    assert [chunk.number for chunk in chunks] == list(range(len(chunks)))
    assert len({chunk.seed for chunk in chunks}) == len(chunks)
    assert all(min(runs, RUNS_LEAST) <= chunk.runs <= RUNS_MOST for chunk in chunks)


def test_the_numbers_of_a_turn_are_those_of_splitmix64() -> None:
    """The first numbers of the seed 1234567, as other implementations have them."""
    plan = turn_plan(1234567)

    assert (plan.user, plan.orders) == (6457827717110365317, 3203168211198807973)
    assert turn_plan(0) == TurnPlan()


@pytest.mark.slow
def test_any_number_of_turns_up_to_the_most_is_drawn() -> None:
    counts: list[int] = []

    def run(plan: Plan | ChoiceLog) -> ExploredRun:
        counts.append(len(plan.turns))
        return ExploredRun(({},), {}, 1)

    draw(run, Chunk(0, 0, 1, 100), turns_max=200)

    assert min(counts) == 1
    assert max(counts) > 150
    assert 50 < sum(counts) / len(counts) < 150


RUNS = 300


@pytest.mark.slow
@pytest.mark.parametrize(("count", "share"), [(1, 0.2), (4, 0.1), (1, 0.9)])
def test_what_has_a_share_happens_as_often(count: int, share: float) -> None:
    shares = {f"thing {number}": share for number in range(count)}
    turns: Counter[str] = Counter()
    answers: Counter[str] = Counter()

    def run(plan: Plan | ChoiceLog) -> ExploredRun:
        assert isinstance(plan, Plan)
        choices = RandomChoices(plan, [*shares])
        for place, turn in enumerate(plan.turns):
            choices.begin_turn(place)
            assert len(turn.rare) in (0, ANSWERS_MAX + 1)
            turns[choices.fate(place, shares)] += 1
            for _ in range(3):
                choices.answer()
                answers[choices.oddity(shares)] += 1
        return ExploredRun((), {}, 0)

    for chunk in chunks_of(RUNS, 0):
        draw(run, chunk, turns_max=5, rare=count)

    for counts in (turns, answers):
        assert len(counts) == count + 1
        # The simplest conversation is drawn more often than any other one, and has nothing rare.
        rates = [counts[name] / counts.total() for name in shares]
        assert all(0.6 * share < rate < 1.25 * share for rate in rates), rates


def test_the_simplest_conversation_has_nothing_rare() -> None:
    assert enabled_things(0, 3) == (False, False, False)


LEAF: dict[str, Any] = {"type": "string"}
SCHEMAS: dict[str, Any] = {
    "a text": LEAF,
    "a number in bounds": {"type": "integer", "minimum": 3, "maximum": 5},
    "one of some": {"enum": ["a", 2, None]},
    "a constant": {"const": {"x": 1}},
    "true or false": {"type": "boolean"},
    "a list": {"type": "array", "items": LEAF, "minItems": 1, "maxItems": 2},
    "an object": {
        "type": "object",
        "properties": {"order": LEAF, "amount": {"type": "number"}, "why": LEAF},
        "required": ["order", "amount"],
        "additionalProperties": False,
    },
    "either": {"anyOf": [{"type": "null"}, LEAF, {"type": "integer"}]},
    "both": {"allOf": [{"type": "object", "properties": {"a": LEAF}, "required": ["a"]},
                       {"type": "object", "properties": {"b": LEAF}, "required": ["b"]}]},
    "a tree": {
        "$ref": "#/$defs/node",
        "$defs": {"node": {"type": "object", "properties": {
            "name": LEAF, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            "required": ["name"]}},
    },
    "a date": {"type": "string", "format": "date"},
    "nullable": {"type": ["string", "null"]},
    "anything": {},
}  # fmt: skip
NUMBERS = st.integers(0, 2**60)


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
@given(number=NUMBERS)
def test_a_value_fits_its_schema(schema: Any, number: int) -> None:
    value = value_of(schema, Choices(number), ["A-1042"], {})

    assert schema_errors(schema, value) == []


def test_texts_are_those_that_the_conversation_knows() -> None:
    values = {value_of(LEAF, Choices(number), ["A-1042", "B-7"], {}) for number in range(14)}

    assert values == {"A-1042", "B-7"}


def test_no_choice_is_the_simplest_value() -> None:
    assert value_of(SCHEMAS["an object"], Choices(), (), {}) == {"order": "order", "amount": 1}


def test_a_schema_of_which_no_value_is_known_is_said_to_be_one() -> None:
    with pytest.raises(ValueError, match="no value"):
        value_of({"type": "string", "pattern": "(?=a)b"}, Choices(), (), {})


def test_a_schema_that_holds_itself_is_followed_to_a_depth() -> None:
    node = {"allOf": [{"properties": {"next": {"$ref": "#/$defs/node"}}, "required": ["next"]}]}
    schema = {"$ref": "#/$defs/node", "$defs": {"node": node}}

    value, levels = choices._Maker(schema, Choices(0), ()).make(schema, "value", 0), 0
    while isinstance(value, dict):
        value, levels = value["next"], levels + 1

    assert 0 < levels <= choices._DEEP // 3 + 1
