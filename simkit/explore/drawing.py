"""Hypothesis draws the conversations of a chunk."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from typing import Any, Final, TypeAlias

import msgspec

from simkit.capture.http.installing import Installation, Keeper, Row
from simkit.core.determinism.installing import installed
from simkit.core.errors import SimkitError
from simkit.core.requirements import install_command

try:
    import hypothesis
    from hypothesis import HealthCheck, Phase, strategies
    from hypothesis.errors import HypothesisException
    from hypothesis.reporting import with_reporter
except ModuleNotFoundError as problem:
    if (problem.name or "").partition(".")[0] != "hypothesis":
        raise
    raise SimkitError(
        "simkit explore needs Hypothesis, which is not installed here: "
        f"{install_command('explore')}"
    ) from None

from simkit.explore.choices import ODDS, ChoiceLog, Plan, TurnPlan
from simkit.explore.chunks import Chunk, Tally, TallyBuilder
from simkit.explore.conversations import ExploredRun

NUMBER_MAX: Final = 2**32 - 1
"""The largest number that is drawn."""
_FAR: Final = 3_141_592_653_589
"""The least number that is drawn, which stands for 0.

Hypothesis mixes in numbers that it likes, of which none lies near this one. It is
below 2 to the 53rd: Hypothesis draws larger numbers as floats, which have no last digits.
"""
ANSWERS_MAX: Final = 8
"""The number of answers in one turn that are chosen, at most; those beyond are the simplest."""
_MASK: Final = 2**64 - 1

Run: TypeAlias = Callable[[Plan | ChoiceLog], ExploredRun]


def draw(
    run: Run,
    chunk: Chunk,
    *,
    turns_max: int,
    rare: int = 0,
    tell: Callable[[TallyBuilder], None] = lambda builder: None,
    is_late: Callable[[], bool] = lambda: False,
) -> Tally:
    """Run the conversations of a chunk; a seed always draws the same ones.

    ``rare`` is the number of things that may happen rarely. ``tell`` gets the tally so
    far, after each conversation. It ends when ``is_late`` returns true before a run, as it
    does on Ctrl-C. Errors of ``run`` end it.
    """
    builder = TallyBuilder(chunk.first)
    failure: Exception | None = None

    def attempt(plan: Plan) -> None:
        nonlocal failure
        if is_late():
            raise KeyboardInterrupt
        try:
            builder.add(run(plan))
        except Exception as problem:
            # Hypothesis would try to make it small.
            failure = problem
            raise KeyboardInterrupt from problem
        tell(builder)

    is_stopped = False
    try:
        with closing(Keeper()) as keeper, keeper.keeping(), installed.keep():
            _drawn_by_hypothesis(attempt, chunk, _plans(turns_max, rare))
    except KeyboardInterrupt:
        if failure is not None:
            raise failure from None
        is_stopped = True
    return builder.tally(is_stopped=is_stopped)


def _drawn_by_hypothesis(
    attempt: Callable[[Plan], None], chunk: Chunk, plans: strategies.SearchStrategy[Plan]
) -> None:
    test = hypothesis.given(plans)(attempt)
    test = hypothesis.seed(chunk.seed)(test)
    test = hypothesis.settings(
        max_examples=chunk.runs,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )(test)
    try:
        with with_reporter(lambda text: None), _no_source_read:
            test()
    except HypothesisException as problem:
        raise SimkitError(f"Hypothesis could not search: {problem}") from problem


def _constants() -> Iterator[Row]:
    """Yield what Hypothesis mixes in: the simplest number, and none of imported modules' source.

    None of those is ever near enough to be drawn, to read an application takes seconds in each
    process, and what was read is kept in a folder `.hypothesis`. No setting turns it off
    (Hypothesis 6.170).
    """
    providers: Any = sys.modules.get("hypothesis.internal.conjecture.providers")
    if hasattr(providers, "_get_local_constants"):
        constants = type(providers._local_constants)(integers={_FAR})
        yield providers, "_get_local_constants", lambda _: lambda: constants


_no_source_read: Final = Installation(_constants)


def _plans(turns_max: int, rare: int) -> strategies.SearchStrategy[Plan]:
    """Return the plans of conversations: Hypothesis draws their length, and a number for each turn.

    Any number of turns is as likely as another one. Hypothesis likes to draw 0, the simplest turn,
    and the same turn again.
    """
    number = strategies.integers(_FAR, _FAR + NUMBER_MAX).map(lambda number: number - _FAR)
    turn = number.map(turn_plan)
    turns = strategies.integers(1, turns_max).flatmap(
        lambda count: strategies.lists(turn, min_size=count, max_size=count)
    )
    if not rare:
        return strategies.builds(Plan, turns=turns.map(tuple), personas=number)
    return strategies.builds(
        lambda turns, personas, luck: lucky(Plan(tuple(turns), personas), luck, rare),
        turns=turns,
        personas=number,
        luck=number,
    )


def lucky(plan: Plan, luck: int, count: int) -> Plan:
    """Return a plan in which some of so many rare things may happen; none in the simplest one.

    All numbers together decide it: drawn ones are 0 too often, and a thing would happen more rarely
    than its share says.
    """
    mixed = 0
    for number in (*(turn.user for turn in plan.turns), plan.personas, luck):
        mixed = next(_stream(mixed ^ number)) if mixed or number else 0
    if not mixed:
        return plan
    stream = _stream(mixed)
    enabled = enabled_things(next(stream), count)
    turns = tuple(
        msgspec.structs.replace(
            turn, rare=tuple(value % ODDS for value in islice(stream, ANSWERS_MAX + 1))
        )
        for turn in plan.turns
    )
    return msgspec.structs.replace(plan, turns=turns, enabled=enabled)


def enabled_things(number: int, count: int) -> tuple[bool, ...]:
    """Return whether each of some rare things may happen, by a number; for 0 none may."""
    bits = next(_stream(number)) if number else 0
    return tuple(bool(bits >> index & 1) for index in range(count))


def turn_plan(number: int) -> TurnPlan:
    """Return the plan of a turn that a number stands for; that of 0 is the simplest.

    Its own numbers follow from the one by SplitMix64, the generator of Steele, Lea and Flood (Fast
    Splittable Pseudorandom Number Generators, 2014): to draw each would cost more than to run the
    turn.
    """
    if not number:
        return TurnPlan()
    stream = _stream(number)
    user, orders, answers, results = islice(stream, 4)
    return TurnPlan(
        user=user,
        orders=orders,
        answers=tuple(islice(stream, answers % (ANSWERS_MAX + 1))),
        results=tuple(islice(stream, results % (ANSWERS_MAX + 1))),
    )


def _stream(number: int) -> Iterator[int]:
    """Yield numbers of 64 bits."""
    while True:
        number = (number + 0x9E3779B97F4A7C15) & _MASK
        value = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
        yield value ^ (value >> 31)
