"""Feasibility of a denial: whether any value had the shape that the denial mentions.

``reply: {$not: {$has: [x]}}`` proves nothing if no reply was a list, nor does a denial under
``interrupt`` if no agent asked a question. ``vacuous`` searches for texts and names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from simkit.checks.scope import Path
from simkit.core.messages import ABSENT, Dropped, Message, ToolCall, value_said
from simkit.language.json_schema import is_array, is_object
from simkit.language.matching.compiling import is_operator
from simkit.language.matching.general import TYPE_NAMES
from simkit.language.matching.values import Content, number_of
from simkit.language.paths import getter
from simkit.trace import events as e
from simkit.trace.views import View

_LISTS: Final = ("$each", "$has", "$in_order", "$unordered")
_MAPPINGS: Final = ("$exact", "$keys")
_NUMBERS: Final = ("$gt", "$gte", "$lt", "$lte", "$approx")
_ALTERNATIVES: Final = ("$either", "$in")
_OF_VALUE: Final = ("$not", "$all", "$either", "$exact")
"""Operators whose operands are matched with the value itself."""
_LEADING: Final = (*_LISTS, *_OF_VALUE)
_SAY_NOTHING: Final = ("$any", "$absent", "$not", "$ne", "$schema")
"""Operators that hold for values of any shape."""
_OF_LEFT_OUT: Final = (
    "section",
    "channel",
    "by",
    "path",
    "items",
    "characters",
    "text",
    "agent",
)
"""Fields of an entry of `left_out` beside those of the item."""
_OF_ABSENT: Final = ("$absent", "$not", "$ne", "$either", "$all")
"""Operators that may hold for an absent value."""


class Candidates:
    """The values of a trace by claim; each kind is collected once."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._known: dict[tuple[str, ...], list[Any]] = {}

    def could_be(self, matcher: Any, path: Path, turn: int) -> bool:
        """Return whether a value at a claim's place ever had the shape of a matcher.

        ``path`` leads from `expect` to the matcher, through operators too.
        """
        key, inside = _split(path)
        if key is None or any(
            is_operator(step) and step not in _LEADING for step in _texts(inside)
        ):
            return True
        values: Iterable[Any] = self._values(key, turn)
        for place, step in enumerate(inside):
            before = inside[place - 1] if place else ""
            if isinstance(step, int):
                # Below a list's operators the values are elements already.
                if before not in _LISTS and before not in _OF_VALUE:
                    values = _elements(values)
            elif step in _LISTS:
                values = _elements(values)
            elif not is_operator(step):
                values = _at(step, values)
        values = list(values)
        if not values and any(isinstance(step, int) or step in _LISTS for step in inside):
            return True  # No list had elements, so that their shape is unknown.
        candidates = (value for value in values if value is not ABSENT)
        return any(_has_shape(matcher, value) for value in candidates) or _says_nothing(matcher)

    def _values(self, key: tuple[str, ...], turn: int) -> list[Any]:
        values = self._known.get(key)
        if values is None:
            values = self._known[key] = list(COLLECTED[key](self._view))
        if key == ("state",):
            turns = self._view.turns
            state = turns[turn - 1].state if 0 < turn <= len(turns) else self._view.state_at_end()
            return [state, *values]
        return values


def _texts(path: Path) -> Iterator[str]:
    yield from (step for step in path if isinstance(step, str))


def _elements(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the elements of the lists among some values."""
    for value in values:
        read = _read(value)
        if is_array(read):
            yield from read


def _at(key: str, values: Iterable[Any]) -> Iterator[Any]:
    """Yield the values under a key; of messages nothing is known here."""
    get = getter(key.removeprefix("$") if key.startswith("$$") else key)
    for value in values:
        yield _UNKNOWN if value is _UNKNOWN or _is_spoken(value) else get(_read(value))


def _is_spoken(value: Any) -> bool:
    """Return whether it is a message or a call, whose keys are checked before the run."""
    return isinstance(value, (Message, Dropped, ToolCall)) or (
        isinstance(value, Mapping) and "role" in value and "content" in value
    )


def _split(path: Path) -> tuple[tuple[str, ...] | None, Path]:
    """Return the kind of values that a claim concerns, and the path in them."""
    head = str(path[0])
    if head in ("runs", "context"):
        key = (head, str(path[2]))
        return (key if key in COLLECTED else None), path[3:]
    return ((head,) if (head,) in COLLECTED else None), path[1:]


def _replies(view: View) -> Iterator[Any]:
    for turn in view.turns:
        yield turn.reply
        yield from (run.output for run in turn.runs)


def _errors(view: View) -> Iterator[Any]:
    errors = [*(turn.error for turn in view.turns), view.error]
    yield from (msgspec.to_builtins(error) for error in errors if error is not None)


def _updates(view: View) -> Iterator[Any]:
    for event in view.events:
        if isinstance(event, e.StateUpdated):
            yield view.new_parts(event)[0]


def of_runs(name: str) -> Callable[[View], Iterator[Any]]:
    """Return what yields what all runs have under a name."""

    def values(view: View) -> Iterator[Any]:
        for turn in view.turns:
            for run in turn.runs:
                if name != "reply":
                    yield getattr(run, name)
                elif run.message is not None:
                    yield Content(run.message.content, value_said(run.message))

    return values


def _left_out(view: View) -> Iterator[Any]:
    own = dict.fromkeys(_OF_LEFT_OUT, _UNKNOWN)
    yield [own]
    for update in _updates(view):
        yield from ([{**item, **own}] for item in _mappings_in(update))


def _mappings_in(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        yield value
        value = list(value.values())
    if is_array(value):
        for element in value:
            yield from _mappings_in(element)


COLLECTED: Final[Mapping[tuple[str, ...], Callable[[View], Iterator[Any]]]] = {
    ("reply",): _replies,
    ("interrupt",): lambda view: (turn.interrupt for turn in view.turns),
    ("error",): _errors,
    ("state",): _updates,
    ("context", "left_out"): _left_out,
    ("context", "settings"): lambda view: (
        call.context.settings or {} for call in view.calls.values()
    ),
    **{("runs", name): of_runs(name) for name in ("input", "goal", "output", "reply")},
}


def _read(value: Any) -> Any:
    return value.structure if isinstance(value, Content) else value


_UNKNOWN: Final = object()
"""A value of unknown shape: it may match."""


def _says_nothing(matcher: Any) -> bool:
    """Return whether a matcher requires no shape, as ``{$any: true}`` and null."""
    if isinstance(matcher, Mapping):
        return all(key in _SAY_NOTHING for key in matcher)
    return matcher is None


def _has_shape(matcher: Any, value: Any) -> bool:
    if value is None:
        return _says_nothing(matcher)
    if value is _UNKNOWN:
        return True
    read = _read(value)
    if isinstance(matcher, (list, tuple)):
        return is_array(read) and not isinstance(value, str) and _have_shapes(matcher, read)
    if isinstance(matcher, Mapping):
        return all(_fits(key, operand, value, read) for key, operand in matcher.items())
    return True


def _fits(key: str, operand: Any, value: Any, read: Any) -> bool:
    if not is_operator(key):
        if _is_spoken(read):
            return True
        return is_object(read) and _has_shape_at(key, operand, read)
    if key in _LISTS:
        operands = operand if isinstance(operand, (list, tuple)) else [operand]
        return is_array(read) and (not read or _have_shapes(operands, read))
    if key == "$unique":
        return is_array(read)
    if key in _MAPPINGS:
        return is_object(read)
    if key in _NUMBERS:
        return number_of(read) is not None
    if key == "$type":
        return bool(TYPE_NAMES[operand](read) or TYPE_NAMES[operand](value))
    if key in _ALTERNATIVES:
        return any(_has_shape(element, value) for element in operand)
    if key == "$all":
        return all(_has_shape(element, value) for element in operand)
    if key == "$eq" and not isinstance(operand, (str, int, float)):
        return operand is None or is_object(operand) is is_object(read)
    return True


def _have_shapes(expected: Iterable[Any], elements: Sequence[Any]) -> bool:
    """Return whether, for each matcher, some element has its shape."""
    return all(any(_has_shape(shape, element) for element in elements) for shape in expected)


def _has_shape_at(key: str, operand: Any, read: Mapping[str, Any]) -> bool:
    inner = getter(key.removeprefix("$") if key.startswith("$$") else key)(read)
    if inner is ABSENT:
        return not _asks(operand)
    return _has_shape(operand, inner)


def _asks(matcher: Any) -> bool:
    """Return whether a matcher fails for an absent value."""
    if isinstance(matcher, Mapping):
        return not any(key in _OF_ABSENT for key in matcher)
    return True
