"""Plain values as YAML that people read: block style, with leaves on one line where they fit.

A text stands without quotes only if simkit and readers of YAML 1.1 both read it back unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import yaml

from simkit.errors import SourceError
from simkit.source import load_text

WIDTH: Final = 100
_INDENT: Final = "  "


def yaml_text(data: Mapping[str, Any], comments: Mapping[str, str]) -> str:
    """Returns a mapping as a document; ``comments`` stand above its keys, "" above all."""
    lines = _comment(comments.get("", ""))
    for key, value in data.items():
        lines += [*_comment(comments.get(key, "")), *_entry(key, value, 0)]
    return "".join(f"{line}\n" for line in lines)


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in text.splitlines()]


def _block(value: Any, depth: int) -> Iterator[str]:
    """Yields the lines of a list or mapping that is not empty."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _entry(key, inner, depth)
        return
    indent = _INDENT * depth
    for item in value:
        on_one_line = _inline(item, len(indent) + 2)
        if on_one_line is not None:
            yield f"{indent}- {on_one_line}"
        elif isinstance(item, str):
            yield from _literal(f"{indent}- ", item, depth + 1)
        else:
            first, *rest = _block(item, depth + 1)
            yield f"{indent}- {first[len(indent) + 2 :]}"
            yield from rest


def _entry(key: str, value: Any, depth: int) -> Iterator[str]:
    start = f"{_INDENT * depth}{_scalar(key)}:"
    on_one_line = _inline(value, len(start) + 1)
    if on_one_line is not None:
        yield f"{start} {on_one_line}"
    elif isinstance(value, str):
        yield from _literal(f"{start} ", value, depth + 1)
    else:
        yield start
        yield from _block(value, depth + 1)


def _literal(start: str, text: str, depth: int) -> Iterator[str]:
    """Yields a text of several lines as it is, or quoted if it would be read otherwise."""
    body = [f"{_INDENT * depth}{line}" if line else "" for line in text.split("\n")]
    if not body[-1]:
        body.pop()
    mark = "|" if text.endswith("\n") else "|-"
    if _reads_as("\n".join([f"k: {mark}", *body, ""]), {"k": text}):
        yield f"{start}{mark}"
        yield from body
    else:
        yield f"{start}{_quoted(text)}"


def _inline(value: Any, used: int) -> str | None:
    """Returns a value on one line; None if it needs several, or more width than is left."""
    if not isinstance(value, Mapping | list | tuple):
        is_one_line = not isinstance(value, str) or "\n" not in value
        return _scalar(value) if is_one_line else None
    parts = value.values() if isinstance(value, Mapping) else value
    if not all(_is_flat(part, isinstance(value, Mapping)) for part in parts):
        return None
    text = _flow(value)
    return text if not value or used + len(text) <= WIDTH else None


def _is_flat(value: Any, may_list: bool) -> bool:
    if isinstance(value, list | tuple):
        return may_list and all(_is_flat(item, False) for item in value)
    return not isinstance(value, Mapping) and not (isinstance(value, str) and "\n" in value)


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = (f"{_scalar(key)}: {_flow(inner)}" for key, inner in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return value if _is_plain(value) else _quoted(value)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        return str(int(value))
    number = repr(float(value))
    # To YAML 1.1, `1e+16` is a text.
    return number.replace("e", ".0e") if "e" in number and "." not in number else number


@lru_cache(maxsize=4096)
def _is_plain(text: str) -> bool:
    if not text.isprintable():
        return False
    as_block, as_flow = f"{text}: {text}\n", f"{{{text}: [{text}]}}\n"
    return _reads_as(as_block, {text: text}) and _reads_as(as_flow, {text: [text]})


def _reads_as(document: str, value: Any) -> bool:
    try:
        return bool(
            [one.data for one in load_text(document, "")] == [value]
            and yaml.safe_load(document) == value
        )
    # YAML 1.1 takes `2026-13-45` for a date, and there is no such one.
    except (SourceError, yaml.YAMLError, ValueError):
        return False


def _quoted(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else _escaped(char) for char in quoted)


def _escaped(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
