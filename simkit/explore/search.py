"""The search for conversations that break a rule: Hypothesis draws, shrinks and remembers them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from simkit.core.errors import SimkitError

try:
    import hypothesis
    from hypothesis import HealthCheck, Phase, strategies
    from hypothesis.database import DirectoryBasedExampleDatabase
    from hypothesis.errors import Flaky, HypothesisException
    from hypothesis.reporting import with_reporter
except ModuleNotFoundError as problem:
    if (problem.name or "").partition(".")[0] != "hypothesis":
        raise
    raise SimkitError(
        "simkit explore needs Hypothesis, which is not installed here: "
        "pip install 'agent-simkit[explore]'"
    ) from None

from simkit.explore.choices import ODDS, Plan, Source, TurnPlan
from simkit.explore.conversations import Cause, ExploredRun
from simkit.explore.enumeration import Enumeration
from simkit.explore.reach import Reach

NUMBER_MAX: Final = 2**32 - 1
"""The largest number: enough digits for everything about one answer."""
_FAR: Final = 3_141_592_653_589
"""The least number that is drawn, which stands for 0.

Hypothesis mixes in the numbers that stand in the source of whatever the process has imported, such
as the user's code. None lies near this one, so one seed draws the same in every process. It is
below 2 to the 53rd: Hypothesis draws larger numbers as floats, which have no last digits.
"""
ROUNDS_MAX: Final = 20
_PRIME: Final = 1_000_003
ANSWERS_MAX: Final = 8
"""The number of answers in one turn that are chosen; those beyond are the simplest."""


class Discovery(msgspec.Struct, frozen=True):
    """One cause, with the smallest conversation that shows it."""

    cause: Cause
    record: ExploredRun
    """The smallest conversation."""
    runs: int
    """The number of conversations that showed it, those made to find the smallest one included."""
    first: int
    """The number of the first one, from 1."""


class Campaign(msgspec.Struct, frozen=True):
    """The result of a search."""

    discoveries: tuple[Discovery, ...]
    """The causes, in the order in which they were met."""
    runs: int
    """The number of conversations, those made to find the smallest ones included."""
    turns: int
    model_calls: int
    reach: Reach = Reach()
    """The parts of the pipeline that the conversations came to."""
    is_stopped: bool = False
    """Whether it was stopped before its end."""
    is_complete: bool = False
    """Whether every conversation within the bound was run."""


_Size: TypeAlias = tuple[int, int, int]
Run = Callable[[Plan], ExploredRun]


class _Broken(Exception):
    """A rule is broken; each cause has a subclass of its own, by which Hypothesis parts them."""


def search(
    run: Run,
    *,
    runs: int,
    turns_max: int,
    seed: int,
    rare: int = 0,
    memory: Path | None = None,
    tell: Callable[[int, int], None] = lambda runs, causes: None,
    is_late: Callable[[], bool] = lambda: False,
) -> Campaign:
    """Run conversations until ``runs`` were drawn; then make the smallest one of each cause.

    ``rare`` is the number of things that may happen rarely. ``memory`` is a folder that keeps
    failures, which are run first the next time. ``tell`` is called after each run with the numbers
    of runs and of causes. It ends with what was found when ``is_late`` returns true before a run,
    as it does on Ctrl-C. Errors of ``run`` end it.
    """
    tally = _Tally(runs, tell, is_late)
    plans = _plans(turns_max, rare)
    is_stopped = False
    # Each round ends with the smallest conversations of new causes, and the next one looks past
    # them: Hypothesis itself ends soon after its first find.
    for number in range(ROUNDS_MAX):
        known = tally.causes
        try:
            _round(run, tally, plans, seed + number * _PRIME, memory)
        except KeyboardInterrupt:
            is_stopped = True
        if is_stopped or tally.is_spent or tally.causes == known:
            break
        tally.begin_round()
    return tally.campaign(is_stopped=is_stopped)


def search_all(
    run: Callable[[Source], ExploredRun],
    *,
    runs: int,
    turns_max: int,
    tell: Callable[[int, int], None] = lambda runs, causes: None,
    is_late: Callable[[], bool] = lambda: False,
) -> Campaign:
    """Run every conversation of at most so many turns, or the first ``runs`` of them."""
    tally = _Tally(runs, tell, is_late)
    enumeration = Enumeration(turns_max)
    is_stopped = False
    try:
        for number, source in enumerate(enumeration):
            if number == runs:
                break
            tally.check_time()
            record = run(source)
            tally.count(record, (len(record.turns), reply_lines(record.turns), number))
    except KeyboardInterrupt:
        is_stopped = True
    campaign = tally.campaign(is_stopped=is_stopped)
    return msgspec.structs.replace(campaign, is_complete=enumeration.is_complete)


def _round(
    run: Run,
    tally: _Tally,
    plans: strategies.SearchStrategy[Plan],
    seed: int,
    memory: Path | None,
) -> None:
    """Draw conversations until some were found that show new causes."""

    def attempt(plan: Plan) -> None:
        tally.check_time()
        tally.add(run(plan), plan)

    test = hypothesis.given(plans)(attempt)
    test = hypothesis.seed(seed)(test)
    test = hypothesis.settings(
        max_examples=tally.left,
        database=DirectoryBasedExampleDatabase(str(memory)) if memory is not None else None,
        deadline=None,
        phases=[Phase.reuse, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
        report_multiple_bugs=True,
    )(test)
    try:
        with with_reporter(lambda text: None):
            test()
    except (_Broken, Flaky, BaseExceptionGroup) as problem:
        _raise_others(problem)
    except HypothesisException as problem:
        raise SimkitError(f"Hypothesis could not search: {problem}") from problem


def _raise_others(problem: BaseException) -> None:
    """Raise what is no broken rule."""
    if isinstance(problem, BaseExceptionGroup):
        for inner in problem.exceptions:
            _raise_others(inner)
    elif not isinstance(problem, (_Broken, Flaky)):
        raise problem


class _Tally:
    """The counts of a search, and the smallest conversation of each cause."""

    def __init__(
        self, budget: int, tell: Callable[[int, int], None], is_late: Callable[[], bool]
    ) -> None:
        self._budget, self._tell, self._is_late = budget, tell, is_late
        self._runs = self._turns = self._calls = 0
        self._fresh = 0
        """The number of runs before the first new cause of each round: the others make it small."""
        self._counts: Counter[Cause] = Counter()
        self._first: dict[Cause, int] = {}
        self._smallest: dict[Cause, tuple[_Size, ExploredRun]] = {}
        self._types: dict[Cause, type[_Broken]] = {}
        self._reach = Reach()
        self._settled: set[Cause] = set()
        """The causes of earlier rounds."""

    @property
    def causes(self) -> set[Cause]:
        """Return the causes that were met."""
        return {*self._counts}

    @property
    def left(self) -> int:
        """Return how many conversations may still be drawn."""
        return max(self._budget - self._fresh, 1)

    @property
    def is_spent(self) -> bool:
        """Return whether all conversations were drawn."""
        return self._fresh >= self._budget

    def check_time(self) -> None:
        """Raise KeyboardInterrupt when the time is over: Hypothesis lets it pass."""
        if self._is_late():
            raise KeyboardInterrupt

    def begin_round(self) -> None:
        """Look past the causes that were met."""
        self._settled = self.causes

    def add(self, record: ExploredRun, plan: Plan) -> None:
        """Count a conversation; raise the first cause that is new in this round."""
        self.count(record, _size(record, plan))
        for cause in record.causes:
            if cause not in self._settled:
                raise self._type_of(cause)(cause.id)

    def count(self, record: ExploredRun, size: _Size) -> None:
        """Count a conversation; keep it if it is the smallest one of a cause."""
        self._runs += 1
        self._fresh += self.causes == self._settled
        self._turns += len(record.turns)
        self._calls += record.model_calls
        self._reach = self._reach.joined(record.reach)
        for cause in record.causes:
            self._counts[cause] += 1
            self._first.setdefault(cause, self._runs)
            known = self._smallest.get(cause)
            if known is None or size < known[0]:
                self._smallest[cause] = size, record
        self._tell(self._runs, len(self._counts))

    def _type_of(self, cause: Cause) -> type[_Broken]:
        return self._types.setdefault(cause, type(f"Broken{len(self._types)}", (_Broken,), {}))

    def campaign(self, *, is_stopped: bool) -> Campaign:
        """Return the result."""
        discoveries = (
            Discovery(cause, self._smallest[cause][1], self._counts[cause], first)
            for cause, first in self._first.items()
        )
        return Campaign(
            tuple(discoveries), self._runs, self._turns, self._calls, self._reach, is_stopped
        )


def reply_lines(turns: Sequence[Mapping[str, Any]]) -> int:
    """Return the number of reply lines of a script's turns."""
    replies = [given for turn in turns for given in turn.get("replies", {}).values()]
    return sum(len(given) if isinstance(given, list) else 1 for given in replies)


def _size(record: ExploredRun, plan: Plan) -> _Size:
    """Return the turns and reply lines of a conversation, and how far it is from the simplest."""
    numbers = [plan.personas, *plan.enabled]
    for turn in plan.turns:
        numbers += [turn.user, turn.orders, *turn.answers, *turn.results, *turn.rare]
    return len(record.turns), reply_lines(record.turns), sum(numbers)


def _numbers(most: int) -> strategies.SearchStrategy[int]:
    return strategies.integers(_FAR, _FAR + most).map(lambda number: number - _FAR)


def _plans(turns_max: int, rare: int) -> strategies.SearchStrategy[Plan]:
    """Return the plans of conversations; numbers of what is rare only where something can be."""
    number = _numbers(NUMBER_MAX)
    numbers = strategies.lists(number, max_size=ANSWERS_MAX).map(tuple)
    odds = strategies.lists(_numbers(ODDS - 1), max_size=ANSWERS_MAX + 1).map(tuple)
    turn = strategies.builds(
        TurnPlan,
        user=number,
        orders=number,
        answers=numbers,
        results=numbers,
        rare=odds if rare else strategies.just(()),
    )
    return strategies.builds(
        Plan,
        turns=strategies.lists(turn, min_size=1, max_size=turns_max).map(tuple),
        personas=number,
        enabled=strategies.tuples(*[strategies.booleans()] * rare),
    )
