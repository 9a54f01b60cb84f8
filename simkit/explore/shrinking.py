"""Shrinking: the smallest conversation that still shows a cause.

A tape says which choices a conversation used, so whole turns and answers can be cut out of it, and
each choice can be made a simpler one. Many are tried at once first, then half as many: most of a
long conversation does not matter, and short ones are run faster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from simkit.explore.causes import Cause
from simkit.explore.choices import AnswerLog, ChoiceLog, TurnLog
from simkit.explore.chunks import Size, size_of
from simkit.explore.conversations import ExploredRun

TRIES_MAX: Final = 600
"""The number of conversations that are run to make one small."""
TURNS_MAX: Final = 6000
"""The number of turns of all of them."""
_LOWER_MAX: Final = 4
"""The number of simpler values of a choice that are tried one by one."""
_KINDS_MAX: Final = 8
"""The number of kinds of turns of which all are cut at once."""
TurnKind: TypeAlias = frozenset[tuple[str, str]]
"""The agents that answer in a turn, each with a way in which it does."""


class _Spent(Exception):
    """There are no tries left."""


class Shrinker:
    """Looks for the smallest conversation that shows a cause."""

    def __init__(
        self,
        run: Callable[[ChoiceLog], ExploredRun],
        cause: Cause,
        is_late: Callable[[], bool] = lambda: False,
    ) -> None:
        """It ends early when ``is_late`` returns true."""
        self._run, self._cause, self._is_late = run, cause, is_late
        self._tries, self._turns = TRIES_MAX, TURNS_MAX
        self._known: set[ChoiceLog] = set()
        """Tapes that were tried."""
        self._size: Size | None = None
        self._turn = 0
        """The number of the turn that shows the cause; 0 if it is not one turn."""
        self._kinds: Sequence[TurnKind] = ()
        """The kind of each turn of the smallest one so far."""
        self.best = ChoiceLog()
        """The smallest one so far."""

    def _takes(self, tape: ChoiceLog) -> bool:
        """Return whether a tape shows the cause and is smaller than the best; then it is that."""
        if tape in self._known:
            return False
        if not self._tries or self._turns <= 0 or self._is_late():
            raise _Spent
        self._known.add(tape)
        record = self._run(tape)
        self._tries -= 1
        self._turns -= len(record.turns)
        finding = record.causes.get(self._cause)
        size = size_of(record)
        if finding is None or (self._size is not None and size >= self._size):
            return False
        self._known.add(record.tape)
        self.best, self._size, self._turn = record.tape, size, finding.turn
        self._kinds = [*map(_kind_of, record.turns)]
        return True

    def shrink(self, tape: ChoiceLog) -> ChoiceLog:
        """Make a tape smaller until nothing helps; return the smallest.

        One that shows the cause only now and then stays as it is.
        """
        self.best = tape
        with suppress(_Spent):
            self._try_all(tape)
        return self.best

    def _try_all(self, tape: ChoiceLog) -> None:
        if not self._takes(tape):
            return
        if self._turn:
            self._try_turns(self.best.turns[: self._turn])
        self._keep_last()
        self._cut_alike()
        before = None
        while before != self._size:
            before = self._size
            self._cut_turns()
            self._simplify_turns()
            self._simplify_answers()
            self._lower_digits()

    def _cut_alike(self) -> None:
        """Cut all turns in which the same happens, those first of which there are most.

        Most of a long conversation is alike, and what matters stands at regular places in it, which
        every long part contains.
        """
        for kind, count in Counter(self._kinds).most_common(_KINDS_MAX):
            if count == 1:
                break
            turns = zip(self.best.turns, self._kinds, strict=False)
            if others := [turn for turn, own in turns if own != kind]:
                self._try_turns(others)

    def _keep_last(self) -> None:
        """Try the turn that shows the cause, then it and one before, then more of them."""
        count = 1
        while count < len(self.best.turns):
            if self._try_turns(self.best.turns[-count:]):
                return
            count *= 2

    def _try_turns(self, turns: Sequence[TurnLog]) -> bool:
        return self._takes(replace(self.best, turns=tuple(turns)))

    def _cut_turns(self) -> None:
        for start, end in _ranges(lambda: len(self.best.turns)):
            turns = self.best.turns
            if end - start < len(turns):
                self._try_turns(turns[:start] + turns[end:])

    def _simplify_turns(self) -> None:
        """Make the choices of one kind the simplest, in all turns at once, then in fewer."""
        if self.best.personas:
            self._takes(replace(self.best, personas=()))
        for simpler in _SIMPLER_TURNS:
            for start, end in _ranges(lambda: len(self.best.turns)):
                turns = self.best.turns
                self._try_turns((*turns[:start], *map(simpler, turns[start:end]), *turns[end:]))

    def _simplify_answers(self) -> None:
        """Cut answers of one turn, and make them the simplest ones."""
        for index in reversed(range(len(self.best.turns))):
            for changed in _CHANGED_ANSWERS:
                # The tape that was taken last may end earlier.
                for start, end in _ranges(partial(self._count, index)):
                    turns = self.best.turns
                    turn = changed(turns[index], start, end)
                    self._try_turns((*turns[:index], turn, *turns[index + 1 :]))

    def _count(self, index: int) -> int:
        """Return how many answers of models or tools a turn has."""
        if index >= len(self.best.turns):
            return 0
        turn = self.best.turns[index]
        return max(len(turn.answers), len(turn.results))

    def _lower_digits(self) -> None:
        """Make single choices simpler."""
        number = 0
        while number < len(parts := _parts(self.best)):
            for index in reversed(range(len(parts[number]))):
                self._lower_digit(number, index)
            number += 1

    def _lower_digit(self, number: int, index: int) -> None:
        parts = _parts(self.best)
        digits = parts[number] if number < len(parts) else ()
        if index >= len(digits) or not (digit := digits[index]):
            return
        lower = sorted({*range(min(digit, _LOWER_MAX)), digit // 2, digit - 1})
        for value in lower:
            parts[number] = (*digits[:index], value, *digits[index + 1 :])
            if self._takes(_with_parts(self.best, parts)):
                return


def _kind_of(turn: Mapping[str, Any]) -> TurnKind:
    """Return what happens in a turn of a script: who answers by a text, a tool or a handoff."""
    kind: set[tuple[str, str]] = {(key, "") for key in turn if key not in ("user", "replies")}
    for agent, given in turn.get("replies", {}).items():
        for line in given if isinstance(given, list) else [given]:
            ways = line if isinstance(line, Mapping) else ("text",)
            kind.update((agent, str(way)) for way in ways)
    return frozenset(kind)


def _ranges(count: Callable[[], int]) -> Iterator[tuple[int, int]]:
    """Yield parts of something from its end: all of it, both halves, quarters, and so on.

    ``count`` returns its length, which may change meanwhile.
    """
    size = count()
    while size:
        end = count()
        while end > 0:
            start = max(end - size, 0)
            yield start, end
            end = min(start, count())
        size //= 2


def _expected_answers(turn: TurnLog, start: int, end: int) -> TurnLog:
    expected = (replace(answer, oddity="") for answer in turn.answers[start:end])
    return replace(turn, answers=(*turn.answers[:start], *expected, *turn.answers[end:]))


def _simplest_answers(turn: TurnLog, start: int, end: int) -> TurnLog:
    simplest = (AnswerLog(oddity=answer.oddity) for answer in turn.answers[start:end])
    return replace(turn, answers=(*turn.answers[:start], *simplest, *turn.answers[end:]))


def _simplest_results(turn: TurnLog, start: int, end: int) -> TurnLog:
    simplest = ((),) * len(turn.results[start:end])
    return replace(turn, results=(*turn.results[:start], *simplest, *turn.results[end:]))


_SIMPLER_TURNS: Final[tuple[Callable[[TurnLog], TurnLog], ...]] = (
    lambda turn: TurnLog(user=turn.user),
    lambda turn: replace(_expected_answers(turn, 0, len(turn.answers)), fate=""),
    lambda turn: replace(turn, results=()),
    lambda turn: replace(turn, orders=()),
    lambda turn: replace(turn, user=()),
)
_CHANGED_ANSWERS: Final[tuple[Callable[[TurnLog, int, int], TurnLog], ...]] = (
    lambda turn, start, end: replace(turn, answers=turn.answers[:start] + turn.answers[end:]),
    lambda turn, start, end: replace(turn, results=turn.results[:start] + turn.results[end:]),
    _simplest_answers,
    _simplest_results,
    _expected_answers,
)


def _parts(tape: ChoiceLog) -> list[tuple[int, ...]]:
    """Return the digits of a tape, choice by choice."""
    parts = [tape.personas]
    for turn in tape.turns:
        parts += [turn.user, turn.orders, *(answer.digits for answer in turn.answers)]
        parts += turn.results
    return parts


def _with_parts(tape: ChoiceLog, parts: Sequence[tuple[int, ...]]) -> ChoiceLog:
    """Return a tape with other digits, which are as many choices."""
    digits = iter(parts)
    personas = next(digits)
    turns = [
        TurnLog(
            next(digits),
            next(digits),
            turn.fate,
            tuple(AnswerLog(next(digits), answer.oddity) for answer in turn.answers),
            tuple(next(digits) for _ in turn.results),
        )
        for turn in tape.turns
    ]
    return ChoiceLog(tuple(turns), personas)
