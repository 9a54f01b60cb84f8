"""``-k``: words in an id, joined with ``and``, ``or``, ``not``, brackets, as in pytest."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from simkit.core.errors import SimkitError

Holds = Callable[[str], bool]

_TOKEN: Final = re.compile(r"""\s*(?:(\(|\))|"([^"]*)"|'([^']*)'|([^\s()"']+))""")


def keyword(expression: str) -> Holds:
    """Return whether an id fits the expression; case does not matter.

    A word with spaces is quoted. Raise SimkitError for an invalid expression.
    """
    parser = _Parser(expression)
    holds = parser.either()
    if parser.tokens:
        raise parser.error(f"{parser.tokens[0][1]!r} stands where the expression should end")
    return lambda identity: holds(identity.lower())


class _Parser:
    def __init__(self, expression: str) -> None:
        self.expression = expression
        self.tokens: list[tuple[str, str]] = []
        at = 0
        text = expression.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise self.error(f"the quote at {text[at:].strip()!r} is not closed")
            bracket, double, single, word = match.groups()
            if bracket or (word and word.lower() in ("and", "or", "not")):
                self.tokens.append(("mark", (bracket or word).lower()))
            else:
                self.tokens.append(("word", double or single or word or ""))
            at = match.end()

    def either(self) -> Holds:
        options = [self._all()]
        while self._takes("or"):
            options.append(self._all())
        return (
            options[0] if len(options) == 1 else lambda text: any(holds(text) for holds in options)
        )

    def _all(self) -> Holds:
        parts = [self._term()]
        while self._takes("and"):
            parts.append(self._term())
        return parts[0] if len(parts) == 1 else lambda text: all(holds(text) for holds in parts)

    def _term(self) -> Holds:
        if self._takes("not"):
            inner = self._term()
            return lambda text: not inner(text)
        if self._takes("("):
            inner = self.either()
            if not self._takes(")"):
                raise self.error("a `)` is missing")
            return inner
        if not self.tokens or self.tokens[0][0] == "mark":
            text_found = repr(self.tokens[0][1]) if self.tokens else "the end"
            raise self.error(f"{text_found} stands where a word should")
        word = self.tokens.pop(0)[1].lower()
        return lambda text: word in text

    def _takes(self, mark: str) -> bool:
        if self.tokens and self.tokens[0] == ("mark", mark):
            self.tokens.pop(0)
            return True
        return False

    def error(self, problem: str) -> SimkitError:
        return SimkitError(
            f"-k {self.expression!r}: {problem}\n"
            "  Write words joined with `and`, `or`, `not` and brackets; quote a word with spaces."
        )
