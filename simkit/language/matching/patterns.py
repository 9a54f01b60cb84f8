"""The literal texts of a matcher: a negative claim proves something only if they can occur."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from simkit.language.matching.values import source_text

_TEXTLESS: Final = frozenset({"$type", "$len", "$schema", "$keys", "$any", "$absent", "$unique"})


def patterns_of(matcher: Any) -> tuple[str, ...]:
    """Return the texts and numbers that a matcher searches for, each once, in order.

    A regular expression counts only if it is plain text. Booleans, null and keys do not count.
    """
    return tuple(dict.fromkeys(_patterns(matcher)))


def texts_in(matcher: Any) -> tuple[str, ...]:
    """Return the same, with every regular expression as it is written: most of it is text."""
    return tuple(dict.fromkeys(_patterns(matcher, has_expressions=True)))


def _patterns(matcher: Any, has_expressions: bool = False) -> Iterator[str]:
    if isinstance(matcher, Mapping):
        for key, operand in matcher.items():
            if key == "$regex":
                is_text = isinstance(operand, str)
                if is_text and (has_expressions or re.escape(operand) == operand):
                    yield operand
            elif key not in _TEXTLESS:
                yield from _patterns(operand, has_expressions)
    elif isinstance(matcher, (list, tuple)):
        for inner in matcher:
            yield from _patterns(inner, has_expressions)
    elif matcher is not None and not isinstance(matcher, bool):
        yield source_text(matcher)
