"""From a file to plain data: YAML 1.1 as recorders write it, or JSON; every error has its line.

`simkit.language.yaml` reads a narrower YAML, for files that people write: no tags, no line ends but
``\\n``, few megabytes. Recorded files have all of that. libyaml composes; plain scalars are typed
as PyYAML's safe loader types them, except dates, which stay texts. Only plain data is built.
"""

from __future__ import annotations

import binascii
import gzip
import io
import json
import stat
import zlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec
from yaml._yaml import CParser
from yaml.constructor import SafeConstructor
from yaml.error import MarkedYAMLError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.reader import ReaderError
from yaml.resolver import Resolver

from simkit.capture.cassettes.dialects import Misfit, interactions_of
from simkit.capture.cassettes.own_layout import own_data
from simkit.capture.cassettes.values import Cassette
from simkit.core.errors import CassetteInvalid, SourceError
from simkit.language.yaml.nodes import child
from simkit.language.yaml.syntax import rephrased

FILE_BYTES_MAX: Final = 256_000_000
NESTING_MAX: Final = 200
"""The largest depth of lists and mappings."""
NODES_MAX: Final = 10_000_000
"""The largest number of values in a file, with aliases expanded."""

ADVICE: Final = "restore the file, or delete it and record again; it is never overwritten"

_PREFIX: Final = "tag:yaml.org,2002:"
_TEXTS: Final = frozenset(
    ("", "!", f"{_PREFIX}str", f"{_PREFIX}python/str", f"{_PREFIX}python/unicode")
)
# Before 1.0, vcrpy wrote a request as an object, and its headers as a set.
_SEQUENCES: Final = frozenset(
    (
        "",
        "!",
        f"{_PREFIX}seq",
        f"{_PREFIX}python/tuple",
        f"{_PREFIX}python/object/apply:__builtin__.frozenset",
        f"{_PREFIX}python/object/apply:builtins.frozenset",
    )
)
# vcrpy writes the body of a request that was a file or an iterator like this: a mapping with this
# key, and the body as the first element of its list.
_FILE: Final = f"{_PREFIX}python/object/new:_io.BytesIO"
_ITERATOR: Final = f"{_PREFIX}python/object/apply:builtins.iter"
_BODIES: Final[Mapping[str, str]] = {_FILE: "state", _ITERATOR: "args"}
_MAPPINGS: Final = frozenset(
    ("", "!", f"{_PREFIX}map", f"{_PREFIX}python/object:vcr.request.Request", *_BODIES)
)
_WRONG: Final = (ValueError, KeyError, IndexError, AttributeError, TypeError, OverflowError)
"""Exceptions of PyYAML's constructors for a scalar that does not fit its tag."""
_IS_DATE: Final = f"{_PREFIX}timestamp"
# Untyped, like the stubs' own types of nodes.
_RESOLVER: Final[Any] = Resolver()
_CONSTRUCTOR: Final = SafeConstructor()


def invalid(path: Path | str, line: int, problem: str, at: str = "") -> CassetteInvalid:
    """Return an error about a cassette; line 0 means unknown."""
    where = f"{path}:{line}" if line else str(path)
    place = f"\n  at {at}" if at else ""
    return CassetteInvalid(f"{where}: {problem}{place}\n  {ADVICE}")


class Text:
    """A cassette's text, its data, and the line of everything in it."""

    def __init__(self, path: Path, content: bytes) -> None:
        """``content`` may be compressed; raise CassetteInvalid if it is no text."""
        self.path = path
        self.text = _text(path, content)

    def tree(self) -> Any:
        """Return the data: mappings, lists, texts, bytes, numbers, booleans and None."""
        if not self.text.strip():
            raise invalid(self.path, 0, "the file is empty")
        name = self.path.name.removesuffix(".gz")
        return self._json() if name.endswith(".json") else self._yaml()

    def lines(self, at: Iterable[tuple[str | int, ...]]) -> list[int]:
        """Return the lines, from 1, of the values at paths, or of the nearest outer values.

        They are 0 for a text whose places are not known.
        """
        return [first for first, _ in self.extents(at)]

    def extents(self, at: Iterable[tuple[str | int, ...]]) -> list[tuple[int, int]]:
        """Return the first and the last line of each value, as `lines` finds them."""
        paths = list(at)
        try:
            # JSON is valid YAML: one reader gives the positions of both.
            root = _Composer(self).root()
        except CassetteInvalid:
            return [(0, 0)] * len(paths)
        return [_extent(root, path) for path in paths]

    def invalid(self, path: tuple[str | int, ...], problem: str) -> CassetteInvalid:
        """Return the error about a path of the data."""
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
        return invalid(self.path, self.lines([path])[0], problem, "".join(steps).removeprefix("."))

    def _json(self) -> Any:
        try:
            return msgspec.json.decode(self.text)
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            pass
        try:
            # json accepts what msgspec rejects and recorders write: half surrogates and NaN.
            return json.loads(self.text)
        except RecursionError:
            raise invalid(self.path, 0, "its values are nested too deeply") from None
        except json.JSONDecodeError as error:
            problem = f"this is no JSON: {error.msg}"
            raise invalid(self.path, error.lineno, problem) from None
        except ValueError:
            raise invalid(self.path, 0, "it holds a number that is too long") from None

    def _yaml(self) -> Any:
        tree = own_data(self.text)
        if tree is not None:
            return tree
        composer = _Composer(self)
        return _Builder(self.path).built(composer.root())


def _extent(node: Node, path: Iterable[str | int]) -> tuple[int, int]:
    for step in path:
        child_node = child(node, step)
        if child_node is None:
            break
        node = child_node[1]
    # The end of a block is the start of the next thing.
    is_block = node.end_mark.column == 0 and node.end_mark.line > node.start_mark.line
    return int(node.start_mark.line) + 1, int(node.end_mark.line) + (not is_block)


class _Composer(CParser):
    """libyaml's composer without guessing of types, stopped before it can overflow the C stack."""

    def __init__(self, text: Text) -> None:
        self._of = text
        try:
            super().__init__(text.text)
        except UnicodeEncodeError as error:
            line = text.text.count("\n", 0, error.start) + 1
            raise invalid(text.path, line, "a half surrogate cannot stand in a file") from None
        self._depth = -1

    def root(self) -> Node:
        """Return the node of the only document."""
        path, text = self._of.path, self._of.text
        try:
            node = self.get_single_node()
        except MarkedYAMLError as error:
            problem_text = rephrased(error, text, "")
            raise invalid(path, int(problem_text.where.split(":")[1]), problem_text.what) from None
        except ReaderError as error:
            line = text.encode().count(b"\n", 0, error.position or 0) + 1
            raise invalid(path, line, "a character that cannot stand in YAML") from None
        except SourceError as error:
            raise invalid(path, int(error.where), error.what) from None
        if node is None:
            raise invalid(path, 0, "the file holds no document")
        return node

    def resolve(self, kind: type[Node], value: str | None, implicit: Any) -> str:
        """Return an empty tag, so that every other tag is one in the file."""
        return ""

    def descend_resolver(self, parent: Node | None, index: Any) -> None:
        """Check the depth before each node; the composer is recursive and has no limit."""
        self._depth += 1
        if self._depth > NESTING_MAX and parent is not None:
            line = str(parent.start_mark.line + 1)
            raise SourceError(line, f"values are nested deeper than {NESTING_MAX} levels")

    def ascend_resolver(self) -> None:
        """Count down after each node."""
        self._depth -= 1


class _Builder:
    """Builds data from nodes; the target of aliases is built once, and shared."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._built: dict[int, tuple[Any, int]] = {}
        self._open: set[int] = set()
        self._nodes = 0

    def built(self, node: Node) -> Any:
        """Return the data of a node."""
        if isinstance(node, ScalarNode):
            self._nodes += 1
            return self._scalar(node)
        known = self._built.get(id(node))
        if known is not None:
            self._nodes += known[1]
            self._check(node)
            return known[0]
        if id(node) in self._open:
            self._refuse(node, "an alias stands inside the very value that it names")
        self._open.add(id(node))
        before = self._nodes
        self._nodes += 1
        data = self._list(node) if isinstance(node, SequenceNode) else self._mapped(node)
        self._check(node)
        self._open.discard(id(node))
        self._built[id(node)] = data, self._nodes - before
        return data

    def _check(self, node: Node) -> None:
        if self._nodes > NODES_MAX:
            self._refuse(node, f"aliases expand the file to more than {NODES_MAX:,} values")

    def _list(self, node: SequenceNode) -> list[Any]:
        if node.tag not in _SEQUENCES:
            self._refuse_tag(node)
        return [self.built(item) for item in node.value]

    def _mapped(self, node: Node) -> Any:
        """Return a mapping, or the bytes that one of vcrpy's mappings stands for."""
        mapping = self._mapping(node)
        key = _BODIES.get(node.tag)
        if key is None:
            return mapping
        try:
            whole = mapping.get(key) or [b""]
            parts = whole[0] if node.tag == _ITERATOR else [whole[0]]
            return b"".join(_bytes(part) for part in parts)
        except _WRONG:
            self._refuse(node, "this is no body that vcrpy writes")

    def _mapping(self, node: Node) -> dict[str, Any]:
        if not isinstance(node, MappingNode) or node.tag not in _MAPPINGS:
            self._refuse_tag(node)
        mapping: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode) or key.tag not in _TEXTS:
                self._refuse(key, "a key must be a text")
            if key.value in mapping:
                self._refuse(key, f"the key {key.value!r} is here twice")
            mapping[key.value] = self.built(value)
        return mapping

    def _scalar(self, node: ScalarNode) -> Any:
        tag, value = node.tag, node.value
        if tag == "":
            if node.style:
                return value
            try:
                return _plain(value)
            except _WRONG:
                self._refuse(node, f"the value {value[:40]!r} cannot be read")
        if tag in _TEXTS:
            return value
        if tag == f"{_PREFIX}binary":
            try:
                return binascii.a2b_base64("".join(value.split()), strict_mode=True)
            except ValueError:
                self._refuse(node, "this is no base64")
        if tag in (f"{_PREFIX}int", f"{_PREFIX}float", f"{_PREFIX}bool", f"{_PREFIX}null"):
            try:
                return _typed(tag, value)
            except _WRONG:
                self._refuse(node, f"the value {value[:40]!r} is not what its tag says")
        self._refuse_tag(node)

    def _refuse_tag(self, node: Node) -> NoReturn:
        tag_name = str(node.tag).replace(_PREFIX, "!!")
        self._refuse(node, f"the tag `{tag_name}` is not supported")

    def _refuse(self, node: Node, problem: str) -> NoReturn:
        raise invalid(self._path, node.start_mark.line + 1, problem)


def _bytes(part: Any) -> bytes:
    if isinstance(part, int):
        return bytes((part,))
    return part.encode() if isinstance(part, str) else bytes(part)


@lru_cache(maxsize=4096)
def _plain(text: str) -> Any:
    """Return the value of an unquoted scalar in YAML 1.1; a date stays a text."""
    tag = _RESOLVER.resolve(ScalarNode, text, (True, False))
    return text if tag == _IS_DATE or tag == f"{_PREFIX}str" else _typed(tag, text)


def _typed(tag: str, text: str) -> Any:
    if tag not in _CONSTRUCTORS:
        return text
    return _CONSTRUCTORS[tag](_CONSTRUCTOR, ScalarNode(tag, text))


_CONSTRUCTORS: Final[Mapping[str, Any]] = {
    f"{_PREFIX}int": SafeConstructor.construct_yaml_int,
    f"{_PREFIX}float": SafeConstructor.construct_yaml_float,
    f"{_PREFIX}bool": SafeConstructor.construct_yaml_bool,
    f"{_PREFIX}null": SafeConstructor.construct_yaml_null,
}


def read(path: Path) -> bytes:
    """Return a file's bytes; raise CassetteInvalid if it is no file, or too long."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise CassetteInvalid(f"{path}: this is not a regular file")
        if status.st_size > FILE_BYTES_MAX:
            most = f"at most {FILE_BYTES_MAX:,} are read"
            raise CassetteInvalid(f"{path}: the file has {status.st_size:,} bytes; {most}")
        return path.read_bytes()
    except FileNotFoundError:
        raise CassetteInvalid(f"{path}: there is no such file") from None
    except OSError as error:
        raise CassetteInvalid(f"{path}: the file cannot be read: {error.strerror}") from None


def _text(path: Path, content: bytes) -> str:
    if path.name.endswith(".gz"):
        try:
            content = _unzipped(content)
        except (OSError, EOFError, zlib.error) as error:
            raise invalid(path, 0, f"the file cannot be decompressed: {error}") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        problem = f"byte {error.start} of the file (0x{content[error.start]:02x}) is not UTF-8"
        raise invalid(path, line, problem) from None


def _unzipped(content: bytes) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
        plain_content = stream.read(FILE_BYTES_MAX + 1)
    if len(plain_content) > FILE_BYTES_MAX:
        raise zlib.error(f"it holds more than {FILE_BYTES_MAX:,} bytes")
    return plain_content


def load(path: str | Path) -> Cassette:
    """Return the cassette at ``path``; raise CassetteInvalid for any error in it.

    The file is YAML, or JSON by its extension; either may be compressed (``.yaml.gz``).
    """
    return loads(read(Path(path)), path)


def loads(content: bytes, path: str | Path) -> Cassette:
    """Return the cassette in a file's bytes; ``path`` gives the format."""
    text = Text(Path(path), content)
    try:
        return Cassette(text.path, tuple(interactions_of(text.tree())))
    except Misfit as misfit:
        raise text.invalid(misfit.at, misfit.problem) from None


def absent(path: str | Path) -> Cassette:
    """Return the empty cassette of a file that does not exist yet."""
    return Cassette(Path(path), (), is_there=False)
