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
from simkit.language.paths import Part, as_text, getter, parse, walk

Resolve: TypeAlias = Callable[[Mapping[str, Any]], Any]

_REFERENCE: Final = re.compile(
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
    resolve = _compile(value)
    if resolve is None:
        constant = _unescaped(value)
        return Template(lambda root: constant, roots, True)
    return Template(resolve, roots, False)


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


def _compile(value: Any) -> Resolve | None:
    """Return a function that resolves a value, or None if the value does not depend on the root."""
    if isinstance(value, str):
        return _compile_text(value)
    if isinstance(value, Mapping):
        return _compile_mapping(value)
    if isinstance(value, (list, tuple)):
        return _compile_list(value)
    return None


def _compile_text(text: str) -> Resolve | None:
    pieces = _pieces(text)
    if not any(isinstance(piece, _Path) for piece in pieces):
        return None
    if len(pieces) == 1 and isinstance(pieces[0], _Path):
        return getter(pieces[0].text, None)
    parts = [getter(piece.text) if isinstance(piece, _Path) else piece for piece in pieces]
    return lambda root: "".join(
        part if isinstance(part, str) else as_text(part(root)) for part in parts
    )


def _compile_mapping(value: Mapping[Any, Any]) -> Resolve | None:
    entries = [(key, _compile(key), inner, _compile(inner)) for key, inner in value.items()]
    if all(name is None and resolve is None for _, name, _, resolve in entries):
        return None
    if any(name is not None for _, name, _, _ in entries):
        return _compile_named(entries)
    fixed = {
        _unescaped(key): _unescaped(inner) if resolve is None else None
        for key, _, inner, resolve in entries
    }
    moving = [(_unescaped(key), resolve) for key, _, _, resolve in entries if resolve is not None]

    def mapping(root: Mapping[str, Any]) -> Any:
        result = {**fixed}
        for key, resolve in moving:
            result[key] = resolve(root)
        return result

    return mapping


def _compile_named(entries: list[tuple[Any, Resolve | None, Any, Resolve | None]]) -> Resolve:
    """Return a function that resolves a mapping with references in its keys."""
    pairs = [
        (_fixed(key) if name is None else name, _fixed(inner) if resolve is None else resolve)
        for key, name, inner, resolve in entries
    ]
    return lambda root: {as_text(name(root)): resolve(root) for name, resolve in pairs}


def _fixed(value: Any) -> Resolve:
    constant = _unescaped(value)
    return lambda root: constant


def _compile_list(value: list[Any] | tuple[Any, ...]) -> Resolve | None:
    resolves = [_compile(inner) for inner in value]
    if all(resolve is None for resolve in resolves):
        return None
    fixed = [
        _unescaped(inner) if resolve is None else None
        for inner, resolve in zip(value, resolves, strict=True)
    ]
    moving = [(index, resolve) for index, resolve in enumerate(resolves) if resolve is not None]

    def listed(root: Mapping[str, Any]) -> Any:
        result = [*fixed]
        for index, resolve in moving:
            result[index] = resolve(root)
        return result

    return listed


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
