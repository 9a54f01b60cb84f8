"""References: ``${state.count}`` anywhere inside a YAML value, compiled once, resolved often.

A value that is one reference keeps the type of its target; inside a text, a reference becomes text.
``$${`` is a literal ``${``. An absent target is ``null``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec

from simkit.core.errors import ReferenceInvalid
from simkit.core.messages import ABSENT
from simkit.core.patterns import late_pattern
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


def compile_of(value: Any, paths: Sequence[str]) -> Callable[..., Any] | None:
    """Return a value with references as a function of the values at these paths, in their order.

    They may refer to keys below these. None if it refers to anything else.
    """
    for _, text in references_in(value):
        if not any(text == path or text.startswith(f"{path}.") for path in paths):
            return None
    parameters = {path: f"p{place}" for place, path in enumerate(paths)}
    return _compile(value, parameters, ", ".join(parameters.values()))


@lru_cache(maxsize=4096)
def _text_template(text: str) -> Template:
    return _template(text)


def _template(value: Any) -> Template:
    roots = frozenset(str(parse(text)[0]) for _, text in references_in(value))
    if not roots:
        constant = _unescaped(value)
        return Template(lambda root: constant, roots, True)
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


def _compile(
    value: Any, parameters: Mapping[str, str] = {}, signature: str = "root"
) -> Callable[..., Any]:
    """Return a function that resolves a value with references.

    It is one expression, so that resolving costs one call beside those that follow the paths.
    ``parameters`` has the paths whose values it gets itself, with their names.
    """
    names: dict[str, Any] = {"as_text": as_text}
    expression = _expression(value, names, parameters)
    resolve: Callable[..., Any] = eval(f"lambda {signature}: {expression}", names)
    return resolve


def _expression(value: Any, names: dict[str, Any], given: Mapping[str, str]) -> str:
    """Return a value's expression; ``names`` collects the objects that it names."""
    if not _has_references(value):
        return _named(_unescaped(value), names)
    if isinstance(value, str):
        return _text_expression(value, names, given)
    if isinstance(value, Mapping):
        entries = [
            f"{_key_expression(key, names, given)}: {_expression(inner, names, given)}"
            for key, inner in value.items()
        ]
        return f"{{{', '.join(entries)}}}"
    return f"[{', '.join(_expression(inner, names, given) for inner in value)}]"


def _text_expression(text: str, names: dict[str, Any], given: Mapping[str, str]) -> str:
    pieces = _pieces(text)
    if len(pieces) == 1 and isinstance(pieces[0], _Path):
        return _path_expression(pieces[0].text, None, names, given)
    parts = [
        _as_text_expression(_path_expression(piece.text, ABSENT, names, given))
        if isinstance(piece, _Path)
        else _named(piece, names)
        for piece in pieces
    ]
    return f"''.join(({', '.join(parts)},))"


def _path_expression(
    path: str, missing: Any, names: dict[str, Any], given: Mapping[str, str]
) -> str:
    """Return the expression for the value at a path, or ``missing``.

    It reads a key that is there without a call, and asks the getter for everything else.
    """
    for known, value in given.items():
        if path == known:
            return value
        if path.startswith(f"{known}."):
            return f"{_named(getter(path[len(known) + 1 :], missing), names)}({value})"
    get = f"{_named(getter(path, missing), names)}(root)"
    parts = parse(path)
    key = _named(path, names)
    if parts == (path,):
        return f"(root[{key}] if root.__class__ is dict and {key} in root else {get})"
    if len(parts) != 2 or path != f"{parts[0]}.{parts[1]}":
        return get
    head, last = (_named(part, names) for part in parts)
    return (
        f"(inner[{last}] if root.__class__ is dict and {key} not in root and {head} in root "
        f"and (inner := root[{head}]).__class__ is dict and {last} in inner else {get})"
    )


def _as_text_expression(expression: str) -> str:
    return f"(text if (text := {expression}).__class__ is str else as_text(text))"


def _key_expression(key: Any, names: dict[str, Any], given: Mapping[str, str]) -> str:
    expression = _expression(key, names, given)
    return _as_text_expression(expression) if _has_references(key) else expression


def _named(value: Any, names: dict[str, Any]) -> str:
    name = f"v{len(names)}"
    names[name] = value
    return name


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
