"""Documents: the values of a file, and their places in it."""

from __future__ import annotations

import textwrap
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from yaml.nodes import MappingNode, Node, ScalarNode

from simkit.core.errors import MatcherError, SourceError
from simkit.core.gc_pause import gc_paused
from simkit.core.redact import secrets_written_in
from simkit.core.text import likely_word
from simkit.language.paths import walk
from simkit.language.yaml.parsing import construct, mapping_of, read, roots
from simkit.language.yaml.syntax import (
    LINE_END,
    QUOTE,
    SourcePath,
    built,
    child,
    is_empty,
    is_flow,
    last_line,
    path_text,
    where,
)

EXCERPT_LINES_MAX: Final = 8
NODES_KEPT_MAX: Final = 100_000
"""Characters of the texts whose nodes are kept: they take about thirty times as many bytes."""
_T = TypeVar("_T")
HEAD_KEYS: Final = frozenset(
    ("scenario", "simulation", "pipeline", "tags", "skip", "needs", "use", "xfail", "examples")
)


class Head(msgspec.Struct, frozen=True):
    """The part of a document that test collection needs before the whole document is read."""

    index: int
    """The index of the document in its file, from 0; empty documents are not counted."""
    line: int
    """The line of the document's first value, from 1."""
    values: Mapping[str, Any]
    """The top-level values under ``HEAD_KEYS``."""
    keys: Mapping[str, str] = {}
    """Each key of the top level, with its position as ``line:column`` from 1."""


class Document:
    """One YAML document: its plain value, and the place in the file of every part of it.

    For a path whose tail does not exist, the place is that of the nearest existing ancestor. Below
    an alias, places are those of its anchor.
    """

    __slots__ = (
        "_lines", "_move", "_root_of", "_secrets", "_span", "_text", "_turns", "data",
        "file", "index",
    )  # fmt: skip

    def __init__(
        self,
        file: str,
        index: int,
        data: Any,
        root: Callable[[], Node],
        text: str,
        span: tuple[int, int] | None = None,
    ) -> None:
        """``root`` returns the document's node; it is called only when a place is needed.

        ``span`` is the range of the document in ``text``; None means all of it.
        """
        self.file = file
        """The file's path as the user gave it."""
        self.index = index
        """The index of the document in its file, from 0; empty documents are not counted."""
        self.data = data
        """Mappings, lists, texts, numbers, booleans and None."""
        self._root_of = root
        self._text = text
        self._span = span or (0, len(text))
        self._lines: list[str] = []
        self._turns: tuple[tuple[int, str], ...] = ()
        self._move: Callable[[SourcePath], SourcePath] | None = None
        self._secrets: frozenset[str] | None = None

    @property
    def secrets(self) -> frozenset[str]:
        """The secrets that a user has written into it under names that say so."""
        if self._secrets is None:
            self._secrets = frozenset(secrets_written_in(self.data))
        return self._secrets

    def with_turns(self, data: Any, turns: Iterable[tuple[int, str]]) -> Document:
        """Return the document with other values, and with repeated turns.

        ``turns`` gives, for each turn, the index at which it is written, and its repetition as
        messages print it.
        """
        other = self.with_data(data)
        other._turns = tuple(turns)
        return other

    def with_paths(self, data: Any, move: Callable[[SourcePath], SourcePath]) -> Document:
        """Return a document with data that the file holds at other paths; ``move`` returns them."""
        other = self.with_data(data)
        other._move = move
        return other

    def written_at(self, path: SourcePath) -> SourcePath:
        """Return the path in the file of the value at a path."""
        if self._move is not None:
            return self._move(path)
        turn = self._turn(path)
        return path if turn is None else ("turns", turn[0], *path[2:])

    def repetition(self, path: SourcePath) -> str:
        """Return the repetition that a path lies in, `repetition 3 of 12`; else an empty text."""
        turn = self._turn(path)
        return "" if turn is None else turn[1]

    def with_data(self, data: Any) -> Document:
        """Return the document with other values at the same places, such as resolved references."""
        other = Document(self.file, self.index, data, self._root_of, self._text, self._span)
        other._turns, other._move = self._turns, self._move
        return other

    def path_of(self, text: str) -> SourcePath | None:
        """Return the path of the first value that equals this text, or None."""
        return next((path for path, inner in walk(self.data) if inner == text), None)

    def mentions(self, text: str) -> bool:
        """Return whether a text occurs anywhere in the document."""
        return self._text.find(text, *self._span) >= 0

    def position(self, path: SourcePath, key: bool = False) -> str:
        """Return ``file:line:column``, from 1, of the value at ``path``, or of its key."""
        key_node, node = self._nodes(path)
        return where(self.file, (key_node if key and key_node else node).start_mark)

    def line(self, path: SourcePath) -> int:
        """Return the line, from 1, on which the value at ``path`` starts."""
        return int(self._nodes(path)[1].start_mark.line) + 1

    def excerpt(self, path: SourcePath) -> str:
        """Return the dedented lines of the value at ``path`` and its key, shortened with ``…``."""
        key_node, node = self._nodes(path)
        first = node
        # Below an alias the key is far from the value; the value is then shown alone.
        if key_node is not None and key_node.start_mark.index <= node.start_mark.index:
            first = key_node
        if not self._lines:
            self._lines = LINE_END.split(self._text)
        span = slice(first.start_mark.line, last_line(node) + 1)
        excerpt = textwrap.dedent("\n".join(self._lines[span])).rstrip()
        lines = excerpt.split("\n")
        if len(lines) > EXCERPT_LINES_MAX:
            lines[EXCERPT_LINES_MAX:] = ["…"]
        return "\n".join(lines)

    def error(
        self,
        path: SourcePath,
        what: str,
        *,
        word: str = "",
        known: Iterable[str] = (),
        advice: str = "",
        key: bool = False,
    ) -> SourceError:
        """Return an error about the value at ``path``, or about its key.

        ``word`` is the unknown word in place of one of ``known``. If there is no advice and a comma
        has cut a text, the advice is to quote it.
        """
        known = tuple(known)
        at = path_text(path if self._move is None else self._move(path))
        which = self.repetition(path)
        return SourceError(
            self.position(path, key),
            what,
            f"{at}, {which}" if which else at,
            likely_word(word, known),
            known,
            advice or flow_accident(self, path) or flow_accident(self, path[:-1]),
        )

    def error_of(self, problem: MatcherError, at: SourcePath, key: bool = False) -> SourceError:
        """Return the error for a problem inside the value at a path, with its place."""
        return self.error(
            (*at, *problem.path),
            problem.what,
            word=problem.word,
            known=problem.known,
            advice=problem.advice,
            key=key,
        )

    def _turn(self, path: SourcePath) -> tuple[int, str] | None:
        """Return the index at which a path's turn is written, and its repetition.

        None if no turns are repeated.
        """
        if not self._turns or len(path) < 2 or path[0] != "turns":
            return None
        index = path[1]
        return self._turns[index] if isinstance(index, int) and index < len(self._turns) else None

    def _nodes(self, path: SourcePath) -> tuple[Node | None, Node]:
        """Return the key's node, if the value is in a mapping, and the value's node."""
        key_node: Node | None = None
        node = self._root_of()
        for step in self.written_at(path):
            child_node = child(node, step)
            if child_node is None:
                return None, node
            key_node, node = child_node
        return key_node, node


def load_text(text: str, file: str) -> list[Document]:
    """Return the documents of ``text``; ``file`` is its name in errors."""
    return DocumentCache().of_text(text.removeprefix("\ufeff"), file)


class _Nodes:
    """A text's nodes: kept for later places, or composed again for them."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self._file = text, file
        self._roots: list[Node] = []

    def compose(self) -> Iterator[Node]:
        """Yield the nodes of all documents; they are kept if the text is short."""
        for root in roots(self.text, self._file):
            if len(self.text) <= NODES_KEPT_MAX:
                self._roots.append(root)
            yield root

    def document(self, index: int, root: Node) -> Document:
        """Return the document of a node; raise SourceError."""
        data = built(self._file, root, construct)
        span = root.start_mark.index, root.end_mark.index
        root_of = partial(self.root, index)
        return Document(self._file, index, data, root_of, self.text, span)

    def root(self, index: int) -> Node:
        """Return the node of a document."""
        if not self._roots:
            self._roots = list(roots(self.text, self._file))
        return self._roots[index]

    def forget(self) -> None:
        """Keep no node."""
        self._roots = []

    def __reduce__(self) -> tuple[type[_Nodes], tuple[str, str]]:
        return _Nodes, (self.text, self._file)


def _head(file: str, index: int, root: Node) -> Head:
    values = built(file, root, _head_values)
    keys = {
        key.value: f"{key.start_mark.line + 1}:{key.start_mark.column + 1}"
        for key, _ in _named_pairs(root)
    }
    return Head(index, int(root.start_mark.line) + 1, values, keys)


def _head_values(root: Node) -> dict[str, Any]:
    return mapping_of([pair for pair in _named_pairs(root) if pair[0].value in HEAD_KEYS])


def _named_pairs(root: Node) -> Sequence[tuple[Node, Node]]:
    pairs = root.value if isinstance(root, MappingNode) else ()
    return [(key, value) for key, value in pairs if isinstance(key, ScalarNode)]


def flow_accident(document: Document, path: SourcePath) -> str:
    """Return advice if a comma has cut a text in the ``{…}`` or ``[…]`` at ``path``, else "".

    ``{nutrition: Hello, you}`` is valid: ``you`` is a key without a value. ``[user: Hello, you]``
    is valid too: ``you`` is an item of its own.
    """
    node = document._nodes(path)[1]
    if not is_flow(node):
        return ""
    if isinstance(node, MappingNode):
        for key, value in node.value:
            if isinstance(key, ScalarNode) and is_empty(value):
                if ":" in key.value:
                    return f"after the `:` in `{key.value}` a space is missing"
                is_written = document._text[key.end_mark.index :].lstrip().startswith(":")
                return "" if is_written else _comma_advice("{…}", key.value, "a key")
        return ""
    for before, item in zip(node.value, node.value[1:], strict=False):
        is_pair = isinstance(before, MappingNode) and not document._text.startswith(
            ("{", "&"), before.start_mark.index
        )
        if is_pair and isinstance(item, ScalarNode) and not item.style:
            return _comma_advice("[…]", item.value, "an item")
    return ""


def _comma_advice(inside: str, word: str, role: str) -> str:
    return f"inside {inside} a comma ends a text, so `{word}` became {role} of its own: {QUOTE}"


class _Parsed(NamedTuple):
    """The nodes of a text, or why it cannot be read."""

    heads: list[Head] | SourceError
    documents: list[Document] | SourceError


class DocumentCache:
    """Reads each file once, and parses each text once: for heads, documents and their places.

    Nodes outweigh values manifold, and would only feed the garbage collector. So they are kept of
    the texts that were parsed last; a place in another text is found by composing it again.
    """

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], _Parsed] = {}
        self._files: dict[str, _Parsed] = {}
        self._recent: deque[_Nodes] = deque()

    def heads(self, file: str) -> list[Head]:
        """Return the head of each document of a file; raise SourceError."""
        return _or_raise(self._file(file).heads)

    def documents(self, file: str) -> list[Document]:
        """Return the documents of a file; raise SourceError."""
        return _or_raise(self._file(file).documents)

    def of_text(self, text: str, file: str) -> list[Document]:
        """Return the documents of a text that a file holds, or could hold; raise SourceError."""
        return _or_raise(self._parsed(text, file).documents)

    def begin_anew(self) -> None:
        """Read files again: they may hold another text now."""
        self._files.clear()

    def _file(self, file: str) -> _Parsed:
        if file not in self._files:
            self._files[file] = self._parsed(read(file), file)
        return self._files[file]

    def _parsed(self, text: str, file: str) -> _Parsed:
        parsed = self._texts.get((text, file))
        if parsed is None:
            nodes = _Nodes(text, file)
            with gc_paused:
                parsed = self._texts[text, file] = _parse(nodes, file)
            self._recent.append(nodes)
            while sum(len(each.text) for each in self._recent) > NODES_KEPT_MAX:
                self._recent.popleft().forget()
        return parsed


def _parse(nodes: _Nodes, file: str) -> _Parsed:
    heads: list[Head] = []
    documents: list[Document] = []
    problem: SourceError | None = None
    try:
        for index, root in enumerate(nodes.compose()):
            try:
                documents.append(nodes.document(index, root))
            except SourceError as fault:
                problem = problem or fault
            heads.append(_head(file, index, root))
    except SourceError as broken:
        return _Parsed(broken, problem or broken)
    return _Parsed(heads, problem or documents)


def _or_raise(value: list[_T] | SourceError) -> list[_T]:
    if isinstance(value, SourceError):
        raise value
    return value
