"""Places: paths inside a document, libyaml's nodes at them, and their marks in the text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias, TypeVar

from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from simkit.core.errors import SourceError
from simkit.core.text import late_pattern

SourcePath: TypeAlias = tuple[str | int, ...]
"""Mapping keys and list indexes, from a document's root."""

LINE_END: Final = late_pattern(r"\r\n?|\n")
_PLAIN_KEY: Final = late_pattern(r"[^\s.\[\]{}\"'`]+")

_MadeT = TypeVar("_MadeT")


class Fault(Exception):
    """A node is invalid; the caller that catches it knows the file and the path."""

    def __init__(self, node: Node, what: str, advice: str = "") -> None:
        super().__init__(node, what, advice)
        self.node, self.what, self.advice = node, what, advice


def built(file: str, root: Node, make: Callable[[Node], _MadeT]) -> _MadeT:
    """Return ``make(root)``; a fault becomes an error with file and path."""
    try:
        return make(root)
    except Fault as fault:
        raise SourceError(
            where(file, fault.node.start_mark),
            fault.what,
            path_text(_path_to(root, fault.node, set()) or ()),
            advice=fault.advice,
        ) from None


def where(file: str, mark: Any) -> str:
    """Return ``file:line:column``, from 1, of a libyaml mark."""
    return f"{file}:{mark.line + 1}:{mark.column + 1}"


def where_after(file: str, before: str) -> str:
    """Return the position after ``before``, the beginning of the file."""
    lines = LINE_END.split(before)
    return f"{file}:{len(lines)}:{len(lines[-1]) + 1}"


def path_text(path: SourcePath) -> str:
    """Return ``path`` as messages show it: ``turns[0].replies."a b"``."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
            continue
        word = step if _PLAIN_KEY.fullmatch(step) else json.dumps(step, ensure_ascii=False)
        text += f".{word}" if text else word
    return text


def is_empty(node: Node) -> bool:
    """Return whether a value is missing altogether; ``~``, ``null`` and ``""`` are values."""
    return isinstance(node, ScalarNode) and not (node.style or node.value or node.tag)


def is_flow(node: Node) -> bool:
    """Return whether a list or mapping is written with brackets or braces."""
    return isinstance(node, CollectionNode) and bool(node.flow_style)


def children(node: Node) -> list[Node]:
    """Return the keys and values of a mapping, the items of a list."""
    if isinstance(node, MappingNode):
        return [child for pair in node.value for child in pair]
    return node.value if isinstance(node, SequenceNode) else []


def child(node: Node, step: str | int) -> tuple[Node | None, Node] | None:
    """Return the key's node (None in a list) and the value's node under ``step``, or None."""
    if isinstance(node, MappingNode):
        for key_node, value_node in node.value:
            if key_node.value == step:
                return key_node, value_node
    elif isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
        return None, node.value[step]
    return None


def last_line(node: Node) -> int:
    """Return the line, from 0, on which ``node`` ends; a block's own end mark comes too late."""
    start, end = node.start_mark, node.end_mark
    if isinstance(node, ScalarNode) or is_flow(node):
        return int(end.line) - (end.column == 0 and end.line > start.line)
    return max([int(start.line), *(last_line(last) for last in children(node)[-1:])])


def _path_to(node: Node, target: Node, visited: set[int]) -> SourcePath | None:
    """Return the first path from ``node`` to ``target``, a value or a key, or None."""
    if node is target:
        return ()
    if id(node) in visited or isinstance(node, ScalarNode):
        return None
    visited.add(id(node))
    steps: Iterable[tuple[Any, Node]] = enumerate(node.value)
    if isinstance(node, MappingNode):
        steps = ((key.value, either) for key, value in node.value for either in (key, value))
    for step, below in steps:
        tail = _path_to(below, target, visited)
        if tail is not None:
            # A list or mapping as a key has no text: the path ends at the mapping around it.
            return (step, *tail) if isinstance(step, str | int) else ()
    return None
