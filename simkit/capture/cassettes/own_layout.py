"""Reading YAML that `simkit.capture.cassettes.format` wrote, line by line, without libyaml.

libyaml looks at every letter several times, which is most of the time that a cassette takes. In the
layout of our own files, a text is one quoted line or a literal block, so Python's methods of texts
find all ends. Any line that the layout does not have, even one that YAML allows, gives no data at
all: then libyaml reads the file, and finds its errors.
"""

from __future__ import annotations

import binascii
import json
import re
from typing import Any, Final

DEPTH_MAX: Final = 20
KEY_MAX: Final = 1_000
"""The letters of a key; libyaml refuses a little more."""
_ALLOWED: Final = bytes(range(0x20, 0x7F)) + b"\n"
_FORBIDDEN: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]"
)
"""Letters that a file does not have, or that YAML takes for the end of a line."""
_WORD: Final = re.compile("[a-z_]+", re.ASCII)
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\[nt"\\])*"')
"""A text in double quotes, with the escapes that mean the same in JSON and YAML."""
_NUMBER: Final = "(?:0|[1-9][0-9]{0,17})"
_NUMBERS: Final = re.compile(rf"{_NUMBER}|\[{_NUMBER}(?:, {_NUMBER})*\]")


class _Foreign(Exception):
    """A line that simkit does not write."""


def own_data(text: str) -> Any:
    """Return the data of a file in simkit's own layout; None for any other file."""
    if text.isascii():
        if text.encode().translate(None, _ALLOWED):
            return None
    elif _FORBIDDEN.search(text):
        return None
    try:
        return _Reader(text.split("\n")).read()
    except (_Foreign, IndexError):
        return None


class _Reader:
    """Reads lines in order."""

    def __init__(self, lines: list[str]) -> None:
        self._lines, self._at = lines, 0

    def read(self) -> dict[str, Any]:
        """Return the whole file's data."""
        lines, interactions = self._lines, []
        while lines[self._at].startswith("#"):
            self._at += 1
        if lines[self._at] != "interactions:":
            raise _Foreign
        self._at += 1
        while lines[self._at].startswith("- "):
            lines[self._at] = f"  {lines[self._at][2:]}"
            interactions.append(self._mapping("  "))
        if not interactions or lines[self._at :] != ["version: 1", ""]:
            raise _Foreign
        return {"interactions": interactions, "version": 1}

    def _mapping(self, indent: str) -> dict[str, Any]:
        lines, size, tree = self._lines, len(indent), dict[str, Any]()
        if size > DEPTH_MAX:
            raise _Foreign
        below = f"{indent}  "
        while (line := lines[self._at]).startswith(indent):
            quote = line[size] == "'"
            end = line.find("':" if quote else ":", size + quote)
            key = line[size + quote : end]
            if end < 0 or len(key) > KEY_MAX or key in tree or (quote and "'" in key):
                raise _Foreign
            if not quote and not _WORD.fullmatch(key):
                raise _Foreign
            rest = line[end + 1 + quote :]
            self._at += 1
            if rest.startswith(" "):
                tree[key] = self._scalar(rest[1:], below)
            elif rest:
                raise _Foreign
            elif lines[self._at].startswith(f"{indent}- "):
                tree[key] = self._texts(f"{indent}- ")
            else:
                tree[key] = self._mapping(below)
        if not tree:
            raise _Foreign
        return tree

    def _texts(self, start: str) -> list[str]:
        texts = []
        while (line := self._lines[self._at]).startswith(start):
            self._at += 1
            texts.append(_text(line[len(start) :]))
        return texts

    def _scalar(self, text: str, indent: str) -> Any:
        if text[0] in "'\"":
            return _text(text)
        if text in ("|", "|-", "|+"):
            return self._block(text[1:], indent)
        if text == "!!binary |":
            try:
                return binascii.a2b_base64(
                    "".join(self._block("", indent).split()), strict_mode=True
                )
            except ValueError:
                raise _Foreign from None
        if text == "null":
            return None
        if text == "{}" or _NUMBERS.fullmatch(text):
            return json.loads(text)
        raise _Foreign

    def _block(self, ends: str, indent: str) -> str:
        lines, size, first = self._lines, len(indent), self._at
        if lines[first][size] == " ":
            raise _Foreign
        block = []
        while (line := lines[self._at]).startswith(indent) or not line:
            block.append(line[size:])
            self._at += 1
        text = "\n".join(block)
        if not block or not block[0]:
            raise _Foreign
        if ends == "+":
            return f"{text}\n"
        return text.rstrip("\n") if ends == "-" else f"{text.rstrip(chr(10))}\n"


def _text(quoted: str) -> str:
    """Return the text inside quotes on one line."""
    text = quoted[1:-1]
    if quoted[0] == quoted[-1] == "'" and len(quoted) > 1:
        if "'" not in text:
            return text
        if "'" not in text.replace("''", ""):
            return text.replace("''", "'")
    elif quoted[0] == '"' and _QUOTED.fullmatch(quoted):
        return str(json.loads(quoted))
    raise _Foreign
