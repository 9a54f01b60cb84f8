"""Plain values as YAML text: on one line if that reads well, else in blocks.

A text is written without quotes only if simkit and readers of YAML 1.1 both read it back unchanged.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import yaml

from simkit.core.errors import SourceError
from simkit.core.output import visible
from simkit.language.yaml import SourceFloat, SourceInt, load_text

WIDTH: Final = 100
STEP: Final = 2
"""The indentation of a block in columns."""
_KEY_MAX: Final = 1_000
"""The length of a key from which on it needs a `?`: YAML reads 1,024 characters up to its `:`."""
_FOLDED_LEAST: Final = 40
"""The least width of a folded text in columns."""

Plain: TypeAlias = Any
"""A text, a number, a boolean, None, or lists and mappings of them."""


def comment(text: str) -> str:
    """Return a comment of one line, whatever the text holds.

    YAML ends a comment at any line break, so that ``\\r`` in the words of somebody else would begin
    a key.
    """
    return f"# {visible(' '.join(text.split()))}"


def flow(value: Plain) -> str:
    """Return a value on one line, with brackets and braces."""
    if isinstance(value, Mapping):
        pairs = (f"{scalar(key)}: {flow(inner)}" for key, inner in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(flow(item) for item in value) + "]"
    return scalar(value)


def scalar(value: Plain, style: str = "", *, in_block: bool = False) -> str:
    """Return a scalar on one line; a text in the quotes of ``style``, if these can hold it.

    A text needs fewer quotes as a value in a block than inside brackets or as a key.
    """
    if isinstance(value, str):
        if style == "'" and value.isprintable():
            return "'" + value.replace("'", "''") + "'"
        return quoted(value) if style == '"' or not _is_plain(value, in_block) else value
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, SourceInt | SourceFloat):
        return value.source
    if isinstance(value, int):
        return str(int(value))
    number = repr(float(value))
    # YAML 1.1 reads `1e+16` as a text.
    return number.replace("e", ".0e") if "e" in number and "." not in number else number


def quoted(text: str) -> str:
    """Return a text in double quotes, with invisible characters as escapes."""
    characters = json.dumps(text, ensure_ascii=False)
    return "".join(
        character if character.isprintable() else _escaped(character) for character in characters
    )


def entry(key: str, value: Plain, column: int, dash_indent: int = STEP) -> list[str]:
    """Return the lines of ``key: value``, with the key in a column."""
    name = key if _is_plain_key(key) else quoted(key)
    margin = " " * column
    if len(name) > _KEY_MAX:
        return [f"{margin}? {name}", *_laid(f"{margin}:", value, column, dash_indent)]
    return _laid(f"{margin}{name}:", value, column, dash_indent)


def element(value: Plain, column: int, dash_indent: int = STEP) -> list[str]:
    """Return the lines of ``- value``, with the dash in a column."""
    return _laid(f"{' ' * column}-", value, column, dash_indent)


def block(value: Plain, column: int, dash_indent: int = STEP) -> list[str]:
    """Return the lines of a non-empty list or mapping, with its first item in a column."""
    if isinstance(value, Mapping):
        entries = (entry(key, inner, column, dash_indent) for key, inner in value.items())
        return [line for lines in entries for line in lines]
    return [line for item in value for line in element(item, column, dash_indent)]


def on_one_line(value: Plain, used: int) -> str | None:
    """Return a value on one line after ``used`` columns; None if it reads better in a block."""
    if not isinstance(value, Mapping | list | tuple):
        text = scalar(value, in_block=True)
        is_long = isinstance(value, str) and used + len(text) > WIDTH
        return None if is_long or (isinstance(value, str) and "\n" in value) else text
    if value and not _is_flat(value):
        return None
    text = flow(value)
    return text if not value or used + len(text) <= WIDTH else None


def text_block(text: str, column: int, style: str = "") -> list[str] | None:
    """Return a text as ``|`` or ``>`` with lines in a column, or None if that cannot hold it.

    Without a style, a text of several lines is literal, and a long one folded.
    """
    if style != ">" and ("\n" in text or style == "|"):
        return _literal(text, column)
    return _folded(text, column) or _literal(text, column)


def _laid(start: str, value: Plain, column: int, dash_indent: int) -> list[str]:
    """Return the start of a line with a value after it or below it."""
    is_element = start.endswith("-")
    deeper = column + STEP
    if is_element and isinstance(value, Mapping) and len(value) == 1:
        # `- user: Hello` is shorter than the same in braces.
        return _below_dash(start, block(value, deeper, dash_indent))
    laid_out = on_one_line(value, len(start) + 1)
    if laid_out is not None:
        return [f"{start} {laid_out}"]
    if isinstance(value, str):
        lines = text_block(value, deeper) or [quoted(value)]
        return [f"{start} {lines[0]}", *lines[1:]]
    if is_element:
        return _below_dash(start, block(value, deeper, dash_indent))
    if not isinstance(value, Mapping):
        deeper = column + dash_indent
    return [start, *block(value, deeper, dash_indent)]


def _below_dash(start: str, lines: Sequence[str]) -> list[str]:
    return [f"{start} {lines[0].lstrip()}", *lines[1:]]


def _is_flat(value: Plain) -> bool:
    """Return whether a value is usually on one line: scalars, lists of them, one mapping."""
    if not isinstance(value, Mapping):
        return all(map(_is_simple, value))
    return all(
        all(map(_is_simple, part.values())) if isinstance(part, Mapping) else _is_simple(part)
        for part in value.values()
    )


def _is_simple(value: Plain) -> bool:
    """Return whether a value is a scalar, or a list of scalars."""
    return _is_leaf(value) or (isinstance(value, list | tuple) and all(map(_is_leaf, value)))


def _is_leaf(value: Plain) -> bool:
    return not value or not (
        isinstance(value, Mapping | list | tuple) or (isinstance(value, str) and "\n" in value)
    )


def _literal(text: str, column: int) -> list[str] | None:
    body = text.split("\n")
    if not body[-1]:
        body.pop()
    return _if_it_reads("|" if text.endswith("\n") else "|-", body, text, column)


def _folded(text: str, column: int) -> list[str] | None:
    """Return a folded text: a blank line is a line end, lines break at single spaces."""
    paragraphs = text.removesuffix("\n").split("\n")
    if any("  " in part or part != part.strip() for part in paragraphs):
        return None
    body: list[str] = []
    for paragraph in paragraphs:
        body += [""] if body else []
        body += textwrap.wrap(
            paragraph,
            max(WIDTH - column, _FOLDED_LEAST),
            break_long_words=False,
            break_on_hyphens=False,
        )
    return _if_it_reads(">" if text.endswith("\n") else ">-", body, text, column)


def _if_it_reads(mark: str, body: Sequence[str], text: str, column: int) -> list[str] | None:
    lines = [mark, *(" " * column + line if line else "" for line in body)]
    indented = [mark, *(" " + line if line else "" for line in body)]
    return lines if _reads_as("k: " + "\n".join([*indented, ""]), {"k": text}) else None


@lru_cache(maxsize=4096)
def _is_plain(text: str, in_block: bool) -> bool:
    if not text.isprintable() or not _reads_as(f"k: {text}\n", {"k": text}):
        return False
    if in_block:
        return _reads_as(f"- {text}\n", [text])
    return _reads_as(f"{text}: {{{text}: [{text}]}}\n", {text: {text: [text]}})


@lru_cache(maxsize=4096)
def _is_plain_key(text: str) -> bool:
    return text.isprintable() and _reads_as(f"{text}: 1\n", {text: 1})


def _reads_as(document: str, value: Plain) -> bool:
    try:
        return bool(
            [document_.data for document_ in load_text(document, "")] == [value]
            and yaml.load(document, Loader=yaml.CSafeLoader) == value
        )
    # YAML 1.1 reads `2026-13-45` as a date, and there is no such date.
    except (SourceError, yaml.YAMLError, ValueError):
        return False


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
