"""A value that a JSON Schema allows: small, and the same every time."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Final

from simkit.language.expressions import Expression
from simkit.language.json_schema import schema_errors
from simkit.language.json_schema.schemas import referred

_DEEP: Final = 20
"""How far a schema that speaks of itself is followed."""
_FORMATS: Final[Mapping[str, str]] = {
    "date": "2026-01-05",
    "date-time": "2026-01-05T09:00:00Z",
    "email": "ada@example.com",
    "ipv4": "192.0.2.1",
    "time": "09:00:00Z",
    "uri": "https://example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_FORMATS_BY_WORD: Final[Mapping[str, str]] = {
    "date": "date",
    "datetime": "date-time",
    "email": "email",
    "link": "uri",
    "timestamp": "date-time",
    "uri": "uri",
    "url": "uri",
    "website": "uri",
}
"""Last word of a key to the format of the texts that a model writes there."""
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


_BOUNDS: Final = (
    "type", "enum", "pattern", "minLength", "maxLength", "multipleOf",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
)  # fmt: skip
"""Keywords that say how a value may differ from another one."""


def example_of(schema: Any, name: str = "value") -> Any:
    """Return a value that a schema allows, as far as its simple keywords say what that is.

    Of objects it has what is required, of unions the first member that is not null. Texts say
    ``name``, the key under which they stand; under `start_date` or `siteUrl` they are what it says.

    >>> example_of({"type": "object", "properties": {"order_id": {"type": "string"}},
    ...     "required": ["order_id"]})
    {'order_id': 'order_id'}
    """
    return _example(schema, schema, name, 0)


def _example(schema: Any, root: Any, name: str, depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > _DEEP:
        return name
    if "$ref" in schema:
        return _example(schema_at(root, str(schema["$ref"])), root, name, depth + 1)
    if "const" in schema:
        return schema["const"]
    if schema.get("default") is not None:
        return schema["default"]
    for key in ("enum", "examples"):
        if schema.get(key):
            return schema[key][0]
    if schema.get("allOf"):
        merged: dict[str, Any] = {}
        for part in schema["allOf"]:
            example = _example(part, root, name, depth + 1)
            if not isinstance(example, dict):
                return example
            merged |= example
        return merged
    members = schema.get("anyOf") or schema.get("oneOf")
    if members:
        member = next((one_of for one_of in members if not _is_null(one_of)), members[0])
        return _example(member, root, name, depth + 1)
    return _of_type(type_of(schema), schema, root, name, depth)


def _of_type(kind: str, schema: Mapping[str, Any], root: Any, name: str, depth: int) -> Any:
    if kind == "object":
        inner = schema.get("properties") or {}
        required = schema.get("required") or ()
        return {key: _example(inner.get(key, {}), root, key, depth + 1) for key in required}
    if kind == "array":
        first = schema.get("prefixItems") or ()
        rest = [schema.get("items", {})] * (schema.get("minItems", 0) - len(first))
        schemas = (*first, *rest)
        items = [_example(item, root, name, depth + 1) for item in schemas]
        return _unlike(items, schemas, root) if schema.get("uniqueItems") else items
    if kind in ("integer", "number"):
        return _number(schema, kind)
    if kind == "boolean":
        return True
    if kind == "null":
        return None
    return _text(schema, name)


def _unlike(items: list[Any], schemas: Sequence[Any], root: Any) -> list[Any]:
    """Return items of which no two are equal, as far as their schemas allow simple values."""
    for index, item in enumerate(items):
        if item not in items[:index]:
            continue
        schema = schemas[index]
        if isinstance(schema, Mapping) and "$ref" in schema:
            schema = schema_at(root, str(schema["$ref"]))
        keywords = schema if isinstance(schema, Mapping) else {}
        bounds = {key: keywords[key] for key in _BOUNDS if key in keywords}
        for other in _others(item, bounds, index):
            if other not in items[:index] and not schema_errors(bounds, other):
                items[index] = other
                break
    return items


def _others(item: Any, bounds: Mapping[str, Any], index: int) -> Iterator[Any]:
    """Yield values like an item of a list; ``index`` is its index."""
    yield from bounds.get("enum", ())
    if isinstance(item, bool):
        yield not item
    elif isinstance(item, (int, float)):
        step = bounds.get("multipleOf", 1)
        yield from (item + index, item + index * step, item - index, item - index * step)
    elif isinstance(item, str):
        yield f"{item} {index + 1}"
        if item:
            yield f"{item[:-1]}{chr(ord(item[-1]) + index)}"
        yield from texts_of(bounds.get("pattern", ""))


def _number(schema: Mapping[str, Any], kind: str) -> Any:
    """Return the number within the bounds that is nearest to 1."""
    step = schema.get("multipleOf") or 1
    least = schema.get("minimum", -math.inf)
    most = schema.get("maximum", math.inf)
    inner_least = schema.get("exclusiveMinimum", -math.inf)
    inner_most = schema.get("exclusiveMaximum", math.inf)
    number = min(max(1, least), most)
    if not inner_least < number < inner_most or number % step:
        lowest = max(least, inner_least)
        number = step if lowest == -math.inf else (lowest // step + 1) * step
        if number > most or number >= inner_most:
            highest = min(most, inner_most)
            number = (lowest + highest) / 2 if lowest > -math.inf else (highest // step - 1) * step
    return int(number) if kind == "integer" else number


def format_of(schema: Mapping[str, Any], name: str) -> str:
    """Return the format of texts under a key: the schema's, else what the key's last word says.

    >>> format_of({"type": "string"}, "start_date")
    'date'
    """
    words = _WORD.findall(name)
    named = _FORMATS_BY_WORD.get(words[-1].lower(), "") if words else ""
    return str(schema.get("format", "" if "pattern" in schema else named))


def _text(schema: Mapping[str, Any], name: str) -> str:
    text = _FORMATS.get(format_of(schema, name), name)
    text = text.ljust(schema.get("minLength", 0), "-")
    text = text[: schema.get("maxLength", len(text))]
    pattern = schema.get("pattern")
    if not isinstance(pattern, str):
        return text
    bounds = {key: schema[key] for key in ("pattern", "minLength", "maxLength") if key in schema}
    candidates = (text, *texts_of(pattern))
    return next((other for other in candidates if not schema_errors(bounds, other)), text)


def type_of(schema: Mapping[str, Any]) -> str:
    """Return a schema's type: of several the first that is not null, a text if it names none."""
    kinds = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kinds, str):
        return kinds
    return next((kind for kind in kinds if kind != "null"), "null")


def _is_null(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "null"


def schema_at(root: Any, reference: str) -> Any:
    """Return the part of a schema that a reference names; nothing is demanded of one elsewhere."""
    return referred(reference, root)[0] or {}


# The simplest text that a regular expression matches


_RANKS: Final = f"{ascii_lowercase}{ascii_uppercase}1234567890-_. "
"""The characters that a person reads best come first."""
_MORE: Final = (0, 1, 2, 4, 8, 16, 36)
"""Numbers of repetitions beyond the least, which are tried one after the other."""


@lru_cache(maxsize=256)
def texts_of(pattern: str) -> tuple[str, ...]:
    """Return texts that a pattern matches, the shortest first; none if it is not Python's.

    >>> texts_of(r"^[A-Z]{2}-\\d+$")[:2]
    ('AA-1', 'AA-11')
    """
    return tuple(dict.fromkeys(_texts(pattern)))


def _texts(pattern: str) -> Iterator[str]:
    from rstr import Rstr

    try:
        search = Expression(pattern).search
    except re.error:
        return
    for more in _MORE:
        # Of a source of chance it needs no more than this.
        simplest: Any = _Simplest(more)
        try:
            text: str = Rstr(simplest).xeger(pattern)
            if search(text) is not None:
                yield text
        except (re.error, LookupError, OverflowError, RecursionError):
            return


class _Simplest:
    """A source of chance that always chooses the simplest."""

    def __init__(self, more: int) -> None:
        self._more = more

    def choice(self, options: Any) -> Any:
        """Return the character that reads best; of other things the first."""
        return min(options, key=_rank) if isinstance(options[0], str) else options[0]

    def shuffle(self, options: Any) -> None:
        """Leave the order as it is."""

    def randint(self, least: int, most: int) -> int:
        """Return the number of repetitions."""
        return min(least + self._more, most)


def _rank(character: str) -> tuple[int, str]:
    index = _RANKS.find(character)
    return (len(_RANKS) if index < 0 else index, character)
