"""Reports of libyaml: its nodes with their marks, and its errors with what to do now.

libyaml reports what its grammar expected. The cause is nearly always a text that needs quotes, an
open bracket or quote, or a line with wrong indentation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from yaml._yaml import CParser
from yaml.error import MarkedYAMLError
from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode
from yaml.tokens import (
    FlowMappingEndToken,
    FlowMappingStartToken,
    FlowSequenceEndToken,
    FlowSequenceStartToken,
)

from simkit.core.errors import SourceError
from simkit.core.text import late_pattern, near

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


# Syntax errors


_WORD_BEFORE: Final = late_pattern(r"[\w.-]+$")
QUOTE: Final = "quote the text, or write it in block style"
TAB: Final = ("a tab cannot indent or separate", "use spaces")
_INDENT: Final = "indent it like its neighbours"
_CLOSERS: Final = {"'": "quote", '"': "quote", "]": "bracket", "}": "brace"}
_DOCUMENT_END: Final = late_pattern(r"(?:---|\.\.\.)(?:\s|\Z)")
_NAME: Final = late_pattern(r"[&*]([\w-]+)")
_TEXT_WITH_COLON: Final = late_pattern(r"(?:^|\s|[\[{,])[^\s#].*?:\s+\S")


class _Scene(NamedTuple):
    """The place where libyaml stopped, and the construct that it was reading."""

    text: str
    problem: str
    context: str
    mark: Any
    """The mark at which it stopped."""
    start: Any
    """The mark at which the construct starts."""

    @property
    def text_found(self) -> str:
        """Return the character at which it stopped; empty at the end of the file."""
        return self.text[self.mark.index : self.mark.index + 1]

    @property
    def opened(self) -> str:
        """Return the character that starts the construct."""
        return self.text[self.start.index : self.start.index + 1]

    @property
    def before(self) -> str:
        """Return the line up to the place where it stopped."""
        return LINE_END.split(self.text[: self.mark.index])[-1]

    @property
    def is_at_end(self) -> bool:
        """Return whether the document has ended."""
        rest = self.text[self.mark.index :]
        return not rest.strip() or (self.mark.column == 0 and bool(_DOCUMENT_END.match(rest)))

    def name(self, mark: Any) -> str:
        """Return the name of the anchor or alias at ``mark``."""
        match = _NAME.match(self.text, mark.index)
        return match[1] if match else ""


_Explanation: TypeAlias = tuple[Any, str, str]
"""The mark, the error, the advice."""


def refused_tag(tag: str) -> tuple[str, str]:
    """Return the error about a tag, and the advice."""
    tag_name = tag.replace("tag:yaml.org,2002:", "!!")
    return (
        f"the tag `{tag_name}` is not supported",
        "remove it; if it belongs to a text, quote that",
    )


LONE_QUESTION_MARK: Final = "a `?` alone inside brackets needs quotes"


CONFLICT: Final = "a merge of Git left a conflict here"
_CONFLICT: Final = late_pattern(r"^<<<<<<< .*(?=[^\0]*^=======$[^\0]*^>>>>>>> )", re.M)


def line_of_conflict(text: str) -> int:
    """Return the line, from 1, where a merge left both sides of a conflict; 0 if none did."""
    conflict = _CONFLICT.search(text) if "<<<<<<< " in text else None
    return 0 if conflict is None else text.count("\n", 0, conflict.start()) + 1


def rephrased(error: MarkedYAMLError, text: str, file: str) -> SourceError:
    """Return libyaml's ``error`` in words that users understand."""
    if line := line_of_conflict(text):
        return SourceError(f"{file}:{line}:1", CONFLICT, advice="keep one of the two sides")
    mark: Any = error.problem_mark
    scene = _Scene(text, error.problem or "", error.context or "", mark, error.context_mark or mark)
    if "undefined alias" in scene.problem:
        word = scene.name(mark)
        anchors = tuple(dict.fromkeys(re.findall(r"(?<![^\s\[{,])&([\w-]+)", text[: mark.index])))
        anchor_text = f"the alias `*{word}` names no anchor above it"
        return SourceError(
            where(file, mark),
            anchor_text,
            "",
            near(word, anchors),
            anchors,
            "if it is a text, quote it",
        )
    for problem, context, say in _FAMILIES:
        if problem in scene.problem and context in scene.context:
            at, anchor_text, advice = say(scene)
            return SourceError(where(file, at), anchor_text, advice=advice)
    return SourceError(where(file, mark), f"this is no YAML: {scene.problem}", advice=scene.context)


def _start(scene: _Scene) -> _Explanation:
    if scene.opened == "\t":
        return scene.start, *TAB
    opening = "a backtick" if scene.opened == "`" else f"`{scene.opened}`"
    return scene.start, f"a text cannot start with {opening}", QUOTE


def _anchor_twice(scene: _Scene) -> _Explanation:
    problem = (
        f"the anchor `&{scene.name(scene.mark)}` is here twice; "
        f"the first is on line {scene.start.line + 1}"
    )
    return scene.mark, problem, "give each anchor a name of its own"


def _tag(scene: _Scene) -> _Explanation:
    tag = re.split(r"[\s,\[\]{}]", scene.text[scene.start.index :], maxsplit=1)[0]
    return scene.start, *refused_tag(tag)


def _directive(scene: _Scene) -> _Explanation:
    return scene.start, "a line cannot start with `%`", "quote it, or indent it if it is a text"


def _version(scene: _Scene) -> _Explanation:
    return scene.mark, "only `%YAML 1.2` and `%YAML 1.1` can be read", "remove the line"


def _quoted(scene: _Scene) -> _Explanation:
    if "end of stream" in scene.problem or "document indicator" in scene.problem:
        advice = "close it; inside '…' a quote is written twice: ''"
        return scene.start, f"the quote `{scene.opened}` opened here is never closed", advice
    escape = scene.text[scene.mark.index :].split("\n")[0][:2]
    problem = "inside double quotes a `\\` starts an escape, and this is none"
    if escape.startswith("\\"):
        problem = f"inside double quotes `{escape}` is no escape"
    return scene.mark, problem, "use single quotes, or write `\\\\` for a backslash"


def _block_scalar(scene: _Scene) -> _Explanation:
    problem = f"after `{scene.opened}` the text starts on the next line"
    return scene.start, problem, f"a text that starts with `{scene.opened}` needs quotes"


def _colon(scene: _Scene) -> _Explanation:
    if _TEXT_WITH_COLON.search(scene.before):
        return scene.mark, "an unquoted text cannot contain `: `", QUOTE
    advice = "indent the line like its neighbours; if it belongs to a text, quote the whole text"
    return scene.mark, "a key cannot stand here", advice


def _flow(scene: _Scene) -> _Explanation:
    kind, closer = ("{…}", "}") if "mapping" in scene.context else ("[…]", "]")
    if scene.is_at_end:
        start = _innermost_open(scene.text[: scene.mark.index])
        if start is None:
            # libyaml loses its place after `[? ]`, which YAML allows.
            return scene.start, LONE_QUESTION_MARK, QUOTE
        problem = f"the `{scene.text[start.index]}` opened here is never closed"
        return (
            start,
            problem,
            "close it; a text that starts with it, or contains ` #`, needs quotes",
        )
    if "node content" in scene.problem:
        return scene.mark, f"a value is missing before `{scene.text_found}`", QUOTE
    if scene.text_found == ":" and _TEXT_WITH_COLON.search(scene.before):
        return scene.mark, f"an unquoted text inside {kind} cannot contain `: `", QUOTE
    problem = f"a `,` or `{closer}` is missing before this"
    if scene.text_found == "{" and scene.before.endswith("$"):
        return scene.mark, f"a reference inside {kind} needs quotes", 'write `"${path}"`'
    if scene.text_found == "[" and (word := _WORD_BEFORE.search(scene.before)):
        rest = scene.text[scene.mark.index :].partition("]")[0]
        return scene.mark, f"`[` inside {kind} begins a list", f'quote it all: `"{word[0]}{rest}]"`'
    since = f"the `{scene.opened}` on line {scene.start.line + 1} is still open"
    return scene.mark, problem, f"{since}: close it; or {QUOTE}"


def _innermost_open(text: str) -> Any:
    """Return the mark of the last bracket or brace that ``text`` leaves open, or None."""
    starts: list[Any] = []
    scanner = CParser(text)
    while scanner.check_token():
        token = scanner.get_token()
        if isinstance(token, FlowSequenceStartToken | FlowMappingStartToken):
            starts.append(token.start_mark)
        elif isinstance(token, FlowSequenceEndToken | FlowMappingEndToken):
            starts.pop()
    return starts[-1] if starts else None


def _colon_in_flow(scene: _Scene) -> _Explanation:
    return scene.mark, "a space is missing after the `:`", QUOTE


def _line_that_does_not_fit(scene: _Scene) -> _Explanation:
    closer = scene.before.rstrip()[-1:]
    if closer in _CLOSERS and closer:
        problem = f"there is text after the closing {_CLOSERS[closer]} `{closer}`"
        advice = "quote the whole text, or write it in block style"
        return scene.mark, problem, f"{advice}; inside '…' a quote is written twice: ''"
    if "<document start>" in scene.problem:
        return scene.mark, "the document has ended before this", "start another one with `---`"
    if scene.text_found == ":":
        return scene.mark, "a key is missing before the `:`", QUOTE
    if scene.text_found.isspace():
        # A character copied from a web page or a word processor; YAML's own spaces never get here.
        return scene.mark, f"the character U+{ord(scene.text_found):04X} cannot indent", TAB[1]
    kind = "list" if "collection" in scene.context else "mapping"
    problem = f"this does not fit into the {kind} that starts on line {scene.start.line + 1}"
    return scene.mark, problem, f"{_INDENT}; if it belongs to a text, quote the whole text"


def _dash(scene: _Scene) -> _Explanation:
    return scene.mark, "a list cannot start here", f"start it on a line of its own; or {QUOTE}"


def _question(scene: _Scene) -> _Explanation:
    return scene.mark, "a text cannot start with `? `", QUOTE


def _no_colon(scene: _Scene) -> _Explanation:
    if _GLUED_DASH.match(scene.text, scene.start.index):
        return scene.start, "a space is missing after the `-`", "write `- value`"
    advice = "write `key: value`; a line that continues a text is indented more than its key"
    return scene.start, "a `:` is missing after this key", advice


def _nothing(scene: _Scene) -> _Explanation:
    if scene.text_found in ("]", "}", ","):
        return scene.mark, f"a text cannot start with `{scene.text_found}`", QUOTE
    return scene.mark, "a value is missing here", "write one, or remove the line"


_GLUED_DASH: Final = late_pattern(r"-[^\s-]")
_FAMILIES: Final[tuple[tuple[str, str, Callable[[_Scene], _Explanation]], ...]] = (
    ("found a tab", "", lambda scene: (scene.mark, *TAB)), ("cannot start any token", "", _start),
    ("", "scanning an alias", _start), ("", "scanning an anchor", _start),
    ("second occurrence", "", _anchor_twice), ("", "a tag", _tag), ("tag handle", "", _tag),
    ("incompatible YAML", "", _version), ("", "directive", _directive),
    ("directive", "", _directive), ("", "quoted scalar", _quoted),
    ("", "block scalar", _block_scalar), ("mapping values", "", _colon),
    ("unexpected ':'", "", _colon_in_flow), ("", "flow", _flow),
    ("did not find expected key", "", _line_that_does_not_fit),
    ("'-' indicator", "", _line_that_does_not_fit),
    ("<document start>", "", _line_that_does_not_fit), ("block sequence entries", "", _dash),
    ("mapping keys", "", _question), ("expected ':'", "", _no_colon),
    ("node content", "", _nothing),
)  # fmt: skip
"""A part of libyaml's problem, a part of its context, and the explanation; the first that fits.

The texts are those of libyaml 0.2.5's ``scanner.c`` and ``parser.c``.
"""
