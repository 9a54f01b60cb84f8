"""From a file to valid nodes, and to plain values: typed scalars and valid keys.

Size, encoding, syntax, nesting and aliases are checked on the way.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self, cast

import msgspec
from yaml._yaml import CParser
from yaml.error import MarkedYAMLError
from yaml.nodes import Node, ScalarNode, SequenceNode
from yaml.reader import ReaderError
from yaml.tokens import TagToken, Token

from simkit.core.errors import SourceError
from simkit.core.text import late_pattern, near
from simkit.language.yaml.syntax import (
    LONE_QUESTION_MARK,
    QUOTE,
    TAB,
    Fault,
    built,
    children,
    is_empty,
    refused_tag,
    rephrased,
    where,
    where_after,
)

FILE_BYTES_MAX: Final = 4_000_000
NESTING_MAX: Final = 100
"""The largest depth of lists and mappings, with aliases expanded."""
NODES_MAX: Final = 1_000_000
"""The largest number of values and keys of a document with aliases, once they are expanded."""

_UNPRINTABLE: Final = "[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
_FOREIGN_LINE_ENDS: Final = ("\x85", "\u2028", "\u2029")
"""Line ends for libyaml, which reads YAML 1.1 here, but not for YAML 1.2 or editors."""
_BARE_TAG: Final = late_pattern(r"(?:^|(?<=[\s\[{,]))!(?=[\s,\]}]|\Z)")
_SEPARATING_TAB: Final = late_pattern(r"(?m)^[^#\r\n]*?\t")


def read_bytes(path: str | Path, most: int = FILE_BYTES_MAX) -> bytes:
    """Return the content of a file, which must be a regular file, and not too long."""
    file = str(path)
    try:
        status = Path(path).stat()
        if stat.S_ISDIR(status.st_mode):
            raise SourceError(file, "this is a directory, not a file")
        if not stat.S_ISREG(status.st_mode):
            raise SourceError(file, "this is not a regular file")
        if status.st_size > most:
            problem = f"the file has {status.st_size:,} bytes; at most {most:,} are read"
            raise SourceError(file, problem, advice="split it into several files")
        return Path(path).read_bytes()
    except FileNotFoundError:
        stem, _, ending = Path(path).name.partition(".")
        files = {each.name.split(".")[0]: each for each in Path(path).parent.glob(f"*.{ending}")}
        nearest = str(files.get(near(stem, files), ""))
        raise SourceError(file, "there is no such file", near=nearest) from None
    except OSError as error:
        raise SourceError(file, f"the file cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise SourceError(repr(file), f"this is no path: {error}") from None


def read(path: str | Path) -> str:
    """Return the text of a file, which must be a regular file, not too long, and UTF-8."""
    content = read_bytes(path)
    try:
        return content.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode().removeprefix("\ufeff")
        problem = f"byte {error.start} of the file (0x{content[error.start]:02x}) is not UTF-8"
        raise SourceError(
            where_after(str(path), before), problem, advice="save the file as UTF-8"
        ) from None


def roots(text: str, file: str) -> Iterator[Node]:
    """Yield the root nodes of the documents that are not entirely empty; at least one.

    A reader that keeps none of them never holds the whole file in memory.
    """
    if not text.isascii() and any(end in text for end in _FOREIGN_LINE_ENDS):
        raise _unprintable(text, file)
    has_aliases = "&" in text and "*" in text
    count = 0
    for root in _composed(text, file):
        if not is_empty(root):
            count += 1
            if has_aliases:
                built(file, root, _refuse_endless)
            yield root
    # Only now, because the scanner takes quadratic time on nesting that the composer rejects.
    # `in` rules out the tag many times as fast as the pattern, which begins with no character.
    if "\t" in text or ("!" in text and _BARE_TAG.search(text)):
        _refuse_between_tokens(text, file)
    if not count:
        raise SourceError(
            f"{file}:1:1", "the file holds no document", advice="write its text, or delete the file"
        )


def _composed(text: str, file: str) -> Iterator[Node]:
    try:
        composer = _Composer(text, file)
        while composer.check_node():
            yield cast(Node, composer.get_node())
    except (ReaderError, UnicodeEncodeError):
        raise _unprintable(text, file) from None
    except MarkedYAMLError as error:
        if "nesting depth" in (error.problem or ""):
            # libyaml has its own limit since 0.2.6, and its scanner runs ahead of the composer: the
            # composer rejects the text up to the first brackets that are too many.
            mark: Any = error.problem_mark
            yield from _composed(_up_to_brackets(text, mark.index), file)
        raise rephrased(error, text, file) from None


def _up_to_brackets(text: str, end: int) -> str:
    """Cut a text after the first bracket that is nested deeper than a document may be.

    ``end`` is a place after thousands of open brackets; brackets in quoted texts only move the cut.
    """
    opened: list[int] = []
    for match in re.finditer(r"[][{}]", text[:end]):
        if match[0] in "[{":
            opened.append(match.start())
        elif opened:
            opened.pop()
    return text[: opened[NESTING_MAX + 1] + 1] if len(opened) > NESTING_MAX + 1 else text[:end]


class _Composer(CParser):
    """libyaml's composer without guessing of types, stopped before it can overflow the C stack."""

    def __init__(self, text: str, file: str) -> None:
        super().__init__(text)
        self._file, self._depth = file, -1

    def descend_resolver(self, parent: Node | None, index: Any) -> None:
        """Reject a node that is nested too deeply; libyaml calls this before each node."""
        self._depth += 1
        if self._depth > NESTING_MAX and parent is not None:
            problem = f"lists and mappings are nested deeper than {NESTING_MAX} levels"
            raise SourceError(where(self._file, parent.start_mark), problem)

    def ascend_resolver(self) -> None:
        """Leave a node."""
        self._depth -= 1

    def resolve(self, kind: type[Node], value: str | None, implicit: Any) -> str:
        """Return an empty tag, so that every other tag is one that the author wrote."""
        return ""


def _unprintable(text: str, file: str) -> SourceError:
    match = re.search(_UNPRINTABLE, text)
    start = match.start() if match else len(text)
    code = ord(match[0]) if match else 0
    escape = f"\\u{code:04x}" if code > 0xFF else f"\\x{code:02x}"
    return SourceError(
        where_after(file, text[:start]),
        f"the character U+{code:04X} cannot stand in a YAML file",
        advice=f'inside double quotes, "{escape}" stands for it',
    )


def _refuse_between_tokens(text: str, file: str) -> None:
    """Raise for errors that no node shows: tabs that separate or indent, and the tag ``!``."""
    scanner = _Composer(text, file)
    end = 0
    while scanner.check_token():
        token = cast(Token, scanner.get_token())
        start = token.start_mark.index
        # Between tokens there is only white space and comments, so a `#` begins a comment.
        tab = _SEPARATING_TAB.search(text[end:start]) if start > end else None
        if tab:
            problem, advice = TAB
            raise SourceError(
                where_after(file, text[: end + tab.end() - 1]), problem, advice=advice
            )
        if isinstance(token, TagToken) and token.value == (None, "!"):
            problem, advice = refused_tag("!")
            raise SourceError(where(file, token.start_mark), problem, advice=advice)
        end = max(end, token.end_mark.index)


def _refuse_endless(root: Node) -> None:
    """Raise a fault if aliases make the document below ``root`` endless, too large or too deep."""
    totals: dict[int, tuple[int, int] | None] = {}

    def expansion(node: Node) -> tuple[int, int]:
        """Return the number of nodes, and of their levels, that ``node`` expands to."""
        if isinstance(node, ScalarNode):
            return 1, 0
        if id(node) in totals:
            total = totals[id(node)]
            if total is None:
                raise Fault(node, "an alias stands inside the very value that it names")
            return total
        totals[id(node)] = None
        size, height = 1, 0
        for below in children(node):
            child_size, child_height = expansion(below)
            size, height = size + child_size, max(height, child_height + 1)
        if size > NODES_MAX:
            raise Fault(node, f"aliases expand this to more than {NODES_MAX:,} values")
        if height > NESTING_MAX:
            raise Fault(node, f"aliases nest this deeper than {NESTING_MAX} levels")
        totals[id(node)] = size, height
        return size, height

    expansion(root)


# From nodes to plain values


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


class _SourceNumber:
    """A number whose text in the file differs from the one that Python writes."""

    source: str

    def __new__(cls, value: float | str, source: str) -> Self:
        number = super().__new__(cls, value)  # type: ignore[call-arg]
        number.source = source
        return number

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        return type(self), (repr(self), self.source)


class SourceInt(_SourceNumber, int):
    """An integer such as ``007``."""


class SourceFloat(_SourceNumber, float):
    """A float such as ``1.50``."""


def text_of(value: Any) -> str | None:
    """Return a scalar as the file spells it; None for mappings, lists and null."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, SourceInt | SourceFloat):
        return value.source
    return str(value) if isinstance(value, int | float) else None


def packed(value: Any) -> bytes:
    """Return a value of a file as bytes, which `unpacked` reads: numbers keep their spelling."""
    return msgspec.msgpack.encode(value, enc_hook=_spelling)


def unpacked(data: bytes) -> Any:
    """Return the value that was packed."""
    return msgspec.msgpack.decode(data, ext_hook=_spelt)


def _spelling(number: Any) -> msgspec.msgpack.Ext:
    if not isinstance(number, SourceInt | SourceFloat):
        raise TypeError(f"{type(number).__name__} is no value of a file")
    value = float(number) if isinstance(number, SourceFloat) else int(number)
    return msgspec.msgpack.Ext(0, msgspec.msgpack.encode((value, number.source)))


def _spelt(code: int, data: memoryview) -> SourceInt | SourceFloat:
    number, source = msgspec.msgpack.decode(data)
    return SourceFloat(number, source) if type(number) is float else SourceInt(number, source)


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
        problem = f"the key `{node.value}` is here twice; the first is on line {line}: join them"
        raise Fault(node, problem)


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
