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
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NoReturn

from yaml import CSafeLoader
from yaml.error import MarkedYAMLError
from yaml.nodes import MappingNode, Node, ScalarNode
from yaml.reader import ReaderError

from simkit.capture.cassettes.values import Cassette
from simkit.capture.cassettes.vcrpy_layout import (
    BEFORE_1_0,
    Misfit,
    advice,
    in_vcrpy_layout,
    interactions_of,
    recorder_of,
)
from simkit.core.errors import CassetteInvalid, SourceError
from simkit.language.yaml.parsing import read_bytes
from simkit.language.yaml.syntax import CONFLICT, child, line_of_conflict, rephrased

FILE_BYTES_MAX: Final = 256_000_000
NESTING_MAX: Final = 200
"""The largest depth of lists and mappings."""

_POINTER: Final = "version https://git-lfs.github.com/spec/"
ADVICE: Final = "restore the file, or delete it and record again; it is never overwritten"


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
        self._refuse_traces_of_git()

    def _refuse_traces_of_git(self) -> None:
        if self.text.startswith(_POINTER):
            problem = "this is a pointer of Git LFS, and not the file: `git lfs pull` fetches it"
            raise invalid(self.path, 1, problem)
        line = line_of_conflict(self.text)
        if line:
            raise invalid(self.path, line, f"{CONFLICT}: settle it")

    def tree(self) -> Any:
        """Return the data: mappings, lists, texts, bytes, numbers, booleans and None."""
        if not self.text.strip():
            raise invalid(self.path, 0, "the file is empty")
        name = self.path.name.removesuffix(".gz")
        return self._json() if name.endswith(".json") else _Loader(self).data()

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
            root = _Loader(self).root()
        except CassetteInvalid:
            return [(0, 0)] * len(paths)
        return [_extent(root, path) for path in paths]

    def invalid(self, path: tuple[str | int, ...], problem: str) -> CassetteInvalid:
        """Return the error about a path of the data."""
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
        return invalid(self.path, self.lines([path])[0], problem, "".join(steps).removeprefix("."))

    def _json(self) -> Any:
        try:
            return json.loads(self.text)
        except RecursionError:
            raise invalid(self.path, 0, "its values are nested too deeply") from None
        except json.JSONDecodeError as error:
            problem = f"this is no JSON: {error.msg}"
            raise invalid(self.path, error.lineno, problem) from None
        except ValueError:
            raise invalid(self.path, 0, "it holds a number that is too long") from None


def _extent(node: Node, path: Iterable[str | int]) -> tuple[int, int]:
    for step in path:
        child_node = child(node, step)
        if child_node is None:
            break
        node = child_node[1]
    # The end of a block is the start of the next thing.
    is_block = node.end_mark.column == 0 and node.end_mark.line > node.start_mark.line
    return int(node.start_mark.line) + 1, int(node.end_mark.line) + (not is_block)


_PREFIX: Final = "tag:yaml.org,2002:"
_WRONG: Final = (ValueError, KeyError, IndexError, AttributeError, TypeError, OverflowError)
"""Exceptions of PyYAML's constructors for a scalar that does not fit its tag."""


class _Loader(CSafeLoader):
    """PyYAML's safe loader that builds plain data only, and names the line of each error.

    It stops before libyaml's composer, which is recursive and has no limit, can overflow the C
    stack.
    """

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

    def data(self) -> Any:
        """Return the data of the only document."""
        return self.construct_document(self.root())

    def descend_resolver(self, parent: Node | None, index: Any) -> None:
        """Check the depth before each node."""
        self._depth += 1
        if self._depth > NESTING_MAX and parent is not None:
            line = str(parent.start_mark.line + 1)
            raise SourceError(line, f"values are nested deeper than {NESTING_MAX} levels")

    def ascend_resolver(self) -> None:
        """Count down after each node."""
        self._depth -= 1

    def construct_object(self, node: Node, deep: bool = False) -> Any:
        """Return the data of a node."""
        try:
            return super().construct_object(node, deep)
        except MarkedYAMLError as error:
            self._refuse(node, error.problem or "this cannot be read")
        except _WRONG:
            self._refuse(node, f"the value {str(node.value)[:40]!r} cannot be read")

    def construct_mapping(self, node: Node, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping; its keys are texts, each of them once."""
        if not isinstance(node, MappingNode):
            self._refuse(node, "this is no mapping")
        mapping: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                self._refuse(key, "a key must be a text")
            if key.value in mapping:
                self._refuse(key, f"the key {key.value!r} is here twice")
            mapping[key.value] = self.construct_object(value, deep)
        return mapping

    def construct_undefined(self, node: Node) -> NoReturn:
        """Refuse every tag that does not stand for plain data."""
        if str(node.tag).endswith("python/object:vcr.request.Request"):
            raise _foreign(self._of.path, BEFORE_1_0)
        tag_name = str(node.tag).replace(_PREFIX, "!!")
        self._refuse(node, f"the tag `{tag_name}` is not supported")

    def construct_text(self, node: Node) -> Any:
        """Return a text as it stands in the file."""
        return self.construct_scalar(node)  # type: ignore[arg-type]

    def construct_bytes(self, node: Node) -> bytes:
        """Return the bytes that base64 stands for."""
        text = "".join(str(self.construct_text(node)).split())
        try:
            return binascii.a2b_base64(text, strict_mode=True)
        except ValueError:
            self._refuse(node, "this is no base64")

    def construct_file(self, node: Node) -> bytes:
        """Return the body of a request that was a file, as vcrpy writes it."""
        return self._body(node, lambda data: (data["state"][0],))

    def construct_iterator(self, node: Node) -> bytes:
        """Return the body of a request that was an iterator, as vcrpy writes it."""
        return self._body(node, lambda data: data["args"][0])

    def _body(self, node: Node, parts_of: Callable[[dict[str, Any]], Iterable[Any]]) -> bytes:
        data = self.construct_mapping(node, deep=True)
        try:
            return b"".join(_bytes(part) for part in parts_of(data))
        except _WRONG:
            self._refuse(node, "this is no body that vcrpy writes")

    def _refuse(self, node: Node, problem: str) -> NoReturn:
        raise invalid(self._of.path, node.start_mark.line + 1, problem)


def _bytes(part: Any) -> bytes:
    if isinstance(part, int):
        return bytes((part,))
    return part.encode() if isinstance(part, str) else bytes(part)


_TEXTS: Final = ("str", "python/str", "python/unicode", "timestamp", "value", "merge")
_Loader.yaml_constructors = {
    **{
        f"{_PREFIX}{name}": CSafeLoader.yaml_constructors[f"{_PREFIX}{name}"]
        for name in ("null", "bool", "int", "float", "seq", "map")
    },
    **{f"{_PREFIX}{name}": _Loader.construct_text for name in _TEXTS},
    f"{_PREFIX}binary": _Loader.construct_bytes,
    f"{_PREFIX}python/tuple": CSafeLoader.yaml_constructors[f"{_PREFIX}seq"],
    f"{_PREFIX}python/object/new:_io.BytesIO": _Loader.construct_file,
    f"{_PREFIX}python/object/apply:builtins.iter": _Loader.construct_iterator,
    None: _Loader.construct_undefined,
}


def read(path: Path) -> bytes:
    """Return a file's bytes; raise CassetteInvalid if it is no file, or too long."""
    try:
        return read_bytes(path, FILE_BYTES_MAX)
    except SourceError as problem:
        raise CassetteInvalid(f"{problem.where}: {problem.what}") from None


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

    The file is YAML, or JSON by its extension.
    """
    return loads(read(Path(path)), path)


def loads(content: bytes, path: str | Path) -> Cassette:
    """Return the cassette in a file's bytes; ``path`` gives the format."""
    text = Text(Path(path), content)
    tree = text.tree()
    recorder = recorder_of(tree) or ("another tool" if text.path.name.endswith(".gz") else "")
    if recorder:
        raise _foreign(path, recorder)
    return _cassette(text, tree)


def _foreign(path: str | Path, recorder: str) -> CassetteInvalid:
    problem = f"this file is as {recorder} writes it, and not in vcrpy's layout"
    return CassetteInvalid(f"{path}: {problem}\n  {advice(recorder, path)}")


def load_foreign(path: str | Path) -> Cassette:
    """Return the cassette at ``path`` as `load` does, also in the layout of another recorder."""
    text = Text(Path(path), read(Path(path)))
    try:
        return _cassette(text, in_vcrpy_layout(text.tree()))
    except Misfit as misfit:
        raise text.invalid(misfit.at, misfit.problem) from None


def _cassette(text: Text, tree: Any) -> Cassette:
    try:
        return Cassette(text.path, tuple(interactions_of(tree)))
    except Misfit as misfit:
        raise text.invalid(misfit.at, misfit.problem) from None


def absent(path: str | Path) -> Cassette:
    """Return the empty cassette of a file that does not exist yet."""
    return Cassette(Path(path), (), is_there=False)
