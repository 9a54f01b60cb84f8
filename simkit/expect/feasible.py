"""Whether what a claim denies has a shape that the values it speaks of ever had.

``reply: {$not: {$has: [x]}}`` proves nothing where no reply was a list, nor does a denial under
``interrupt`` where nobody was asked anything. ``vacuous`` looks for texts and names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from simkit import events as e
from simkit.expect.scope import Path
from simkit.json_schema import is_array, is_object
from simkit.matching.compiling import is_operator
from simkit.matching.general import TYPE_NAMES
from simkit.matching.values import Said, number_of
from simkit.messages import ABSENT
from simkit.paths import getter
from simkit.views import View

_LISTS: Final = ("$each", "$has", "$in_order", "$unordered")
_MAPPINGS: Final = ("$exact", "$keys")
_NUMBERS: Final = ("$gt", "$gte", "$lt", "$lte", "$approx")
_ALTERNATIVES: Final = ("$either", "$in")
_SAY_NOTHING: Final = ("$any", "$absent", "$not", "$ne", "$schema")
"""Operators that hold of values of any shape."""


class Candidates:
    """The values of a trace that claims speak of, by claim; each kind is collected once."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._known: dict[tuple[str, ...], list[Any]] = {}

    def could_be(self, matcher: Any, path: Path, turn: int) -> bool:
        """Whether a value at a claim's place ever had the shape that a matcher asks for.

        ``path`` leads from `expect` to the matcher; a place inside of an operator is not looked at.
        """
        key, inside = _split(path)
        if key is None or any(not isinstance(step, str) or is_operator(step) for step in inside):
            return True
        values = self._values(key, turn)
        for step in inside:
            get = getter(str(step))
            values = [get(_read(value)) for value in values]
        return any(_has_shape(matcher, value) for value in values if value is not ABSENT) or (
            _says_nothing(matcher)
        )

    def _values(self, key: tuple[str, ...], turn: int) -> list[Any]:
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = list(_COLLECTED[key](self._view))
        if key == ("state",):
            turns = self._view.turns
            state = turns[turn - 1].state if 0 < turn <= len(turns) else self._view.state_at_end()
            return [state, *found]
        return found


def _split(path: Path) -> tuple[tuple[str, ...] | None, Path]:
    """Returns which values a claim speaks of, and where in them."""
    head = str(path[0])
    if head in ("runs", "context"):
        key = (head, str(path[2]))
        return (key if key in _COLLECTED else None), path[3:]
    return ((head,) if (head,) in _COLLECTED else None), path[1:]


def _replies(view: View) -> Iterator[Any]:
    for turn in view.turns:
        yield turn.reply
        yield from (run.output for run in turn.runs)


def _errors(view: View) -> Iterator[Any]:
    found = [*(turn.error for turn in view.turns), view.error]
    yield from (msgspec.to_builtins(one) for one in found if one is not None)


def _updates(view: View) -> Iterator[Any]:
    yield from (event.update for event in view.events if isinstance(event, e.StateUpdated))


def _of_runs(name: str) -> Callable[[View], Iterator[Any]]:
    def values(view: View) -> Iterator[Any]:
        for turn in view.turns:
            for run in turn.runs:
                if name != "reply":
                    yield getattr(run, name)
                elif run.message is not None:
                    yield Said(run.message.content, run.message.data)

    return values


_COLLECTED: Final[Mapping[tuple[str, ...], Callable[[View], Iterator[Any]]]] = {
    ("reply",): _replies,
    ("interrupt",): lambda view: (turn.interrupt for turn in view.turns),
    ("error",): _errors,
    ("state",): _updates,
    ("context", "settings"): lambda view: (
        call.context.settings or {} for call in view.calls.values()
    ),
    **{("runs", name): _of_runs(name) for name in ("input", "output", "reply")},
}


def _read(value: Any) -> Any:
    return value.structure if isinstance(value, Said) else value


def _says_nothing(matcher: Any) -> bool:
    """Whether a matcher asks for no shape, as ``{$any: true}`` and null do."""
    if isinstance(matcher, Mapping):
        return all(key in _SAY_NOTHING for key in matcher)
    return matcher is None


def _has_shape(matcher: Any, value: Any) -> bool:
    if value is None:
        return _says_nothing(matcher)
    read = _read(value)
    if isinstance(matcher, (list, tuple)):
        return is_array(read) and not isinstance(value, str)
    if isinstance(matcher, Mapping):
        return all(_fits(key, operand, value, read) for key, operand in matcher.items())
    return True


def _fits(key: str, operand: Any, value: Any, read: Any) -> bool:
    if not is_operator(key):
        return is_object(read) and _has_shape_at(key, operand, read)
    if key in _LISTS:
        return is_array(read)
    if key in _MAPPINGS:
        return is_object(read)
    if key in _NUMBERS:
        return number_of(read) is not None
    if key == "$type":
        return bool(TYPE_NAMES[operand](read) or TYPE_NAMES[operand](value))
    if key in _ALTERNATIVES:
        return any(_has_shape(one, value) for one in operand)
    if key == "$all":
        return all(_has_shape(one, value) for one in operand)
    if key == "$eq" and not isinstance(operand, (str, int, float)):
        return operand is None or is_object(operand) is is_object(read)
    return True


def _has_shape_at(key: str, operand: Any, read: Mapping[str, Any]) -> bool:
    inner = getter(key.removeprefix("$") if key.startswith("$$") else key)(read)
    return inner is not ABSENT and _has_shape(operand, inner)
