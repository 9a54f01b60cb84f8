"""The matching language in plain asserts: matching parts vanish from pytest's diff.

::

    from simkit.matchers import contains, message

    assert run.context("coach")[1] == message(user=contains("refund"))

Each function is one operator of ``simkit.language.matching``, under the operator's own name unless
Python reserves it. Its result equals every value for which the matcher holds. After a comparison,
it shows the value itself where it matched, and the matcher where it did not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from simkit.core.errors import MatcherError
from simkit.core.messages import ROLE_ALIASES
from simkit.language.matching.expected import (
    Expected,
    MatcherFunction,
    as_value_error,
    call_text,
    explained,
)
from simkit.language.matching.mappings import MESSAGE_FIELDS

__tracebackhide__ = True
__all__ = [
    "Expected", "absent", "all_of", "anything", "approx", "contains", "each", "either", "ends",
    "equal", "exact", "explained", "gt", "gte", "has", "in_order", "json_text", "keys", "length",
    "lt", "lte", "message", "not_", "one_of", "other_than", "partial", "regex", "starts", "type_",
    "unique", "unordered", "valid",
]  # fmt: skip

_FunctionT = TypeVar("_FunctionT", bound=Callable[..., Any])


def _operator(name: str, operator: str, operand: Any, *args: Any) -> Expected:
    return Expected({operator: operand}, call_text(name, args or (operand,)))


def _bare(function: _FunctionT) -> _FunctionT:
    """Reject comparison with the function itself instead of its result."""
    return cast(_FunctionT, MatcherFunction(function))


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
    source_text = call_text("message", (), fields)
    known = ("user", "assistant", "system", *MESSAGE_FIELDS)
    for word in fields:
        if word not in ROLE_ALIASES and word.split(".")[0] not in known:
            problem = MatcherError((word,), f"a message has no {word!r}", word, known)
            raise as_value_error(problem, source_text)
    return Expected(fields, source_text, fields)


@_bare
def partial(fields: Mapping[str, Any]) -> Expected:
    """Match a mapping with at least these keys and matching values, also inside it.

    >>> {"to": "billing", "payload": {"order": 7}} == partial({"payload": {"order": gt(5)}})
    True
    """
    return Expected(fields, call_text("partial", (fields,)), fields)


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
def json_text(matcher: Any) -> Expected:
    """Match a text of JSON, the value of which matches.

    >>> '{"order":  7}' == json_text({"order": 7})
    True
    """
    return _operator("json_text", "$json", matcher)


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
