"""Schedules: which of the model calls that wait at the same time is answered next.

A call waits until everything that runs has come to rest, so that a schedule chooses among all
calls that could be next. The order in which calls are made is the order of ``waiting``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Final, TypeAlias

from simkit.core.errors import ScriptMisfit
from simkit.core.rng import Chance
from simkit.runtime.ports import WaitingCall
from simkit.spec.scenario.moments import FIFO, TOOL_MARK, flat_order

CHANGES: Final = 1
"""The number of times in a turn that `Pct` lowers a priority: a bug of depth 2 needs one."""
STEPS: Final = 12
"""The number of choices in a turn at which `Pct` may lower a priority."""

DECLARED_TOOLS: Final = (
    "In a declared pipeline a tool waits only beside others: one that its model calls alone is "
    "carried out at once."
)
"""When a call of a declared pipeline's tool waits."""
CODE_TOOLS: Final = (
    "A tool of code waits if simkit sees its call: its framework's adapter reports it, or the tool "
    "is under `app: {tools: …}`."
)
"""When a call of a tool of code waits."""

Below: TypeAlias = Callable[[int], int]
"""Function that returns a number from 0 to below its argument; 0 is the simplest."""
Pick: TypeAlias = Callable[[Sequence[WaitingCall]], int]


class Fifo:
    """The schedule that answers calls at once."""

    answers_at_once = True
    orders_tools = False

    def begin_turn(self, index: int) -> None:
        """Do nothing: all turns are alike."""

    def pick(self, waiting: Sequence[WaitingCall]) -> int:
        """Return 0, the first."""
        return 0

    def joins(self) -> bool:
        """Return False: no call has waited."""
        return False

    def end_turn(self) -> None:
        """Do nothing: no name can be left over."""


class ScenarioSchedule:
    """The schedule of a scenario: the names that a turn lists, else the scenario's word."""

    def __init__(
        self,
        word: str,
        turns: Sequence[tuple[str, Sequence[str | Sequence[str]]]],
        seed: int,
        about_tools: str = DECLARED_TOOLS,
    ) -> None:
        """``turns`` has the session of each turn and the names that it lists; it may grow.

        ``about_tools`` says when a call of a tool waits, for a list that names one that does not.
        """
        self._word, self._turns, self._seed = word, turns, seed
        self._about_tools = about_tools
        self.answers_at_once = word == FIFO
        """Whether calls are answered at once, and `pick` is not called."""
        self.orders_tools = word != FIFO
        """Whether calls of tools wait, too: a list that names none was written for models."""
        self._names: _Names | None = None
        self._pick: Pick | None = None

    def begin_turn(self, index: int) -> None:
        """Begin the turn at this index."""
        session, names = self._turns[index]
        self._names = self._pick = None
        if names:
            self._names = self._pick = _Names(names, index, self._about_tools)
        elif self._word != FIFO:
            # The random numbers of a session are the same if others are left out.
            number = sum(session == other for other, _ in self._turns[:index])
            chance = Chance(self._seed).child(f"schedule/{session}/{number}")
            self._pick = pick_of(self._word, chance.random.randrange)
        self.answers_at_once = self._pick is None
        self.orders_tools = not names or any(TOOL_MARK in name for _, name in flat_order(names))

    def pick(self, waiting: Sequence[WaitingCall]) -> int:
        """Return the index of the call that is answered next; raise ScriptMisfit."""
        return self._pick(waiting) if self._pick is not None else 0

    def joins(self) -> bool:
        """Return whether the list names a further call of the group."""
        return self._names is not None and self._names.joins()

    def end_turn(self) -> None:
        """Raise ScriptMisfit if the turn has made fewer calls than it lists."""
        if self._names is not None:
            self._names.end()


def pick_of(word: str, below: Below) -> Pick:
    """Return the way to choose that a word names, other than `FIFO`."""
    return Pct(below) if word == "pct" else any_of(below)


def any_of(below: Below) -> Pick:
    """Return the way to choose any of the calls that wait."""
    return lambda waiting: below(len(waiting))


class Pct:
    """Probabilistic concurrency testing: flows with priorities, which change a few times.

    The flow of the highest priority is answered for as long as it waits. See Burckhardt et al., "A
    Randomized Scheduler with Probabilistic Guarantees of Finding Bugs" (2010).
    """

    def __init__(self, below: Below) -> None:
        self._below = below
        self._change_steps = {below(STEPS) for _ in range(CHANGES)}
        self._flows: list[Hashable] = []
        """The flows, from the highest priority to the lowest."""
        self._steps = 0

    def __call__(self, waiting: Sequence[WaitingCall]) -> int:
        """Return the index of the call that is answered next."""
        flows = self._flows
        for call in waiting:
            if call.flow not in flows:
                flows.insert(len(flows) - self._below(len(flows) + 1), call.flow)
        ranks = [flows.index(call.flow) for call in waiting]
        index = ranks.index(min(ranks))
        if len(waiting) > 1:
            self._steps += 1
            if self._steps in self._change_steps:
                flows.append(flows.pop(ranks[index]))
        return index


class Blocks:
    """Answers a flow for as long as it waits, and then any other one: orders in which flows end."""

    def __init__(self, below: Below) -> None:
        self._below = below
        self._flow: Hashable = None

    def __call__(self, waiting: Sequence[WaitingCall]) -> int:
        """Return the index of the call that is answered next."""
        flows = [call.flow for call in waiting]
        if self._flow not in flows:
            self._flow = flows[self._below(len(flows))]
        return flows.index(self._flow)


def names_of(waiting: Sequence[WaitingCall]) -> list[str]:
    """Return the name of each call: its agent, ``agent[1]`` for its second one that waits."""
    counts: Counter[str] = Counter()
    names = []
    for call in waiting:
        number = counts[call.agent]
        names.append(f"{call.agent}[{number}]" if number else call.agent)
        counts[call.agent] += 1
    return names


_ADVICE: Final = (
    "List the agents in the order in which their calls are answered, every call of the turn; those "
    "at the end may be left out."
)


class _Names:
    """An order that a turn lists; calls beyond it are answered in the order they were made."""

    def __init__(self, names: Sequence[str | Sequence[str]], place: int, about_tools: str) -> None:
        self._paths, self._names = zip(*flat_order(names), strict=True)
        self._turn, self._about_tools = place, about_tools
        self._used = 0

    def joins(self) -> bool:
        """Return whether the next name is in one group with the last one."""
        first, second = self._paths[self._used - 1], self._paths[self._used : self._used + 1]
        return len(first) > 1 and bool(second) and second[0][0] == first[0]

    def __call__(self, waiting: Sequence[WaitingCall]) -> int:
        if self._used == len(self._names):
            return 0
        name, known = self._names[self._used], names_of(waiting)
        if name not in known:
            some = ", ".join(known)
            verb = "waits" if len(known) == 1 else "wait"
            raise ScriptMisfit(
                f"the `schedule` of turn {self._turn + 1} answers '{name}' as call "
                f"{self._used + 1}, but no call of it waits then; {some} {verb}.\n{_ADVICE}"
                f"{self._advice_on([name])}",
                ("turns", self._turn, "schedule", *self._paths[self._used]),
            )
        self._used += 1
        return known.index(name)

    def end(self) -> None:
        """Raise ScriptMisfit if names are left over."""
        unused = self._names[self._used :]
        if unused:
            raise ScriptMisfit(
                f"the `schedule` of turn {self._turn + 1} lists {len(self._names)} calls, but the "
                f"turn made {self._used}: {', '.join(unused)} did not wait for an answer."
                f"{self._advice_on(unused)}",
                ("turns", self._turn, "schedule", *self._paths[self._used]),
            )

    def _advice_on(self, names: Sequence[str]) -> str:
        is_of_tool = any(TOOL_MARK in name for name in names)
        return f"\n{self._about_tools}" if is_of_tool else ""
