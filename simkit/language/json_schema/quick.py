"""Quick tests of schemas: one function that knows most values that satisfy one.

Handoffs and tool calls check the same few schemas again and again, and nearly always without an
error. A quick test says yes only if the check finds nothing; it says no as well where it does not
know. Its source is made from the schema; making it takes as long as a hundred checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import NoneType
from typing import Any, Final, TypeAlias

from simkit.language.json_schema.keywords import KEYWORDS

QuickTest: TypeAlias = Callable[[Any], bool]

_CLASSES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (NoneType,),
}
"""Type to the classes of nearly all its values."""
_NUMBERS: Final = frozenset((int, float))
_BOUNDS: Final = {
    "minimum": ">=",
    "maximum": "<=",
    "exclusiveMinimum": ">",
    "exclusiveMaximum": "<",
}
_SIZES: Final = {
    "minLength": (str, ">="),
    "maxLength": (str, "<="),
    "minItems": (list, ">="),
    "maxItems": (list, "<="),
}
_OF_OBJECTS: Final = frozenset(("properties", "required", "additionalProperties"))


class _Unknown(Exception):
    """A keyword that only the check knows."""


def quick_test(schema: Any) -> QuickTest | None:
    """Return a valid schema's quick test; None if it has keywords that only the check knows."""
    names: dict[str, Any] = {}
    try:
        body = "\n    ".join((*_lines(schema, "v", names), "return True"))
        code = compile(f"def holds(v):\n    {body}\n", "<quick test of a schema>", "exec")
    except (_Unknown, SyntaxError, RecursionError):
        return None  # Python limits how deep its blocks may be.
    exec(code, names)
    holds: QuickTest = names["holds"]
    return holds


def _lines(schema: Any, value: str, names: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that return False unless a variable satisfies a schema."""
    if schema is True:
        return
    if not isinstance(schema, Mapping):
        raise _Unknown
    words = [word for word in schema if word in KEYWORDS]
    if not words:
        return
    classes = _classes(schema)
    yield f"if type({value}) not in {_name(classes, names)}: return False"
    for word in words:
        operand = schema[word]
        if word in _BOUNDS and classes <= _NUMBERS:
            yield f"if not {value} {_BOUNDS[word]} {_name(operand, names)}: return False"
        elif word in _SIZES and classes == {_SIZES[word][0]}:
            yield f"if not len({value}) {_SIZES[word][1]} {_name(operand, names)}: return False"
        elif word == "enum" and classes == {str}:
            texts = frozenset(item for item in operand if type(item) is str)
            yield f"if {value} not in {_name(texts, names)}: return False"
        elif word == "items" and classes == {list} and "prefixItems" not in schema:
            yield f"for {value}i in {value}:"
            yield from (f"    {line}" for line in ("pass", *_lines(operand, f"{value}i", names)))
        elif word in _OF_OBJECTS and classes == {dict} and "patternProperties" not in schema:
            yield from _lines_of_object(word, operand, schema, value, names)
        elif word != "type":
            raise _Unknown


def _lines_of_object(
    word: str, operand: Any, schema: Mapping[str, Any], value: str, names: dict[str, Any]
) -> Iterator[str]:
    if word == "required":
        yield from (f"if {key!r} not in {value}: return False" for key in operand)
    elif word == "properties":
        for place, key in enumerate(operand):
            inner = f"{value}_{place}"
            yield f"if {key!r} in {value}:"
            yield f"    {inner} = {value}[{key!r}]"
            yield from (f"    {line}" for line in _lines(operand[key], inner, names))
    elif operand is False:
        known = frozenset(schema.get("properties", ()))
        yield f"if not {_name(known, names)}.issuperset({value}): return False"
    elif operand is not True:
        raise _Unknown


def _classes(schema: Mapping[str, Any]) -> frozenset[type]:
    """Return the classes of values that a quick test may accept."""
    if "type" in schema:
        types = schema["type"]
        kinds = [types] if isinstance(types, str) else types
        return frozenset(kind for name in kinds for kind in _CLASSES[name])
    # Other values satisfy it, too, but hardly ever occur.
    if not _OF_OBJECTS.isdisjoint(schema):
        return frozenset((dict,))
    if "enum" in schema:
        return frozenset((str,))
    raise _Unknown


def _name(constant: Any, names: dict[str, Any]) -> str:
    """Return a new name for a constant."""
    name = f"c{len(names)}"
    names[name] = constant
    return name
