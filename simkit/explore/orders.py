"""The order in which the models of an explored conversation are answered, and how it is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from simkit.explore.choices import Choices
from simkit.runtime.ports import WaitingCall
from simkit.runtime.schedules import Below, Blocks, Pick, any_of, names_of, pick_of
from simkit.spec.scenario.moments import FIFO, TOOL_MARK

OFTEN: Final = 8
"""In one of so many turns calls do not wait."""
TOGETHER: Final = 4
"""One of so many answers of drawn conversations comes together with all others that wait."""


class _Answered(NamedTuple):
    """A call that was answered."""

    name: str
    waiting: int
    """The number of calls that waited, itself among them."""
    group: int
    """The number of its answer in the turn; calls that were answered together have the same."""


class OrderChoices:
    """A schedule whose choices are those of a conversation; it keeps the names of a turn."""

    orders_tools = True

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
        self._pick: Pick | None = None
        self._place = 0
        self._turns: dict[int, list[_Answered]] = {}
        """For each turn the calls that were answered."""
        self._again: list[_Answered] | None = None
        """The rest of the order in which a turn that runs again first ran; None in a new turn."""
        self._group = 0
        """The number of the answer that is given now."""
        self._is_together = False
        """Whether all calls that wait now are answered together."""
        self._is_first = False
        """Whether the last answer was that of the call that was made first."""

    def begin_turn(self, place: int) -> None:
        """Begin a turn with its choices, or run one again, in a new process, as it ran."""
        self._again, self._place = None, place
        self._group, self._is_together = 0, False
        if place in self._turns:
            self._again = [*self._turns[place]]
            self.answers_at_once = not self._again
            return
        self._pick = None if self._word == FIFO else self._pick_of(self._choices().below)
        self.answers_at_once = self._pick is None
        self._turns[place] = []

    def _pick_of(self, below: Below) -> Pick | None:
        if self._is_each:
            return Blocks(below) if self._commutes else any_of(below)
        if self._may_be_at_once and not below(OFTEN):
            return None
        return pick_of(self._word, below)

    def pick(self, waiting: Sequence[WaitingCall]) -> int:
        """Return the index of the call that is answered next."""
        names = names_of(waiting)
        if self._again is not None:
            answered = self._again.pop(0) if self._again else _Answered("", 0, -1)
            self._group = answered.group
            return names.index(answered.name) if answered.name in names else 0
        place = self._pick(waiting) if self._pick is not None and not self._is_together else 0
        self._is_first = place == 0
        answers = self._turns[self._place]
        self._group += not self._is_together
        answers.append(_Answered(names[place], len(waiting), self._group))
        if len(waiting) == 1:
            self._is_together = False
        return place

    def joins(self) -> bool:
        """Return whether the next call is answered together with the last one: with one, all are.

        Code that gives way for no time, `await asyncio.sleep(0)`, meets other code only so.
        They are so in the order in which they were made, exhaustively once in a turn: two parts of
        code that meet once show a lost update.
        """
        if self._again is not None:
            return bool(self._again) and self._again[0].group == self._group
        may = self._is_first and not (self._is_each and self._was_together())
        if may and not self._is_together:
            count = 2 if self._is_each else TOGETHER
            self._is_together = self._choices().below(count) == count - 1
        return self._is_together

    def _was_together(self) -> bool:
        answers = self._turns[self._place]
        return len({answered.group for answered in answers}) < len(answers)

    def end_turn(self) -> None:
        """Do nothing: there are no names that could be left over."""

    def order_of(self, turn: int) -> list[str | list[str]]:
        """Return the list by which a scenario's turn repeats the order, up to its last choice.

        It is empty if no two calls have waited at the same time. Where tools have waited, it has
        the last one of them: tools wait in turns whose list names one, and in no other.
        """
        answers = self._turns.get(turn, [])
        if all(answered.waiting == 1 for answered in answers):
            return []
        groups = [[*group] for _, group in groupby(answers, key=lambda answered: answered.group)]
        last = max(
            number
            for number, group in enumerate(groups, 1)
            if any(each.waiting > 1 or TOOL_MARK in each.name for each in group)
        )
        names = [[answered.name for answered in group] for group in groups[:last]]
        return [group if len(group) > 1 else group[0] for group in names]
