"""From nodes to plain values: typed scalars and valid keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from yaml.nodes import Node, ScalarNode, SequenceNode

from simkit.core.text import late_pattern
from simkit.language.yaml.nodes import Fault
from simkit.language.yaml.syntax import LONE_QUESTION_MARK, QUOTE, refused_tag

_WORDS: Final[Mapping[str, bool | None]] = {
    "true": True,
    "false": False,
    "null": None,
    "~": None,
    "": None,
}
_NUMBER: Final = late_pattern(
    r"[-+]?(?:([0-9]+)|(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?)"
)
"""Integers, in group 1, and floats of YAML 1.2's core schema (section 10.3.2)."""
_NUMBER_STARTS: Final = frozenset("-+.0123456789")
_KEEP_AS_TEXT: Final = "quote it to keep it as text"
_SHOWN_MAX: Final = 40
"""The number of characters shown of an unreadable number."""
_DIGITS_MAX: Final = 19
"""The number of digits of the largest 64-bit integer."""


class SourceInt(int):
    """An integer whose text in the file differs from the one that Python writes (``007``)."""

    source: str

    def __new__(cls, value: int, source: str) -> SourceInt:
        number = super().__new__(cls, value)
        number.source = source
        return number

    def __reduce__(self) -> tuple[type[SourceInt], tuple[int, str]]:
        return (SourceInt, (int(self), self.source))


class SourceFloat(float):
    """A float whose text in the file differs from the one that Python writes (``1.50``)."""

    source: str

    def __new__(cls, value: float, source: str) -> SourceFloat:
        number = super().__new__(cls, value)
        number.source = source
        return number

    def __reduce__(self) -> tuple[type[SourceFloat], tuple[float, str]]:
        return (SourceFloat, (float(self), self.source))


def text_of(value: Any) -> str | None:
    """Return a scalar as the file spells it; None for mappings, lists and null."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, SourceInt | SourceFloat):
        return value.source
    return str(value) if isinstance(value, int | float) else None


def construct(node: Node) -> Any:
    """Return the plain value of ``node``; every alias becomes its own copy."""
    if node.tag:
        raise Fault(node, *refused_tag(node.tag))
    if isinstance(node, ScalarNode):
        return node.value if node.style else _plain(node)
    if isinstance(node, SequenceNode):
        return [construct(item) for item in node.value]
    return mapping_of(node.value)


def mapping_of(pairs: Iterable[tuple[Node, Node]]) -> dict[str, Any]:
    """Return the plain mapping of a mapping node's ``pairs``; keys are their source texts."""
    data: dict[str, Any] = {}
    for key_node, value_node in pairs:
        key = key_node.value
        if not isinstance(key, str) or key_node.tag or key in data or key in ("", "<<"):
            _check_key(key_node, pairs)
        data[key] = construct(value_node)
    return data


def _check_key(node: Node, pairs: Iterable[tuple[Node, Node]]) -> None:
    if not isinstance(node, ScalarNode):
        raise Fault(node, "a key must be a text, not a list or a mapping", QUOTE)
    if node.tag:
        raise Fault(node, *refused_tag(node.tag))
    if not node.style and not node.value:
        (value,) = [value for key, value in pairs if key is node]
        if value.start_mark.index == node.start_mark.index:
            raise Fault(node, LONE_QUESTION_MARK, QUOTE)  # libyaml reads `[? ]` since 0.2.6.
        raise Fault(node, "a key is missing before the `:`")
    if not node.style and node.value == "<<":
        advice = "write the keys out, or put an anchor under an `x-` key and alias it whole"
        raise Fault(node, "the merge key `<<` is not supported", advice)
    first = next(key for key, _ in pairs if key.value == node.value)
    if first is not node:
        line = first.start_mark.line + 1
        raise Fault(node, f"the key `{node.value}` is here twice; the first is on line {line}")


def _plain(node: ScalarNode) -> Any:
    """Return the typed value of an unquoted scalar."""
    text: str = node.value
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS:
        return text
    match = _NUMBER.fullmatch(text)
    if match is None:
        return text
    if match[1] is not None:
        return _integer(node, text)
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise Fault(node, f"the number {_cut(text)} is too large", _KEEP_AS_TEXT)
    return number if str(number) == text else SourceFloat(number, text)


def _integer(node: Node, text: str) -> int:
    digits = text.lstrip("+-").lstrip("0") or "0"
    # int() refuses texts of some thousand digits, so the length is checked first.
    number = int(digits) if len(digits) <= _DIGITS_MAX else 2**64
    number = -number if text[0] == "-" else number
    if not -(2**63) <= number < 2**63:
        raise Fault(node, f"the integer {_cut(text)} does not fit into 64 bits", _KEEP_AS_TEXT)
    return number if str(number) == text else SourceInt(number, text)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
