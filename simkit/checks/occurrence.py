"""Occurrence of denied values: whether one is anywhere in the run, and whether it could be there.

``messages: {$not: {$has: [{role: tool}]}}`` proves something if any message of the run is a tool's,
``sections: {$not: {$has: [handoff]}}`` if any context has such a section. Elements of a list may
occur separately: each of them could have been there. ``reply: {$not: {$has: [x]}}`` proves nothing
if no reply was a list. ``vacuous`` searches for texts and names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from simkit.checks.claims import FindingBuilder
from simkit.checks.findings import Path
from simkit.core.messages import ABSENT, ToolCall
from simkit.language.json_schema import is_array, is_object
from simkit.language.matching import Matcher, compile_matcher
from simkit.language.matching.operators import OF_ELEMENTS, OF_NUMBERS, TYPE_NAMES, is_operator
from simkit.language.matching.values import Content, ToolName, number_of, texts_in, value_in
from simkit.language.paths import getter, unescaped
from simkit.spec.scenario.claim_kinds import ANY_SHAPE, ClaimKind, contexts_of, runs_of
from simkit.spec.scenario.claims import claim_kind_at, claim_size
from simkit.trace.views import View

_OF_VALUE: Final = ("$not", "$all", "$either", "$in", "$exact")
"""Operators whose operands are matched with the value itself."""
_LEADING: Final = (*OF_ELEMENTS, *_OF_VALUE)
_SAY_NOTHING: Final = ("$any", "$absent", "$not", "$ne", "$schema")
"""Operators that hold for values of any shape."""
_OF_ABSENT: Final = ("$absent", "$not", "$ne", "$either", "$in", "$all")
"""Operators that may hold for an absent value."""


_SHAPES_NEEDED: Final[Mapping[str, Callable[[Any], bool]]] = {
    "$unique": is_array,
    "$exact": is_object,
    "$keys": is_object,
    "$json": lambda value: value_in(value) is not ABSENT or is_object(value) or is_array(value),
    **dict.fromkeys(OF_NUMBERS, lambda value: number_of(value) is not None),
}
"""Operator to whether a value has the only shape that it can hold for."""
_SAME: Final = ("$either", "$all", "$in", "$eq", "$exact")
_LISTING: Final = (*OF_ELEMENTS, *_SAME)
_INDEX: Final = re.compile(r"\[-?\d+\]\.?")


def _values_of(kind: ClaimKind, family: str, view: View) -> Iterable[Any]:
    """Return all values of a kind in a trace, of lists their elements."""
    values: Iterable[Any] = ()
    if kind.values is not None:
        values = kind.values(view)
    elif kind.read is not None:
        values = map(kind.read, runs_of(view) if family == "runs" else contexts_of(view))
        if kind.form == "list":
            values = chain.from_iterable(values)
    return values if kind.other_values is None else chain(values, kind.other_values(view))


class Occurring:
    """A search among all values of a kind; each pattern is searched once."""

    def __init__(self, view: View, builder: FindingBuilder) -> None:
        self._view, self._builder = view, builder
        self._values: dict[ClaimKind, list[Any]] = {}
        self._holds: dict[tuple[ClaimKind, Matcher], bool] = {}

    def occurs(self, matcher: Any, path: Path) -> bool:
        """Return whether a value of its kind matches a pattern.

        ``path`` leads from `expect` to it.
        """
        kind = claim_kind_at(path)
        if kind not in self._values:
            self._values[kind] = list(_values_of(kind, str(path[0]), self._view))
        if path[0] == "context" and path[2] == "excludes":
            return self._could_be(matcher, ("$has",), kind)
        return self._could_be(matcher, _steps(path[claim_size(path) :]), kind)

    def _could_be(self, matcher: Any, steps: Path, kind: ClaimKind) -> bool:
        """Return whether a pattern matches, or each of its parts if it concerns a list."""
        if self._is_one(matcher, steps, kind):
            return True
        if isinstance(matcher, (list, tuple)):
            inner = (*steps, "$has")
            return all(self._could_be(element, inner, kind) for element in matcher)
        if not isinstance(matcher, Mapping) or not any(key in _LISTING for key in matcher):
            return False
        return all(self._holds_in(key, inner, steps, kind) for key, inner in matcher.items())

    def _holds_in(self, key: str, operand: Any, steps: Path, kind: ClaimKind) -> bool:
        """Return the same for one key of a pattern."""
        if key in OF_ELEMENTS:
            each = operand if key != "$each" and isinstance(operand, (list, tuple)) else [operand]
            return all(self._could_be(element, (*steps, "$has"), kind) for element in each)
        if key == "$all":
            return all(self._could_be(element, steps, kind) for element in operand)
        if key in ("$either", "$in"):
            return any(self._could_be(element, steps, kind) for element in operand)
        if key in ("$eq", "$exact"):
            return self._could_be(operand, steps, kind)
        return self._is_one({key: operand}, steps, kind)

    def _is_one(self, matcher: Any, steps: Path, kind: ClaimKind) -> bool:
        """Return whether one value, or element, matches a whole pattern."""
        if kind.form != "value":
            if not steps or steps[0] != "$has":
                return not isinstance(matcher, (list, tuple)) and not texts_in(matcher)
            steps = steps[1:]
        for step in reversed(steps):
            matcher = {step: [matcher] if step == "$has" else matcher}
        compiled = compile_matcher(matcher)
        memo = kind, compiled
        if memo not in self._holds:
            self._holds[memo] = (
                self._is_message(compiled)
                if kind.form == "messages"
                else any(map(compiled.holds, self._values[kind]))
            )
        return self._holds[memo]

    def _is_message(self, compiled: Matcher) -> bool:
        view = self._view
        return any(compiled.holds(message) for message in view.messages.values()) or any(
            self._builder.search.first(call.context, compiled) is not None
            for call in view.calls.values()
        )


def _steps(inside: Path) -> Path:
    """Return the path into a claim's values, without operators: keys, and ``$has``."""
    steps: list[str] = []
    before: str | int = ""
    for step in inside:
        if isinstance(step, int):
            if before not in OF_ELEMENTS and before not in _SAME:
                steps.append("$has")
        elif step in OF_ELEMENTS:
            steps.append("$has")
        elif not is_operator(step):
            rest = _INDEX.sub("", step) if step.startswith("[") else step
            if rest != step:
                steps.append("$has")
            if rest:
                steps.append(rest)
        before = step
    return tuple(steps)


class Candidates:
    """The shapes of values in a trace; those of each kind of claim are collected once."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._values: dict[ClaimKind, list[Any]] = {}

    def could_be(self, matcher: Any, path: Path, turn: int) -> bool:
        """Return whether a value of a claim ever had the shape of a matcher.

        ``path`` leads from `expect` to the matcher, through operators too.
        """
        kind, inside = claim_kind_at(path), path[claim_size(path) :]
        if kind.shapes == "any" or any(
            isinstance(step, str) and is_operator(step) and step not in _LEADING for step in inside
        ):
            return True
        values = list(_values_inside(self._shaped(kind, path, turn), inside))
        if not values and any(isinstance(step, int) or step in OF_ELEMENTS for step in inside):
            return True  # No list had elements, so that their shape is unknown.
        candidates = (value for value in values if value is not ABSENT)
        return any(_has_shape(matcher, value) for value in candidates) or _says_nothing(matcher)

    def _shaped(self, kind: ClaimKind, path: Path, turn: int) -> list[Any]:
        values = self._values.get(kind)
        if values is None:
            collected = (
                kind.shapes(self._view)
                if callable(kind.shapes)
                else _values_of(kind, str(path[0]), self._view)
            )
            values = self._values[kind] = list(collected)
        if path[0] == "state":
            turns = self._view.turns
            state = turns[turn - 1].state if 0 < turn <= len(turns) else self._view.state_at_end()
            return [state, *values]
        return values


def _values_inside(values: Iterable[Any], inside: Path) -> Iterable[Any]:
    """Return the values to which a path leads, through keys, lists and operators."""
    before: str | int = ""
    for step in inside:
        if isinstance(step, int):
            # Below a list's operators the values are elements already.
            if before not in OF_ELEMENTS and before not in _OF_VALUE:
                values = _elements(values)
        elif step in OF_ELEMENTS:
            values = _elements(values)
        elif not is_operator(step):
            values = _at(step, values)
        before = step
    return values


def _elements(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the elements of the lists among some values."""
    for value in values:
        read = _read(value)
        if is_array(read):
            yield from read


def _at(key: str, values: Iterable[Any]) -> Iterator[Any]:
    """Yield the values under a key; of messages nothing is known here."""
    get = getter(unescaped(key))
    for value in values:
        yield ANY_SHAPE if value is ANY_SHAPE or _is_spoken(value) else get(_read(value))


def _is_spoken(value: Any) -> bool:
    """Return whether it is a message or a call, whose keys are checked before the run."""
    return isinstance(value, ToolCall) or TYPE_NAMES["message"](value)


def _read(value: Any) -> Any:
    return value.structure if isinstance(value, (Content, ToolName)) else value


def _says_nothing(matcher: Any) -> bool:
    """Return whether a matcher requires no shape, as ``{$any: true}`` and null."""
    if isinstance(matcher, Mapping):
        return all(key in _SAY_NOTHING for key in matcher)
    return matcher is None


def _has_shape(matcher: Any, value: Any) -> bool:
    if value is None:
        return _says_nothing(matcher)
    if value is ANY_SHAPE:
        return True
    read = _read(value)
    if isinstance(matcher, (list, tuple)):
        return is_array(read) and not isinstance(value, str) and _have_shapes(matcher, read)
    if isinstance(matcher, Mapping):
        return all(
            _fits_operator(key, operand, value)
            if is_operator(key)
            else _has_shape_at(key, operand, read)
            for key, operand in matcher.items()
        )
    return True


def _fits_operator(key: str, operand: Any, value: Any) -> bool:
    read = _read(value)
    if key in _SHAPES_NEEDED:
        return _SHAPES_NEEDED[key](read)
    if key in OF_ELEMENTS:
        operands = operand if isinstance(operand, (list, tuple)) else [operand]
        return is_array(read) and (not read or _have_shapes(operands, read))
    if key == "$type":
        return bool(TYPE_NAMES[operand](read) or TYPE_NAMES[operand](value))
    if key in ("$either", "$in"):
        return any(_has_shape(element, value) for element in operand)
    if key == "$all":
        return all(_has_shape(element, value) for element in operand)
    if key == "$eq" and not isinstance(operand, (str, int, float)):
        return operand is None or is_object(operand) is is_object(read)
    return True


def _have_shapes(expected: Iterable[Any], elements: Sequence[Any]) -> bool:
    """Return whether, for each matcher, some element has its shape."""
    return all(any(_has_shape(shape, element) for element in elements) for shape in expected)


def _has_shape_at(key: str, operand: Any, read: Any) -> bool:
    if _is_spoken(read) or not is_object(read):
        return _is_spoken(read)
    inner = getter(unescaped(key))(read)
    return not _asks(operand) if inner is ABSENT else _has_shape(operand, inner)


def _asks(matcher: Any) -> bool:
    """Return whether a matcher fails for an absent value."""
    return not isinstance(matcher, Mapping) or not any(key in _OF_ABSENT for key in matcher)
