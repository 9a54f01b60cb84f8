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
from functools import update_wrapper
from inspect import signature
from typing import Any, ParamSpec, TypeVar, cast

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
_OperandT = ParamSpec("_OperandT")


def _operator(name: str) -> Callable[[Callable[_OperandT, Any]], Callable[_OperandT, Expected]]:
    """Return what makes a function that has only a signature the one of an operator."""

    def of_function(function: Callable[_OperandT, Any]) -> Callable[_OperandT, Expected]:
        def call(*args: _OperandT.args, **kwargs: _OperandT.kwargs) -> Expected:
            given = signature(function).bind(*args, **kwargs)
            (operand,) = given.arguments.values() or [()]
            return Expected({name: operand}, call_text(function.__name__, given.args))

        return _bare(update_wrapper(call, function))

    return of_function


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


@_operator("$exact")
def exact(fields: Mapping[str, Any]) -> Any:
    """Match a mapping with these keys and no others, with matching values.

    >>> {"order": 7, "vip": True} == exact({"order": 7})
    False
    """


@_bare
def contains(*texts: str) -> Expected:
    """Match a text or message that contains all of these; other values by their JSON text.

    >>> "Order 7 was shipped" == contains("Order", "shipped")
    True
    """
    operand = texts[0] if len(texts) == 1 else texts
    return Expected({"$contains": operand}, call_text("contains", texts))


@_operator("$starts")
def starts(text: str) -> Any:
    """Match a text with this beginning.

    >>> "Order 7" == starts("Order")
    True
    """


@_operator("$ends")
def ends(text: str) -> Any:
    """Match a text with this end.

    >>> "Order 7" == ends("8")
    False
    """


@_operator("$regex")
def regex(pattern: str) -> Any:
    """Match the text that `contains` searches, if the pattern is found in it.

    >>> "Order 7" == regex("Order [0-9]")
    True
    """


@_operator("$len")
def length(size: Any) -> Any:
    """Match a text, list or mapping of this length, a number or a matcher of it.

    >>> ["a", "b"] == length(gte(2))
    True
    """


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


@_operator("$either")
def either(*options: Any) -> Any:
    """Match if at least one of these matches.

    >>> "billing" == either("billing", starts("refund"))
    True
    """


@_operator("$all")
def all_of(*conditions: Any) -> Any:
    """Match if all of these match.

    >>> 7 == all_of(gt(5), lt(10))
    True
    """


@_operator("$not")
def not_(matcher: Any) -> Any:
    """Match if this does not match; a missing key matches, too.

    >>> {"to": "billing"} == partial({"query": not_("refund")})
    True
    """


@_operator("$in")
def one_of(*values: Any) -> Any:
    """Match one of these values.

    >>> "billing" == one_of("billing", "refunds")
    True
    """


@_operator("$eq")
def equal(value: Any) -> Any:
    """Match a value that is equal as a whole: mappings are not partial inside it.

    >>> {"payload": {"order": 7, "vip": True}} == partial({"payload": equal({"order": 7})})
    False
    """


@_operator("$ne")
def other_than(value: Any) -> Any:
    """Match an existing value that is not equal.

    >>> {"to": "billing"} == partial({"query": other_than("refund")})
    False
    """


@_operator("$type")
def type_(name: str) -> Any:
    """Match a value of this type, one of JSON Schema's.

    >>> 7 == type_("integer")
    True
    """


@_operator("$json")
def json_text(matcher: Any) -> Any:
    """Match a text of JSON, the value of which matches.

    >>> '{"order":  7}' == json_text({"order": 7})
    True
    """


@_operator("$schema")
def valid(schema: Mapping[str, Any]) -> Any:
    """Match a value that is valid under this JSON Schema.

    >>> {"order": "7"} == valid({"properties": {"order": {"type": "integer"}}})
    False
    """


@_operator("$gt")
def gt(number: float) -> Any:
    """Match a number above this one.

    >>> 7 == gt(7)
    False
    """


@_operator("$gte")
def gte(number: float) -> Any:
    """Match this number, or one above.

    >>> 7 == gte(7)
    True
    """


@_operator("$lt")
def lt(number: float) -> Any:
    """Match a number below this one.

    >>> 6.5 == lt(7)
    True
    """


@_operator("$lte")
def lte(number: float) -> Any:
    """Match this number, or one below.

    >>> 7 == lte(7)
    True
    """


@_operator("$approx")
def approx(number: float) -> Any:
    """Match about this number, to a millionth of it.

    >>> 0.1 + 0.2 == approx(0.3)
    True
    """


@_operator("$has")
def has(*elements: Any) -> Any:
    """Match a list that contains each of these, in any order.

    >>> ["triage", "billing", "closing"] == has("closing", "triage")
    True
    """


@_operator("$in_order")
def in_order(*elements: Any) -> Any:
    """Match a list that contains these in this order, with gaps.

    >>> ["triage", "billing", "closing"] == in_order("triage", "closing")
    True
    """


@_operator("$unordered")
def unordered(*elements: Any) -> Any:
    """Match a list of these and nothing else, in any order.

    >>> ["triage", "billing"] == unordered("billing", "triage")
    True
    """


@_operator("$each")
def each(element: Any) -> Any:
    """Match a list whose every element matches.

    >>> [1, 2, "3"] == each(type_("integer"))
    False
    """


@_bare
def unique(*keys: str, of: Any = None) -> Expected:
    """Match a list in which no two elements are equal in these keys; without any, as a whole.

    ``of`` matches the elements that are compared; None means all.

    >>> [{"tool": "refund", "order": 7}, {"tool": "look", "order": 7}] == unique("order")
    False
    """
    by = {"by": list(keys)} if keys else {}
    operand = {"of": of, **by} if of is not None else list(keys) or True
    return Expected({"$unique": operand}, call_text("unique", keys or (operand,)))


@_operator("$keys")
def keys(*names: str) -> Any:
    """Match a mapping with exactly these keys.

    >>> {"to": "billing", "query": None} == keys("query", "to")
    True
    """
