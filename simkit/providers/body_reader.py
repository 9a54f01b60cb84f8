"""Fields of foreign JSON: every invalid field is a WireInvalid that names it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, TypeAlias, TypeVar

import msgspec

from simkit.core.errors import WireInvalid
from simkit.core.messages import JsonValue
from simkit.core.text import short
from simkit.language.yaml import near

Record: TypeAlias = Mapping[str, JsonValue]

T = TypeVar("T")

_KINDS: Final[Mapping[type, str]] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    type(None): "null",
}
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def record_of(body: bytes | str, field: str = "body") -> Record:
    """Return the object in a JSON text; raise WireInvalid for anything else."""
    try:
        value = _decode(body)
    except RecursionError:
        raise WireInvalid("is nested too deep", field) from None
    # A body that is not UTF-8, or has half a surrogate pair, raises no DecodeError.
    except (msgspec.DecodeError, UnicodeError) as problem:
        raise WireInvalid(f"is not JSON: {problem}", field) from None
    return typed(value, dict, field)


def json_bytes(value: JsonValue) -> bytes:
    """Return compact JSON in the order of the keys."""
    try:
        return _encode(value)
    except RecursionError:
        raise WireInvalid("is nested too deep") from None


def json_text(value: JsonValue) -> str:
    """Return ``json_bytes`` as a text."""
    return json_bytes(value).decode()


def typed(value: JsonValue, kind: type[T], field: str) -> T:
    """Return the value if it has this JSON type; a whole number also counts as a number."""
    if type(value) is kind:
        return value
    if kind is float and type(value) is int:
        return value  # type: ignore[return-value]  # int passes for float in every annotation
    raise WireInvalid(f"should be {_KINDS[kind]}, is {_KINDS[type(value)]}", field)


def need(record: Record, key: str, kind: type[T], at: str = "") -> T:
    """Return a required field; ``at`` is the path of the record."""
    value = record.get(key)
    if type(value) is kind:
        return value
    if value is None and key not in record:
        raise WireInvalid("is missing", under(at, key))
    return typed(value, kind, under(at, key))


def maybe(record: Record, key: str, default: T, at: str = "") -> T:
    """Return an optional field of the default's type; the default if it is missing or null."""
    value = record.get(key)
    if value is None:
        return default
    return typed(value, type(default), under(at, key))


def records(record: Record, key: str, at: str = "") -> list[tuple[Record, str]]:
    """Return the objects of a list with their paths; none if the list is missing or null."""
    place = under(at, key)
    return [
        (typed(item, dict, f"{place}[{number}]"), f"{place}[{number}]")
        for number, item in enumerate(maybe(record, key, list[JsonValue](), at))
    ]


def under(at: str, key: str) -> str:
    """Return the path of a key in the record at a path."""
    return f"{at}.{key}" if at else key


def unknown(subject: str, value: str, known: Collection[str], field: str) -> WireInvalid:
    """Return the error for an unknown word: ``unknown part 'txt'``."""
    guess = near(value, known)
    hint = f"did you mean {guess!r}? " if guess else ""
    return WireInvalid(
        f"unknown {subject} {short(value, 60)!r}; {hint}known: {', '.join(known)}", field
    )
