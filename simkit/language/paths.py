"""Paths into values, ``context.tool_history[0]``, references, ``${state.count}``, values as text.

Matchers, references and sections share one rule: at each level the rest of the path is tried as one
key first, and read as a path only if there is no such key.

A reference may stand anywhere inside a YAML value, which is compiled once and resolved often. A
value that is one reference keeps the type of its target; inside a text, a reference becomes text.
``$${`` is a literal ``${``. An absent target is ``null``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec

from simkit.core.errors import ReferenceInvalid
from simkit.core.messages import ABSENT, Dropped, Message, ToolCall, message_field
from simkit.core.text import late_pattern

Part: TypeAlias = str | int
Getter: TypeAlias = Callable[[Any], Any]

_WORD: Final = late_pattern(r"[^.\[\]]+")
_BRACKET: Final = late_pattern(
    r"""\[(?:(?P<index>-?\d+)|(?P<double>"(?:[^"\\]|\\.)*")|'(?P<single>[^']*)')\]"""
)


def parse(path: str) -> tuple[Part, ...]:
    """Return the keys and indices of a path; raise ReferenceInvalid for an invalid one."""
    return tuple(part for _, part in _steps(path))


def head_of(path: str) -> str:
    """Return the name at the head of a path; of an invalid path, its first word."""
    return path.replace("[", ".").split(".")[0]


def lookup(root: Any, path: str) -> Any:
    """Return the value at a path, or ABSENT; an invalid path is read as one key."""
    return getter(path)(root)


def follow(root: Any, parts: Iterable[Part]) -> Any:
    """Return the value at exactly these keys and indices, or ABSENT."""
    value = root
    for part in parts:
        value = _step(value, part)
        if value is ABSENT:
            return ABSENT
    return value


def walk(
    value: Any, at: tuple[Part, ...] = (), leave: Callable[[str], bool] = lambda key: False
) -> Iterator[tuple[tuple[Part, ...], Any]]:
    """Yield a value and all values inside it, each with its path, from the outside in.

    The value under a key for which ``leave`` is true is yielded, but nothing inside it.
    """
    yield at, value
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if leave(key):
                yield (*at, key), inner
            else:
                yield from walk(inner, (*at, key), leave)
    elif is_array(value):
        for index, inner in enumerate(value):
            yield from walk(inner, (*at, index), leave)


def is_array(value: Any) -> bool:
    """Return whether a value is a list of any kind; texts and bytes are not."""
    kind = value.__class__
    return kind is list or (
        kind is not str and isinstance(value, Sequence) and not isinstance(value, (str, bytes))
    )


def parts_of(value: Any) -> Collection[Any]:
    """Return the values directly inside a mapping or a list; any other value has none."""
    if isinstance(value, Mapping):
        return value.values()
    return value if is_array(value) else ()


def with_parts(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a mapping or a list with its parts changed; any other value as it is."""
    if isinstance(value, Mapping):
        return {key: change(part) for key, part in value.items()}
    return [change(part) for part in value] if is_array(value) else value


def leaves(value: Any) -> Iterator[Any]:
    """Yield the values inside mappings and lists that are neither; or the value itself."""
    if not isinstance(value, Mapping) and not is_array(value):
        yield value
    for part in parts_of(value):
        yield from leaves(part)


def words_in(value: Any) -> Iterator[str]:
    """Yield all texts of a value, keys too."""
    for path, inner in walk(value):
        yield from (word for word in (*path[-1:], inner) if isinstance(word, str))


def with_texts(value: Any, change: Callable[[str], Any]) -> Any:
    """Return a value with every text, keys too, replaced by the result of ``change``."""
    return _with_texts(value, change, change)


def with_inner_texts(value: Any, change: Callable[[str], Any]) -> Any:
    """Return a value with every text that is no key replaced by the result of ``change``."""
    return _with_texts(value, change, lambda key: key)


def _with_texts(value: Any, change: Callable[[str], Any], change_key: Callable[[str], Any]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {
            change_key(key) if isinstance(key, str) else key: _with_texts(inner, change, change_key)
            for key, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_with_texts(inner, change, change_key) for inner in value]
    return value


def literal(value: Any) -> Any:
    """Return a value escaped so that it is read as it is: no text in it stands for a reference."""
    return with_texts(value, lambda text: text.replace("${", "$${"))


@lru_cache(maxsize=4096)
def getter(path: str, missing: Any = ABSENT) -> Getter:
    """Return ``lookup`` for one path, parsed once; it returns ``missing`` instead of ABSENT."""
    try:
        steps = _steps(path)
    except ReferenceInvalid:
        steps = ((path, path),)

    def get(root: Any) -> Any:
        value = root
        for rest, part in steps:
            inner = _step(value, rest)
            if inner is not ABSENT:
                return inner
            value = _step(value, part)
            if value is ABSENT:
                return missing
        return value

    return get


def _step(value: Any, part: Part) -> Any:
    # Plain lists and mappings come first, because checks of abstract classes are several times
    # slower.
    if isinstance(part, int):
        if value.__class__ is list or is_array(value):
            return value[part] if -len(value) <= part < len(value) else ABSENT
        return ABSENT
    if value.__class__ is dict:
        return value.get(part, ABSENT)
    if isinstance(value, (Message, Dropped, ToolCall)):
        return message_field(value, part)
    if isinstance(value, Mapping):
        return value.get(part, ABSENT)
    return ABSENT


@lru_cache(maxsize=4096)
def _steps(path: str) -> tuple[tuple[str, Part], ...]:
    """Return, for each level, the rest of the path and its first part."""
    steps: list[tuple[str, Part]] = []
    at = 0
    while at < len(path) or not steps:
        start = at
        if path[at : at + 1] == "[":
            match = _BRACKET.match(path, at)
            if match is None:
                raise ReferenceInvalid(
                    f"the path `{path}` cannot be read at `{path[at:]}`: "
                    'brackets hold an index or a quoted key, `[0]` or `["a.b"]`'
                )
            part = _bracketed(match)
        else:
            if steps:
                start = at = at + 1 if path[at] == "." else len(path)
            match = _WORD.match(path, at)
            if match is None:
                raise ReferenceInvalid(
                    f"the path `{path}` has no key where one should stand; "
                    "keys are joined by single dots: `state.count`"
                )
            part = match.group()
        steps.append((path[start:], part))
        at = match.end()
    return tuple(steps)


def _bracketed(match: re.Match[str]) -> Part:
    if match["index"] is not None:
        return int(match["index"])
    if match["double"] is not None:
        return str(json.loads(match["double"]))
    return match["single"]


def as_text(value: Any) -> str:
    """Return a value as it appears in text.

    A text is itself, a message its content, an absent value ``null``. Any other value is its JSON
    on one line, with ``", "`` and ``": "`` as separators, keys in order, and letters beyond ASCII
    as they are.
    """
    if type(value) is str or isinstance(value, str):
        return value
    if value is ABSENT:
        return "null"
    if isinstance(value, Dropped):
        value = value.message
    if isinstance(value, Message):
        return value.content
    return _encode(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=as_text)
    try:
        return msgspec.to_builtins(value)
    except (TypeError, msgspec.ValidationError):
        try:
            return list(value)
        except TypeError:
            return f"<{type(value).__name__}>"


_encode: Final = json.JSONEncoder(ensure_ascii=False, default=_plain).encode


def first_step(key: str) -> str | int:
    """Return the first step of a path; the whole key if it is no path."""
    try:
        return parse(key)[0]
    except ReferenceInvalid:
        return key


def unescaped(key: str) -> str:
    """Return a plain key of a matcher; ``$$`` begins one that starts with ``$``."""
    return key[1:] if key.startswith("$$") else key


# References


Resolve: TypeAlias = Callable[[Mapping[str, Any]], Any]

_REFERENCE: Final = late_pattern(
    r"""(?P<literal>\$\$\{)
      | \$\{ (?P<path> (?: [^{}\[\]] | \[ (?: "(?:[^"\\]|\\.)*" | '[^']*' | [^\]{}"']* ) \] )* ) \}
      | (?P<open>\$\{)""",
    re.VERBOSE,
)


class Template(msgspec.Struct, frozen=True):
    """A value with its references compiled."""

    resolve: Resolve
    """Returns the value for one root. Parts without references are the template's own objects:
    the caller must not change them."""
    roots: frozenset[str]
    """The first words of its references: ``state``, ``run``, …"""
    is_constant: bool
    """Whether it has no references: ``resolve`` returns the same value for every root."""


def compile(value: Any) -> Template:
    """Return the template of a YAML value; raise ReferenceInvalid.

    The exception's ``args`` are the sentence and the path of the text inside the value.
    """
    roots = frozenset(str(parse(text)[0]) for _, text in references_in(value))
    if not roots:
        return Template(_constant(_unescaped(value)), roots, True)
    return Template(_compile(value), roots, False)


def references_in(value: Any) -> list[tuple[tuple[Part, ...], str]]:
    """List every reference in a value with the path of the text (or the key) that holds it."""
    return [
        (path, piece.text)
        for path, inner in walk(value)
        for text in (*path[-1:], inner)
        if isinstance(text, str)
        for piece in _pieces(text, path)
        if isinstance(piece, _Path)
    ]


class _Path(msgspec.Struct, frozen=True):
    text: str


def _pieces(text: str, at: tuple[Part, ...] = ()) -> list[str | _Path]:
    """Split a text into literal text and references."""
    if "${" not in text:
        return [text]
    pieces: list[str | _Path] = []
    end = 0
    for match in _REFERENCE.finditer(text):
        pieces.append(text[end : match.start()])
        end = match.end()
        if match["literal"]:
            pieces.append("${")
        elif match["open"]:
            raise ReferenceInvalid(
                f"a reference in `{text}` has no end: write `${{path}}`, "
                "or `$${` for the two characters themselves",
                at,
            )
        else:
            path = match["path"].strip()
            try:
                parse(path)
            except ReferenceInvalid as error:
                raise ReferenceInvalid(str(error), at) from None
            pieces.append(_Path(path))
    pieces.append(text[end:])
    return [piece for piece in pieces if piece != ""]


def _compile(value: Any) -> Resolve:
    """Return a function that resolves a value."""
    if not references_in(value):
        return _constant(_unescaped(value))
    if isinstance(value, str):
        return _compile_text(value)
    if isinstance(value, Mapping):
        entries = [(_compile_key(key), _compile(inner)) for key, inner in value.items()]
        return lambda root: {key(root): resolve(root) for key, resolve in entries}
    items = [_compile(inner) for inner in value]
    return lambda root: [resolve(root) for resolve in items]


def _compile_text(text: str) -> Resolve:
    """Return a function that resolves a text: one reference keeps the type of its target."""
    pieces = _pieces(text)
    if len(pieces) == 1 and isinstance(pieces[0], _Path):
        return getter(pieces[0].text, None)
    parts = [
        getter(piece.text) if isinstance(piece, _Path) else _constant(piece) for piece in pieces
    ]
    return lambda root: "".join([as_text(part(root)) for part in parts])


def _constant(value: Any) -> Resolve:
    return lambda root: value


def _compile_key(key: Any) -> Resolve:
    resolve = _compile(key)
    return (lambda root: as_text(resolve(root))) if references_in(key) else resolve


def _unescaped(value: Any) -> Any:
    """Return a value without references, with ``$${`` read as ``${``; itself if it has none."""
    unescaped = with_texts(value, lambda text: "".join(map(str, _pieces(text))))
    return value if unescaped == value else unescaped
