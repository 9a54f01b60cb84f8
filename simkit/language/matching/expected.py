"""Values that equal what a matcher holds of, and show only where another value differs from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import update_wrapper
from inspect import signature
from typing import Any, Final

import msgspec

from simkit.core.errors import MatcherError
from simkit.core.messages import ROLE_ALIASES, Message
from simkit.core.text import hinted, short
from simkit.language.matching import Matcher, check
from simkit.language.matching.misses import Phrase
from simkit.language.paths import is_array, with_parts
from simkit.language.yaml import near, path_text

_UNCOMPARED: Final = object()
_NO_MESSAGES: Final = (str, int, float, list, tuple, type(None))
_SHOWN_MAX: Final = 200
"""The length of a value shown before the difference."""
__tracebackhide__ = True


class Looked:
    """A value in a test, which rejects comparison with a matcher that can never match."""

    __slots__ = ()

    def looked_at(self, expected: Expected) -> Any:
        """Return the value as claims see it; raise ValueError for an impossible matcher."""
        raise NotImplementedError

    # Lists, mappings and structs would not use `__eq__`.
    __ne__ = object.__ne__


class Expected:
    """A value that equals all values for which its matcher holds, and shows only differences."""

    __slots__ = ("_compared", "_matcher", "_shown_value", "_source_text", "source")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, source: Any, source_text: str, shown_value: Any = None) -> None:
        """``source_text`` is the call as text; ``shown_value`` is its Python value, if any."""
        self.source = plain(source)
        """The matcher, as in a scenario file."""
        self._source_text, self._shown_value = source_text, shown_value
        self._compared: Any = _UNCOMPARED
        try:
            check(self.source)
            self._matcher = Matcher(self.source)
        except MatcherError as problem:
            raise as_value_error(problem, source_text) from None

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Looked):
            other = other.looked_at(self)
        elif self._source_text.startswith("message(") and isinstance(other, _NO_MESSAGES):
            excerpt = short(repr(other), _SHOWN_MAX)
            raise ValueError(
                f"{self._source_text} is never equal to {excerpt}, which is no message"
            )
        self._compared = other
        return self._matcher.holds(other)

    def __repr__(self) -> str:
        if self._compared is _UNCOMPARED:
            return self._source_text
        return repr(self.differing(self._compared))

    def differing(self, actual: Any) -> Any:
        """Return the value with the matcher in the places where it does not match."""
        if self._matcher.holds(actual):
            return actual
        if isinstance(self._shown_value, Mapping):
            if isinstance(actual, Message):
                return _differing_message(self._shown_value, actual)
            return _differing(self._shown_value, actual)
        return Phrase(self._source_text)

    def misses(self, actual: Any) -> Iterator[str]:
        """Yield the differences from a value as texts."""
        for miss in self._matcher.mismatches(actual):
            at = f"at {path_text(miss.path)}: " if miss.path else ""
            note = f" ({miss.note})" if miss.note else ""
            yield f"{at}wanted {miss.expected}, found {miss.actual}{note}"


def plain(value: Any) -> Any:
    """Return a value in the matching language, with the matchers inside it."""
    if isinstance(value, Expected):
        return value.source
    if isinstance(value, MatcherFunction):
        raise uncalled(value)
    return with_parts(value, plain)


def explained(operator: str, left: Any, right: Any) -> list[str] | None:
    """Return pytest's explanation of a failed comparison; None if it has no matcher."""
    if operator != "==":
        return None
    if isinstance(right, Expected):
        expected, actual = right, left
    elif isinstance(left, Expected):
        expected, actual = left, right
    else:
        return None
    excerpt = short(_text_of(actual), _SHOWN_MAX)
    return [f"{excerpt} == {expected._source_text}", *expected.misses(actual)]


def _text_of(value: Any) -> str:
    """Return a message as a matcher, and other values as Python shows them."""
    if not isinstance(value, Message):
        return repr(value)
    named = (("agent", value.agent), ("section", value.section), ("tool", value.tool))
    fields = {value.role: value.content} | {key: word for key, word in named if word}
    if value.role == "tool":
        fields = {"role": value.role, "content": value.content} | fields
    return call_text("message", (), fields)


def as_value_error(problem: MatcherError, source_text: str) -> ValueError:
    nearest = near(problem.word, problem.known)
    text = f"{source_text}: {problem}"
    return ValueError(hinted(text, nearest, problem.known, problem.advice))


# Differences only


def _differing(expected: Any, actual: Any) -> Any:
    if isinstance(expected, Expected):
        return expected.differing(actual)
    try:
        holds = Matcher(plain(expected)).holds(actual)
    except MatcherError:
        return expected
    if holds:
        return actual
    if isinstance(expected, Mapping) and isinstance(actual, Message):
        return _differing_message(expected, actual)
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return _differing_mapping(expected, actual)
    if isinstance(expected, (list, tuple)) and is_array(actual):
        both = [_differing(pair, other) for pair, other in zip(expected, actual, strict=False)]
        return both + list(expected[len(both) :])
    return expected


def _differing_mapping(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> dict[str, Any]:
    fields = {
        key: _differing(expected[key], value) if key in expected else value
        for key, value in actual.items()
    }
    for key, inner in expected.items():
        # A missing key that may be missing is not shown, nor is a path that holds.
        if key not in actual and not Matcher({key: plain(inner)}).holds(actual):
            fields[key] = inner
    return fields


def _differing_message(expected: Mapping[str, Any], message: Message) -> Any:
    changed: dict[str, Any] = {}
    for key, inner in expected.items():
        if Matcher({key: plain(inner)}).holds(message):
            continue
        role = ROLE_ALIASES.get(key) if key != "tool" or "role" not in expected else None
        if role is not None and role != message.role:
            changed["role"] = role
        if role is None or not Matcher({"content": plain(inner)}).holds(message):
            field = "content" if role is not None or key == "text" else key
            changed[field] = inner
    if not set(changed) <= set(Message.__struct_fields__):
        return Phrase(call_text("message", (), expected))
    return msgspec.structs.replace(message, **changed)


def call_text(name: str, args: tuple[Any, ...], options: Mapping[str, Any] = {}) -> str:
    words = [_source_of(arg) for arg in args]
    words += [f"{key}={_source_of(arg)}" for key, arg in options.items()]
    return f"{name}({', '.join(words)})"


def _source_of(value: Any) -> str:
    return value._source_text if isinstance(value, Expected) else repr(value)


class MatcherFunction:
    """A function of this module, which equals nothing until it is called."""

    def __init__(self, function: Callable[..., Expected]) -> None:
        update_wrapper(self, function)
        self._function = function
        self.call = f"{function.__name__}({'…' if signature(function).parameters else ''})"
        """The call as text."""

    def __call__(self, *args: Any, **options: Any) -> Expected:
        return self._function(*args, **options)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (*_NO_MESSAGES, Mapping, Looked, Message)):
            raise uncalled(self)
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<matcher {self.call}>"


def uncalled(function: MatcherFunction) -> ValueError:
    """Return the error about a matcher that was not called."""
    return ValueError(f"`{function.__name__}` is a function: write `{function.call}`")  # type: ignore[attr-defined]
