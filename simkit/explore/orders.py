"""The order in which the models of an explored conversation are answered, and how it is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from simkit.explore.choices import Choices
from simkit.runtime.ports import WaitingCall
from simkit.runtime.schedules import Below, Blocks, Pick, any_of, names_of, pick_of
from simkit.spec.scenario.moments import FIFO, TOOL_MARK

OFTEN: Final = 8
"""In one of so many turns calls do not wait."""


class OrderChoices:
    """A schedule whose choices are those of a conversation; it keeps the names of a turn."""

    def __init__(
        self,
        word: str,
        choices: Callable[[], Choices],
        *,
        is_each: bool,
        commutes: bool,
        may_be_at_once: bool,
    ) -> None:
        """``choices`` returns those of the turn. With ``is_each`` they take every order in turn.

        With ``may_be_at_once`` the simplest choice is that calls do not wait for each other, which
        a scenario need not say. Code then asks in an order that may depend on what its clients have
        cached.


        If what parallel agents do ``commutes``, every order in which they end is enough.
        """
        self._word, self._choices, self._is_each, self._commutes = word, choices, is_each, commutes
        self._may_be_at_once = may_be_at_once
        self.answers_at_once = True
        """Whether calls are answered at once, and `pick` is not called."""
        self._begins_tools_at_once: dict[int, bool] = {}
        """For each turn in which code called a tool, whether its tools did not wait."""
        self._pick: Pick | None = None
        self._place = 0
        self._turns: dict[int, list[tuple[str, int]]] = {}
        """For each turn and call its name, and the number of calls that waited."""
        self._again: list[str] | None = None
        """The rest of the order in which a turn that runs again first ran; None in a new turn."""

    def begin_turn(self, place: int) -> None:
        """Begin a turn with its choices, or run one again, in a new process, as it ran."""
        self._again, self._place = None, place
        if place in self._turns:
            self._again = [name for name, _ in self._turns[place]]
            self.answers_at_once = not self._again
            return
        self._pick = None if self._word == FIFO else self._pick_of(self._choices().below)
        self.answers_at_once = self._pick is None
        self._turns[place] = []

    @property
    def orders_tools(self) -> bool:
        """Whether tools wait, too. Code is asked at a turn's first one, and now and then not.

        Tools that begin one after the other never meet in the middle of their work: what one loses
        to another there happens only when they begin together.
        """
        if self._may_be_at_once or self._word == FIFO:
            return True
        place, chosen = self._place, self._begins_tools_at_once
        if place not in chosen:
            below = self._choices().below
            chosen[place] = below(2) == 1 if self._is_each else below(OFTEN) == OFTEN - 1
        return not chosen[place]

    def _pick_of(self, below: Below) -> Pick | None:
        if self._is_each:
            return Blocks(below) if self._commutes else any_of(below)
        if self._may_be_at_once and not below(OFTEN):
            return None
        return pick_of(self._word, below)

    def pick(self, waiting: Sequence[WaitingCall]) -> int:
        """Return the index of the call that is answered next."""
        if self._again is not None:
            name, names = self._again.pop(0) if self._again else "", names_of(waiting)
            return names.index(name) if name in names else 0
        place = self._pick(waiting) if self._pick is not None else 0
        self._turns[self._place].append((names_of(waiting)[place], len(waiting)))
        return place

    def end_turn(self) -> None:
        """Do nothing: there are no names that could be left over."""

    def order_of(self, turn: int) -> list[str]:
        """Return the list by which a scenario's turn repeats the order, up to its last choice.

        It is empty if no two calls have waited at the same time. Where tools have waited, it has
        the last one of them: tools wait in turns whose list names one, and in no other.
        """
        calls = self._turns.get(turn, [])
        if self._begins_tools_at_once.get(turn):
            # Where calls of models are listed alone, they wait, and tools do not.
            return [name for name, _ in calls]
        if all(count == 1 for _, count in calls):
            return []
        last = max(n for n, (name, count) in enumerate(calls, 1) if count > 1 or TOOL_MARK in name)
        return [name for name, _ in calls[:last]]
