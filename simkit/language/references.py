"""References: ``${state.count}`` anywhere inside a YAML value, compiled once, resolved often.

A value that is one reference keeps the type of its target; inside a text, a reference becomes text.
``$${`` is a literal ``${``. An absent target is ``null``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec

from simkit.core.errors import ReferenceInvalid
from simkit.core.text import late_pattern
from simkit.language.paths import Part, as_text, getter, parse, walk

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
    return _text_template(value) if type(value) is str else _template(value)


@lru_cache(maxsize=4096)
def _text_template(text: str) -> Template:
    return _template(text)


def _template(value: Any) -> Template:
    roots = frozenset(str(parse(text)[0]) for _, text in references_in(value))
    if not roots:
        return Template(_constant(_unescaped(value)), roots, True)
    return Template(_compile(value), roots, False)


def _has_references(value: Any) -> bool:
    return bool(references_in(value))


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
    if not _has_references(value):
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
    return (lambda root: as_text(resolve(root))) if _has_references(key) else resolve


def _unescaped(value: Any) -> Any:
    """Return a value without references, ``$${`` read as ``${``; itself if nothing changes."""
    if isinstance(value, str):
        return "".join(str(piece) for piece in _pieces(value)) if "$${" in value else value
    if isinstance(value, Mapping):
        pairs = [(key, inner, _unescaped(key), _unescaped(inner)) for key, inner in value.items()]
        if all(key is name and inner is plain for key, inner, name, plain in pairs):
            return value
        return {name: plain for _, _, name, plain in pairs}
    if isinstance(value, (list, tuple)):
        items = [_unescaped(inner) for inner in value]
        if all(inner is plain for inner, plain in zip(value, items, strict=True)):
            return value
        return items
    return value
