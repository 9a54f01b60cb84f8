"""From a file to sound nodes: size, encoding, syntax, nesting and aliases are checked here."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, cast

from yaml._yaml import CParser
from yaml.error import MarkedYAMLError
from yaml.nodes import Node, ScalarNode
from yaml.reader import ReaderError
from yaml.tokens import TagToken, Token

from simkit.core.errors import SourceError
from simkit.language.yaml.nodes import Fault, built, children, is_empty, where, where_after
from simkit.language.yaml.syntax import TAB, refused_tag, rephrased

FILE_BYTES_MAX: Final = 4_000_000
NESTING_MAX: Final = 100
"""How many lists and mappings may lie around a value, aliases expanded."""
NODES_MAX: Final = 1_000_000
"""How many values and keys a document with aliases may have once they are expanded."""

_UNPRINTABLE: Final = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)
_FOREIGN_LINE_ENDS: Final = ("\x85", "\u2028", "\u2029")
"""Line ends to libyaml, which reads YAML 1.1 here, but neither to YAML 1.2 nor to editors."""
_BARE_TAG: Final = re.compile(r"(?:^|(?<=[\s\[{,]))!(?=[\s,\]}]|\Z)")
_SEPARATING_TAB: Final = re.compile(r"(?m)^[^#\r\n]*?\t")


def read(path: str | Path) -> str:
    """Return the text of the file at ``path``, which is a regular one, not too long, and UTF-8."""
    file = str(path)
    try:
        status = Path(path).stat()
        if stat.S_ISDIR(status.st_mode):
            raise SourceError(file, "this is a directory, not a file")
        if not stat.S_ISREG(status.st_mode):
            raise SourceError(file, "this is not a regular file")
        if status.st_size > FILE_BYTES_MAX:
            problem = f"the file has {status.st_size:,} bytes; at most {FILE_BYTES_MAX:,} are read"
            raise SourceError(file, problem, advice="split it into several files")
        content = Path(path).read_bytes()
    except FileNotFoundError:
        raise SourceError(file, "there is no such file") from None
    except OSError as error:
        raise SourceError(file, f"the file cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise SourceError(repr(file), f"this is no path: {error}") from None
    try:
        return content.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode().removeprefix("\ufeff")
        problem = f"byte {error.start} of the file (0x{content[error.start]:02x}) is not UTF-8"
        raise SourceError(
            where_after(file, before), problem, advice="save the file as UTF-8"
        ) from None


def roots(text: str, file: str) -> Iterator[Node]:
    """Yield the root nodes of the documents that are not entirely empty; at least one.

    They come one by one, so that a reader who does not keep them does not hold the whole file.
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
    # Only now, because the scanner takes quadratic time on nesting that the composer refuses.
    if "\t" in text or _BARE_TAG.search(text):
        _refuse_between_tokens(text, file)
    if not count:
        raise SourceError(f"{file}:1:1", "the file holds no document")


def _composed(text: str, file: str) -> Iterator[Node]:
    try:
        composer = _Composer(text, file)
        while composer.check_node():
            yield cast(Node, composer.get_node())
    except (ReaderError, UnicodeEncodeError):
        raise _unprintable(text, file) from None
    except MarkedYAMLError as error:
        if "nesting depth" in (error.problem or ""):
            # libyaml has a limit of its own since 0.2.6, and its scanner is ahead of the composer:
            # the text up to the first brackets that are too many is refused by the composer.
            mark: Any = error.problem_mark
            yield from _composed(_up_to_brackets(text, mark.index), file)
        raise rephrased(error, text, file) from None


def _up_to_brackets(text: str, end: int) -> str:
    """Cut a text behind the first bracket that is nested deeper than a document may be.

    ``end`` is a place behind thousands of open brackets; those in quoted texts only move the place.
    """
    opened: list[int] = []
    for match in re.finditer(r"[][{}]", text[:end]):
        if match[0] in "[{":
            opened.append(match.start())
        elif opened:
            opened.pop()
    return text[: opened[NESTING_MAX + 1] + 1] if len(opened) > NESTING_MAX + 1 else text[:end]


class _Composer(CParser):
    """libyaml's composer, told not to guess types, and stopped before it can fill the C stack."""

    def __init__(self, text: str, file: str) -> None:
        super().__init__(text)
        self.descend_resolver, self.ascend_resolver = _guards(file)

    def resolve(self, kind: type[Node], value: str | None, implicit: Any) -> str:
        """Return an empty tag, so that every other tag is one that the author wrote."""
        return ""


def _guards(file: str) -> tuple[Callable[[Node | None, Any], None], Callable[[], None]]:
    """Return what a composer calls before and after each node: it has no limit of its own.

    They are closures because they stand for a fifth of the time that composing takes.
    """
    depth = -1

    def descend(parent: Node | None, index: Any) -> None:
        nonlocal depth
        depth += 1
        if depth > NESTING_MAX and parent is not None:
            problem = f"lists and mappings are nested deeper than {NESTING_MAX} levels"
            raise SourceError(where(file, parent.start_mark), problem)

    def ascend() -> None:
        nonlocal depth
        depth -= 1

    return descend, ascend


def _unprintable(text: str, file: str) -> SourceError:
    match = _UNPRINTABLE.search(text)
    start = match.start() if match else len(text)
    code = ord(match[0]) if match else 0
    escape = f"\\u{code:04x}" if code > 0xFF else f"\\x{code:02x}"
    return SourceError(
        where_after(file, text[:start]),
        f"the character U+{code:04X} cannot stand in a YAML file",
        advice=f'inside double quotes, "{escape}" stands for it',
    )


def _refuse_between_tokens(text: str, file: str) -> None:
    """Raise for what no node shows: tabs that separate or indent, and the tag ``!``."""
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
    known: dict[int, tuple[int, int] | None] = {}

    def expansion(node: Node) -> tuple[int, int]:
        """Return how many nodes, and how many levels of them, ``node`` stands for."""
        if isinstance(node, ScalarNode):
            return 1, 0
        if id(node) in known:
            total = known[id(node)]
            if total is None:
                raise Fault(node, "an alias stands inside the very value that it names")
            return total
        known[id(node)] = None
        size, height = 1, 0
        for below in children(node):
            child_size, child_height = expansion(below)
            size, height = size + child_size, max(height, child_height + 1)
        if size > NODES_MAX:
            raise Fault(node, f"aliases expand this to more than {NODES_MAX:,} values")
        if height > NESTING_MAX:
            raise Fault(node, f"aliases nest this deeper than {NESTING_MAX} levels")
        known[id(node)] = size, height
        return size, height

    expansion(root)
