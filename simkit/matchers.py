"""The matching language in plain asserts: matching parts vanish from pytest's diff.

::

    from simkit.matchers import contains, message

    assert run.context("coach")[1] == message(user=contains("refund"))

Each function is one operator of ``simkit.language.matching``, under the operator's own name unless
Python reserves it. Its result equals every value for which the matcher holds. After a comparison,
it shows the value itself where it matched, and the matcher where it did not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import update_wrapper
from inspect import signature
from typing import Any, Final, TypeVar, cast

import msgspec

from simkit.core.errors import MatcherError
from simkit.core.messages import ROLE_ALIASES, Message
from simkit.core.text import short
from simkit.language.json_schema import is_array
from simkit.language.matching import Matcher, check
from simkit.language.matching.mappings import MESSAGE_FIELDS
from simkit.language.yaml import near, path_text

__all__ = [
    "Expected", "absent", "all_of", "anything", "approx", "contains", "each", "either", "ends",
    "equal", "exact", "explained", "gt", "gte", "has", "in_order", "keys", "length", "lt", "lte",
    "message", "not_", "one_of", "other_than", "partial", "regex", "starts", "type_", "unique",
    "unordered", "valid",
]  # fmt: skip

_FunctionT = TypeVar("_FunctionT", bound=Callable[..., Any])
_UNCOMPARED: Final = object()
_NO_MESSAGES: Final = (str, int, float, list, tuple, type(None))
_SHOWN_MAX: Final = 200
"""The length of a value shown before the difference."""


class Looked:
    """A value in a test, which rejects comparison with a matcher that can never match."""

    __slots__ = ()

    def looked_at(self, expected: Expected) -> Any:
        """Return the value as claims see it; raise ValueError for an impossible matcher."""
        raise NotImplementedError

    def __ne__(self, other: object) -> bool:
        # Lists, mappings and structs would not use `__eq__`.
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal


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
            raise _as_value_error(problem, source_text) from None

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
        return _Words(self._source_text)

    def misses(self, actual: Any) -> Iterator[str]:
        """Yield the differences from a value as texts."""
        for miss in self._matcher.mismatches(actual):
            at = f"at {path_text(miss.path)}: " if miss.path else ""
            note = f" ({miss.note})" if miss.note else ""
            yield f"{at}wanted {miss.expected}, found {miss.actual}{note}"


class _Words:
    """A text that is shown without quotes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def plain(value: Any) -> Any:
    """Return a value in the matching language, with the matchers inside it."""
    if isinstance(value, Expected):
        return value.source
    if isinstance(value, _Function):
        raise uncalled(value)
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return value


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
    return _called("message", (), fields)


def _as_value_error(problem: MatcherError, source_text: str) -> ValueError:
    nearest = near(problem.word, problem.known)
    parts = [f"{source_text}: {problem}"]
    if nearest:
        parts.append(f"did you mean {nearest!r}?")
    if problem.known:
        parts.append("known: " + ", ".join(problem.known))
    elif problem.advice:
        parts.append(problem.advice)
    return ValueError("; ".join(parts))


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
        return _Words(_called("message", (), expected))
    return msgspec.structs.replace(message, **changed)


# The matchers


def _called(name: str, args: tuple[Any, ...], options: Mapping[str, Any] = {}) -> str:
    words = [_source_of(arg) for arg in args]
    words += [f"{key}={_source_of(arg)}" for key, arg in options.items()]
    return f"{name}({', '.join(words)})"


def _source_of(value: Any) -> str:
    return value._source_text if isinstance(value, Expected) else repr(value)


def _operator(name: str, operator: str, operand: Any, *args: Any) -> Expected:
    return Expected({operator: operand}, _called(name, args or (operand,)))


class _Function:
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


def uncalled(function: _Function) -> ValueError:
    """Return the error about a matcher that was not called."""
    return ValueError(f"`{function.__name__}` is a function: write `{function.call}`")  # type: ignore[attr-defined]


def _bare(function: _FunctionT) -> _FunctionT:
    """Reject comparison with the function itself instead of its result."""
    return cast(_FunctionT, _Function(function))


@_bare
def message(**fields: Any) -> Expected:
    """Match a message: a role with its text, or any of its fields.

    ``user``, ``assistant``, ``system`` and ``tool`` are roles, with the content; the other fields
    are ``role content agent section calls id turn tool call_id data``.

    >>> simkit.Message("user", "Hi") == message(user="Hi")
    True
    >>> simkit.Message("tool", "3 hits", tool="search") == message(role="tool", agent="cook")
    False
    """
    source_text = _called("message", (), fields)
    known = ("user", "assistant", "system", *MESSAGE_FIELDS)
    for word in fields:
        if word not in ROLE_ALIASES and word.split(".")[0] not in known:
            problem = MatcherError((word,), f"a message has no {word!r}", word, known)
            raise _as_value_error(problem, source_text)
    return Expected(fields, source_text, fields)


@_bare
def partial(fields: Mapping[str, Any]) -> Expected:
    """Match a mapping with at least these keys and matching values, also inside it.

    >>> {"to": "billing", "payload": {"order": 7}} == partial({"payload": {"order": gt(5)}})
    True
    """
    return Expected(fields, _called("partial", (fields,)), fields)


@_bare
def exact(fields: Mapping[str, Any]) -> Expected:
    """Match a mapping with these keys and no others, with matching values.

    >>> {"order": 7, "vip": True} == exact({"order": 7})
    False
    """
    return _operator("exact", "$exact", fields)


@_bare
def contains(*texts: str) -> Expected:
    """Match a text or message that contains all of these; other values by their JSON text.

    >>> "Order 7 was shipped" == contains("Order", "shipped")
    True
    """
    return _operator("contains", "$contains", texts[0] if len(texts) == 1 else texts, *texts)


@_bare
def starts(text: str) -> Expected:
    """Match a text with this beginning.

    >>> "Order 7" == starts("Order")
    True
    """
    return _operator("starts", "$starts", text)


@_bare
def ends(text: str) -> Expected:
    """Match a text with this end.

    >>> "Order 7" == ends("8")
    False
    """
    return _operator("ends", "$ends", text)


@_bare
def regex(pattern: str) -> Expected:
    """Match the text that `contains` searches, if the pattern is found in it.

    >>> "Order 7" == regex("Order [0-9]")
    True
    """
    return _operator("regex", "$regex", pattern)


@_bare
def length(size: Any) -> Expected:
    """Match a text, list or mapping of this length, a number or a matcher of it.

    >>> ["a", "b"] == length(gte(2))
    True
    """
    return _operator("length", "$len", size)


@_bare
def anything() -> Expected:
    """Match any value, None too.

    >>> {"to": None} == partial({"to": anything()})
    True
    """
    return Expected({"$any": True}, "anything()")


@_bare
def absent() -> Expected:
    """Match a missing key, in ``partial`` or ``message``.

    >>> {"to": "billing"} == partial({"query": absent()})
    True
    """
    return Expected({"$absent": True}, "absent()")


@_bare
def either(*options: Any) -> Expected:
    """Match if at least one of these matches.

    >>> "billing" == either("billing", starts("refund"))
    True
    """
    return _operator("either", "$either", options, *options)


@_bare
def all_of(*conditions: Any) -> Expected:
    """Match if all of these match.

    >>> 7 == all_of(gt(5), lt(10))
    True
    """
    return _operator("all_of", "$all", conditions, *conditions)


@_bare
def not_(matcher: Any) -> Expected:
    """Match if this does not match; a missing key matches, too.

    >>> {"to": "billing"} == partial({"query": not_("refund")})
    True
    """
    return _operator("not_", "$not", matcher)


@_bare
def one_of(*values: Any) -> Expected:
    """Match one of these values.

    >>> "billing" == one_of("billing", "refunds")
    True
    """
    return _operator("one_of", "$in", values, *values)


@_bare
def equal(value: Any) -> Expected:
    """Match a value that is equal as a whole: mappings are not partial inside it.

    >>> {"payload": {"order": 7, "vip": True}} == partial({"payload": equal({"order": 7})})
    False
    """
    return _operator("equal", "$eq", value)


@_bare
def other_than(value: Any) -> Expected:
    """Match an existing value that is not equal.

    >>> {"to": "billing"} == partial({"query": other_than("refund")})
    False
    """
    return _operator("other_than", "$ne", value)


@_bare
def type_(name: str) -> Expected:
    """Match a value of this type, one of JSON Schema's.

    >>> 7 == type_("integer")
    True
    """
    return _operator("type_", "$type", name)


@_bare
def valid(schema: Mapping[str, Any]) -> Expected:
    """Match a value that is valid under this JSON Schema.

    >>> {"order": "7"} == valid({"properties": {"order": {"type": "integer"}}})
    False
    """
    return _operator("valid", "$schema", schema)


@_bare
def gt(number: float) -> Expected:
    """Match a number above this one.

    >>> 7 == gt(7)
    False
    """
    return _operator("gt", "$gt", number)


@_bare
def gte(number: float) -> Expected:
    """Match this number, or one above.

    >>> 7 == gte(7)
    True
    """
    return _operator("gte", "$gte", number)


@_bare
def lt(number: float) -> Expected:
    """Match a number below this one.

    >>> 6.5 == lt(7)
    True
    """
    return _operator("lt", "$lt", number)


@_bare
def lte(number: float) -> Expected:
    """Match this number, or one below.

    >>> 7 == lte(7)
    True
    """
    return _operator("lte", "$lte", number)


@_bare
def approx(number: float) -> Expected:
    """Match about this number, to a millionth of it.

    >>> 0.1 + 0.2 == approx(0.3)
    True
    """
    return _operator("approx", "$approx", number)


@_bare
def has(*elements: Any) -> Expected:
    """Match a list that contains each of these, in any order.

    >>> ["triage", "billing", "closing"] == has("closing", "triage")
    True
    """
    return _operator("has", "$has", elements, *elements)


@_bare
def in_order(*elements: Any) -> Expected:
    """Match a list that contains these in this order, with gaps.

    >>> ["triage", "billing", "closing"] == in_order("triage", "closing")
    True
    """
    return _operator("in_order", "$in_order", elements, *elements)


@_bare
def unordered(*elements: Any) -> Expected:
    """Match a list of these and nothing else, in any order.

    >>> ["triage", "billing"] == unordered("billing", "triage")
    True
    """
    return _operator("unordered", "$unordered", elements, *elements)


@_bare
def each(element: Any) -> Expected:
    """Match a list whose every element matches.

    >>> [1, 2, "3"] == each(type_("integer"))
    False
    """
    return _operator("each", "$each", element)


@_bare
def unique(*keys: str, of: Any = None) -> Expected:
    """Match a list in which no two elements are equal in these keys; without any, as a whole.

    ``of`` matches the elements that are compared; None means all.

    >>> [{"tool": "refund", "order": 7}, {"tool": "look", "order": 7}] == unique("order")
    False
    """
    by = {"by": list(keys)} if keys else {}
    if of is not None:
        return _operator("unique", "$unique", {"of": of, **by}, *keys)
    return _operator("unique", "$unique", list(keys) or True, *keys)


@_bare
def keys(*names: str) -> Expected:
    """Match a mapping with exactly these keys.

    >>> {"to": "billing", "query": None} == keys("query", "to")
    True
    """
    return _operator("keys", "$keys", names, *names)
